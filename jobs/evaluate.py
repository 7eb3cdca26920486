"""Job `evaluate`: from candidates and judgements straight to the metrics of every chosen cell."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from fusion.errors import ConfigError, InputError, unknown_name
from fusion.registry import FUSIONS
from fusion.tally import Tally
from jobs.config import Config
from jobs.lists import load_lists
from jobs.outputs import check_output, result_folder
from jobs.settings import Names
from udfs.arrays import Work
from udfs.engines import over_lists
from udfs.evaluate import COUNTS_SCHEMA, Evaluation, add_counts, count_hits, unpack
from udfs.layout import Problems
from udfs.queries import query_figures, query_schema

METRICS_SCHEMA = pa.schema(
    [
        ("fold", pa.int32()),
        ("normalization", pa.string()),
        ("fusion", pa.string()),
        ("label_group", pa.string()),
        ("metric", pa.string()),
        ("k", pa.int32()),
        ("ideal", pa.string()),
        ("value", pa.float64()),
        ("queries", pa.int64()),
    ]
)


@dataclass
class Result:
    """The metrics (one row a figure) and counts of what is worth knowing about the input."""

    metrics: pa.Table
    notes: dict[str, int]


def run(spark: SparkSession, config: Config) -> Result:
    """Evaluate, and write the results if the configuration says where."""
    check_output(config.output)
    lists = load_lists(spark, config.inputs, judged=True)
    grid = config.grid.grid
    for name in lists.layout.retrievers:
        if name in FUSIONS.names():
            raise ConfigError(f"a retriever cannot be called {name!r}: that is a fusion")
    evaluation = Evaluation(
        lists.layout,
        tuple(grid.cells),
        chosen_views(config.evaluate.label_groups, lists.layout.views),
        config.grid.scope,
        tuple(config.evaluate.measures),
    )

    def engine(work: Work, schema: str) -> Callable[[DataFrame], DataFrame]:
        settings = config.grid.engine, lists.layout, grid, config.grid.scope, evaluation.views
        return over_lists(*settings, work, schema, config.spark.partitions)

    counts = lists.rows.transform(engine(count_hits(evaluation), COUNTS_SCHEMA))
    packed = counts.groupBy("fold").applyInArrow(add_counts(evaluation), COUNTS_SCHEMA).toArrow()
    tallies = _tallies(packed, evaluation)
    notes = {name: int(sum(tally.notes[n] for tally in tallies.values())) for n, name in enumerate(evaluation.notes)}
    if not notes["judged texts"]:
        raise InputError(
            f"{config.inputs.judgements}: no judged text to evaluate; do its ids match those of the folds?"
        )
    result = Result(_metrics(tallies, evaluation), notes)

    if config.output.path is not None:
        with result_folder(config.output, config) as folder:
            folder.write_table("metrics", result.metrics)
            folder.write_text("notes.json", json.dumps(notes, indent=2) + "\n")
            if config.evaluate.per_query:
                text_type = lists.rows.schema["text_id"].dataType.simpleString()
                schema = query_schema(evaluation, text_type)
                figures = lists.rows.transform(engine(query_figures(evaluation), schema))
                figures.write.parquet(f"{folder.uri}/query_metrics.parquet")
    return result


def chosen_views(names: Names, available: tuple[str, ...]) -> tuple[str, ...]:
    """The label groups to look at; `auto` stands for all of them."""
    if names == "auto":
        return available
    wanted = names.split(",") if isinstance(names, str) else names
    for name in wanted:
        if name not in available:
            raise unknown_name("label group", name, available)
    return tuple(name for name in available if name in wanted)


def _tallies(packed: pa.Table, evaluation: Evaluation) -> dict[int, Tally]:
    """The counts of each fold, in the order of the folds."""
    found = Problems.from_json(text for text in packed["problems"].to_pylist() if text)
    if found:
        raise found.error()
    rows = packed.sort_by("fold")
    return {rows["fold"][i].as_py(): unpack(rows.slice(i, 1), evaluation)[0] for i in range(len(rows))}


def _metrics(tallies: dict[int, Tally], evaluation: Evaluation) -> pa.Table:
    rows: list[tuple[object, ...]] = []
    for fold, tally in tallies.items():
        by_column = defaultdict(list)
        for figure in tally.figures(evaluation.measures):
            by_column[figure.column].append(figure[1:])
        rows += [(fold, *cell, *figure) for cell, column in evaluation.columns.items() for figure in by_column[column]]
    names = METRICS_SCHEMA.names
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], METRICS_SCHEMA)


if __name__ == "__main__":
    from jobs.cli import job_main

    job_main("evaluate")
