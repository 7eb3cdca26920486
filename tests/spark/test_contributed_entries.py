"""What CONTRIBUTING.md says about a reader and a retriever, followed to the letter with Spark."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.datasets.prepare import run as prepare
from jobs.datasets.readers import READERS
from jobs.engines.local import LocalEngine
from jobs.engines.spark import SparkEngine
from jobs.retrievers import driver
from jobs.settings.config import load_config
from jobs.settings.retrievers import RETRIEVERS, load_file
from jobs.storage.workspace import Workspace
from tests.unit.test_contributing import FILES


@pytest.fixture
def reader_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's reader, imported as part of its package, and gone afterwards."""
    (tmp_path / "tab_lines.py").write_text(FILES["jobs/datasets/tab_lines.py"])
    package = import_module("jobs.datasets")
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    for registry in (READERS, RETRIEVERS):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    import_module("jobs.datasets.tab_lines")


def test_a_reader_and_a_retriever(spark: SparkSession, reader_file: None, tmp_path: Path) -> None:
    lines = [f"{'cat,pet' if n % 2 else 'dog'}\ta text about number {n}" for n in range(30)]
    (tmp_path / "texts.tsv").write_text("\n".join(lines) + "\n")
    own = tmp_path / "most_frequent.py"
    own.write_text(FILES["jobs/retrievers/most_frequent.py"])
    settings = {
        "dataset": "tabs",
        "prepare.format": "tab-lines",
        "prepare.folder": str(tmp_path),
        "prepare.parts": [{"name": "all", "texts": "texts.tsv"}],
        "prepare.folds": 2,
        "work.path": str(tmp_path / "work"),
        "retrievers": ["bm25", str(own)],
    }
    config = load_config(None, settings)
    assert prepare(LocalEngine(), config)["texts"] == 30
    samples = spark.read.parquet(Workspace.of(config).samples).orderBy("text_id").collect()
    assert samples[1]["text"] == "a text about number 1" and len(samples[1]["label_ids"]) == 2

    (entry,) = load_file(str(own))
    tables = driver.run(SparkEngine(spark), config)
    lists = spark.read.parquet(tables[entry.name]).where("role = 'test'")
    assert lists.select("text_id").distinct().count() == 30

    raw = READERS["tab-lines"]
    (tmp_path / "broken.tsv").write_text("cat\tfine\nno tab here\ncat,\tan empty label\n")
    broken = {**settings, "prepare.parts": [{"name": "all", "texts": "broken.tsv"}]}
    engine = LocalEngine()
    rows = engine.collect(raw.read(engine, load_config(None, broken).prepare).texts).to_pylist()
    assert [row["problem"] and row["problem"].rpartition("line ")[2] for row in rows] == [
        None,
        "2: no tab between labels and text",
        "3: label '' is no name",
    ]
