"""Bad input gets an error that names the source, the column and the first offenders; nothing is written."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import xmtc_fusion as xf
from fusion.errors import ConfigError, InputError, OutputError
from jobs.engines.local import LocalEngine
from jobs.engines.spark import SparkEngine
from jobs.evaluation import evaluate, fuse
from jobs.inputs.sources import Sources
from jobs.inputs.tables import InputTables
from jobs.settings.config import load_config

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


# Files as people have them, and as nobody should: both engines read the same, or refuse with the same words.
SCORES = {f"t{n}": {"a": 3.0, "b": 2.0 + n, "é": 1.0} for n in range(4)}
FORMATS = {"trec": ".trec", "jsonl": ".jsonl", "ranx": ".json"}
Refusal = Callable[[str], str]
WIDE = ["utf-16", "utf-16-be", "utf-32-le"]


def run_text(kind: str) -> str:
    if kind == "ranx":
        return json.dumps(SCORES, ensure_ascii=False)
    if kind == "jsonl":
        rows = [{"text_id": t, "label_ids": list(s), "scores": list(s.values())} for t, s in SCORES.items()]
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return "".join(f"{t} Q0 {label} 1 {score} x\n" for t, scores in SCORES.items() for label, score in scores.items())


def written(folder: Path, name: str, content: bytes, packed: bool = False) -> str:
    path = folder / (name + ".gz" * packed)
    path.write_bytes(gzip.compress(content) if packed else content)
    return str(path)


@pytest.fixture(params=["local", "arrays"])
def tables(request: pytest.FixtureRequest) -> InputTables[Any]:
    """The readers of both engines."""
    engine: Any = LocalEngine() if request.param == "local" else SparkEngine(request.getfixturevalue("spark"))
    return InputTables(engine, Sources({}))


@pytest.fixture(params=["local", "arrays"])
def engine(request: pytest.FixtureRequest) -> dict[str, Any]:
    """An engine with its session, as functions of the package take them."""
    session = None if request.param == "local" else request.getfixturevalue("spark")
    return {"engine": request.param, "spark": session}


@pytest.fixture
def refusal(tables: InputTables[Any]) -> Refusal:
    """Why a run is refused."""

    def read(path: str) -> str:
        with pytest.raises(InputError) as error:
            tables.engine.collect(tables.run(path, path).rows)
        return str(error.value).removeprefix(path)

    return read


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", FORMATS)
def test_a_byte_order_mark_changes_nothing(tables: InputTables[Any], tmp_path: Path, kind: str, packed: bool) -> None:
    plain, marked = (
        written(tmp_path, f"{name}{FORMATS[kind]}", run_text(kind).encode(encoding), packed)
        for name, encoding in (("plain", "utf-8"), ("marked", "utf-8-sig"))
    )
    rows = [tables.engine.collect(tables.run(path, "").rows) for path in (plain, marked)]
    assert len(rows[0]) in (4, 12)
    assert rows[0].to_pylist() == rows[1].to_pylist()


def test_marked_files_give_the_same_figure(engine: dict[str, Any], tmp_path: Path) -> None:
    figures = []
    for encoding in ("utf-8", "utf-8-sig"):
        runs = {name: written(tmp_path, f"{name}.trec", run_text("trec").encode(encoding)) for name in ("one", "two")}
        qrels = written(tmp_path, "qrels.txt", "".join(f"t{n} 0 b 1\n" for n in range(4)).encode(encoding))
        result = xf.evaluate(qrels, runs, cells=["zmuv+combmnz"], metrics="ndcg@3", **engine)
        figures.append((result.metrics.to_pylist(), result.input_counts))
    assert figures[0] == figures[1]
    assert figures[0][1]["judged_texts"] == 4 and not figures[0][1]["unjudged_texts"]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", FORMATS)
def test_other_encodings_are_refused_by_name(refusal: Refusal, tmp_path: Path, kind: str, packed: bool) -> None:
    for encoding in WIDE:
        path = written(tmp_path, f"{encoding}{FORMATS[kind]}", run_text(kind).encode(encoding), packed)
        name = encoding[:6].upper()
        assert f" is text in {name}, expected UTF-8; convert the file, as in: iconv -f {name}" in refusal(path)
    path = written(tmp_path, f"latin{FORMATS[kind]}", run_text(kind).encode("latin-1"), packed)
    line = 3 if kind == "trec" else 1
    assert refusal(path) == f" line {line}: not UTF-8; convert the file, as in: iconv -f latin1 -t utf-8"


LINE = '{{"text_id": "t", "label_ids": {}, "scores": {}}}'
HOSTILE = {
    "broken": ("a.json", "[1", r": broken JSON \(Expecting ',' delimiter: .*\): \[1"),
    "broken line": ("a.jsonl", '{"text_id": "t"', r" line 2: broken JSON"),
    "list": ("a.jsonl", "[1]", " line 2: a list, expected an object"),
    "key twice": (
        "a.jsonl",
        '{"text_id": "t", "label_ids": [], "text_id": "u"}',
        " line 2: the key 'text_id' occurs 2 times",
    ),
    "text twice": ("a.json", '{"t": {"a": 1}, "t": {"b": 1}}', ": the key 't' occurs 2 times; keep one"),
    "label twice": ("a.json", '{"t": {"a": 1, "b": 2, "a": 3}}', ": the key 'a' occurs 2 times inside 't'; keep one"),
    "surrogate": ("a.json", '{"t": {"\\ud800": 1}}', r": a string with \\ud800, which is half of a character"),
    "surrogate in a line": ("a.jsonl", LINE.format('["\\udc00x"]', "[1]"), r" line 2: a string with \\udc00"),
    "deep": ("a.json", "[" * 200_000, ": JSON with too many lists and objects inside each other"),
    "deep line": ("a.jsonl", '{"a":' * 200_000, " line 2: JSON with too many lists"),
    "true": ("a.json", '{"t": {"a": 1, "b": true}}', "text 't', label 'b' has true or false"),
    "true in a line": (
        "a.jsonl",
        LINE.format('["a"]', "[true]"),
        " line 2: the key 'scores' holds true or false, expected a number",
    ),
    "a word": ("a.jsonl", LINE.format('["a"]', '["1"]'), " line 2: the key 'scores' holds a string, expected a number"),
    "no list": ("a.jsonl", LINE.format('"a"', "[1]"), " line 2: the key 'label_ids' holds a string, expected a list"),
    "fraction": (
        "a.jsonl",
        LINE.format("[1.5]", "[1]"),
        " line 2: the key 'label_ids' holds a number, expected a string",
    ),
    "two ways": (
        "a.jsonl",
        LINE.format('["a", 1]', "[1, 2]"),
        " line 2: the key 'label_ids' holds strings and numbers",
    ),
    "large id": (
        "a.jsonl",
        LINE.format(f"[{2**64}]", "[1]"),
        f" line 2: the key 'label_ids' holds a number that is too large: {2**64}",
    ),
    "large score": (
        "a.jsonl",
        LINE.format('["a"]', f"[{10**400}]"),
        " line 2: the key 'scores' holds a number that is too large: 1000",
    ),
    "no scores": (
        "a.jsonl",
        '{"text_id": "t", "label_ids": ["a"]}',
        ": missing column 'scores'; it has text_id, label_ids",
    ),
    "no scores of a text": ("a.json", '{"t": 1}', "expected scores by label for text 't'"),
    "no text": ("a.json", "{}", "expected scores by label for each text"),
    "empty object": ("a.jsonl", "{}", ": missing column"),
    "empty": ("a.jsonl", "", " is empty"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_json_is_refused_with_its_place(refusal: Refusal, tmp_path: Path, case: str) -> None:
    name, text, words = HOSTILE[case]
    path = written(tmp_path, name, ("\n" + text if name == "a.jsonl" else text).encode())
    assert re.search(words, refusal(path)), refusal(path)[:500]


def test_ids_of_one_kind_in_all_lines(refusal: Refusal, tmp_path: Path) -> None:
    """Also where the lines are read some at a time."""
    lines = [LINE.format("[1]", "[1]")] * 10_000 + [LINE.format('["a"]', "[1]")]
    assert "the key 'label_ids' holds strings and numbers" in refusal(
        written(tmp_path, "a.jsonl", "\n".join(lines).encode())
    )


def test_keys_that_later_lines_add(tables: InputTables[Any], tmp_path: Path) -> None:
    lines = [LINE.format("[1]", "[1]"), LINE.format("[2]", "[0.5]")[:-1] + ', "role": "validation", "more": {}}']
    run = tables.run(written(tmp_path, "a.jsonl", "\n".join(lines).encode()), "")
    assert run.kinds == {
        "text_id": "string",
        "label_ids": "array<bigint>",
        "scores": "array<double>",
        "role": "string",
    }
    assert tables.engine.collect(run.rows)["role"].to_pylist() == [None, "validation"]


@pytest.mark.parametrize("name", ["a.json", "a.trec", "a.jsonl", "a.qrels"])
def test_packed_files_unpack_within_limits(tables: InputTables[Any], tmp_path: Path, name: str) -> None:
    path = written(tmp_path, name, b" " * (100 << 20), packed=True)
    read = tables.judged if name == "a.qrels" else tables.run
    with pytest.raises(InputError, match=r"has [0-9,]+ bytes and unpacks to more than [0-9,]+: unpack it first"):
        tables.engine.collect(read(path, path).rows)


def parquet_file(folder: Path, columns: list[pa.Array], names: list[str]) -> str:
    pq.write_table(pa.table(columns, names=names), folder / "odd.parquet")
    return str(folder / "odd.parquet")


@pytest.mark.parametrize("again", ["score", "Score"])
def test_a_column_twice(refusal: Refusal, tmp_path: Path, again: str) -> None:
    columns = [pa.array(["t"]), pa.array(["a"]), pa.array([1.0]), pa.array([2.0])]
    message = refusal(parquet_file(tmp_path, columns, ["text_id", "label_id", "score", again]))
    assert message.startswith("cannot read ") and "score" in message.lower(), message


def test_unsigned_ids_are_the_ids_that_they_are(engine: dict[str, Any], tmp_path: Path) -> None:
    """Hashes, for instance, half of which no signed number of 64 bits holds."""
    texts, labels = pa.array([7, 2**63 + 5], pa.uint64()), pa.array([[1], [2**64 - 1]], pa.list_(pa.uint64()))
    lists = parquet_file(tmp_path, [texts, labels, pa.array([[1.0], [1.0]])], ["text_id", "label_ids", "scores"])
    long = pa.table({"text_id": texts, "label_id": labels.flatten().take(pa.array([1, 0])), "score": [1.0, 1.0]})
    judged = {"7": ["1"], str(2**63 + 5): [str(2**64 - 1)]}
    result = xf.evaluate(judged, {"a": lists, "b": long}, cells=["zmuv+combsum"], metrics="precision@1", **engine)
    values = {row["fusion"]: row["value"] for row in result.metrics.to_pylist() if row["label_group"] == "all"}
    assert (values["a"], values["b"]) == (1, 0)


def test_unknown_roles(spark: SparkSession, settings: dict[str, object], tmp_path: Path) -> None:
    roles = table(tmp_path, "roles", {**GOOD, "role": ["Test", None]})
    message = refused(spark, settings, inputs__candidates={"a": settings["inputs.candidates"]["a"], "b": roles})  # type: ignore[index]
    assert "roles.parquet: column 'role' holds 'Test'; known: test, validation, train" in message
    folds = table(tmp_path, "folds", {"fold": [0, 0, 0], "text_id": [1, 2, 3], "role": ["test", "test ", None]})
    message = refused(spark, settings, inputs__folds=folds)
    assert "folds.parquet: column 'role' holds 'test ', None; known: test, validation, train" in message


def test_gains_that_overflow(spark: SparkSession, settings: dict[str, object], tmp_path: Path) -> None:
    graded = {"text_id": [1, 2], "label_ids": [[1, 2], [3]], "grades": [[2000, 1], [1]]}
    grades = table(tmp_path, "grades", graded, grades=pa.list_(pa.int32()))
    message = refused(spark, settings, inputs__judgements=grades, evaluate__gain="exponential")
    assert "grades.parquet: column 'grades': grade whose gain overflows (evaluate.gain: exponential)" in message
    assert "text_id 1, label 1" in message
    plain = load_config(None, {**settings, "inputs.judgements": grades, "output.path": None, "grid.engine": "local"})
    assert min(row["value"] for row in evaluate.run(None, plain).metrics.to_pylist() if row["metric"] == "ndcg") > 0.9


@pytest.mark.parametrize("engine", ["local", "arrays", "windows"], indirect=True)
def test_labels_of_many_digits(engine: dict[str, Any], tmp_path: Path) -> None:
    """They are ordered by value, as all whole numbers are."""
    labels = ["9" * 5000, "1" + "0" * 5000, "x"]
    path = written(tmp_path, "a.json", json.dumps({"t": dict.fromkeys(labels, 1.0)}).encode())
    fused = xf.fuse({"a": path, "b": path}, "min-max+combsum", **engine)
    rows = fused if isinstance(fused, pa.Table) else fused.toArrow()
    assert rows["label_ids"].to_pylist() == [labels]


@pytest.mark.parametrize("job", ["evaluate", "fuse"])
def test_a_label_in_two_unicode_forms(engine: dict[str, Any], capsys: pytest.CaptureFixture[str], job: str) -> None:
    runs = {"one": {"t1": {"caf\u00e9": 2.0, "b": 1.0}}, "two": {"t1": {"cafe\u0301": 2.0, "b": 1.0}}}
    if job == "fuse":
        xf.fuse(runs, "rrf", **engine)
    else:
        xf.evaluate({"t1": ["b", "caf\u00e9"]}, runs, cells=["rrf"], metrics="ndcg@3", **engine)
    message = capsys.readouterr().err
    assert "is written in several Unicode forms, which count as different labels" in message
    assert "'cafe\\u0301' in run 'two' and 'caf\\xe9' in " in message
