"""The clients of object stores, made with the installed pyarrow and not connected to anything."""

from __future__ import annotations

import pytest
from pyarrow import fs

from fusion.errors import SetupError
from udfs.stores import clients
from udfs.stores.addresses import locate

AZURE = "abfss://box@account.dfs.core.windows.net/a"
KEY = "a2V5"


@pytest.mark.parametrize(
    ("address", "variables", "kind"),
    [
        ("s3://bucket/a", {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}, "S3FileSystem"),
        ("gs://bucket/a", {"STORAGE_EMULATOR_HOST": "http://localhost:1"}, "GcsFileSystem"),
        (AZURE, {"AZURE_STORAGE_ACCOUNT_KEY": KEY}, "AzureFileSystem"),
    ],
)
def test_the_client_is_pyarrows(
    address: str, variables: dict[str, str], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert type(clients.file_system(locate(address))) is getattr(fs, kind)


def test_a_build_of_pyarrow_without_the_client_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    monkeypatch.delattr(fs, "AzureFileSystem")
    with pytest.raises(SetupError, match=r"nothing here can open abfss://.*AzureFileSystem.*PyPI"):
        clients.file_system(locate(AZURE.replace("account", "another")))


def test_a_sas_token_is_used_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "?sv=1&sig=1")
    if clients.PYARROW >= 20:
        assert isinstance(clients.file_system(locate(AZURE)), fs.AzureFileSystem)
    monkeypatch.setattr(clients, "PYARROW", 19)
    with pytest.raises(SetupError, match="SAS tokens of Azure need pyarrow 20"):
        clients.file_system(locate(AZURE.replace("account", "another")))
