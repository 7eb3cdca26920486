"""Job `predict`: a model labels new texts, in this process or in Spark's workers, each of which opens it once.

Predictions become a table, in files or in a catalog, or text files: JSON lines, CSV, and runs as TREC has them.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice, zip_longest
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from fusion.errors import ConfigError, InputError, check_all
from jobs.datasets.readers import LineFiles
from jobs.engines.choose import choose_engine
from jobs.engines.credentials import job
from jobs.engines.engine import Engine
from jobs.evaluation.fuse import trec_word
from jobs.inputs.local_files import TABLE, InputFile, check_files
from jobs.inputs.sources import check_columns
from jobs.prediction.model import KeptModel, load, read_manifest
from jobs.runtime.log import Progress
from jobs.settings.config import Config
from jobs.settings.sections import PredictSettings
from jobs.storage.folders import ResultFolder, check_output, csv_cells, result_folder, stage_line
from udfs.columns import Column, Constant, Taken
from udfs.datasets.separated import count_separated_step
from udfs.json_records import parse_json
from udfs.prediction.model import Assigning, predict_rows, predictions_schema
from udfs.prediction.texts import (
    PLACE,
    SHOWN,
    TEXT,
    TEXT_ID,
    counted_ids,
    json_texts,
    separated_texts,
    text_records,
    texts_schema,
    typed_id,
)
from udfs.splits import Split, table_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


PREDICTIONS = "predictions.parquet"
JSON_LINES = tuple(f".{name}{packed}" for name in ("jsonl", "ndjson", "json") for packed in ("", ".gz"))
SEPARATED = {f".{name}{packed}": of for name, of in (("csv", ","), ("tsv", "\t")) for packed in ("", ".gz")}
"""What is between the columns of files, by how their names end."""


@job
def run(config: Config, spark: SparkSession | None = None) -> int:
    """Write the labels of new texts; the number of labels."""
    settings = config.predict
    if settings.model is None or settings.texts is None:
        raise ConfigError("predict needs a model and texts: give --model FOLDER and --texts FILE")
    files = [] if settings.texts.startswith(TABLE) else [InputFile("predict.texts", settings.texts)]
    check_all(
        partial(_check_output, config),
        partial(read_manifest, settings.model),
        partial(check_files, config.spark, files),
    )
    kept = load(settings.model)
    if config.output.table is not None:
        return _into_table(choose_engine(config, [settings.texts, config.output.path], spark), kept, config)
    engine = choose_engine(config, [settings.texts], spark)
    with stage_line("predict", config.output.path) as counts, result_folder(config.output, config) as folder:
        counts["labels"] = _write(engine, kept, settings, partial(_into_folder, engine, folder, settings.format))
    return int(counts["labels"])


def _check_output(config: Config) -> None:
    """Refuse an output that cannot be written, or not in the format that is asked for."""
    name, kind = config.output.table, config.predict.format
    if name is None:
        check_output(config.output)
    elif kind not in ("auto", "parquet"):
        raise ConfigError(
            f"predict.format is {kind}, but {config.output.path} is a catalog table, which has rows: leave --format "
            "out, or give a folder as --output"
        )
    else:
        from jobs.engines.catalog import quoted_parts

        quoted_parts(name)


def assigning_of(kept: KeptModel, top: int | None, threshold: float | None) -> Assigning:
    """How many labels a text gets: as asked for, or as the model chose on validation texts."""
    if top is None and threshold is None:
        return kept.assigning
    return Assigning(top if top is not None else kept.model.fuser.plan.top, threshold or 0.0)


def _into_table(engine: Engine[Any], kept: KeptModel, config: Config) -> int:
    table = engine.output_table(str(config.output.table), replace=config.output.mode == "overwrite")
    table.check()
    with stage_line("predict", None) as counts:
        counts["labels"] = _write(
            engine, kept, config.predict, lambda rows, ids: table.write(_columns(engine, rows, ids))
        )
    return int(counts["labels"])


def _into_folder(engine: Engine[Any], folder: ResultFolder, kind: str, predictions: Any, ids: pa.DataType) -> int:
    if kind != "parquet":
        return write_lines(engine, predictions, folder, "jsonl" if kind == "auto" else kind)
    return engine.write(_columns(engine, predictions, ids), f"{folder.uri}/{PREDICTIONS}").rows


def _columns(engine: Engine[Any], predictions: Any, ids: pa.DataType) -> Any:
    """Predictions without the place of their texts."""
    columns = {field.name: Column(Taken(field.name), field.type) for field in predictions_schema(ids)}
    return engine.select(predictions, columns)


def _write(
    engine: Engine[Any], kept: KeptModel, settings: PredictSettings, into: Callable[[Any, pa.DataType], int]
) -> int:
    """Label the texts, and write predictions, whose ids have a type; how many there are."""
    texts = new_texts(engine, str(settings.texts))
    step = predict_rows(kept.model, kept.names, assigning_of(kept, settings.top, settings.threshold), texts.ids)
    with Progress("predict", texts.count, "texts") as progress:
        return into(engine.map(texts.rows, step, progress.add), texts.ids)


@dataclass(frozen=True)
class NewTexts:
    """Texts to be labelled: rows of an engine with the columns of `texts_schema`."""

    rows: Any
    ids: pa.DataType
    count: int


def new_texts(engine: Engine[Any], source: str) -> NewTexts:
    """The texts of JSON lines, of separated values or of a table, after a look at their ids."""
    if source.endswith(JSON_LINES):
        lines = LineFiles.of(engine, [source], blank=False)
        ids = _id_type(lines.first_line())
        rows = engine.files(lines.table, json_texts(ids))
        if ids is None:
            return NewTexts(rows, pa.int64(), lines.count)
    elif (delimiter := next((of for ending, of in SEPARATED.items() if source.endswith(ending)), None)) is not None:
        rows, ids, count = _separated(engine, source, delimiter)
        if ids is None:
            return NewTexts(rows, pa.int64(), count)
    else:
        rows, ids = _of_table(engine, source)
    return NewTexts(rows, ids, _checked(engine, rows, ids, source))


def _separated(engine: Engine[Any], source: str, delimiter: str) -> tuple[Any, pa.DataType | None, int]:
    """The rows of a file of separated values, the type of their ids, and how many there are."""
    try:
        found = list(islice(text_records(source, delimiter), 2))
    except ValueError as error:
        raise InputError(f"{source} {error}") from None
    if len(found) < 2:
        raise InputError(f"{source} is empty")
    (_, names), (_, first) = found
    check_columns(names, source)
    if TEXT not in names:
        raise InputError(f"{source}: missing column {TEXT!r}; it has {', '.join(names)}")
    ids = None
    if TEXT_ID in names:
        text_id = dict(zip_longest(names, first[: len(names)], fillvalue=""))[TEXT_ID]
        ids = pa.int64() if isinstance(typed_id(text_id), int) else pa.string()
    whole = table_of([Split(source, 0, None)])
    counted = engine.collect(engine.files(whole, count_separated_step(delimiter, "utf-8")))
    return engine.files(whole, separated_texts(ids, delimiter)), ids, int(pc.sum(counted["rows"]).as_py())


def _of_table(engine: Engine[Any], source: str) -> tuple[Any, pa.DataType]:
    table = engine.read(source)
    schema = engine.schema(table)
    check_columns(schema.names, source)
    for name in (TEXT_ID, TEXT):
        if name not in schema.names:
            raise InputError(f"{source}: missing column {name!r}; it has {', '.join(schema.names)}")
    if not is_text(schema.field(TEXT).type):
        raise InputError(f"{source}: column {TEXT!r} holds {schema.field(TEXT).type}, and texts are strings")
    kind = schema.field(TEXT_ID).type
    if not (pa.types.is_integer(kind) or is_text(kind)):
        raise InputError(f"{source}: column {TEXT_ID!r} holds {kind}, and ids are whole numbers or strings")
    ids = pa.int64() if pa.types.is_integer(kind) else pa.string()
    columns = {
        field.name: Column(Constant(None) if field.name == PLACE else Taken(field.name), field.type)
        for field in texts_schema(ids)
    }
    return engine.select(table, columns), ids


def is_text(kind: pa.DataType) -> bool:
    """Whether a column holds strings."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _checked(engine: Engine[Any], texts: Any, kind: pa.DataType, source: str) -> int:
    """How many texts there are; ids that are missing or occur more than once are refused."""
    ids = engine.select(texts, {TEXT_ID: Column(Taken(TEXT_ID), kind)})
    rows = engine.collect(engine.group(ids, [TEXT_ID], counted_ids(kind)))
    count, missing, repeated = (pc.sum(rows[name]).as_py() or 0 for name in ("texts", "missing", "repeated"))
    if not count:
        raise InputError(f"{source} is empty")
    if missing:
        raise InputError(f"{source}: {missing:,} texts have no {TEXT_ID}; give each text one")
    if repeated:
        first = sorted(text_id for of_batch in rows["first"].to_pylist() for text_id in of_batch)[:SHOWN]
        raise InputError(
            f"{source}: {repeated:,} values of {TEXT_ID} occur more than once, first: {', '.join(map(str, first))}; "
            "predictions are found again by these ids, so give each text its own"
        )
    return int(count)


