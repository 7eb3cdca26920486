"""The figures of single texts: one row per judged text, cell and label group."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from fusion.grid.hits import Hits
from fusion.labels import ALL
from fusion.metrics import Metric, text_metrics
from fusion.registry import METRICS
from fusion.statistics.tally import IDEALS, hit_weights
from fusion.statistics.text_figures import TextFigures
from fusion.types import Array, Floats, Ints
from udfs.counter import judged_hits
from udfs.judged import BatchGains, view_texts
from udfs.plan import EvaluationPlan
from udfs.problems import Problems
from udfs.texts import Batch, Work


def figure_names(evaluation: EvaluationPlan) -> dict[str, tuple[Metric, str]]:
    """The columns: `ndcg@10` and, where only the labels of the group make the ideal ranking, `ndcg@10_group`. Metrics
    of labels have no figure for a text."""
    return {
        str(metric) + ("" if ideal == ALL else f"_{ideal}"): (metric, ideal)
        for ideal in IDEALS
        for metric in text_metrics(evaluation.metrics)
        if ideal == ALL or METRICS[metric.name].ideal
    }


def query_schema(evaluation: EvaluationPlan, text_type: pa.DataType) -> pa.Schema:
    names = [(name, pa.string()) for name in ("normalization", "fusion", "label_group")]
    figures = [(name, pa.float64()) for name in figure_names(evaluation)]
    return pa.schema([("fold", pa.int32()), ("text_id", text_type), *names, *figures])


def query_figures(evaluation: EvaluationPlan) -> Work:
    """The work of an engine: one row per judged text, cell and label group."""
    grid = evaluation.grid

    def run(batches: Iterator[Batch], problems: Problems) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            relevant_all = batch.texts.relevant_counts(evaluation.layout.group_names, ALL)
            gains = BatchGains(batch, evaluation)
            for hits in judged_hits(batch, evaluation, grid, problems):
                relevant = batch.texts.relevant_counts(evaluation.layout.group_names, hits.view)
                counted = np.flatnonzero(batch.judged & ((relevant > 0) | (hits.view == ALL)))
                figures = _figures(batch, evaluation, hits, [relevant_all, relevant], counted, gains)
                for cell, column in evaluation.columns.items():
                    yield pa.RecordBatch.from_pydict(
                        {
                            "fold": pa.array(batch.fold[counted], pa.int32()),
                            "text_id": batch.text_id.take(pa.array(counted)),
                            "normalization": pa.array([cell.normalization] * len(counted), pa.string()),
                            "fusion": pa.array([cell.fusion] * len(counted), pa.string()),
                            "label_group": pa.array([hits.view] * len(counted), pa.string()),
                            **{name: pa.array(values[:, column]) for name, values in figures.items()},
                        }
                    )

    return run


def _figures(
    batch: Batch, evaluation: EvaluationPlan, hits: Hits, relevant: list[Ints], counted: Ints, gains: BatchGains
) -> dict[str, Floats]:
    """The figures [text, column] of the counted texts in one view, by name."""
    known: dict[tuple[Metric, str], Floats] = {}
    if evaluation.further_metrics:
        texts = view_texts(batch, evaluation, hits, relevant, gains)
        further = TextFigures(hits.view, evaluation.further_metrics, texts)
        nowhere = np.zeros((1, len(further.parts), hits.ranks.shape[1]), np.int64)
        values = further.of(counted, np.zeros(len(batch.texts), np.int64), nowhere)
        known = {(metric, IDEALS[i]): values[a] for a, (metric, i) in enumerate(further.aspects)}
    relevant_hits = hits.relevant(evaluation.rules.threshold)
    ranks = np.where(relevant_hits.ranks > evaluation.k, 0, relevant_hits.ranks)
    figures = {}
    for name, (metric, ideal) in figure_names(evaluation).items():
        if metric in evaluation.further_metrics:
            # In the view of all labels the two ideals are one.
            figures[name] = known.get((metric, ideal), known[metric, ALL])
            continue
        number = np.minimum(relevant[IDEALS.index(ideal)], evaluation.k)[relevant_hits.text]
        worth = hit_weights(metric, evaluation.k)[ranks, number[:, None]]
        figures[name] = _sums(worth, relevant_hits.text, len(batch.texts))[counted]
    return figures


def _sums(worth: Floats, text: Array, texts: int) -> Floats:
    """The rows of each text added up."""
    sums = np.zeros((texts, worth.shape[1]))
    np.add.at(sums, text, worth)
    return sums
