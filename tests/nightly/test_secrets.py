"""Secrets reach whom they are for, and appear nowhere else."""

from __future__ import annotations

import subprocess
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
import yaml

from fusion.errors import ConfigError
from jobs.cli import main
from jobs.settings.base import HIDDEN, Secret
from jobs.settings.config import load_config, make_config, overlaid, with_settings
from tests.nights import Site, good_texts
from tests.receivers import Inbox, answer_204, http_receiver

TOKEN = "s3cret-token"


@pytest.mark.parametrize("setting", ["webhook", "apprise"])
def test_a_token_appears_nowhere(
    setting: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = Site(tmp_path, good_texts(100))
    # At this level apprise and urllib3 would log whole addresses.
    caplog.set_level(1)
    inbox, settings = Inbox(), {"nightly__alerts__when": "always", "log__file": str(tmp_path / "night.log")}
    arguments: list[bytes] = []

    def answer(handler: BaseHTTPRequestHandler, count: int) -> None:
        listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, check=True)
        arguments.append(listed.stdout)
        answer_204(handler, count)

    with http_receiver(inbox, answer) as address:
        assert TOKEN in address
        address = address if setting == "webhook" else address.replace("http://", "json://")
        monkeypatch.setenv("HOOK", address)
        for run_id, hook in (("literal", address), ("reference", "env:HOOK")):
            night = site.run(run_id, **{f"nightly__alerts__{setting}": hook}, **settings)
            assert night.problems == ()
    assert [path.rpartition("/")[2] for path in inbox.paths] == [TOKEN, TOKEN]
    assert all(b"python" in listed and TOKEN.encode() not in listed for listed in arguments)
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 20
    assert [path for path in written if TOKEN.encode() in path.read_bytes()] == []
    told = capfd.readouterr()
    assert TOKEN not in told.out + told.err + caplog.text
    # What was written can be read again, and says where the secret came from.
    for run_id, shown in (("literal", HIDDEN), ("reference", "env:HOOK")):
        stored = yaml.safe_load((site.work / "nightly" / run_id / "config.yaml").read_text())
        assert stored["nightly"]["alerts"][setting] == ([shown] if setting == "apprise" else shown)


def test_secrets_survive_layers(tmp_path: Path) -> None:
    """A dataset's file is laid over the configuration, which is written out and read on the way."""
    config = load_config(None, {"nightly.alerts.apprise": "slack://abc/d,e", "nightly.mlflow": "http://u:p@m"})
    (tmp_path / "d.yaml").write_text("dataset: d\n")
    for again in (overlaid(config, str(tmp_path / "d.yaml")), with_settings(config, {"dataset": "d"})):
        assert [url.reveal() for url in again.nightly.alerts.apprise] == ["slack://abc/d,e"]
        assert again.nightly.mlflow is not None
        assert again.nightly.mlflow.reveal() == "http://u:p@m"
    assert "u:p" not in config.to_yaml() and "u:p" not in repr(config) and "abc" not in str(config)
    stored = make_config(config.to_yaml(), "config.yaml")
    with pytest.raises(ConfigError, match="written out as stars"):
        stored.nightly.mlflow.reveal()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "setting",
    [
        "nightly.alerts.webhook={token: 4242hunter}",
        "nightly.alerts.webhook=ftp://4242hunter",
        "nightly.alerts.apprise=[{token: 4242hunter}]",
        "nightly.mlflow=[4242hunter]",
        "nightly.alerts={apprise: 7, webhook: 4242hunter}",
        "nightly.alerts.webhook=*4242hunter",
        "nightly.alerts.webhook=!4242hunter",
        "storage.secret_key=4242424242",
        "storage=4242hunter",
        "nightly=4242hunter",
        "retrievers.mine=4242hunter",
        "retrievers={mine.py: 4242hunter}",
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
    assert main(["config", "--set", "nightly.alerts.apprise=[slack://hunter2, env:HOOK]"]) == 0
    told = capsys.readouterr()
    assert f"apprise: ['{HIDDEN}', 'env:HOOK']" in told.out
    assert "hunter2" not in told.out + told.err


def test_references_are_looked_up_when_they_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = Secret("env:NOT_THERE_YET")
    monkeypatch.delenv("NOT_THERE_YET", raising=False)
    with pytest.raises(ConfigError, match="the environment has no NOT_THERE_YET"):
        secret.reveal()
    monkeypatch.setenv("NOT_THERE_YET", "now")
    assert secret.reveal() == "now"
    assert (str(secret), str(Secret("plain"))) == ("env:NOT_THERE_YET", HIDDEN)
