"""Job `fuse`: fused rankings of the chosen cells, written as a table."""

from __future__ import annotations

from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F

from jobs.config import Config
from jobs.evaluate import chosen_views
from jobs.inputs.list_rows import load_lists
from jobs.inputs.sources import common_type
from jobs.runtime.folders import check_output, result_folder
from jobs.runtime.log import stage_line
from udfs.engines import over_lists
from udfs.fused_lists import FusionPlan, fuse_lists
from udfs.problems import Problems


def run(spark: SparkSession, config: Config) -> int:
    """Write `fused.parquet`, partitioned by cell; the number of lists."""
    check_output(config.output)
    lists = load_lists(spark, config.inputs, judged=False)
    grid = config.grid.grid
    views = chosen_views(config.fuse.label_groups, lists.layout.views)
    plan = FusionPlan(
        lists.layout,
        tuple(grid.cells),
        views,
        config.grid.scope,
        config.fuse.top,
        text_type=common_type([lists.rows], "text_id").simpleString(),
        label_type=common_type([lists.rows], "label_ids").simpleString(),
    )
    settings = config.grid.engine, lists.layout, grid, config.grid.scope, views
    engine = over_lists(*settings, fuse_lists(plan), plan.schema, config.spark.partitions)
    # The workers' problems are seen on the way to the file, without a second pass.
    seen = Observation("fused lists")
    fused = lists.rows.transform(engine).observe(
        seen, F.collect_set("problems").alias("problems"), F.count("text_id").alias("lists")
    )
    with stage_line("fuse", config.output.path) as counts:
        with result_folder(config.output, config) as folder:
            fused.drop("problems").write.partitionBy("normalization", "fusion").parquet(f"{folder.uri}/fused.parquet")
            problems = Problems.from_json(seen.get["problems"])
            if problems:
                raise problems.error()
        counts["lists"] = int(seen.get["lists"])
    return int(counts["lists"])


if __name__ == "__main__":
    from jobs.cli import job_main

    job_main("fuse")
