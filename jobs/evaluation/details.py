"""The tables next to the metrics: what the retrievers' lists hold, and how labels fare by their frequency."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fusion.labels import ALL
from fusion.metrics import is_tabled
from fusion.statistics.coverage import UNSEEN, Coverage
from fusion.statistics.paired import PairedSums
from fusion.statistics.significance import holm, sign_change_p, wilson_interval
from fusion.statistics.tally import IDEALS
from fusion.statistics.watchers import OUTCOMES, LengthSums
from jobs.evaluation.comparisons import block_sums, block_texts, comparisons, pairs, text_lengths, text_sizes
from jobs.evaluation.examples import chosen_cells
from jobs.evaluation.schemas import (
    AGREEMENT_SCHEMA,
    BAND_TESTS_SCHEMA,
    BANDS_SCHEMA,
    LABELS_SCHEMA,
    table_of,
)
from jobs.inputs.labels import Frequencies, label_names
from jobs.inputs.tables import InputTables
from udfs.plan import EvaluationPlan


def detail_tables(
    coverage: Coverage,
    sums: PairedSums,
    lengths: Mapping[str, LengthSums],
    metrics: pa.Table,
    evaluation: EvaluationPlan,
    frequencies: Frequencies,
) -> dict[str, pa.Table]:
    """All tables next to the metrics, by name."""
    with ThreadPoolExecutor(1) as pool:
        # Compiled code, which runs on other cores while this thread makes the tables that do not wait for it.
        signs = pool.submit(sums.draw_signs)
        by_length = text_lengths(lengths, evaluation)
        others = {
            "text_sizes": text_sizes(sums, evaluation),
            **({"text_lengths": by_length} if len(by_length) else {}),
            "agreement": agreement(coverage, evaluation),
            "bands": bands(coverage, evaluation, frequencies),
            "band_tests": band_tests(coverage, evaluation),
            "block_sums": block_sums(sums, evaluation),
            "block_texts": block_texts(sums, evaluation),
        }
        signs.result()
    return {"comparisons": comparisons(sums, metrics, evaluation), "pairs": pairs(sums, evaluation), **others}


def agreement(coverage: Coverage, evaluation: EvaluationPlan) -> pa.Table:
    """Shares of candidates and of relevant labels, by label group."""
    names = evaluation.layout.retrievers

    def rows() -> Iterator[dict[str, Any]]:
        for v, group in enumerate(evaluation.views):
            texts, relevant = max(int(coverage.texts[v]), 1), max(int(coverage.relevant[v]), 1)
            common, listed = coverage.common[v], coverage.listed[v]
            for r, name in enumerate(names):
                of = {"label_group": group, "retriever": name}
                yield {**of, "quantity": "candidates", "value": listed[r] / texts}
                yield {**of, "quantity": "found", "value": coverage.found[v, r] / relevant}
                yield {**of, "quantity": "alone", "value": coverage.alone[v, r] / relevant}
                for s in range(r + 1, len(names)):
                    together = listed[r] + listed[s] - common[r, s]
                    value = common[r, s] / max(together, 1)
                    yield {**of, "quantity": "overlap", "other": names[s], "value": value}
            yield {"label_group": group, "quantity": "union", "value": coverage.union[v] / relevant}
            for i, ideal in enumerate(IDEALS[:1] if group == ALL else IDEALS):
                for metric in (metric for metric in evaluation.metrics if is_tabled(metric, evaluation.rules)):
                    value = coverage.ceiling(v, i, metric)
                    of = {"label_group": group, "metric": metric.name, "ideal": ideal}
                    yield {**of, "quantity": "ceiling", "k": metric.k, "value": value}

    return table_of(rows(), AGREEMENT_SCHEMA)


def bands(coverage: Coverage, evaluation: EvaluationPlan, frequencies: Frequencies) -> pa.Table:
    """The share of relevant pairs among the first k of each cell, by how frequent the label is."""

    def rows() -> Iterator[dict[str, Any]]:
        for v, band, relevant in _bands_with_pairs(coverage):
            hits = coverage.found_in_band(v, band)
            low, high = wilson_interval(hits, np.full_like(hits, relevant))
            described = {
                "label_group": evaluation.views[v],
                "pairs": relevant,
                **_labels_of_band(evaluation, evaluation.views[v], band, frequencies),
            }
            for c, k in enumerate(coverage.cutoffs):
                for cell, column in evaluation.columns.items():
                    yield {
                        **described,
                        "normalization": cell.normalization,
                        "fusion": cell.fusion,
                        "k": k,
                        "value": float(hits[column, c] / relevant),
                        "low": float(low[column, c]),
                        "high": float(high[column, c]),
                    }

    return table_of(rows(), BANDS_SCHEMA)


def _labels_of_band(evaluation: EvaluationPlan, view: str, band: int, frequencies: Frequencies) -> dict[str, Any]:
    """The number of a band, how many labels it has, and how many texts carry these. Band 0 holds the pairs of labels
    without a training text."""
    assert evaluation.details is not None
    labels = evaluation.details.labels
    if band == UNSEEN:
        return {"band": 0, "rarest": 0, "commonest": 0, "labels": len(_unseen_in(evaluation, view))}
    of_view = labels.bands[view]
    inside = of_view.ids.filter(pa.array(of_view.codes == band))
    counts = frequencies.counts[pc.index_in(inside, value_set=frequencies.ids).to_numpy()]
    return {"band": band + 1, "rarest": int(counts.min()), "commonest": int(counts.max()), "labels": len(counts)}


def _unseen_in(evaluation: EvaluationPlan, view: str) -> set[Any]:
    """The labels of a view that some fold tests without a training text."""
    assert evaluation.details is not None
    labels = evaluation.details.labels
    everywhere = {label for unseen in (labels.unseen or {}).values() for label in unseen.to_pylist()}
    return everywhere & set(labels.bands[view].ids.to_pylist())


def band_tests(coverage: Coverage, evaluation: EvaluationPlan) -> pa.Table:
    """Each cell against each single retriever, band by band: the texts of which it has more, and fewer, relevant
    labels of the band among its first k, and a sign test of these, Holm-corrected over the bands by frequency."""
    retrievers = evaluation.layout.retrievers
    moves = np.moveaxis(coverage.band_moves, -1, 2)
    p = sign_change_p(moves)
    more, fewer = (half.sum(axis=-1) for half in np.split(moves, 2, axis=-1))

    def rows() -> Iterator[dict[str, Any]]:
        for v, view in enumerate(evaluation.views):
            mine = [band for of, band, _ in _bands_with_pairs(coverage) if of == v]
            tenths = [band for band in mine if band != UNSEEN]
            for (c, k), (cell, column), (r, retriever) in product(
                enumerate(coverage.cutoffs), evaluation.grid.column_of.items(), enumerate(retrievers)
            ):
                corrected = holm({band: float(p[v, band, column, r, c]) for band in tenths})
                for band in mine:
                    yield {
                        "label_group": view,
                        "band": 0 if band == UNSEEN else band + 1,
                        "k": k,
                        "normalization": cell.normalization,
                        "fusion": cell.fusion,
                        "retriever": retriever,
                        "pairs": int(coverage.band_pairs[v, band]),
                        "more": int(more[v, band, column, r, c]),
                        "fewer": int(fewer[v, band, column, r, c]),
                        "p": float(p[v, band, column, r, c]),
                        "p_holm": corrected.get(band, float(p[v, band, column, r, c])),
                    }

    return table_of(rows(), BAND_TESTS_SCHEMA)


def _bands_with_pairs(coverage: Coverage) -> Iterator[tuple[int, int, int]]:
    """View, band and number of relevant pairs, where there are any."""
    for v, band in np.argwhere(coverage.band_pairs):
        yield int(v), int(band), int(coverage.band_pairs[v, band])


SHOWN = 10
"""Labels of each kind, label group and retriever."""


def label_changes(
    coverage: Coverage,
    metrics: pa.Table,
    evaluation: EvaluationPlan,
    frequencies: Frequencies,
    tables: InputTables[Any],
) -> pa.Table:
    """By the number of relevant pairs that one of the two has more; of equal ones, the more frequent label first."""
    rows = list(_rows(coverage, metrics, evaluation, frequencies))
    names = label_names(tables, sorted({row["label_id"] for row in rows}))
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
