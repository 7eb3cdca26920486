"""The table of the labels that the recommended cell helps and hurts most against each single retriever."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fusion.statistics.coverage import Coverage
from fusion.statistics.extremes import OUTCOMES
from jobs.inputs.names import label_names
from jobs.inputs.sources import Sources
from jobs.inputs.tables import Frequencies, Tables
from jobs.results.recommended import chosen_cells
from jobs.results.schemas import LABELS_SCHEMA, table_of
from udfs.evaluation_plan import EvaluationPlan

SHOWN = 10
"""Labels of each kind, label group and retriever."""


def label_changes(
    coverage: Coverage,
    metrics: pa.Table,
    evaluation: EvaluationPlan,
    frequencies: Frequencies,
    tables: Tables[Any],
    sources: Sources,
) -> pa.Table:
    """By the number of relevant pairs that one of the two has more; of equal ones, the more frequent label first."""
    rows = list(_rows(coverage, metrics, evaluation, frequencies))
    names = label_names(tables, sources, sorted({row["label_id"] for row in rows}))
    return table_of(({**row, "name": names.get(row["label_id"], "")} for row in rows), LABELS_SCHEMA)


def _rows(
    coverage: Coverage, metrics: pa.Table, evaluation: EvaluationPlan, frequencies: Frequencies
) -> Iterator[dict[str, Any]]:
    assert evaluation.details is not None
    labels, cells = evaluation.details.labels, chosen_cells(metrics, evaluation)
    fused = len(evaluation.grid.columns)
    for v, view in enumerate(evaluation.views):
        if view not in cells:
            continue
        ids = labels.watched[view].ids.to_pylist()
        column = evaluation.columns[cells[view].cell]
        pairs, hits = coverage.label_pairs[v, : len(ids)], coverage.label_hits[v, : len(ids)]
        common = {
            "label_group": view,
            "normalization": cells[view].cell.normalization,
            "fusion": cells[view].cell.fusion,
            "k": coverage.label_cutoff,
            "watched": len(ids),
            "most_unwatched": _most_unwatched(labels.bands[view].ids, ids, frequencies),
        }
        for r, retriever in enumerate(evaluation.layout.retrievers):
            change = hits[:, column] - hits[:, fused + r]
            for outcome, size in zip(OUTCOMES, (change, -change), strict=True):
                order = [n for n in np.argsort(-size, kind="stable")[:SHOWN] if size[n] > 0]
                for place, n in enumerate(order, start=1):
                    yield {
                        **common,
                        "retriever": retriever,
                        "outcome": outcome,
                        "place": place,
                        "label_id": str(ids[n]),
                        "pairs": int(pairs[n]),
                        "found": int(hits[n, column]),
                        "retriever_found": int(hits[n, fused + r]),
                    }


def _most_unwatched(every: pa.Array, watched: list[Any], frequencies: Frequencies) -> int:
    """The pairs of the most frequent label that is not watched; 0 where all are."""
    if len(every) == len(watched):
        return 0
    others = every.filter(pc.invert(pc.is_in(every, value_set=pa.array(watched, every.type))))
    return int(frequencies.counts[pc.index_in(others, value_set=frequencies.ids).to_numpy()].max())