def _id_type(line: str) -> pa.DataType | None:
    """The type of the ids, by the first line; None if it has none."""
    try:
        record = parse_json(line)
    except ValueError:
        return None
    value = record.get(TEXT_ID) if isinstance(record, dict) else None
    return None if value is None else pa.int64() if isinstance(value, int) else pa.string()


Rows = Iterator[dict[str, Any]]
COLUMNS = (TEXT_ID, "rank", "label", "name", "score", "probability")
TAG = "xmtc-fusion"
ORDERED = "ordered.parquet"
"""The table that a text file is made from, and that does not stay."""


def json_lines(rows: Rows) -> Iterator[str]:
    """One object per text that has a label."""
    for text_id, of_text in groupby(rows, key=lambda row: row[TEXT_ID]):
        labels = [{name: row[name] for name in ("label", "name", "probability", "score")} for row in of_text]
        yield json.dumps({TEXT_ID: text_id, "labels": labels}, ensure_ascii=False) + "\n"


def csv_lines(rows: Rows) -> Iterator[str]:
    """One line per text and label, after a header."""
    line = io.StringIO()
    writer = csv.writer(line, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow(csv_cells(row[name] for name in COLUMNS))
        yield line.getvalue()
        line.seek(0)
        line.truncate()
    yield line.getvalue()


def trec_lines(rows: Rows) -> Iterator[str]:
    """text Q0 label rank score tag."""
    for row in rows:
        yield f"{trec_word(row[TEXT_ID])} Q0 {trec_word(row['label'])} {row['rank']} {row['score']!r} {TAG}\n"


FORMATS: dict[str, Callable[[Rows], Iterator[str]]] = {"jsonl": json_lines, "csv": csv_lines, "trec": trec_lines}
"""The lines of each format; the file is called predictions and ends as the format is called."""


def write_lines(engine: Engine[Any], predictions: Any, folder: ResultFolder, kind: str) -> int:
    """Write predictions as a text file, in the order of the lines or, of a table, of the ids; how many labels it
    holds."""
    written = engine.write(predictions, f"{folder.uri}/{ORDERED}", order=(PLACE, TEXT_ID, "rank"))
    rows = (row for batch in folder.parquet_batches(ORDERED) for row in batch.to_pylist())
    folder.write_lines(f"predictions.{kind}", FORMATS[kind](rows))
    folder.remove(ORDERED)
    return written.rows
