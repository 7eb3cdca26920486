"""Secrets reach whom they are for, and appear nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusion.errors import ConfigError
from jobs.cli import main
from jobs.config import load_config, make_config, overlaid, with_settings
from jobs.settings.secrets import HIDDEN, Secret
from tests.nights import Site, good_texts
from tests.receivers import Inbox, http_receiver

TOKEN = "s3cret-token"


def test_a_token_appears_nowhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path, good_texts(100))
    log = tmp_path / "night.log"
    inbox = Inbox()
    with http_receiver(inbox) as address:
        assert TOKEN in address
        monkeypatch.setenv("HOOK", address)
        for run_id, hook in (("literal", address), ("reference", "env:HOOK")):
            night = site.run(run_id, nightly__alerts__webhook=hook, nightly__alerts__when="always", log__file=str(log))
            assert night.problems == []
    assert [path.rpartition("/")[2] for path in inbox.paths] == [TOKEN, TOKEN]
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 20
    assert [path for path in written if TOKEN.encode() in path.read_bytes()] == []
    told = capsys.readouterr()
    assert TOKEN not in told.out + told.err
    # What was written can be read again, and says where the secret came from.
    assert f"webhook: '{HIDDEN}'" in (site.work / "nightly" / "literal" / "config.yaml").read_text()
    assert "webhook: env:HOOK" in (site.work / "nightly" / "reference" / "config.yaml").read_text()


def test_secrets_survive_layers(tmp_path: Path) -> None:
    """A dataset's file is laid over the configuration, which is written out and read on the way."""
    config = load_config(None, {"nightly.alerts.slack": "https://hooks.example/abc", "nightly.mlflow": "http://u:p@m"})
    (tmp_path / "d.yaml").write_text("dataset: d\n")
    for again in (overlaid(config, str(tmp_path / "d.yaml")), with_settings(config, {"dataset": "d"})):
        assert again.nightly.alerts.slack is not None and again.nightly.mlflow is not None
        assert again.nightly.alerts.slack.reveal() == "https://hooks.example/abc"
        assert again.nightly.mlflow.reveal() == "http://u:p@m"
    assert "u:p" not in config.to_yaml() and "u:p" not in repr(config) and "abc" not in str(config)
    stored = make_config(config.to_yaml(), "config.yaml")
    with pytest.raises(ConfigError, match="written out as stars"):
        stored.nightly.mlflow.reveal()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "setting",
    [
        "nightly.alerts.slack={token: 4242hunter}",
        "nightly.alerts.slack=ftp://4242hunter",
        "nightly.mlflow=[4242hunter]",
        "nightly.alerts.mail.password=4242424242",
        "nightly.alerts.mail.password=*4242hunter",
        "nightly.alerts.mail.password=!4242hunter",
        "storage.secret_key=4242424242",
        "storage=4242hunter",
        "nightly=4242hunter",
        "retriever_settings.mine=4242hunter",
        "spark.conf.fs.secret=[4242hunter]",
        "storge.secret_key=4242hunter",
        "storage.secret_key:4242hunter",
    ],
)
def test_a_wrong_secret_is_not_printed(capsys: pytest.CaptureFixture[str], setting: str) -> None:
    assert main(["nightly", "--datasets", "a.yaml", "--set", setting]) == 2
    told = capsys.readouterr()
    assert setting[:6] in told.err
    assert "4242" not in told.out + told.err


def test_a_good_secret_is_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--set", "nightly.alerts.mail.password=hunter2"]) == 0
    told = capsys.readouterr()
    assert "hunter2" not in told.out + told.err


def test_references_are_looked_up_when_they_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = Secret("env:NOT_THERE_YET")
    monkeypatch.delenv("NOT_THERE_YET", raising=False)
    with pytest.raises(ConfigError, match="the environment has no NOT_THERE_YET"):
        secret.reveal()
    monkeypatch.setenv("NOT_THERE_YET", "now")
    assert secret.reveal() == "now"
    assert (str(secret), str(Secret("plain"))) == ("env:NOT_THERE_YET", HIDDEN)
