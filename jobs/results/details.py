"""The tables beside the metrics: what the retrievers' lists hold, and how labels fare by how frequent they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from fusion.label_groups import ALL, frequency_bands
from fusion.statistics.coverage import BANDS, Coverage
from fusion.statistics.paired import PairedSums
from fusion.statistics.significance import exact_sign_p, holm, wilson_interval
from fusion.statistics.tally import IDEALS
from jobs.inputs.tables import Frequencies
from jobs.results.block_tables import block_sums, block_texts
from jobs.results.comparisons import comparisons, pairs, text_sizes
from jobs.results.schemas import AGREEMENT_SCHEMA, BAND_TESTS_SCHEMA, BANDS_SCHEMA, table_of
from udfs.hit_counts import Evaluation
from udfs.label_ids import number_labels
from udfs.list_codes import LabelGroups


def detail_tables(
    coverage: Coverage, sums: PairedSums, metrics: pa.Table, evaluation: Evaluation, frequencies: Frequencies
) -> dict[str, pa.Table]:
    """All tables beside the metrics, by name."""
    return {
        "comparisons": comparisons(sums, metrics, evaluation),
        "pairs": pairs(sums, evaluation),
        "text_sizes": text_sizes(sums, evaluation),
        "agreement": agreement(coverage, evaluation),
        "bands": bands(coverage, evaluation, frequencies),
        "band_tests": band_tests(coverage, evaluation),
        "block_sums": block_sums(sums, evaluation),
        "block_texts": block_texts(sums, evaluation),
    }


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

    return table_of(rows(), AGREEMENT_SCHEMA)


def bands(coverage: Coverage, evaluation: Evaluation, frequencies: Frequencies) -> pa.Table:
    """The share of relevant pairs among the first k of each cell, by how frequent the label is."""
    assert evaluation.details is not None
    band_of = evaluation.details.bands.codes
    groups = evaluation.layout.groups
    group_of = groups.lookup(frequencies.ids) if groups else None

    def rows() -> Iterator[dict[str, Any]]:
        for v, band, relevant in _bands_with_pairs(coverage):
            view = evaluation.views[v]
            inside = band_of == band
            if view != ALL and groups is not None and group_of is not None:
                inside = inside & (group_of == groups.names.index(view))
            counts = frequencies.counts[inside]
            hits, _ = coverage.pairs_found(v, band)
            low, high = wilson_interval(hits, np.full_like(hits, relevant))
            for c, k in enumerate(coverage.cutoffs):
                for cell, column in evaluation.columns.items():
                    yield {
                        "label_group": view,
                        "band": band + 1,
                        "rarest": int(counts.min()),
                        "commonest": int(counts.max()),
                        "labels": len(counts),
                        "pairs": relevant,
                        "normalization": cell.normalization,
                        "fusion": cell.fusion,
                        "k": k,
                        "value": float(hits[column, c] / relevant),
                        "low": float(low[column, c]),
                        "high": float(high[column, c]),
                    }

    return table_of(rows(), BANDS_SCHEMA)


def band_tests(coverage: Coverage, evaluation: Evaluation) -> pa.Table:
    """Each cell against each single retriever, band by band: the relevant pairs that only one of the two has among its
    first k, and McNemar's exact test of these, Holm-corrected over the bands."""
    found = {(v, band): coverage.pairs_found(v, band) for v, band, _ in _bands_with_pairs(coverage)}
    retrievers = evaluation.layout.retrievers

    def rows() -> Iterator[dict[str, Any]]:
        for v, view in enumerate(evaluation.views):
            mine = [band for of, band in found if of == v]
            if not mine:
                continue
            hits, both = (np.stack(arrays) for arrays in zip(*(found[v, band] for band in mine), strict=True))
            of_single = hits[:, -len(retrievers) :]
            only_cell, only_retriever = hits[:, :, None] - both, of_single[:, None] - both
            p = exact_sign_p(only_cell, only_retriever)
            for c, k in enumerate(coverage.cutoffs):
                for cell, column in evaluation.grid.column_of.items():
                    for r, retriever in enumerate(retrievers):
                        corrected = holm(dict(enumerate(p[:, column, r, c].tolist())))
                        for b, band in enumerate(mine):
                            yield {
                                "label_group": view,
                                "band": band + 1,
                                "k": k,
                                "normalization": cell.normalization,
                                "fusion": cell.fusion,
                                "retriever": retriever,
                                "pairs": int(coverage.band_pairs[v, band]),
                                "only_cell": int(only_cell[b, column, r, c]),
                                "only_retriever": int(only_retriever[b, column, r, c]),
                                "p": float(p[b, column, r, c]),
                                "p_holm": corrected[b],
                            }

    return table_of(rows(), BAND_TESTS_SCHEMA)


def _bands_with_pairs(coverage: Coverage) -> Iterator[tuple[int, int, int]]:
    """View, band and number of relevant pairs, where there are any."""
    for v, band in np.argwhere(coverage.band_pairs):
        yield int(v), int(band), int(coverage.band_pairs[v, band])


def label_bands(frequencies: Frequencies) -> LabelGroups:
    """The frequency band of every judged label, as the workers look it up."""
    found = frequency_bands(number_labels(frequencies.ids)[0], frequencies.counts, BANDS)
    return LabelGroups(tuple(str(band + 1) for band in range(BANDS)), frequencies.ids, found)
