"""Job `evaluate`: from candidates and judgements straight to the metrics of every chosen cell."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fusion import __version__
from fusion.cells import SINGLE
from fusion.errors import InputError
from fusion.labels import ALL
from fusion.metrics import label_metrics, text_metrics
from fusion.statistics.coverage import UNSEEN, Coverage
from fusion.statistics.label_counts import label_values
from fusion.statistics.paired import PairedSums
from fusion.statistics.tally import IDEALS, Figures, Tally, mean_of
from fusion.statistics.watchers import LengthSums
from jobs.engines.choose import choose_engine
from jobs.engines.credentials import job
from jobs.evaluation.comparisons import additions
from jobs.evaluation.details import detail_tables, label_changes
from jobs.evaluation.examples import example_table
from jobs.evaluation.plan import count, plan_evaluation
from jobs.evaluation.result import Result, provenance
from jobs.evaluation.schemas import METRICS_SCHEMA, MODEL_FILE, NOT_AS_CSV, QUERY_METRICS, RUN_FILE
from jobs.inputs.labels import Frequencies
from jobs.inputs.lists import ListRows, load_lists
from jobs.inputs.sources import Sources
from jobs.inputs.tables import InputTables
from jobs.runtime.log import log
from jobs.settings.config import Config
from jobs.storage.folders import ResultFolder, check_output, result_folder, stage_line
from udfs.counter import COVERAGE, EXAMPLES, HITS, LENGTHS, NO_FOLD, count_hits, unpacked
from udfs.evidence import leaving_out
from udfs.examples import from_bytes
from udfs.plan import JUDGED, LABELS, UNSEEN_PAIRS, WITHOUT_CANDIDATES, EvaluationPlan, count_keys, part_name
from udfs.query_figures import query_figures, query_schema
from udfs.tuning import NOTHING_TUNED, Tuning, prepared

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@job
def run(spark: SparkSession | None, config: Config, sources: Sources | None = None) -> Result:
    """Evaluate, and write the results if the configuration says where.

    Without a session one is made if the work needs it. `sources` replace those of the configuration.
    """
    return written("evaluate", config, lambda: compute(spark, config, sources))


def written(stage: str, config: Config, make: Callable[[], Result]) -> Result:
    """The result of a stage, in its folder if the configuration says where."""
    check_output(config.output)
    with stage_line(stage, config.output.path) as counts:
        result = make()
        if config.output.path is not None:
            with result_folder(config.output, config) as folder:
                write(result, folder)
        counts.update(texts=result.input_counts[JUDGED], figures=len(result.metrics))
    return result


def compute(spark: SparkSession | None, config: Config, sources: Sources | None = None) -> Result:
    """The figures of every chosen cell."""
    sources = sources or Sources.of(config.inputs)
    sources.require(judged=True)
    return evaluated(InputTables(choose_engine(config, sources.addresses(), spark), sources), config)


def evaluated(tables: InputTables[Any], config: Config, tuning: Tuning = NOTHING_TUNED) -> Result:
    """The figures of every chosen cell, and of what was tuned and learned, with what made them."""
    begin = time.monotonic()
    result = counted(tables, config, tuning)
    result.made = provenance(tables.engine, config, tables.sources.places(), time.monotonic() - begin)
    return result


def counted(tables: InputTables[Any], config: Config, tuning: Tuning = NOTHING_TUNED) -> Result:
    """The figures alone."""
    settings = config.evaluate
    metrics = settings.parsed_metrics
    by_label = settings.details or bool(label_metrics(metrics))
    lists = load_lists(tables, True, settings.relevant_from, metrics, count_labels=by_label)
    plan = plan_evaluation(tables, config, lists, metrics, tuning)
    works = [count_hits(plan), *([query_figures(plan)] if settings.per_query else [])]
    if tuning is not NOTHING_TUNED:
        works = [prepared(work, tuning.parting, tuning.train_texts) for work in works]
    if config.grid.train_share and plan.grid.trained:
        works = [leaving_out(work, config.grid.train_share) for work in works]
    counts = count(lists, plan, works[0])
    result = result_of(counts, plan, tables, config, lists)
    if settings.per_query:
        schema = query_schema(plan, lists.types.text)
        queries = lists.through(plan, works[1], schema, adds_up=False)
        result.queries = tables.engine.held(queries)
    return result


def result_of(
    packed: pa.Table, plan: EvaluationPlan, tables: InputTables[Any], config: Config, lists: ListRows[Any]
) -> Result:
    """The tables that follow from the counts."""
    tallies = tallies_of(packed, plan)
    input_counts = _input_counts(tallies, plan, lists.judgements_source)
    metrics = _metric_table(tallies, packed, plan)
    _warn_of_useless_runs(metrics)
    details = {}
    if plan.details is not None and lists.frequencies is not None:
        counted = _details(packed, plan)
        input_counts |= _unseen_pairs(counted.coverage, plan)
        details = _tables(packed, counted, metrics, plan, lists.frequencies, tables)
    if config.grid.subsets or any(cell.subset for cell in plan.grid.cells):
        details["additions"] = additions(metrics, plan, counted.sums if details else None)
    return Result(config, metrics, input_counts, details, engine=tables.engine.name)


def _input_counts(tallies: Mapping[int, Tally], evaluation: EvaluationPlan, judgements: str) -> dict[str, int]:
    """The counts about the input, over all folds; there must be a text that could be evaluated."""
    keys = count_keys(evaluation.layout.retrievers)
    input_counts = {key: int(sum(tally.input_counts[n] for tally in tallies.values())) for n, key in enumerate(keys)}
    judged = input_counts[JUDGED]
    if not judged:
        raise InputError(f"{judgements}: no judged text to evaluate; do its ids match those of the folds?")
    if input_counts[WITHOUT_CANDIDATES] == judged:
        raise InputError(
            f"{judgements}: none of its {judged:,} texts has candidates in any run; do the text ids of judgements and "
            "runs match?"
        )
    return input_counts


def _metric_table(tallies: Mapping[int, Tally], packed: pa.Table, evaluation: EvaluationPlan) -> pa.Table:
    """One row per figure: by fold, then by cell."""
    table: dict[str, list[Any]] = {name: [] for name in METRICS_SCHEMA.names}
    about: list[Figures] = []
    labels = packed.filter(pc.starts_with(packed["part"], LABELS))
    label_cells = set() if evaluation.labels is None else set(evaluation.labels.cells)
    for fold, tally in tallies.items():
        of_texts = list(tally.figures(text_metrics(evaluation.metrics)))
        of_both = of_texts
        if evaluation.labels is not None:
            of_both = of_texts + list(_label_figures(labels.filter(pc.equal(labels["fold"], fold)), tally, evaluation))
        for cell, column in evaluation.columns.items():
            figures = of_both if cell in label_cells else of_texts
            table["normalization"] += [cell.normalization] * len(figures)
            table["fusion"] += [cell.fusion] * len(figures)
            table["value"] += [of_aspect.values[column] for of_aspect in figures]
            about += figures
        table["fold"] += [fold] * (len(about) - len(table["fold"]))
    for n, name in enumerate(Figures._fields[:-1]):
        table[name] = [of_aspect[n] for of_aspect in about]
    return pa.table(table, METRICS_SCHEMA)


def _label_figures(packed: pa.Table, tally: Tally, evaluation: EvaluationPlan) -> Iterator[Figures]:
    """The figures per label of one fold; it does not matter which labels make an ideal ranking."""
    assert evaluation.labels is not None
    values = {
        part: label_values(np.frombuffer(sums, np.float64).tolist(), evaluation.labels.cutoffs)
        for part, sums in zip(packed["part"].to_pylist(), packed["counts"].to_pylist(), strict=True)
    }
    cutoffs = len(evaluation.labels.cutoffs)
    for v, view in enumerate(evaluation.views):
        queries = int(tally.queries[v, 0].sum())
        width = 1 + max(evaluation.columns.values())
        of_columns = [values.get(part_name(view, column, cutoffs), {}) for column in range(width)]
        for metric in label_metrics(evaluation.metrics):
            of_metric = [mean_of(map(values_of.get, metric.parts)) for values_of in of_columns]
            yield Figures(view, metric.name, metric.k, IDEALS[0], queries, of_metric)


def write(result: Result, folder: ResultFolder) -> None:
    """All tables of a result, and the model file where fusions were tuned."""
    for name, table in {"metrics": result.metrics, **result.details}.items():
        folder.write_table(name, table, as_csv=name not in NOT_AS_CSV)
    about: dict[str, Any] = {"version": __version__, "input_counts": result.input_counts}
    if result.notes:
        about["notes"] = list(result.notes)
    if result.made:
        about["made"] = result.made
    folder.write_text(RUN_FILE, json.dumps(about, indent=2) + "\n")
    if result.model is not None:
        folder.write_text(MODEL_FILE, result.model)
    if result.queries is not None:
        folder.write_rows(QUERY_METRICS, result.queries)


def _warn_of_useless_runs(metrics: pa.Table) -> None:
    """A run without one relevant label is more often a mistake, such as other label ids, than a bad retriever."""
    alone = metrics.filter(pc.equal(metrics["normalization"], SINGLE))
    best = alone.group_by("fusion").aggregate([("value", "max")])
    for retriever, value in zip(best["fusion"].to_pylist(), best["value_max"].to_pylist(), strict=True):
        if not value:
            log(
                f"warning: every figure of {retriever} is 0, so it lists no relevant label where the metrics look; "
                "do its label ids match those of the judgements?"
            )


def tallies_of(packed: pa.Table, evaluation: EvaluationPlan) -> dict[int, Tally]:
    """The counts of each fold, in the order of the folds."""
    rows = packed.filter(pc.equal(packed["part"], HITS)).sort_by("fold")
    tallies = {}
    for fold, (places, counts) in zip(rows["fold"].to_pylist(), unpacked(rows), strict=True):
        tallies[fold] = evaluation.new_tally()
        tallies[fold].unpack(places, counts)
    return tallies


def _unseen_pairs(coverage: Coverage, evaluation: EvaluationPlan) -> dict[str, int]:
    """The pairs whose label has no training text, where training texts are known."""
    if evaluation.details is None or evaluation.details.labels.unseen is None:
        return {}
    # Without the view of all labels, its groups have each label once.
    views = [v for v, view in enumerate(evaluation.views) if view == ALL] or list(range(len(evaluation.views)))
    return {UNSEEN_PAIRS: int(coverage.band_pairs[views, UNSEEN].sum())}


class _Counted(NamedTuple):
    """What was counted over all folds in addition to the hits."""

    coverage: Coverage
    sums: PairedSums
    lengths: dict[str, LengthSums]


def _details(packed: pa.Table, evaluation: EvaluationPlan) -> _Counted:
    here = pc.and_(pc.equal(packed["fold"], NO_FOLD), pc.not_equal(packed["part"], EXAMPLES))
    rows = packed.filter(here)
    counted = _Counted(evaluation.new_coverage(), evaluation.new_sums(), evaluation.new_lengths())
    for part, (places, counts) in zip(rows["part"].to_pylist(), unpacked(rows), strict=True):
        if part == COVERAGE:
            counted.coverage.unpack(places, counts)
        elif part.startswith(LENGTHS):
            counted.lengths[part.removeprefix(LENGTHS)].unpack(places, counts)
        else:
            counted.sums.unpack(part, places, counts)
    return counted


def _tables(
    packed: pa.Table,
    counted: _Counted,
    metrics: pa.Table,
    evaluation: EvaluationPlan,
    frequencies: Frequencies,
    tables: InputTables[Any],
) -> dict[str, pa.Table]:
    """The tables next to the metrics."""
    with ThreadPoolExecutor(1) as pool:
        # Names and excerpts are looked up among the inputs while another thread makes the tables that need none.
        without_names = pool.submit(detail_tables, *counted, metrics, evaluation, frequencies)
        labels = label_changes(counted.coverage, metrics, evaluation, frequencies, tables)
        looked_up = {"labels": labels}
        for texts in map(from_bytes, _part(packed, EXAMPLES)):
            looked_up["examples"] = example_table(texts, metrics, evaluation, tables)
        return {**without_names.result(), **looked_up}


def _part(packed: pa.Table, part: str) -> list[bytes]:
    """What was sent as a part that holds no counts."""
    rows: list[bytes] = packed.filter(pc.equal(packed["part"], part))["counts"].to_pylist()
    return rows
