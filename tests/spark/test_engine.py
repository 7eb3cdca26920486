"""One protocol, two engines: the same rows, whatever runs the steps and however many workers there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from fusion.errors import ConfigError, InputError
from jobs.engines import local
from jobs.engines.local import LocalEngine
from jobs.engines.parquet import partition_folder
from jobs.engines.spark import SparkEngine
from jobs.storage.folders import ResultFolder
from tests.word_steps import COUNTED, DOUBLED, WORDS, counted
from udfs.steps import Step, spark_schema


@pytest.fixture(params=["local", "spark-1", "spark-3"])
def engine(request: pytest.FixtureRequest) -> Any:
    if request.param == "local":
        return LocalEngine()
    spark: SparkSession = request.getfixturevalue("spark")
    return SparkEngine(spark, int(request.param[-1]))


def rows_of(table: pa.Table, *by: str) -> list[dict[str, Any]]:
    return table.sort_by([(name, "ascending") for name in by]).to_pylist()


def test_map_and_read(engine: Any, tmp_path: Path) -> None:
    engine.write(engine.read(WORDS), f"{tmp_path}/words")
    rows = engine.read(f"{tmp_path}/words", ["id", "word"])
    assert engine.schema(rows).names == ["id", "word"]
    result = engine.collect(engine.map(rows, DOUBLED))
    expected = WORDS.select(["id", "word"]).set_column(0, "id", pc.multiply(WORDS["id"], 2))
    assert rows_of(result, "id") == expected.to_pylist()


def test_lists_survive_writing(engine: Any, tmp_path: Path) -> None:
    engine.write(engine.read(WORDS), f"{tmp_path}/words")
    assert rows_of(engine.collect(engine.read(f"{tmp_path}/words")), "id") == WORDS.to_pylist()


def test_group_brings_the_rows_of_a_key_together_in_order(engine: Any) -> None:
    shuffled = WORDS.take(pa.array(np.random.default_rng(3).permutation(len(WORDS))))
    rows = engine.read(shuffled, ["id", "word"])
    result = engine.collect(engine.group(rows, ["word"], Step(counted, COUNTED), ["id"]))
    words = WORDS["word"].to_pylist()
    expected = [{"word": word, "first": words.index(word), "texts": words.count(word)} for word in set(words)]
    assert sorted(result.to_pylist(), key=str) == sorted(expected, key=str)


def test_files_are_called_row_by_row(engine: Any) -> None:
    def run(batches):
        batches = list(batches)
        assert [batch.num_rows for batch in batches] == [1]
        yield batches[0]

    splits = pa.table({"file": ["a", "b", "a", "c"]})
    result = engine.collect(engine.files(splits, Step(run, splits.schema)))
    assert sorted(result["file"].to_pylist()) == ["a", "a", "b", "c"]


def test_union(engine: Any) -> None:
    both = engine.union(engine.read(WORDS, ["id"]), engine.read(pa.table({"id": pa.array([-1], pa.int64())})))
    assert rows_of(engine.collect(both), "id")[:2] == [{"id": -1}, {"id": 0}]


def test_a_table_without_rows_is_written(engine: Any, tmp_path: Path) -> None:
    engine.write(engine.map(engine.read(WORDS.slice(0, 0)), DOUBLED), f"{tmp_path}/none")
    read = engine.collect(engine.read(f"{tmp_path}/none"))
    assert (len(read), read.column_names) == (0, ["id", "word"])


def test_rows_are_written_by_value_and_in_order(engine: Any, tmp_path: Path) -> None:
    """In folders as Spark names them, with one column left out, of which the values come back."""
    words, numbers = ["b/c", "a", None, "b/c", "a", "b/c"], [3, 1, 0, 2, 5, 1]
    wrong = [None, "x", None, "y", "x", None]
    rows = engine.read(
        pa.table({"word": words, "number": numbers, "wrong": wrong}).filter(pc.is_valid(pa.array(words)))
    )
    written = engine.write(rows, f"{tmp_path}/words", ["word"], ["number"], "wrong")
    assert (written.rows, sorted(written.aside)) == (5, ["x", "y"])
    folder = ResultFolder(str(tmp_path))
    assert sorted(folder.partitions("words")) == [("a",), ("b/c",)]
    for word, expected in (("a", [1, 5]), ("b/c", [1, 2, 3])):
        batches = folder.parquet_batches(f"words/{partition_folder('word', word)}")
        assert [row for batch in batches for row in batch.to_pylist()] == [{"number": number} for number in expected]
    assert [path.name for path in tmp_path.iterdir()] == ["words"]
    read = engine.collect(engine.read(f"{tmp_path}/words"))
    assert sorted(zip(read["word"].to_pylist(), read["number"].to_pylist(), strict=True))[0] == ("a", 1)
    nothing = engine.write(engine.map(engine.read(WORDS.slice(0, 0)), DOUBLED), f"{tmp_path}/none", ["word"])
    assert nothing == (0, [])


def test_an_error_of_a_step_arrives_as_it_was_raised(engine: Any) -> None:
    def refuse(batches):
        raise InputError("texts.jsonl line 3: no 'text'\n  and \"more\" {than} one line")
        yield

    with pytest.raises(InputError) as caught:
        engine.collect(engine.map(engine.read(WORDS), Step(refuse, WORDS.schema)))
    assert str(caught.value) == "texts.jsonl line 3: no 'text'\n  and \"more\" {than} one line"


def test_a_missing_file_is_named(engine: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no-such-file"):
        engine.collect(engine.read(f"{tmp_path}/no-such-file.parquet"))


def test_a_step_in_python_moves_to_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results come in the order of the rows, from other processes."""
    monkeypatch.setattr(local, "PATIENCE", 0.0)
    monkeypatch.setattr(local.LocalEngine, "workers", 2)

    def with_process(batches):
        import os

        for batch in batches:
            yield pa.RecordBatch.from_arrays([batch["id"], pa.array([os.getpid()] * batch.num_rows)], ["id", "process"])

    schema = pa.schema([("id", pa.int64()), ("process", pa.int64())])
    engine = LocalEngine()
    result = engine.collect(engine.map(engine.read(WORDS), Step(with_process, schema, in_python=True)))
    assert result["id"].equals(WORDS["id"])
    assert len(set(result["process"].to_pylist())) > 1


