"""Job `fuse`: fused rankings of the chosen cells, written as a table or as one file per cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from fusion.grid import Cell
from jobs.config import Config
from jobs.evaluate import chosen_views
from jobs.inputs.list_rows import load_lists
from jobs.inputs.sources import Sources
from jobs.results.rankings import CELL, FORMATS, FUSED, cell_folder, file_names, views_of
from jobs.runtime.credentials import job
from jobs.runtime.engines import Plan, choose_engine
from jobs.runtime.folders import ResultFolder, check_output, result_folder
from jobs.runtime.log import stage_line
from jobs.runtime.training import learned_of
from udfs.fused_lists import FusionPlan, fuse_lists
from udfs.problems import Problems

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
    engine = choose_engine(config, sources, spark)
    lists = load_lists(engine.tables, sources, judged=False)
    grid = config.grid.grid(lists.layout.retrievers)
    chosen = config.fuse.label_groups
    views = views_of(config.fuse.format, chosen, chosen_views(chosen, lists.layout.views))
    types = lists.types
    plan = FusionPlan(
        lists.layout,
        tuple(grid.cells),
        views,
        config.grid.scope,
        config.fuse.top,
        types.text,
        types.label,
        grid.policies,
        learned_of(engine, sources, config, grid, lists.layout, views),
    )
    fused = engine.rows(lists, Plan(grid, config.grid.scope, views), fuse_lists(plan), plan.schema)
    if not isinstance(fused, pa.Table):
        return fused
    _refuse(fused["problems"].drop_null().to_pylist())
    return fused.drop_columns(["problems"])


def _refuse(problems: list[str]) -> None:
    bad_rows = Problems.from_json(problems)
    if bad_rows:
        raise bad_rows.error()


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

    # The workers' problems are seen on the way to the file, without a second pass.
    seen = Observation("fused lists")
    observed = fused.observe(seen, F.collect_set("problems").alias("problems"), F.count("text_id").alias("lists"))
    lists = observed.drop("problems")
    if format_name not in FORMATS:
        lists.write.partitionBy(*CELL).parquet(f"{folder.uri}/{FUSED}")
        _refuse(seen.get["problems"])
        return int(seen.get["lists"])
    lists.write.parquet(f"{folder.uri}/{UNORDERED}")
    _refuse(seen.get["problems"])
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


if __name__ == "__main__":
    from jobs.cli import job_main

    job_main("fuse")
