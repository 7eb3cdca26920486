"""Job `fuse`: fused rankings of the chosen cells, as Parquet or as one TREC, JSON lines or ranx file per cell."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from fusion.cells import Cell
from fusion.errors import ConfigError, OutputError
from fusion.grid.grid import Grid
from fusion.kernel.texts import Scope
from fusion.labels import ALL
from fusion.models.strategies import DEPLOYED
from jobs.engines.choose import LOCAL, choose_engine
from jobs.engines.credentials import job
from jobs.evaluation.model_file import ModelFile, read_model
from jobs.evaluation.plan import chosen_views, learned_of
from jobs.inputs.labels import training_texts
from jobs.inputs.lists import load_lists
from jobs.inputs.sources import Sources
from jobs.inputs.tables import InputTables, refuse_bad_rows
from jobs.settings.base import Names
from jobs.settings.config import Config
from jobs.storage.folders import ResultFolder, check_output, result_folder, stage_line
from udfs.fuse import FusionPlan, fuse_lists
from udfs.tuning import TrainTexts, prepared

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


Lines = Callable[[Iterator[pa.RecordBatch], Cell], Iterator[str]]
FUSED = "fused.parquet"
CELL = ("normalization", "fusion")
_ESCAPED = "\"#%'*/:=?\\{[]^\x7f" + "".join(map(chr, range(1, 32)))
"""Characters that Spark escapes in the names of partition folders."""


def cell_folder(cell: Cell) -> str:
    """Where the Parquet files of a cell are, as Spark names partitions."""
    return "/".join(f"{name}={_escaped(value)}" for name, value in zip(CELL, cell, strict=True))


def _escaped(value: str) -> str:
    return "".join(f"%{ord(sign):02X}" if sign in _ESCAPED else sign for sign in value)


def file_names(cells: list[Cell], suffix: str) -> dict[Cell, str]:
    """A file per cell, named after it as far as file systems and shells like the characters."""
    names: dict[Cell, str] = {}
    for cell in cells:
        name = re.sub(r"[^\w.+=,()-]+", "_", str(cell))
        while f"{name}{suffix}" in names.values():
            name += "_"
        names[cell] = f"{name}{suffix}"
    return names


def trec_lines(batches: Iterator[pa.RecordBatch], cell: Cell) -> Iterator[str]:
    """text Q0 label rank score tag."""
    tag = quote(str(cell).replace(": ", ":"), safe="+:()=,.-_")
    for row in _rows(batches):
        text = trec_word(row["text_id"])
        for rank, (label, score) in enumerate(zip(row["label_ids"], row["scores"], strict=True), start=1):
            yield f"{text} Q0 {trec_word(label)} {rank} {score!r} {tag}\n"


def jsonl_lines(batches: Iterator[pa.RecordBatch], cell: Cell) -> Iterator[str]:
    """One object per list."""
    for row in _rows(batches):
        yield json.dumps(row, ensure_ascii=False) + "\n"


def ranx_lines(batches: Iterator[pa.RecordBatch], cell: Cell) -> Iterator[str]:
    """One object for the run, a line per text."""
    before = "{"
    for row in _rows(batches):
        scores = {str(label): score for label, score in zip(row["label_ids"], row["scores"], strict=True)}
        text = json.dumps(str(row["text_id"]), ensure_ascii=False)
        yield f"{before}\n{text}: {json.dumps(scores, ensure_ascii=False)}"
        before = ","
    yield "\n}\n" if before == "," else "{}\n"


FORMATS: dict[str, tuple[str, Lines]] = {
    "trec": (".trec", trec_lines),
    "jsonl": (".jsonl", jsonl_lines),
    "ranx": (".json", ranx_lines),
}
"""Formats of one text file per cell: how the file ends, and its lines."""
ONE_LIST = ("trec", "ranx")
"""Formats that hold one ranking per text, which is that of all labels unless a label group is named."""


def views_of(format_name: str, chosen: Names, views: tuple[str, ...]) -> tuple[str, ...]:
    """The label groups that are written: those chosen, as far as a format can hold several."""
    if format_name not in ONE_LIST or len(views) == 1:
        return views
    if chosen != "auto":
        groups = ", ".join(views)
        raise ConfigError(f"a {format_name} file holds one list per text: set fuse.label_groups to one of {groups}")
    return (ALL,)


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        yield from batch.to_pylist()


def trec_word(name: object) -> str:
    """An id within a line of words."""
    word = str(name)
    if not word or re.search(r"\s", word):
        raise OutputError(f"the id {word!r} does not fit into a TREC file, where white space ends an id: use jsonl")
    return word


ORDER = ("text_id", "fold", "label_group")
"""The order of the lists in a file of one cell."""
UNORDERED, ORDERED = "unordered.parquet", "ordered.parquet"
"""Tables that files of one cell are made from, and that do not stay."""


@job
def run(spark: SparkSession | None, config: Config, sources: Sources | None = None) -> int:
    """Write the fused lists in the chosen format, by cell; the number of lists."""
    check_output(config.output)
    with stage_line("fuse", config.output.path) as counts, result_folder(config.output, config) as folder:
        fused = fused_rows(spark, config, sources)
        write = _write if isinstance(fused, pa.Table) else _write_on_spark
        counts["lists"] = write(fused, folder, config.fuse.format)
    return int(counts["lists"])


def fused_rows(spark: SparkSession | None, config: Config, sources: Sources | None = None) -> Any:
    """The fused lists, as a table of the engine's kind; rows of a DataFrame may hold `problems` instead of a list."""
    sources = sources or Sources.of(config.inputs)
    sources.require(judged=False)
    model = None if config.fuse.model is None else read_model(config.fuse.model)
    tables = InputTables(choose_engine(config, sources.addresses(), spark), sources)
    lists = load_lists(tables, judged=False)
    chosen = config.fuse.label_groups
    views = views_of(config.fuse.format, chosen, chosen_views(chosen, lists.layout.views))
    grid, scope, train_texts = _chosen_grid(model, tables, config, lists.layout.retrievers, views)
    types = lists.types
    layout = lists.layout.of_read
    plan = FusionPlan(
        layout=layout,
        cells=tuple(grid.cells),
        views=views,
        scope=scope,
        top=config.fuse.top,
        text_type=types.text,
        label_type=types.label,
        policies=grid.policies,
        learned=learned_of(tables, config, grid, layout, views),
        strategies=grid.strategies,
    )
    work = prepared(fuse_lists(plan), None, train_texts)
    rows = lists.through(plan, work, plan.schema, adds_up=False)
    if tables.engine.name != LOCAL:
        return rows
    fused = tables.engine.collect(rows)
    refuse_bad_rows(fused["problems"])
    return fused.drop_columns(["problems"])


