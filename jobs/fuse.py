"""Job `fuse`: fused rankings of the chosen cells, written as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from jobs.config import Config
from jobs.evaluate import chosen_views
from jobs.inputs.list_rows import load_lists
from jobs.inputs.sources import Sources
from jobs.runtime.credentials import job
from jobs.runtime.engines import Plan, choose_engine
from jobs.runtime.folders import ResultFolder, check_output, result_folder
from jobs.runtime.log import stage_line
from udfs.fused_lists import FusionPlan, fuse_lists
from udfs.problems import Problems

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FUSED = "fused.parquet"
CELL = ("normalization", "fusion")


@job
def run(spark: SparkSession | None, config: Config, sources: Sources | None = None) -> int:
    """Write `fused.parquet`, partitioned by cell; the number of lists."""
    check_output(config.output)
    with stage_line("fuse", config.output.path) as counts, result_folder(config.output, config) as folder:
        fused = fused_rows(spark, config, sources)
        counts["lists"] = _write(fused, folder) if isinstance(fused, pa.Table) else _write_on_spark(fused, folder)
    return int(counts["lists"])


def fused_rows(spark: SparkSession | None, config: Config, sources: Sources | None = None) -> Any:
    """The fused lists, as a table of the engine's kind; rows of a DataFrame may hold `problems` instead of a list."""
    sources = sources or Sources.of(config.inputs)
    sources.require(judged=False)
    engine = choose_engine(config, sources, spark)
    lists = load_lists(engine.tables, sources, judged=False)
    grid = config.grid.grid
    views = chosen_views(config.fuse.label_groups, lists.layout.views)
    types = lists.types
    plan = FusionPlan(
        lists.layout, tuple(grid.cells), views, config.grid.scope, config.fuse.top, types.text, types.label
    )
    fused = engine.rows(lists, Plan(grid, config.grid.scope, views), fuse_lists(plan), plan.schema)
    if not isinstance(fused, pa.Table):
        return fused
    _refuse(fused["problems"].drop_null().to_pylist())
    return fused.drop_columns(["problems"])


def _refuse(problems: list[str]) -> None:
    found = Problems.from_json(problems)
    if found:
        raise found.error()


def _write(fused: pa.Table, folder: ResultFolder) -> int:
    cells = fused.select(CELL).group_by(CELL).aggregate([]).to_pylist()
    for cell in cells:
        inside = pc.and_(*(pc.equal(fused[name], cell[name]) for name in CELL))
        place = "/".join(f"{name}={cell[name]}" for name in CELL)
        folder.write_parquet(f"{FUSED}/{place}", fused.filter(inside).drop_columns(list(CELL)))
    return len(fused)


def _write_on_spark(fused: DataFrame, folder: ResultFolder) -> int:
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    # The workers' problems are seen on the way to the file, without a second pass.
    seen = Observation("fused lists")
    observed = fused.observe(seen, F.collect_set("problems").alias("problems"), F.count("text_id").alias("lists"))
    observed.drop("problems").write.partitionBy(*CELL).parquet(f"{folder.uri}/{FUSED}")
    _refuse(seen.get["problems"])
    return int(seen.get["lists"])


if __name__ == "__main__":
    from jobs.cli import job_main

    job_main("fuse")
