"""What a session on one machine is made with."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from jobs.engines.session import JAVA_OPTIONS, QUICK_JAVA, _java_options


def test_spark_logs_by_our_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    (option,) = _java_options(quick=False).values()
    place = Path(unquote(urlsplit(option.removeprefix("-Dlog4j2.configurationFile=")).path))
    assert "rootLogger.level = fatal" in place.read_text()


def test_the_users_own_configuration_of_spark_is_respected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert _java_options(quick=False) == {"spark.log.level": "FATAL"}
    assert _java_options(quick=True) == {"spark.log.level": "FATAL", JAVA_OPTIONS: QUICK_JAVA}


def test_quick_java_is_one_more_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    quiet, quick = (_java_options(some)[JAVA_OPTIONS] for some in (False, True))
    assert quick == f"{QUICK_JAVA} {quiet}"
