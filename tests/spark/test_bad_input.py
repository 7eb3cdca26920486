"""Bad input gets an error that names the source, the column and the first offenders; nothing is written."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from fusion.errors import ConfigError, InputError, OutputError
from jobs import evaluate, fuse
from jobs.config import load_config

GOOD = {"text_id": [1, 2], "label_ids": [[1, 2], [3]], "scores": [[2.0, 1.0], [0.5]]}


def table(folder: Path, name: str, columns: dict[str, list], **types: pa.DataType) -> str:
    known = {
        "text_id": pa.int64(),
        "label_ids": pa.list_(pa.int32()),
        "scores": pa.list_(pa.float32()),
        "label_id": pa.int32(),
        **types,
    }
    arrays = {column: pa.array(values, known.get(column)) for column, values in columns.items()}
    pq.write_table(pa.table(arrays), folder / f"{name}.parquet")
    return str(folder / f"{name}.parquet")


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, object]:
    return {
        "inputs.candidates": {"a": table(tmp_path, "a", GOOD), "b": table(tmp_path, "b", GOOD)},
        "inputs.judgements": table(tmp_path, "judgements", {"text_id": [1, 2], "label_ids": [[1], [3]]}),
        "grid.normalizations": "zmuv",
        "grid.fusions": "combmnz",
        "output.path": str(tmp_path / "out"),
    }


def refused(spark: SparkSession, settings: dict[str, object], **change: object) -> str:
    """The message of the error, after seeing that nothing was left behind."""
    config = load_config(None, {**settings, **{key.replace("__", "."): value for key, value in change.items()}})
    out = Path(str(config.output.path))
    messages = []
    for engine in ("local", "arrays") if config.grid.engine == "auto" else (config.grid.engine,):
        grid = config.grid.model_copy(update={"engine": engine})
        with pytest.raises(InputError) as error:
            evaluate.run(spark, config.model_copy(update={"grid": grid}))
        assert not [path for path in out.parent.iterdir() if "out" in path.name]
        messages.append(str(error.value))
    # Spark has words of its own for files that cannot be read at all.
    assert messages[0] == messages[-1] or all("cannot read" in message for message in messages)
    return messages[-1]


BAD_LISTS = {
    "NaN": ({"scores": [[2.0, float("nan")], [0.5]]}, ["scores", "NaN", "text_id 1"]),
    "infinite": ({"scores": [[2.0, 1.0], [float("inf")]]}, ["scores", "infinite", "text_id 2"]),
    "null score": ({"scores": [[2.0, None], [0.5]]}, ["scores", "null", "text_id 1"]),
    "label twice": ({"label_ids": [[1, 1], [3]]}, ["label_ids", "the same label twice", "text_id 1", "label 1"]),
    "ragged": ({"label_ids": [[1, 2], [3, 4]]}, ["unequal length", "text_id 2"]),
    "null label": ({"label_ids": [[1, None], [3]]}, ["label_ids", "null id", "text_id 1"]),
    "null list": ({"label_ids": [None, [3]]}, ["label_ids", "null", "text_id 1"]),
    "null text": ({"text_id": [None, 2]}, ["text_id", "null id"]),
    "text twice": ({"text_id": [2, 2]}, ["text_id", "two rows for one text", "text_id 2"]),
}


@pytest.mark.parametrize("case", BAD_LISTS)
def test_bad_lists(spark: SparkSession, settings: dict[str, object], tmp_path: Path, case: str) -> None:
    change, words = BAD_LISTS[case]
    bad = table(tmp_path, "bad", {**GOOD, **change})
    message = refused(spark, settings, inputs__candidates={"a": settings["inputs.candidates"]["a"], "b": bad})  # type: ignore[index]
    for word in ["bad.parquet", *words]:
        assert word in message, message


@pytest.mark.parametrize("case", ["NaN", "label twice", "null label"])
def test_bad_lists_in_the_windows_engine(
    spark: SparkSession, settings: dict[str, object], tmp_path: Path, case: str
) -> None:
    change, words = BAD_LISTS[case]
    bad = table(tmp_path, "bad", {**GOOD, **change})
    runs = {"a": settings["inputs.candidates"]["a"], "b": bad}  # type: ignore[index]
    message = refused(spark, settings, inputs__candidates=runs, grid__engine="windows")
    for word in ["bad.parquet", *words]:
        assert word in message, message


def test_ragged_lists_in_the_windows_engine(spark: SparkSession, settings: dict[str, object], tmp_path: Path) -> None:
    bad = table(tmp_path, "bad", {**GOOD, "label_ids": [[1, 2], [3, 4]]})
    runs = {"a": settings["inputs.candidates"]["a"], "b": bad}  # type: ignore[index]
    message = refused(spark, settings, inputs__candidates=runs, grid__engine="windows")
    assert "fewer scores than labels" in message and "text_id 2" in message


@pytest.mark.parametrize("job", [evaluate, fuse])
def test_all_offenders_are_counted(spark: SparkSession, settings: dict[str, object], tmp_path: Path, job) -> None:
    many = {"text_id": list(range(100)), "label_ids": [[1, 2]] * 100, "scores": [[1.0, float("nan")]] * 100}
    bad = table(tmp_path, "bad", many)
    runs = {"a": settings["inputs.candidates"]["a"], "b": bad}  # type: ignore[index]
    with pytest.raises(InputError, match=r"NaN.*\(100 in all\)"):
        job.run(spark, load_config(None, {**settings, "inputs.candidates": runs, "spark.partitions": 3}))
    assert not (tmp_path / "out").exists()


def test_missing_column(spark: SparkSession, settings: dict[str, object], tmp_path: Path) -> None:
    bad = table(tmp_path, "bad", {"text_id": [1], "label_ids": [[1]]})
    message = refused(spark, settings, inputs__candidates={"a": bad, "b": bad})
    assert "bad.parquet: missing column 'scores'; it has text_id, label_ids" in message


def test_wrong_type(spark: SparkSession, settings: dict[str, object], tmp_path: Path) -> None:
    bad = table(tmp_path, "bad", {**GOOD, "scores": [["high", "low"], ["low"]]}, scores=pa.list_(pa.string()))
    message = refused(spark, settings, inputs__candidates={"a": bad, "b": bad})
    assert "'scores' is array<string>, expected an array of float or double" in message


def test_label_without_a_group(spark: SparkSession, settings: dict[str, object], tmp_path: Path) -> None:
    groups = table(tmp_path, "groups", {"label_id": [1, 2], "label_group": ["head", "tail"]})
    message = refused(spark, settings, inputs__label_groups=groups)
    assert "label that is not in" in message and "groups.parquet" in message and "text_id 2" in message


def test_label_in_the_wrong_group(spark: SparkSession, settings: dict[str, object], tmp_path: Path) -> None:
    groups = table(tmp_path, "groups", {"label_id": [1, 2, 3], "label_group": ["head", "head", "tail"]})
    bad = table(tmp_path, "bad", {**GOOD, "label_group": ["head", "head"]})
    good = table(tmp_path, "good", {**GOOD, "label_group": ["head", "tail"]})
    message = refused(spark, settings, inputs__label_groups=groups, inputs__candidates={"a": good, "b": bad})
    assert "label of another group" in message and "bad.parquet" in message and "text_id 2" in message


def test_unknown_label_group(spark: SparkSession, settings: dict[str, object], tmp_path: Path) -> None:
    bad = table(tmp_path, "bad", {**GOOD, "label_group": ["head", "torso"]})
    message = refused(spark, settings, inputs__candidates={"a": bad, "b": bad})
    assert "'label_group' holds 'torso'; known: tail, head" in message


def test_labels_twice_in_the_groups(spark: SparkSession, settings: dict[str, object], tmp_path: Path) -> None:
    groups = table(tmp_path, "groups", {"label_id": [1, 1, 3], "label_group": ["head", "tail", "tail"]})
    assert "'label_id' holds labels twice, first: 1" in refused(spark, settings, inputs__label_groups=groups)


def test_missing_path(spark: SparkSession, settings: dict[str, object], tmp_path: Path) -> None:
    gone = str(tmp_path / "gone.parquet")
    assert gone in refused(spark, settings, inputs__judgements=gone)
    assert "nowhere.trec" in refused(spark, settings, inputs__candidates={"a": "nowhere.trec", "b": "nowhere.trec"})


def test_not_parquet(spark: SparkSession, settings: dict[str, object], tmp_path: Path) -> None:
    bad = tmp_path / "bad.parquet"
    bad.write_text("not at all")
    assert "bad.parquet" in refused(spark, settings, inputs__judgements=str(bad))


@pytest.mark.parametrize("text", ["q1 Q0 d1 1 2.5\n", "q1 Q0 d1 1 high tag\n"])
def test_bad_trec_lines(spark: SparkSession, settings: dict[str, object], tmp_path: Path, text: str) -> None:
    bad = tmp_path / "bad.trec"
    bad.write_text("q1 Q0 d2 1 2.5 tag\n" + text)
    message = refused(spark, settings, inputs__candidates={"a": str(bad), "b": str(bad)})
    assert "bad.trec" in message and text.strip() in message


def test_empty_trec_file(spark: SparkSession, settings: dict[str, object], tmp_path: Path) -> None:
    empty = tmp_path / "empty.trec"
    empty.write_text("\n")
    assert "empty.trec is empty" in refused(spark, settings, inputs__candidates={"a": str(empty), "b": str(empty)})


def test_no_judged_text(spark: SparkSession, settings: dict[str, object], tmp_path: Path) -> None:
    folds = table(tmp_path, "folds", {"fold": [0], "text_id": [99]})
    assert "no judged text" in refused(spark, settings, inputs__folds=folds)


def test_one_retriever(spark: SparkSession, settings: dict[str, object]) -> None:
    runs = {"a": settings["inputs.candidates"]["a"]}  # type: ignore[index]
    config = load_config(None, {**settings, "inputs.candidates": None})
    config = config.model_copy(update={"inputs": config.inputs.model_copy(update={"candidates": runs})})
    with pytest.raises(ConfigError, match="two retrievers or more; found only a"):
        evaluate.run(spark, config)


def test_a_row_of_nobody(spark: SparkSession, settings: dict[str, object], tmp_path: Path) -> None:
    lists = {"retriever": ["a", "b", None], "text_id": [1, 1, 1], "label_ids": [[1]] * 3, "scores": [[0.5]] * 3}
    message = refused(spark, settings, inputs__candidates=table(tmp_path, "lists", lists))
    assert "column 'retriever' holds nulls" in message


def test_output_that_exists(spark: SparkSession, settings: dict[str, object], tmp_path: Path) -> None:
    evaluate.run(spark, load_config(None, settings))
    before = (tmp_path / "out" / "metrics.parquet").read_bytes()
    with pytest.raises(OutputError, match="exists already"):
        evaluate.run(spark, load_config(None, settings))
    evaluate.run(spark, load_config(None, {**settings, "output.mode": "overwrite"}))
    assert (tmp_path / "out" / "metrics.parquet").read_bytes() == before
    with pytest.raises(OutputError, match="left alone"):
        evaluate.run(spark, load_config(None, {**settings, "output.mode": "overwrite", "output.path": str(tmp_path)}))
