"""Job `explain`: how each fused score of one text came about."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fusion.errors import ConfigError, InputError
from fusion.grid.grid import Grid
from fusion.models.models import ChosenCell
from fusion.models.strategies import DEPLOYED
from jobs.engines.choose import choose_engine
from jobs.engines.credentials import job
from jobs.evaluation.examples import ExplainedText
from jobs.evaluation.fuse import training_of
from jobs.evaluation.model_file import ModelFile, how, read_model
from jobs.evaluation.plan import chosen_views, learned_of
from jobs.inputs.labels import label_names, text_excerpts
from jobs.inputs.lists import ListRows, load_lists
from jobs.inputs.sources import Sources
from jobs.inputs.stages import with_stages
from jobs.inputs.tables import InputTables
from jobs.settings.config import Config
from udfs.columns import Column, Taken
from udfs.fuse import TextPlan, TextScores, explain_text
from udfs.lists import Layout
from udfs.texts import first_ids, read_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


COMPARED_IDS = 20_000
"""Ids that are fetched to look for a near one; there may be many millions."""


@job
def run(spark: SparkSession | None, config: Config, sources: Sources | None = None) -> ExplainedText:
    """Explain one text. Only its rows are read, and the kernel runs on them in this process with every engine."""
    settings = config.explain
    if settings.text is None:
        raise ConfigError("which text? Give --text ID, or set explain.text")
    sources = sources or Sources.of(with_stages(config).inputs)
    sources.require(judged=False)
    judged = sources.judgements is not None
    tables = InputTables(choose_engine(config, sources.addresses(), spark), sources)
    lists = load_lists(tables, judged)
    (view,) = chosen_views([settings.label_group], lists.layout.views)
    layout = lists.layout.of_read
    rows = read_rows(tables.engine.collect(lists.rows_of([settings.text])), lists.layout)
    if not len(rows):
        raise _unknown_text(lists, settings.text)
    if settings.model is None:
        grid = Grid([settings.chosen], lists.layout.retrievers, config.grid.policies)
        learned = learned_of(tables, config, grid, layout, (view,))
        plan = TextPlan(layout, settings.chosen, view, config.grid.scope, grid.policies, learned)
    else:
        plan = _plan_of(read_model(settings.model), tables, config, layout, view)
    explained = explain_text(rows, plan)
    return _with_names(explained, plan, settings.text, tables)


def _plan_of(file: ModelFile, tables: InputTables[Any], config: Config, layout: Layout, view: str) -> TextPlan:
    """How a model file fuses the lists of a label group."""
    file.check(layout.retrievers, [view])
    model = file.of(view)
    if isinstance(model, ChosenCell):
        return TextPlan(layout, model.cell, view, file.scope, file.policies)
    train_texts = training_of(file, tables, config)
    return TextPlan(layout, DEPLOYED, view, file.scope, file.policies, model=model, train_texts=train_texts)


def _with_names(
    explained: Sequence[TextScores], plan: TextPlan, text_id: str, tables: InputTables[Any]
) -> ExplainedText:
    first = explained[0]
    labels = [str(label) for label in first.candidates["label_id"].to_pylist()]
    missed = [str(label) for label in first.missed.to_pylist()]
    names = label_names(tables, [*labels, *missed])
    column = pa.array([names.get(label) for label in labels], pa.string())
    place = first.candidates.column_names.index("label_id") + 1
    return ExplainedText(
        text_id=text_id,
        excerpt=text_excerpts(tables, [text_id]).get(text_id, ""),
        fold=first.fold,
        folds=tuple(text.fold for text in explained),
        cell=plan.cell,
        label_group=plan.view,
        retrievers=first.retrievers,
        judged=first.judged,
        table=first.candidates.add_column(place, "name", column),
        lists=first.lists,
        missed={label: names.get(label, "") for label in missed},
        how="" if plan.model is None else how(plan.model.to_json()),
    )


def _unknown_text(lists: ListRows[Any], text_id: str) -> InputError:
    """The error that names near ids."""
    engine, kind = lists.engine, lists.types.text
    ids = engine.select(lists.rows_of(None), {"text_id": Column(Taken("text_id"), kind)})
    first = engine.collect(engine.group(ids, ["text_id"], first_ids(kind, COMPARED_IDS)))["text_id"].unique().sort()
    known = [str(text) for text in first[:COMPARED_IDS].to_pylist()]
    near = get_close_matches(text_id, known, n=3, cutoff=0.5)
    hint = f"near ids: {', '.join(near)}" if near else f"the first: {', '.join(known[:3])}"
    texts = f"{len(known):,} texts" if len(known) < COMPARED_IDS else "texts"
    return InputError(f"no text {text_id!r} among the {texts} of the inputs (and their folds); {hint}")
