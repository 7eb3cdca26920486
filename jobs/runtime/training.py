"""What trained fusions learn before anything is fused: on validation texts of each fold, or on a share set apart."""

from __future__ import annotations

from fusion.errors import ConfigError, InputError
from fusion.grid import Grid
from fusion.label_groups import ALL
from fusion.learning import ANY_FOLD, Learned
from jobs.config import Config
from jobs.datasets.roles import TEST, VALIDATION
from jobs.inputs.bad_rows import bad_rows
from jobs.inputs.list_rows import load_lists
from jobs.inputs.roles import folds_with, runs_with_validation
from jobs.inputs.sources import Sources, source_name
from jobs.runtime.engines import Engine, Plan
from udfs.evidence import Training, count_evidence, learned_from
from udfs.list_codes import Layout
from udfs.problems import Problems


def learned_of(
    engine: Engine, sources: Sources, config: Config, grid: Grid, layout: Layout, views: tuple[str, ...]
) -> dict[str, Learned]:
    """By view; nothing where no cell has to learn."""
    if not grid.trained:
        return {}
    share = config.grid.train_share
    if sources.judgements is None:
        raise ConfigError(f"{grid.trained[0]} learns from judged texts: give --qrels PATH, or set inputs.judgements")
    if not share and sources.folds is None and not runs_with_validation(engine.tables, sources):
        raise ConfigError(
            f"{grid.trained[0]} learns from texts that are set apart for it: set grid.train_share to a share of the "
            "texts, or inputs.folds to a table with texts of the role validation, or give runs with a column 'role' "
            "in which some rows have the role validation"
        )
    role, relevant_from = TEST if share else VALIDATION, config.evaluate.relevant_from
    lists = load_lists(engine.tables, sources, judged=True, relevant_from=relevant_from, role=role)
    training = Training(layout, (ALL,) if config.grid.scope == "joint" else views, share)
    counted = engine.counts(lists, Plan(Grid([]), config.grid.scope, training.views), count_evidence(training))
    problems = Problems.from_json(text for text in counted["problems"].to_pylist() if text)
    if problems:
        raise bad_rows(problems)
    learned = learned_from(counted, training)
    _check_folds(engine, sources, learned)
    return learned


def _check_folds(engine: Engine, sources: Sources, learned: dict[str, Learned]) -> None:
    """Refuse folds in which nothing could be learned."""
    known = {fold for of_view in learned.values() for fold in of_view.by_fold}
    if ANY_FOLD in known:
        return
    missing = sorted(folds_with(engine.tables, sources, TEST) - known)
    if missing or not known:
        where = f" in fold {', '.join(map(str, missing))}" if missing else ""
        raise InputError(
            f"{source_name(sources.folds, 'folds')}: no judged text with lists is set apart{where}, so that nothing "
            "can be learned; retrieve with validation_candidates on, or set grid.train_share to a (greater) share of "
            "the texts"
        )
