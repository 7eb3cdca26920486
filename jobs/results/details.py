"""The tables beside the metrics: comparisons of cells text by text, and what the retrievers' lists hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from fusion.grid import SINGLE, Cell
from fusion.label_groups import ALL, frequency_bands
from fusion.metrics import Measure
from fusion.statistics.coverage import BANDS, Coverage
from fusion.statistics.paired import Aspect, PairedSums
from fusion.statistics.significance import best_of
from fusion.statistics.tally import IDEALS
from jobs.inputs.tables import Frequencies
from jobs.results.schemas import AGREEMENT_SCHEMA, BANDS_SCHEMA, COMPARISONS_SCHEMA
from udfs.hit_counts import Evaluation
from udfs.label_ids import number_labels
from udfs.list_codes import LabelGroups


def comparisons(sums: PairedSums, metrics: pa.Table, evaluation: Evaluation) -> pa.Table:
    """Every cell and single retriever against the best cell of each column of figures, and against the retrievers."""
    values: dict[tuple[str, Measure, str], dict[Cell, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in metrics.to_pylist():
        if row["value"] is not None:
            cell = Cell(row["normalization"], row["fusion"])
            values[row["label_group"], Measure(row["metric"], row["k"]), row["ideal"]][cell].append(row["value"])

    def rows() -> Iterator[dict[str, Any]]:
        for (group, measure, ideal), cells in values.items():
            fused = {cell: sum(found) / len(found) for cell, found in cells.items() if cell.normalization != SINGLE}
            others = [best_of(fused), *(cell for cell in cells if cell.normalization == SINGLE)]
            # A measure that does not look at the ideal was counted once.
            aspect = Aspect(group, measure, ideal)
            aspect = aspect if aspect in sums.aspects else Aspect(group, measure, IDEALS[0])
            for other in others:
                for cell in cells:
                    if cell == other:
                        continue
                    test, p_randomization = sums.compare(aspect, evaluation.columns[cell], evaluation.columns[other])
                    yield {
                        "label_group": group,
                        "metric": measure.metric,
                        "k": measure.k,
                        "ideal": ideal,
                        "normalization": cell.normalization,
                        "fusion": cell.fusion,
                        "against_normalization": other.normalization,
                        "against_fusion": other.fusion,
                        "queries": test.pairs,
                        "difference": test.difference,
                        "deviation": test.deviation,
                        "statistic": test.statistic,
                        "p": test.p,
                        "low": test.low,
                        "high": test.high,
                        "effect": test.effect,
                        "p_randomization": p_randomization,
                    }

    return _table(rows(), COMPARISONS_SCHEMA)


def agreement(coverage: Coverage, evaluation: Evaluation) -> pa.Table:
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
                for measure in evaluation.measures:
                    value = coverage.ceiling(v, i, measure)
                    of = {"label_group": group, "metric": measure.metric, "ideal": ideal}
                    yield {**of, "quantity": "ceiling", "k": measure.k, "value": value}

    return _table(rows(), AGREEMENT_SCHEMA)


def bands(coverage: Coverage, evaluation: Evaluation, frequencies: Frequencies) -> pa.Table:
    """The share of relevant pairs among the first k of each cell, by how frequent the label is."""
    assert evaluation.details is not None
    band_of = evaluation.details.bands.codes
    groups = evaluation.layout.groups
    group_of = groups.lookup(frequencies.ids) if groups else None

    def rows() -> Iterator[dict[str, Any]]:
        for v, view in enumerate(evaluation.views):
            inside = np.ones(len(band_of), bool)
            if view != ALL and groups is not None and group_of is not None:
                inside = group_of == groups.names.index(view)
            for band in range(BANDS):
                counts, pairs = frequencies.counts[inside & (band_of == band)], int(coverage.band_pairs[v, band])
                if not pairs:
                    continue
                shares = np.cumsum(coverage.band_hits[v, band], axis=1) / pairs
                for k in sorted({measure.k for measure in evaluation.measures}):
                    for cell, column in evaluation.columns.items():
                        yield {
                            "label_group": view,
                            "band": band + 1,
                            "rarest": int(counts.min()),
                            "commonest": int(counts.max()),
                            "labels": len(counts),
                            "pairs": pairs,
                            "normalization": cell.normalization,
                            "fusion": cell.fusion,
                            "k": k,
                            "value": float(shares[column, k - 1]),
                        }

    return _table(rows(), BANDS_SCHEMA)


def label_bands(frequencies: Frequencies) -> LabelGroups:
    """The frequency band of every judged label, as the workers look it up."""
    found = frequency_bands(number_labels(frequencies.ids)[0], frequencies.counts, BANDS)
    return LabelGroups(tuple(str(band + 1) for band in range(BANDS)), frequencies.ids, found)


def _table(rows: Iterable[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema)
