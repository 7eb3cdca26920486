"""Job `predict`: a model labels new texts, in this process or in Spark's workers, each of which opens it once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fusion.errors import ConfigError, InputError
from jobs.datasets.readers import LineFiles
from jobs.engines.choose import choose_engine
from jobs.engines.credentials import job
from jobs.engines.engine import Engine
from jobs.engines.local import LocalEngine
from jobs.prediction.model import KeptModel, load
from jobs.runtime.log import Progress
from jobs.settings.config import Config
from jobs.settings.sections import PredictSettings
from jobs.storage.folders import ResultFolder, check_output, result_folder, stage_line
from udfs.json_records import parse_json
from udfs.new_texts import TEXT, TEXT_ID, json_texts
from udfs.prediction import Assigning, predict_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREDICTIONS = "predictions.parquet"
LINES = "predictions.jsonl"
JSON_LINES = (".jsonl", ".json", ".jsonl.gz")


@job
def run(config: Config, spark: SparkSession | None = None) -> int:
    """Write the labels of new texts; the number of labels."""
    settings = config.predict
    if settings.model is None or settings.texts is None:
        raise ConfigError("predict needs a model and texts: give --model FOLDER and --texts FILE")
    check_output(config.output)
    kept = load(settings.model)
    engine = choose_engine(config, [settings.texts], spark)
    if settings.format == "jsonl" and not isinstance(engine, LocalEngine):
        raise ConfigError("on Spark, predictions are a table: set predict.format to parquet")
    with stage_line("predict", config.output.path) as counts, result_folder(config.output, config) as folder:
        counts["labels"] = _write(engine, kept, settings, folder)
    return int(counts["labels"])


def assigning_of(kept: KeptModel, top: int | None, threshold: float | None) -> Assigning:
    """How many labels a text gets: as asked for, or as the model chose on validation texts."""
    if top is None and threshold is None:
        return kept.assigning
    return Assigning(top if top is not None else kept.model.fuser.plan.top, threshold or 0.0)


def _write(engine: Engine[Any], kept: KeptModel, settings: PredictSettings, folder: ResultFolder) -> int:
    texts, ids, count = new_texts(engine, str(settings.texts))
    step = predict_rows(kept.model, kept.names, assigning_of(kept, settings.top, settings.threshold), ids)
    with Progress("predict", count, "texts") as progress:
        rows = engine.map(texts, step, progress.add)
        if settings.format == "parquet":
            place = f"{folder.uri}/{PREDICTIONS}"
            engine.write(rows, place)
            return int(engine.count(engine.read(place), [])["rows"][0].as_py())
        written = _Counted()
        folder.write_lines(LINES, written.lines(rows.stream()))
        return written.labels


class _Counted:
    """JSON lines of predictions, counted on their way."""

    labels = 0

    def lines(self, batches: Iterator[pa.RecordBatch]) -> Iterator[str]:
        """One object per text that has a label, in the order of the texts."""
        rows = (row for batch in batches for row in batch.to_pylist())
        for text_id, of_text in groupby(rows, key=lambda row: row[TEXT_ID]):
            labels = [{name: row[name] for name in ("label", "name", "probability", "score")} for row in of_text]
            self.labels += len(labels)
            yield json.dumps({TEXT_ID: text_id, "labels": labels}, ensure_ascii=False) + "\n"


def new_texts(engine: Engine[Any], source: str) -> tuple[Any, pa.DataType, int]:
    """Texts as rows (text_id, text), the type of the ids, and how many there are, 0 where nobody has counted."""
    if source.endswith(JSON_LINES):
        lines = LineFiles.of(engine, [source], blank=False)
        ids = _id_type(lines.first_line())
        return engine.files(lines.table, json_texts(ids)), ids or pa.int64(), lines.count
    schema = engine.schema(engine.read(source))
    for name in (TEXT_ID, TEXT):
        if name not in schema.names:
            raise InputError(f"{source}: missing column {name!r}; it has {', '.join(schema.names)}")
    ids = schema.field(TEXT_ID).type
    return engine.read(source, [TEXT_ID, TEXT]), pa.int64() if pa.types.is_integer(ids) else pa.string(), 0


def _id_type(line: str) -> pa.DataType | None:
    """The type of the ids, by the first line; None if it has none."""
    try:
        record = parse_json(line)
    except ValueError:
        return None
    value = record.get(TEXT_ID) if isinstance(record, dict) else None
    return None if value is None else pa.int64() if isinstance(value, int) else pa.string()
