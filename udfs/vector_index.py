"""Vectors of labels on storage, by label group, and their search: exact, or by HNSW."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fusion.retrieval.contrastive import dense_package
from fusion.retrieval.projection import rank_rows
from fusion.types import Array, Ints, Singles

EXACT, HNSW = "exact", "hnsw"
"""How the labels of a group are searched."""
MARGIN = 16
"""Labels searched beyond the wanted ones, so that rounding inside faiss cannot decide who is among them."""


@dataclass(frozen=True)
class Index:
    """How the labels of a fold are indexed: HNSW from so many labels of a group on, None for never."""

    hnsw_from: int | None
    links: int
    build: int


def write_groups(place: Path, groups: Array, known: Array, vectors: Singles, index: Index) -> dict[str, Any]:
    """Write the vectors of the known labels to a folder, by label group; how large and how searched each group is."""
    report: dict[str, Any] = {}
    for group in np.unique(groups):
        chosen = np.flatnonzero(known & (groups == group))
        np.save(place / f"{group}.labels.npy", chosen.astype(np.int32))
        np.save(place / f"{group}.vectors.npy", vectors[chosen])
        approximate = index.hnsw_from is not None and len(chosen) >= index.hnsw_from
        report[str(group)] = {"labels": len(chosen), "search": HNSW if approximate else EXACT}
        if approximate:
            _write_hnsw(vectors[chosen], index, place / f"{group}.hnsw")
    return report


def _write_hnsw(vectors: Singles, index: Index, path: Path) -> None:
    faiss = dense_package("faiss")
    # With several threads the graph would depend on who comes first.
    faiss.omp_set_num_threads(1)
    graph = faiss.IndexHNSWFlat(vectors.shape[1], index.links, faiss.METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction = index.build
    graph.add(vectors)
    faiss.write_index(graph, str(path))


class GroupIndex:
    """The labels of one group. Vectors are mapped, so the workers of a machine share them."""

    def __init__(self, place: Path, group: str, effort: int, exact: bool) -> None:
        self.faiss = dense_package("faiss")
        self.faiss.omp_set_num_threads(1)
        self.labels = np.load(place / f"{group}.labels.npy")
        self.vectors = np.asarray(np.load(place / f"{group}.vectors.npy", mmap_mode="r"))
        graph = place / f"{group}.hnsw"
        self.graph = None if exact or not graph.exists() else self.faiss.read_index(str(graph))
        self.effort = effort

    def search(self, queries: Singles, top: int) -> tuple[Array, Array, Ints]:
        """The nearest labels of all queries and their cosines, best first, and the number of each query's."""
        size = min(top, len(self.labels))
        if not size or not len(queries):
            return np.empty(0, np.int32), np.empty(0, np.float32), np.zeros(len(queries), np.int64)
        best, scores = self._nearest(queries, size, min(size + MARGIN, len(self.labels)))
        there = best >= 0
        return self.labels[best[there]], scores[there], there.sum(axis=1)

    def _nearest(self, queries: Singles, size: int, wanted: int) -> tuple[Ints, Singles]:
        if self.graph is not None:
            self.graph.hnsw.efSearch = max(self.effort, 2 * wanted)
            _, rows = self.graph.search(queries, wanted)
            return rank_rows(queries, self.vectors, rows, size)
        inner = self.faiss.METRIC_INNER_PRODUCT
        near, rows = self.faiss.knn(queries, self.vectors, wanted, metric=inner)
        best, scores = rank_rows(queries, self.vectors, rows, size)
        # faiss sums in an order of its own, and picks among equals as it likes. Where the last one found is as good
        # as the last one wanted, up to rounding, there may be more like it.
        doubt = np.flatnonzero(near[:, -1] > near[:, size - 1] - queries.shape[1] * np.finfo(np.float32).eps)
        if len(doubt) and wanted < len(self.labels):
            more = min(4 * wanted, len(self.labels))
            best[doubt], scores[doubt] = self._nearest(np.ascontiguousarray(queries[doubt]), size, more)
        return best, scores
