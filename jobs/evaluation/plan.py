"""What the workers count: the plan of an evaluation, what its cells learn before, and the counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from fusion.cells import ANY_FOLD, SINGLE, Cell
from fusion.errors import ConfigError, InputError, unknown_name
from fusion.grid.grid import Grid
from fusion.grid.trained import Learned
from fusion.labels import ALL
from fusion.metrics import Metric, label_metrics, metric_parts, text_metrics
from fusion.names import split
from fusion.registry import FUSIONS
from jobs.inputs.labels import Frequencies, training_propensities, unseen_labels
from jobs.inputs.lists import ListRows, load_lists
from jobs.inputs.roles import runs_with_validation, tested_folds
from jobs.inputs.sources import source_name
from jobs.inputs.tables import InputTables, refuse_bad_rows
from jobs.settings.base import EvaluateSettings, Names
from jobs.settings.config import Config
from jobs.storage.workspace import TEST, VALIDATION
from udfs.counter import COUNTS, COUNTS_SCHEMA, added_counts
from udfs.evidence import Training, count_evidence, learned_from
from udfs.lists import LabelIndex, Layout
from udfs.plan import Details, EvaluationPlan, LabelPlan, Ranking, counted_labels
from udfs.texts import Work
from udfs.tuning import NOTHING_TUNED, Tuning

MOST_LABEL_CELLS = 8
PREFERRED = Cell("zmuv", "combmnz")
"""The cell that has figures per label if nobody says which: the paper's best."""
MOST_COMPARED = 512
"""Columns of the grid that are compared each with each."""


def plan_evaluation(
    tables: InputTables[Any],
    config: Config,
    lists: ListRows[Any],
    metrics: Sequence[Metric],
    tuning: Tuning = NOTHING_TUNED,
) -> EvaluationPlan:
    """Everything that the workers must know to count."""
    settings, layout = config.evaluate, lists.layout.of_read
    for name in layout.retrievers:
        if name in FUSIONS.names():
            raise ConfigError(f"a retriever cannot be called {name!r}: that is a fusion")
    grid = config.grid.grid(layout.retrievers, tuning.strategies)
    views = chosen_views(settings.label_groups, layout.views)
    learned = learned_of(tables, config, grid, layout, views)
    propensities = training_propensities(tables, settings, metrics)
    if settings.details:
        _check_comparable(grid)
    labels, details = None, None
    if lists.frequencies is not None:
        labels = label_plan(metrics, grid.cells, layout.retrievers, lists.frequencies, settings.label_cells)
        details = _details(tables, settings, lists.frequencies, layout, views) if settings.details else None
    # Where all metrics are means over labels, nothing is known of other cells.
    cells = labels.fused if labels is not None and not text_metrics(metrics) else tuple(grid.cells)
    return EvaluationPlan(
        layout,
        cells,
        views,
        config.grid.scope,
        tuple(metrics),
        details=details,
        rules=settings.rules._replace(graded=layout.relevant_from is not None),
        propensities=propensities,
        labels=labels,
        policies=grid.policies,
        learned=learned,
        strategies=tuning.strategies,
    )


def _details(
    tables: InputTables[Any],
    settings: EvaluateSettings,
    frequencies: Frequencies,
    layout: Layout,
    views: tuple[str, ...],
) -> Details:
    """What is counted for the tables next to the metrics."""
    unseen = unseen_labels(tables, settings.relevant_from)
    labels = counted_labels(*frequencies, views, layout.groups, unseen)
    return Details(labels, settings.blocks, settings.randomizations, settings.seed, examples=settings.examples)


def chosen_views(names: Names, available: tuple[str, ...]) -> tuple[str, ...]:
    """The label groups to look at; `auto` means all of them."""
    if names == "auto":
        return available
    asked_for = names.split(",") if isinstance(names, str) else names
    for name in asked_for:
        if name not in available:
            raise unknown_name("label group", name, available)
    return tuple(name for name in available if name in asked_for)


