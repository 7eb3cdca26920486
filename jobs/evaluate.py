"""Job `evaluate`: from candidates and judgements straight to the metrics of every chosen cell."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from fusion import __version__
from fusion.errors import ConfigError, InputError, unknown_name
from fusion.grid import Grid
from fusion.registry import FUSIONS
from fusion.statistics.paired import PairedSums
from fusion.statistics.tally import Tally
from jobs.config import Config
from jobs.inputs.list_rows import load_lists
from jobs.inputs.sources import Sources
from jobs.inputs.tables import Frequencies
from jobs.results.additions import additions
from jobs.results.details import detail_tables, label_bands
from jobs.results.examples import example_table
from jobs.results.result import Result
from jobs.results.schemas import METRICS_SCHEMA, QUERY_METRICS, RUN_FILE
from jobs.runtime.engines import Plan, choose_engine
from jobs.runtime.folders import ResultFolder, check_output, result_folder
from jobs.runtime.log import stage_line
from jobs.runtime.training import learned_of
from jobs.settings import Names
from udfs.evidence import leaving_out
from udfs.example_texts import from_bytes
from udfs.hit_counts import COVERAGE, EXAMPLES, HITS, NO_FOLD, Details, Evaluation, count_hits, unpacked
from udfs.input_counts import JUDGED
from udfs.problems import Problems
from udfs.query_figures import query_figures, query_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_COMPARED = 512
"""Columns of the grid that are compared each with each."""
NO_SUMS = pa.array([HITS, COVERAGE, EXAMPLES])
"""Parts of the counts that do not compare columns."""


def run(spark: SparkSession | None, config: Config, sources: Sources | None = None) -> Result:
    """Evaluate, and write the results if the configuration says where.

    Without a session one is made if the work needs it. `sources` replace those of the configuration.
    """
    check_output(config.output)
    with stage_line("evaluate", config.output.path) as counts:
        result = compute(spark, config, sources)
        if config.output.path is not None:
            with result_folder(config.output, config) as folder:
                write(result, folder)
        counts.update(texts=result.input_counts[JUDGED], figures=len(result.metrics))
    return result


def compute(spark: SparkSession | None, config: Config, sources: Sources | None = None) -> Result:
    """The figures of every chosen cell."""
    sources = sources or Sources.of(config.inputs)
    sources.require(judged=True)
    engine = choose_engine(config, sources, spark)
    lists = load_lists(engine.tables, sources, judged=True)
    grid = config.grid.grid(lists.layout.retrievers)
    for name in lists.layout.retrievers:
        if name in FUSIONS.names():
            raise ConfigError(f"a retriever cannot be called {name!r}: that is a fusion")
    views = chosen_views(config.evaluate.label_groups, lists.layout.views)
    evaluation = Evaluation(
        lists.layout,
        tuple(grid.cells),
        views,
        config.grid.scope,
        tuple(config.evaluate.measures),
        policies=grid.policies,
        learned=learned_of(engine, sources, config, grid, lists.layout, views),
    )
    apart = config.grid.train_share if grid.trained else 0.0
    frequencies = None
    if config.evaluate.details:
        _check_comparable(grid)
        frequencies = engine.tables.frequencies(lists.judgements)
        tests = config.evaluate
        counted = Details(label_bands(frequencies), tests.blocks, tests.randomizations, tests.seed, tests.examples)
        evaluation = replace(evaluation, details=counted)

    plan = Plan(grid, config.grid.scope, evaluation.views)
    packed = engine.counts(lists, plan, leaving_out(count_hits(evaluation), apart))
    problems = Problems.from_json(text for text in packed["problems"].to_pylist() if text)
    if problems:
        raise problems.error()
    tallies = _tallies(packed, evaluation)
    input_counts = _input_counts(tallies, evaluation)
    if not input_counts[JUDGED]:
        raise InputError(f"{lists.judgements_source}: no judged text to evaluate; do its ids match those of the folds?")
    metrics = _metrics(tallies, evaluation)
    queries = None
    if config.evaluate.per_query:
        work = leaving_out(query_figures(evaluation), apart)
        queries = engine.rows(lists, plan, work, query_schema(evaluation, lists.types.text))
    sums = _sums(packed, evaluation) if frequencies else None
    details = _details(packed, sums, metrics, evaluation, frequencies) if frequencies and sums else {}
    if config.grid.subsets or any(cell.subset for cell in grid.cells):
        details["additions"] = additions(metrics, evaluation, sums)
    if packed_examples := _part(packed, EXAMPLES):
        details["examples"] = example_table(
            from_bytes(packed_examples), metrics, evaluation, lists, engine.tables, sources
        )
    return Result(metrics, input_counts, details, queries, engine.name)


def _check_comparable(grid: Grid) -> None:
    """Refuse more columns than can be compared each with each."""
    if len(grid.columns) > MOST_COMPARED:
        raise ConfigError(
            f"the grid has {len(grid.columns):,} distinct results, and comparing each with each takes memory by the "
            f"square of that: choose at most {MOST_COMPARED}, or set evaluate.details to false"
        )


def write(result: Result, folder: ResultFolder) -> None:
    """All tables of a result."""
    for name, table in {"metrics": result.metrics, **result.details}.items():
        folder.write_table(name, table)
    about = {"version": __version__, "input_counts": result.input_counts}
    folder.write_text(RUN_FILE, json.dumps(about, indent=2) + "\n")
    if isinstance(result.queries, pa.Table):
        folder.write_parquet(QUERY_METRICS, result.queries)
    elif result.queries is not None:
        result.queries.write.parquet(f"{folder.uri}/{QUERY_METRICS}")


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


def _input_counts(tallies: Mapping[int, Tally], evaluation: Evaluation) -> dict[str, int]:
    """The counts about the input, over all folds."""
    return {
        key: int(sum(tally.input_counts[n] for tally in tallies.values()))
        for n, key in enumerate(evaluation.count_keys)
    }


def _sums(packed: pa.Table, evaluation: Evaluation) -> PairedSums:
    """What compares any two columns text by text."""
    rows = packed.filter(pc.and_(pc.equal(packed["fold"], NO_FOLD), pc.invert(pc.is_in(packed["part"], NO_SUMS))))
    sums = evaluation.new_sums()
    for part, (places, counts) in zip(rows["part"].to_pylist(), unpacked(rows), strict=True):
        sums.unpack(part, places, counts)
    return sums


def _details(
    packed: pa.Table, sums: PairedSums, metrics: pa.Table, evaluation: Evaluation, frequencies: Frequencies
) -> dict[str, pa.Table]:
    """The tables of what was counted over all folds."""
    coverage = evaluation.new_coverage()
    for places, counts in unpacked(packed.filter(pc.equal(packed["part"], COVERAGE))):
        coverage.unpack(places, counts)
    return detail_tables(coverage, sums, metrics, evaluation, frequencies)


def _part(packed: pa.Table, part: str) -> list[bytes]:
    """What was sent as a part that holds no counts."""
    rows: list[bytes] = packed.filter(pc.equal(packed["part"], part))["counts"].to_pylist()
    return rows


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