def _chosen_grid(
    model: ModelFile | None,
    tables: InputTables[Any],
    config: Config,
    retrievers: Sequence[str],
    views: Sequence[str],
) -> tuple[Grid, Scope, TrainTexts | None]:
    """The cells that are chosen, or the fusion of a model file with the training texts of labels that it reads."""
    if model is None:
        return config.grid.grid(retrievers), config.grid.scope, None
    model.check(retrievers, views)
    grid = Grid([], retrievers, model.policies, strategies={DEPLOYED: model.strategy})
    return grid, model.scope, training_of(model, tables, config)


def training_of(model: ModelFile, tables: InputTables[Any], config: Config) -> TrainTexts | None:
    """The training texts of labels, if the model reads them."""
    if not model.reads_training:
        return None
    train_texts = training_texts(tables, config.evaluate.relevant_from)
    if train_texts is None:
        raise ConfigError(
            f"{model.source} reads how many training texts carry a label: set inputs.training to the labels of the "
            "training texts, or give judgements and folds with a column 'role' in which they are called 'train'"
        )
    return train_texts


def _write(fused: pa.Table, folder: ResultFolder, format_name: str) -> int:
    cells = [Cell(*row.values()) for row in fused.select(CELL).group_by(CELL).aggregate([]).to_pylist()]
    names = file_names(cells, FORMATS[format_name][0]) if format_name in FORMATS else {}
    for cell in cells:
        inside = pc.and_(*(pc.equal(fused[name], value) for name, value in zip(CELL, cell, strict=True)))
        lists = fused.filter(inside).drop_columns(list(CELL))
        if cell in names:
            ordered = lists.sort_by([(name, "ascending") for name in ORDER])
            folder.write_lines(names[cell], FORMATS[format_name][1](iter(ordered.to_batches()), cell))
        else:
            folder.write_parquet(f"{FUSED}/{cell_folder(cell)}", lists)
    return len(fused)


def _write_on_spark(fused: DataFrame, folder: ResultFolder, format_name: str) -> int:
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    # The workers' problems are seen on the way to the file, without a second pass; as text, since Spark 4.0 hands out
    # arrays as objects of Java.
    seen = Observation("fused lists")
    problems = F.to_json(F.collect_set("problems")).alias("problems")
    observed = fused.observe(seen, problems, F.count("text_id").alias("lists"))
    lists = observed.drop("problems")
    if format_name not in FORMATS:
        lists.write.partitionBy(*CELL).parquet(f"{folder.uri}/{FUSED}")
        refuse_bad_rows(pa.array(json.loads(seen.get["problems"]), pa.string()))
        return int(seen.get["lists"])
    lists.write.parquet(f"{folder.uri}/{UNORDERED}")
    refuse_bad_rows(pa.array(json.loads(seen.get["problems"]), pa.string()))
    # Sorting looks at its rows twice, so it must not be what fuses them.
    ordered = fused.sparkSession.read.parquet(f"{folder.uri}/{UNORDERED}").orderBy(*ORDER)
    ordered.write.partitionBy(*CELL).parquet(f"{folder.uri}/{ORDERED}")
    suffix, lines = FORMATS[format_name]
    cells = [Cell(*values) for values in folder.partitions(ORDERED)]
    for cell, name in file_names(sorted(cells), suffix).items():
        folder.write_lines(name, lines(folder.parquet_batches(f"{ORDERED}/{cell_folder(cell)}"), cell))
    folder.remove(UNORDERED)
    folder.remove(ORDERED)
    return int(seen.get["lists"])
