"""The table of examples: the texts that the best cell helps and hurts most, with all their lists."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from fusion.grid import SINGLE, Cell
from fusion.label_groups import ALL
from fusion.metrics import decisive
from fusion.statistics.extremes import OUTCOMES
from fusion.statistics.paired import UNIT
from fusion.statistics.significance import best_of
from jobs.inputs.list_rows import ListRows
from jobs.inputs.names import label_names, text_excerpts
from jobs.inputs.sources import Sources
from jobs.inputs.tables import Tables
from jobs.results.schemas import EXAMPLES_SCHEMA, table_of
from udfs.explain_text import TextPlan, TextScores, column_names, explain_text
from udfs.hit_counts import Evaluation
from udfs.text_batches import LIST_ROW

SHOWN = 10
"""Labels of each list."""
FUSED, RELEVANT = "fused", "relevant"


class Winners(NamedTuple):
    """The best fused cell and the better single retriever of a label group, by the decisive measure."""

    cell: Cell
    single: Cell


class Listed(NamedTuple):
    """A label in a list. A relevant one that no list holds has no score."""

    label_id: str
    score: float | None
    relevant: bool


def example_table(
    extremes: pa.Table,
    metrics: pa.Table,
    evaluation: Evaluation,
    lists: ListRows[Any],
    tables: Tables[Any],
    sources: Sources,
) -> pa.Table:
    """One row per list of each example. `extremes`: the texts that the workers kept for any two columns; of these the
    two columns that matter are known only now."""
    winners = best_cells(metrics, evaluation)
    chosen = list(_chosen(extremes, winners, evaluation))
    text_ids = list(dict.fromkeys(example["text_id"] for example in chosen))
    rows = tables.arrow(lists.of_texts(text_ids), LIST_ROW) if chosen else None
    found = [row for example in chosen for row in _lists(example, rows, evaluation, winners[example["label_group"]])]
    names = label_names(tables, sources, sorted({label for row in found for label in row["label_ids"]}))
    excerpts = text_excerpts(tables, sources, text_ids)
    for row in found:
        row["label_names"] = [names.get(label, "") for label in row["label_ids"]] if names else []
        row["excerpt"] = excerpts.get(row["text_id"], "")
    return table_of(found, EXAMPLES_SCHEMA)


def best_cells(metrics: pa.Table, evaluation: Evaluation) -> dict[str, Winners]:
    """By label group, the means over the folds decide; of equal ones the first in the order of the cells wins."""
    measure = decisive(evaluation.measures)
    values: dict[str, dict[Cell, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in metrics.to_pylist():
        if (row["metric"], row["k"], row["ideal"]) == (*measure, ALL) and row["value"] is not None:
            values[row["label_group"]][Cell(row["normalization"], row["fusion"])].append(row["value"])
    winners = {}
    for group, cells in values.items():
        means = {cell: sum(folds) / len(folds) for cell, folds in cells.items()}
        fused = {cell: mean for cell, mean in means.items() if cell.normalization != SINGLE}
        singles = {cell: mean for cell, mean in means.items() if cell.normalization == SINGLE}
        winners[group] = Winners(best_of(fused), best_of(singles))
    return winners


def _chosen(extremes: pa.Table, winners: Mapping[str, Winners], evaluation: Evaluation) -> Iterator[dict[str, Any]]:
    """The examples of each label group, most helped first, then most hurt."""
    measure = decisive(evaluation.measures)
    for v, view in enumerate(evaluation.views):
        if view not in winners:
            continue
        cell, single = winners[view]
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
                    "metric": measure.metric,
                    "k": measure.k,
                    "normalization": cell.normalization,
                    "fusion": cell.fusion,
                    "retriever": single.fusion,
                    "value": UNIT * row["figure"],
                    "retriever_value": UNIT * (row["figure"] - change),
                }


def _lists(
    example: Mapping[str, Any], rows: pa.Table, evaluation: Evaluation, winners: Winners
) -> Iterator[dict[str, Any]]:
    """The lists of an example: the fused one, those of all retrievers, and the relevant labels."""
    plan = TextPlan(
        evaluation.layout,
        winners.cell,
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
