"""Job `fuse`: fused rankings of the chosen cells, as Parquet or as one TREC, JSON lines or ranx file per cell."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pyarrow as pa

from fusion.cells import Cell
from fusion.errors import ConfigError, OutputError
from fusion.grid.grid import Grid
from fusion.kernel.texts import Scope
from fusion.labels import ALL
from fusion.models.strategies import DEPLOYED
from jobs.engines.choose import choose_engine
from jobs.engines.credentials import job
from jobs.engines.engine import Engine
from jobs.engines.parquet import partition_folder
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
    from pyspark.sql import SparkSession


Lines = Callable[[Iterator[pa.RecordBatch], Cell], Iterator[str]]
FUSED = "fused.parquet"
CELL = ("normalization", "fusion")


def cell_folder(cell: Cell) -> str:
    """Where the Parquet files of a cell are."""
    return "/".join(map(partition_folder, CELL, cell))


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
ORDERED = "ordered.parquet"
"""The table that files of one cell are made from, and that does not stay."""
PROBLEMS = "problems"
"""The column of a row that holds no list, but what was wrong with some."""


@job
def run(spark: SparkSession | None, config: Config, sources: Sources | None = None) -> int:
    """Write the fused lists in the chosen format, by cell; the number of lists."""
    check_output(config.output)
    with stage_line("fuse", config.output.path) as counts, result_folder(config.output, config) as folder:
        engine, fused = fuse_inputs(spark, config, sources)
        counts["lists"] = _write(engine, fused, folder, config.fuse.format)
    return int(counts["lists"])


def fused_rows(spark: SparkSession | None, config: Config, sources: Sources | None = None) -> Any:
    """The fused lists, as users get them; rows of a DataFrame may hold `problems` instead of a list."""
    engine, rows = fuse_inputs(spark, config, sources)
    fused = engine.held(rows)
    if not isinstance(fused, pa.Table):
        return fused
    refuse_bad_rows(fused[PROBLEMS].to_pylist())
    return fused.drop_columns([PROBLEMS])


def fuse_inputs(spark: SparkSession | None, config: Config, sources: Sources | None = None) -> tuple[Engine[Any], Any]:
    """The engine, and its rows of fused lists and of problems."""
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
    return tables.engine, lists.through(plan, work, plan.schema, adds_up=False)


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


def _write(engine: Engine[Any], fused: Any, folder: ResultFolder, format_name: str) -> int:
    """Write fused lists; how many there are."""
    if format_name not in FORMATS:
        written = engine.write(fused, f"{folder.uri}/{FUSED}", CELL, aside=PROBLEMS)
        refuse_bad_rows(written.aside)
        return written.rows
    written = engine.write(fused, f"{folder.uri}/{ORDERED}", CELL, ORDER, PROBLEMS)
    refuse_bad_rows(written.aside)
    suffix, lines = FORMATS[format_name]
    cells = [Cell(*values) for values in folder.partitions(ORDERED)]
    for cell, name in file_names(sorted(cells), suffix).items():
        folder.write_lines(name, lines(folder.parquet_batches(f"{ORDERED}/{cell_folder(cell)}"), cell))
    folder.remove(ORDERED)
    return written.rows
