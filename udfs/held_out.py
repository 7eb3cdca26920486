"""How fusions do on texts that had no part in them: text by text, and by how frequent labels are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from fusion.models.bands import band_of
from fusion.statistics.coverage import Coverage
from fusion.types import Array, Ints
from udfs.counter import judged_hits
from udfs.plan import EvaluationPlan
from udfs.problems import Problems
from udfs.query_figures import query_figures
from udfs.texts import Batch
from udfs.tuning import Parting, TrainTexts, read_batches


def held_out_figures(
    rows: pa.Table, evaluation: EvaluationPlan, parting: Parting, train_texts: TrainTexts | None
) -> pa.Table:
    """One row per judged text, cell and view, as `query_figures` says."""
    problems = Problems()
    found = list(query_figures(evaluation)(_parted(rows, evaluation, parting, train_texts), problems))
    if problems:
        raise problems.error()
    return pa.Table.from_batches(found)


def held_out_bands(
    rows: pa.Table, evaluation: EvaluationPlan, parting: Parting, train_texts: TrainTexts, k: int
) -> Coverage:
    """The relevant labels that every column has among its first k, by frequency band."""
    retrievers = len(evaluation.layout.retrievers)
    width = len(evaluation.grid.columns) + retrievers
    coverage, problems = Coverage(evaluation.views, retrievers, width, (k,)), Problems()
    for batch in _parted(rows, evaluation, parting, train_texts):
        for hits in judged_hits(batch, evaluation, evaluation.grid, problems):
            groups = evaluation.layout.group_names
            relevant = batch.texts.relevant_counts(groups, hits.view)
            labels = batch.texts.relevant_labels(groups, hits.view, batch.judged)
            pairs = _bands(batch, np.repeat(np.flatnonzero(batch.judged), relevant[batch.judged]), labels)
            coverage.add_bands(evaluation.views.index(hits.view), pairs, hits, _bands(batch, hits.text, hits.label))
    return coverage


def _parted(
    rows: pa.Table, evaluation: EvaluationPlan, parting: Parting, train_texts: TrainTexts | None
) -> Iterator[Batch]:
    for batch in read_batches(rows, evaluation.layout, train_texts):
        fold = parting.of(batch)
        batch.texts.fold = fold
        yield replace(batch, fold=fold)


def _bands(batch: Batch, text: Ints, label: Array) -> Ints:
    assert batch.texts.train_texts is not None
    counts, row = batch.texts.train_texts
    return band_of(counts[row[text], label])