def label_plan(
    metrics: Sequence[Metric],
    cells: Sequence[Cell],
    retrievers: Sequence[str],
    frequencies: Frequencies,
    names: Names,
) -> LabelPlan | None:
    """What is counted per label, of every single retriever and of chosen cells; None where no metric asks for it."""
    of_labels = label_metrics(metrics)
    if not of_labels:
        return None
    by_name = {str(cell): cell for cell in cells}
    if names == "auto":
        chosen = [PREFERRED if PREFERRED in cells else cells[0]]
    else:
        wanted = split(names, ",") if isinstance(names, str) else list(names)
        for name in wanted:
            if name not in by_name:
                raise unknown_name("cell in evaluate.label_cells", name, by_name)
        chosen = [by_name[name] for name in wanted]
    if len(chosen) > MOST_LABEL_CELLS:
        raise ConfigError(f"evaluate.label_cells: {len(chosen)} cells; at most {MOST_LABEL_CELLS} are allowed")
    singles = [Cell(SINGLE, name) for name in retrievers]
    cutoffs = tuple(sorted({part.k for part in metric_parts(of_labels)}))
    return LabelPlan(LabelIndex(frequencies.ids), tuple(chosen), (*chosen, *singles), cutoffs)


def _check_comparable(grid: Grid) -> None:
    """Refuse more columns than can be compared each with each."""
    if len(grid.columns) > MOST_COMPARED:
        raise ConfigError(
            f"the grid has {len(grid.columns):,} distinct results, and the memory for comparing all pairs grows with "
            f"the square of that: choose at most {MOST_COMPARED}, or set evaluate.details to false"
        )


def learned_of(
    tables: InputTables[Any], config: Config, grid: Grid, layout: Layout, views: tuple[str, ...]
) -> dict[str, Learned]:
    """By view; nothing where no cell has to learn."""
    if not grid.trained:
        return {}
    share, sources = config.grid.train_share, tables.sources
    if sources.judgements is None:
        raise ConfigError(f"{grid.trained[0]} learns from judged texts: give --qrels PATH, or set inputs.judgements")
    if not share and sources.folds is None and not runs_with_validation(tables):
        raise ConfigError(
            f"{grid.trained[0]} learns from texts that are set apart for it: set grid.train_share to a share of the "
            "texts, or inputs.folds to a table with texts of the role validation, or give runs with a column 'role' "
            "in which some rows have the role validation"
        )
    role, relevant_from = TEST if share else VALIDATION, config.evaluate.relevant_from
    lists = load_lists(tables, judged=True, relevant_from=relevant_from, role=role)
    training = Training(layout, (ALL,) if config.grid.scope == "joint" else views, config.grid.scope, share)
    learned = learned_from(count(lists, training, count_evidence(training)), training)
    _check_folds(tables, learned)
    return learned


def _check_folds(tables: InputTables[Any], learned: dict[str, Learned]) -> None:
    """Refuse folds in which nothing could be learned."""
    folds = {fold for of_view in learned.values() for fold in of_view.by_fold}
    if ANY_FOLD in folds:
        return
    missing = sorted(tested_folds(tables) - folds)
    if missing or not folds:
        where = f" in fold {', '.join(map(str, missing))}" if missing else ""
        source = source_name(tables.sources.folds, "folds")
        raise InputError(
            f"{source}: no judged text with lists is set apart{where}, so that nothing "
            "can be learned; retrieve with validation_candidates on, or set grid.train_share to a (greater) share of "
            "the texts"
        )


def count(lists: ListRows[Any], ranking: Ranking, work: Work) -> pa.Table:
    """The counts of all texts, added up by fold and part."""
    engine = lists.engine
    counted = lists.through(ranking, work, COUNTS_SCHEMA)
    packed = engine.collect(engine.group(counted, COUNTS, added_counts()))
    refuse_bad_rows(packed["problems"].to_pylist())
    return packed