def test_workers_do_not_look_for_garbage_among_modules(spark: SparkSession) -> None:
    """Spark has them collect after every task."""

    def tracked(batches):
        import gc

        import pandas  # noqa: F401

        yield from (
            pa.record_batch([[len(gc.get_objects())], [gc.get_freeze_count()]], ["tracked", "aside"]) for _ in batches
        )

    schema = pa.schema([("tracked", pa.int64()), ("aside", pa.int64())])
    engine = SparkEngine(spark, 1)
    for _ in range(3):
        result = engine.collect(engine.map(engine.read(WORDS), Step(tracked, schema)))
    assert max(result["tracked"].to_pylist()) < min(result["aside"].to_pylist()) / 2


def test_this_process_has_no_catalog() -> None:
    with pytest.raises(ConfigError, match="on Spark only"):
        LocalEngine().read("table:main.default.texts")
    with pytest.raises(ConfigError, match=r"table:main\.default\.labels can be written on Spark only"):
        LocalEngine().output_table("main.default.labels", replace=False)


def test_schema_as_spark_writes_it(spark: SparkSession) -> None:
    schema = pa.schema([("a b", pa.list_(pa.int32())), ("c", pa.struct([("d", pa.string())])), ("e", pa.float32())])
    frame = spark.createDataFrame([], spark_schema(schema))
    assert [field.dataType.simpleString() for field in frame.schema] == ["array<int>", "struct<d:string>", "float"]
