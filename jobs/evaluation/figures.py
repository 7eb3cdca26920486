"""The table of metrics, from what the workers counted; and what they need to know to count it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fusion.cells import SINGLE, Cell
from fusion.errors import ConfigError, unknown_name
from fusion.metrics import Metric, label_metrics, metric_parts, text_metrics
from fusion.names import split
from fusion.registry import METRICS, TextMetric
from fusion.statistics.label_counts import label_values
from fusion.statistics.tally import IDEALS, Figures, Tally, mean_of
from jobs.evaluation.schemas import METRICS_SCHEMA
from jobs.inputs.labels import Frequencies
from jobs.settings.base import Names
from udfs.lists import LabelIndex
from udfs.plan import LABELS, EvaluationPlan, LabelPlan, part_name

MOST_LABEL_CELLS = 8
PREFERRED = Cell("zmuv", "combmnz")
"""The cell that has figures per label if nobody says which: the paper's best."""


def needs_nonrelevant(metric: Metric) -> bool:
    """Whether a metric looks at labels that are judged and not relevant."""
    entry = METRICS[metric.name]
    return isinstance(entry, TextMetric) and entry.nonrelevant


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


def metric_table(tallies: Mapping[int, Tally], packed: pa.Table, evaluation: EvaluationPlan) -> pa.Table:
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
