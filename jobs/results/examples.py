"""The table of examples: the texts that the recommended cell helps and hurts most, with all their lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from fusion.metrics import decisive
from fusion.statistics.extremes import OUTCOMES
from fusion.statistics.paired import UNIT
from jobs.inputs.names import label_names, text_excerpts
from jobs.inputs.sources import Sources
from jobs.inputs.tables import Tables
from jobs.results.recommended import Chosen, chosen_cells
from jobs.results.schemas import EXAMPLES_SCHEMA, table_of
from udfs.evaluation_plan import EvaluationPlan
from udfs.example_texts import Kept
from udfs.explain_text import TextPlan, TextScores, column_names, explain_text

SHOWN = 10
"""Labels of each list."""
FUSED, RELEVANT = "fused", "relevant"


class Listed(NamedTuple):
    """A label in a list. A relevant one that no list holds has no score."""

    label_id: str
    score: float | None
    relevant: bool


def example_table(
    kept: Kept, metrics: pa.Table, evaluation: EvaluationPlan, tables: Tables[Any], sources: Sources
) -> pa.Table:
    """One row per list of each example. The workers kept texts for any two columns: which two matter is known only when
    all figures are."""
    cells = chosen_cells(metrics, evaluation)
    examples = list(_examples(kept.texts, cells, evaluation))
    rows = [
        row for example in examples for row in _lists(example, kept.lists, evaluation, cells[example["label_group"]])
    ]
    names = label_names(tables, sources, sorted({label for row in rows for label in row["label_ids"]}))
    excerpts = text_excerpts(tables, sources, list(dict.fromkeys(example["text_id"] for example in examples)))
    for row in rows:
        row["label_names"] = [names.get(label, "") for label in row["label_ids"]] if names else []
        row["excerpt"] = excerpts.get(row["text_id"], "")
    return table_of(rows, EXAMPLES_SCHEMA)


def _examples(extremes: pa.Table, cells: Mapping[str, Chosen], evaluation: EvaluationPlan) -> Iterator[dict[str, Any]]:
    """The examples of each label group, most helped first, then most hurt."""
    measure = decisive(evaluation.measures)
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
                    "metric": measure.metric,
                    "k": measure.k,
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
