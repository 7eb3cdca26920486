"""The notebooks through Spark Connect, from an empty folder, with the wheel alone: as on serverless compute."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.packaged import Package
from tests.servers import connect_server, spark_environment
from tests.steps import ROOT

pytest.importorskip("grpc", reason="needs the extra [connect]")

LAST_LINES = {
    "01_explore_dataset": r"fold",
    "02_fuse_and_compare": r"rank",
    "03_bring_your_own_runs": r"use::printing",
    "04_nightly_review": r"trend.html",
    "05_label_new_texts": r"the model is in",
}
"""What a notebook prints in its last cells."""


@pytest.fixture(scope="module")
def environment(package: Package, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A server whose workers have the wheel, and what a client of it needs to know."""
    own = spark_environment(PYSPARK_PYTHON=str(package.unpacked / "bin/python"))
    with connect_server(tmp_path_factory.mktemp("server"), own) as address:
        yield {**own, "SPARK_REMOTE": address, "XMTC_LIMIT": "400"}


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all notebooks: what one has prepared serves the next."""
    return tmp_path_factory.mktemp("empty")


@pytest.mark.drill
@pytest.mark.parametrize("name", LAST_LINES)
def test_a_notebook_runs_from_top_to_bottom(
    name: str, environment: dict[str, str], package: Package, empty: Path, tmp_path: Path
) -> None:
    notebook = shutil.copy(ROOT / "notebooks" / f"{name}.py", tmp_path)
    command = [str(package.unpacked / "bin/python"), notebook]
    done = subprocess.run(command, cwd=empty, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-5000:]
    assert LAST_LINES[name] in done.stdout[-4000:], done.stdout[-4000:]
    assert {path.name for path in empty.iterdir()} == {"work"}
