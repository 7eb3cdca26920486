"""The texts that the recommended cell helps and hurts most, and how the scores of one text came about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from fusion.cells import SINGLE, Cell
from fusion.errors import InputError
from fusion.labels import ALL
from fusion.metrics import Aspect, decisive
from fusion.statistics.paired import UNIT
from fusion.statistics.recommendation import recommend
from fusion.statistics.significance import best_of, mean_std
from fusion.statistics.watchers import OUTCOMES
from jobs.evaluation.result import figures_of
from jobs.evaluation.schemas import EXAMPLES_SCHEMA, table_of
from jobs.inputs.labels import label_names, text_excerpts
from jobs.inputs.tables import InputTables
from udfs.examples import Kept
from udfs.fuse import TextPlan, TextScores, column_names, explain_text
from udfs.plan import EvaluationPlan


class Chosen(NamedTuple):
    """The recommended cell and the best single retriever of a label group, by the decisive metric."""

    cell: Cell
    single: Cell


def chosen_cells(metrics: pa.Table, evaluation: EvaluationPlan) -> dict[str, Chosen]:
    """By label group. Where no cell has a figure in every aspect, each group's best cell takes its place."""
    means = _means(metrics)
    recommended = _recommended(means)
    metric = decisive(evaluation.metrics)
    chosen = {}
    for group in evaluation.views:
        cells = means.get(Aspect(group, *metric), {})
        fused = {cell: mean for cell, mean in cells.items() if cell.normalization != SINGLE}
        singles = {cell: mean for cell, mean in cells.items() if cell.normalization == SINGLE}
        if fused and singles:
            chosen[group] = Chosen(recommended or best_of(fused), best_of(singles))
    return chosen


def _recommended(means: Mapping[Aspect, Mapping[Cell, float]]) -> Cell | None:
    try:
        return recommend(means).cell
    except InputError:
        return None


def _means(metrics: pa.Table) -> dict[Aspect, dict[Cell, float]]:
    """Over the folds, by the paper's protocol."""
    # What strategies do differs by fold; one cell is to be shown.
    return {
        aspect: {cell: mean_std([*folds.values()]).mean for cell, folds in cells.items() if not cell.is_strategy}
        for aspect, cells in figures_of(metrics).items()
        if aspect.ideal == ALL
    }


SHOWN = 10
"""Labels of each list."""
FUSED, RELEVANT = "fused", "relevant"


class Listed(NamedTuple):
    """A label in a list. A relevant one that no list holds has no score."""

    label_id: str
    score: float | None
    relevant: bool


def example_table(kept: Kept, metrics: pa.Table, evaluation: EvaluationPlan, tables: InputTables[Any]) -> pa.Table:
    """One row per list of each example. The workers kept texts for any two columns: which two matter is known only when
    all figures are."""
    cells = chosen_cells(metrics, evaluation)
    examples = list(_examples(kept.texts, cells, evaluation))
    rows = [
        row for example in examples for row in _lists(example, kept.lists, evaluation, cells[example["label_group"]])
    ]
    names = label_names(tables, sorted({label for row in rows for label in row["label_ids"]}))
    excerpts = text_excerpts(tables, list(dict.fromkeys(example["text_id"] for example in examples)))
    for row in rows:
        row["label_names"] = [names.get(label, "") for label in row["label_ids"]] if names else []
        row["excerpt"] = excerpts.get(row["text_id"], "")
    return table_of(rows, EXAMPLES_SCHEMA)


def _examples(extremes: pa.Table, cells: Mapping[str, Chosen], evaluation: EvaluationPlan) -> Iterator[dict[str, Any]]:
    """The examples of each label group, most helped first, then most hurt."""
    metric = decisive(evaluation.metrics)
    for v, view in enumerate(evaluation.views):
        if view not in cells:
            continue
        cell, single = cells[view]
        wanted = {
            "view": v,
            "column": evaluation.columns[cell],
            "retriever": evaluation.layout.retrievers.index(single.fusion),
        }
        for o, outcome in enumerate(OUTCOMES):
            rows = extremes
            for name, value in {**wanted, "outcome": o}.items():
                rows = rows.filter(pc.equal(rows[name], value))
            # The workers keep them in this order already.
            for place, row in enumerate(rows.to_pylist(), start=1):
                change = -row["difference"] if o else row["difference"]
                yield {
                    "label_group": view,
                    "outcome": outcome,
                    "place": place,
                    "text_id": str(row["text_id"]),
                    "fold": row["fold"],
                    "metric": metric.name,
                    "k": metric.k,
                    "normalization": cell.normalization,
                    "fusion": cell.fusion,
                    "retriever": single.fusion,
                    "value": UNIT * row["figure"],
                    "retriever_value": UNIT * (row["figure"] - change),
                }


def _lists(
    example: Mapping[str, Any], rows: pa.Table, evaluation: EvaluationPlan, chosen: Chosen
) -> Iterator[dict[str, Any]]:
    """The lists of an example: the fused one, those of all retrievers, and the relevant labels."""
    plan = TextPlan(
        evaluation.layout,
        chosen.cell,
        example["label_group"],
        evaluation.scope,
        evaluation.policies,
        evaluation.learned,
    )
    of_text = rows.filter(pc.equal(rows["text_id"].cast(pa.string()), example["text_id"]))
    (text,) = (text for text in explain_text(of_text, plan) if text.fold == example["fold"])
    for name, labels in _ranked(text, text.retrievers):
        shown = labels[:SHOWN]
        yield {
            **example,
            "list": name,
            "label_ids": [label.label_id for label in shown],
            "scores": [label.score for label in shown],
            "relevant": [label.relevant for label in shown],
        }


def _ranked(text: TextScores, retrievers: tuple[str, ...]) -> Iterator[tuple[str, list[Listed]]]:
    """The lists by name, best first: the fused one, those of the retrievers, and the relevant labels."""
    candidates = text.candidates.to_pylist()
    fused = [Listed(str(row["label_id"]), row["fused"], row["relevant"]) for row in candidates]
    yield FUSED, fused
    for retriever in retrievers:
        rank, score, _ = column_names(retriever)
        listed = sorted((row for row in candidates if row[rank] is not None), key=lambda row: row[rank])
        yield retriever, [Listed(str(row["label_id"]), row[score], row["relevant"]) for row in listed]
    missed = [Listed(str(label), None, True) for label in text.missed.to_pylist()]
    yield RELEVANT, [label for label in fused if label.relevant] + missed


@dataclass(frozen=True)
class ExplainedText:
    """One text, one cell, one label group."""

    text_id: str
    excerpt: str
    """The beginning of the text; empty where the inputs do not hold it."""
    fold: int
    folds: tuple[int, ...]
    """All folds that test the text; `fold` is the first one."""
    cell: Cell
    label_group: str
    retrievers: tuple[str, ...]
    judged: bool
    table: pa.Table
    """One row per candidate, in the fused order: rank, label_id, name, relevant, fused, and per retriever NAME_rank,
    NAME_score and NAME_normalized."""
    lists: pa.Table
    """One row per retriever: size, min, max, mean and std of its list, as the normalisation reads them."""
    missed: dict[str, str]
    """The relevant labels that no list holds, with their names, which may be empty."""
    how: str = ""
    """How a model makes the scores; NAME_normalized then holds the part that a retriever adds to a score, and the
    column `other` what no retriever adds. Empty for a cell."""
