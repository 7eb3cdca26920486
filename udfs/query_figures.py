"""The figures of every single text, for tests that pair queries."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from fusion.label_groups import ALL
from fusion.metrics import Measure
from fusion.statistics.tally import IDEALS, hit_weights
from fusion.types import Array, Floats
from udfs.hit_counts import Evaluation, judged_hits
from udfs.problems import Problems
from udfs.text_batches import Batch, Work


def figure_names(evaluation: Evaluation) -> dict[str, tuple[Measure, str]]:
    """The columns: `ndcg@10` and, where only the labels of the group make the ideal ranking, `ndcg@10_group`."""
    return {
        str(measure) + ("" if ideal == ALL else f"_{ideal}"): (measure, ideal)
        for ideal in IDEALS
        for measure in evaluation.measures
    }


def query_schema(evaluation: Evaluation, text_type: str) -> str:
    figures = ", ".join(f"`{name}` double" for name in figure_names(evaluation))
    return f"fold int, text_id {text_type}, normalization string, fusion string, label_group string, {figures}"


def query_figures(evaluation: Evaluation) -> Work:
    """The work of an engine: one row per judged text, cell and label group."""
    grid = evaluation.grid
    weights = {measure: hit_weights(measure, evaluation.k) for measure in evaluation.measures}

    def run(batches: Iterator[Batch], problems: Problems) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            relevant_all = batch.texts.relevant_counts(evaluation.layout.group_names, ALL)
            for hits in judged_hits(batch, evaluation, grid, problems):
                relevant = batch.texts.relevant_counts(evaluation.layout.group_names, hits.view)
                counted = np.flatnonzero(batch.judged & ((relevant > 0) | (hits.view == ALL)))
                ranks = np.where(hits.ranks > evaluation.k, 0, hits.ranks)
                figures = {}
                for name, (measure, ideal) in figure_names(evaluation).items():
                    number = np.minimum(relevant_all if ideal == ALL else relevant, evaluation.k)[hits.text]
                    worth = weights[measure][ranks, number[:, None]]
                    figures[name] = _sums(worth, hits.text, len(batch.texts))[counted]
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


def _sums(worth: Floats, text: Array, texts: int) -> Floats:
    """The rows of each text added up."""
    sums = np.zeros((texts, worth.shape[1]))
    np.add.at(sums, text, worth)
    return sums
