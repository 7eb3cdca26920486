"""Job `evaluate`: from candidates and judgements straight to the metrics of every chosen cell."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from fusion import __version__
from fusion.errors import ConfigError, InputError, unknown_name
from fusion.registry import FUSIONS
from fusion.statistics.tally import Tally
from jobs.config import Config
from jobs.inputs.list_rows import Frequencies, label_frequencies, load_lists
from jobs.results.details import detail_tables, label_bands
from jobs.results.schemas import METRICS_SCHEMA, RUN_FILE
from jobs.runtime.folders import ResultFolder, check_output, result_folder
from jobs.runtime.log import stage_line
from jobs.settings import Names
from udfs.engines import over_lists
from udfs.hit_counts import (
    COUNTS_SCHEMA,
    COVERAGE,
    HITS,
    NO_FOLD,
    Details,
    Evaluation,
    add_counts,
    count_hits,
    unpacked,
)
from udfs.input_counts import JUDGED
from udfs.problems import Problems
from udfs.query_figures import query_figures, query_schema
from udfs.text_batches import Work


@dataclass
class Result:
    """The metrics (one row a figure), counts of what is worth knowing about the input, and the tables beside them."""

    metrics: pa.Table
    input_counts: dict[str, int]
    details: dict[str, pa.Table]
    """Those of `jobs.results.schemas.DETAILS`; empty if not asked for."""
    queries: DataFrame | None = None
    """Every text's figures, if asked for."""


def run(spark: SparkSession, config: Config) -> Result:
    """Evaluate, and write the results if the configuration says where."""
    check_output(config.output)
    with stage_line("evaluate", config.output.path) as counts:
        result = compute(spark, config)
        if config.output.path is not None:
            with result_folder(config.output, config) as folder:
                write(result, folder)
        counts.update(texts=result.input_counts[JUDGED], figures=len(result.metrics))
    return result


def compute(spark: SparkSession, config: Config) -> Result:
    """The figures of every chosen cell."""
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
    frequencies = None
    if config.evaluate.details and lists.judgements is not None:
        frequencies = label_frequencies(lists.judgements)
        tests = config.evaluate
        counted = Details(label_bands(frequencies), tests.blocks, tests.randomizations, tests.seed)
        evaluation = replace(evaluation, details=counted)

    def engine(work: Work, schema: str) -> Callable[[DataFrame], DataFrame]:
        settings = config.grid.engine, lists.layout, grid, config.grid.scope, evaluation.views
        return over_lists(*settings, work, schema, config.spark.partitions)

    counts = lists.rows.transform(engine(count_hits(evaluation), COUNTS_SCHEMA))
    packed = counts.groupBy("fold", "part").applyInArrow(add_counts, COUNTS_SCHEMA).toArrow()
    found = Problems.from_json(text for text in packed["problems"].to_pylist() if text)
    if found:
        raise found.error()
    tallies = _tallies(packed, evaluation)
    input_counts = {
        key: int(sum(tally.input_counts[n] for tally in tallies.values()))
        for n, key in enumerate(evaluation.count_keys)
    }
    if not input_counts[JUDGED]:
        raise InputError(
            f"{config.inputs.judgements}: no judged text to evaluate; do its ids match those of the folds?"
        )
    metrics = _metrics(tallies, evaluation)
    queries = None
    if config.evaluate.per_query:
        schema = query_schema(evaluation, lists.rows.schema["text_id"].dataType.simpleString())
        queries = lists.rows.transform(engine(query_figures(evaluation), schema))
    details = _details(packed, metrics, evaluation, frequencies) if frequencies else {}
    return Result(metrics, input_counts, details, queries)


def write(result: Result, folder: ResultFolder) -> None:
    """All tables of a result."""
    for name, table in {"metrics": result.metrics, **result.details}.items():
        folder.write_table(name, table)
    folder.write_text(
        RUN_FILE, json.dumps({"version": __version__, "input_counts": result.input_counts}, indent=2) + "\n"
    )
    if result.queries is not None:
        result.queries.write.parquet(f"{folder.uri}/query_metrics.parquet")


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
    rows = packed.filter(pc.equal(packed["part"], HITS)).sort_by("fold")
    tallies = {}
    for fold, (places, counts) in zip(rows["fold"].to_pylist(), unpacked(rows), strict=True):
        tallies[fold] = evaluation.new_tally()
        tallies[fold].unpack(places, counts)
    return tallies


def _details(
    packed: pa.Table, metrics: pa.Table, evaluation: Evaluation, frequencies: Frequencies
) -> dict[str, pa.Table]:
    """The tables of what was counted over all folds."""
    rows = packed.filter(pc.equal(packed["fold"], NO_FOLD))
    coverage, sums = evaluation.new_coverage(), evaluation.new_sums()
    for part, (places, counts) in zip(rows["part"].to_pylist(), unpacked(rows), strict=True):
        if part == COVERAGE:
            coverage.unpack(places, counts)
        else:
            sums.unpack(part, places, counts)
    return detail_tables(coverage, sums, metrics, evaluation, frequencies)


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
