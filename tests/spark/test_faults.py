"""Files that break, tables that change, disks that fill up: a clear error, and the last good results untouched."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks.data import write_data
from benchmarks.memory import WorkerMemory
from fusion.errors import InputError, OutputError
from jobs.cli import main
from jobs.evaluation import evaluate
from jobs.settings.config import load_config
from jobs.storage.stages import run_stage
from tests.lists import random_relevant, random_texts, write_tables
from tests.results import plain_files

Spoil = Callable[[Path], None]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="module")
def command(spark: SparkSession, folder: Path) -> list[str]:
    """An evaluation whose results exist already."""
    rng = np.random.default_rng(0)
    inputs = write_tables(folder, random_texts(rng, 300), random_relevant(rng, 300), folds=2)
    candidates = folder / "candidates.parquet"
    pq.write_table(pq.read_table(candidates), candidates, write_page_checksum=True, compression="none")
    settings = {**inputs, "grid.cells": "[zmuv+combmnz]", "evaluate.details": "false"}
    given = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    command = ["evaluate", "--output", str(folder / "out"), "--mode", "overwrite", *given]
    assert main(command) == 0
    return command


def truncated(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def corrupt(path: Path) -> None:
    """One bit of one score, in the middle of a page."""
    score = pq.read_table(path)["scores"].combine_chunks().flatten()[500].as_py()
    content = bytearray(path.read_bytes())
    place = content.index(np.float32(score).tobytes(), len(content) // 2)
    content[place] ^= 1
    path.write_bytes(bytes(content))


def renamed(path: Path) -> None:
    table = pq.read_table(path)
    pq.write_table(table.rename_columns(["retriever", "text_id", "label_group", "labels", "scores"]), path)


def retyped(path: Path) -> None:
    table = pq.read_table(path)
    pq.write_table(table.set_column(4, "scores", table["scores"].cast(pa.list_(pa.string()))), path)


def half_retyped(path: Path) -> None:
    """A table of two files, of which the second was written by a newer program."""
    table = pq.read_table(path)
    path.unlink()
    path.mkdir()
    pq.write_table(table.slice(0, 500), path / "a.parquet")
    newer = table.slice(500)
    pq.write_table(newer.set_column(4, "scores", newer["scores"].cast(pa.list_(pa.float64()))), path / "b.parquet")


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (truncated, ["candidates.parquet", "footer"]),
        (corrupt, ["cannot read", "candidates.parquet"]),
        (renamed, ["candidates.parquet", "missing column", "'label_id'", "labels"]),
        (retyped, ["candidates.parquet", "'scores' is array<string>"]),
        (half_retyped, ["b.parquet", "scores", "float"]),
    ],
)
@pytest.mark.parametrize("engine", ["local", "arrays"])
def test_an_input_that_broke_overnight(
    command: list[str], folder: Path, capsys: pytest.CaptureFixture[str], spoil: Spoil, told: list[str], engine: str
) -> None:
    results = plain_files(folder / "out")
    candidates = folder / "candidates.parquet"
    good = candidates.read_bytes()
    try:
        spoil(candidates)
        assert main([*command, "--engine", engine]) == InputError.exit_code
    finally:
        if candidates.is_dir():
            for part in candidates.iterdir():
                part.unlink()
            candidates.rmdir()
        candidates.write_bytes(good)
    message = capsys.readouterr().err
    assert all(word in message for word in told), message
    assert "Traceback" not in message
    assert plain_files(folder / "out") == results
    assert sorted(path.name for path in folder.iterdir() if "out" in path.name) == ["out"]


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """Files may not grow beyond a limit, which fails the way a full disk does: in the middle of writing."""
    path = str(tmp_path / "stage")
    run_stage("first", path, {"key": 1}, lambda folder: folder.write_text("table.txt", "good") or {})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(OutputError, match=r"cannot write to .*stage"):
            run_stage("first", path, {"key": 2}, lambda folder: folder.write_text("table.txt", "x" * 100_000) or {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (tmp_path / "stage" / "table.txt").read_text() == "good"
    assert [entry.name for entry in tmp_path.iterdir()] == ["stage"]


def test_an_output_that_cannot_be_written(spark: SparkSession, command: list[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    at = command.index("--output")
    blocked = [*command[: at + 1], str(tmp_path / "file" / "out"), *command[at + 2 :]]
    assert main(blocked) == OutputError.exit_code


@pytest.mark.drill
def test_a_partition_with_a_hundred_times_the_texts(spark: SparkSession, tmp_path: Path) -> None:
    """Texts stream through a worker: however many there are, it holds no more of them at a time."""
    partitions, few, many = 8, 200, 20_000
    spread_out = write_data(tmp_path / "even", few * (partitions - 1) + many)
    place = F.pmod(F.hash(F.col("text_id")), F.lit(partitions))
    ids = spark.range(0, 4 * partitions * many).withColumnRenamed("id", "text_id")
    kept = [ids.where(place == n).limit(many if n == 0 else few) for n in range(partitions)]
    skewed = np.array([row["text_id"] for part in kept for row in part.collect()])
    for path in (tmp_path / "even").rglob("*.parquet"):
        if path.is_file():
            table = pq.read_table(path)
            if "text_id" in table.column_names:
                table = table.set_column(0, "text_id", pa.array(skewed[table["text_id"].to_numpy()]))
            copy = tmp_path / "uneven" / path.relative_to(tmp_path / "even")
            copy.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, copy)
    (tmp_path / "uneven" / "complete").touch()

    held, figures = {}, {}
    for name, settings in {"even": spread_out, "uneven": write_data(tmp_path / "uneven", 0)}.items():
        chosen = {**settings, "spark.partitions": partitions, "grid.normalizations": "zmuv", "evaluate.details": False}
        with WorkerMemory() as memory:
            figures[name] = evaluate.run(spark, load_config(None, chosen)).metrics
        held[name] = memory.peak
    assert figures["even"].equals(figures["uneven"])
    assert held["uneven"] < held["even"] + 64 * 2**20


def test_a_very_long_list(spark: SparkSession, tmp_path: Path) -> None:
    """One text with 50,000 candidates, and lists of one text in a hundred a hundred times as long as the others."""
    rng = np.random.default_rng(1)
    lengths = np.where(np.arange(200) % 100 == 0, 2000, 20)
    lengths[7] = 50_000
    labels = [np.sort(rng.choice(60_000, n, replace=False)) for n in lengths]
    table = {
        "text_id": pa.array(np.tile(np.arange(200), 2)),
        "retriever": ["a"] * 200 + ["b"] * 200,
        "label_ids": pa.array([x.tolist() for x in labels] * 2, pa.list_(pa.int32())),
        "scores": pa.array([rng.random(len(x)).tolist() for x in labels * 2], pa.list_(pa.float32())),
    }
    pq.write_table(pa.table(table), tmp_path / "candidates.parquet")
    wanted = pa.array([[int(x[0])] for x in labels], pa.list_(pa.int32()))
    judged = pa.table({"text_id": pa.array(np.arange(200)), "label_ids": wanted})
    pq.write_table(judged, tmp_path / "judgements.parquet")
    settings = {
        "inputs.candidates": str(tmp_path / "candidates.parquet"),
        "inputs.judgements": str(tmp_path / "judgements.parquet"),
        "grid.normalizations": "zmuv,borda",
    }
    with WorkerMemory() as memory:
        metrics = evaluate.run(spark, load_config(None, settings)).metrics.to_pylist()
    assert memory.growth < 400 * 2**20
    assert {row["queries"] for row in metrics} == {200}
    assert all(0 < row["value"] <= 1 for row in metrics if row["k"] == 10)
