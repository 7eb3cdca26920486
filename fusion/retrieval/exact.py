"""The rows of a matrix that have the greatest products with each query, found block by block.

Products of whole blocks are fast and rounded in an order that nobody controls; `projection.rank_rows` decides among the
rows found here.
"""

from __future__ import annotations

import numpy as np

from fusion.compiled import compiled
from fusion.retrieval.neighbours import push, sink
from fusion.types import Int32s, Singles

BLOCK = 8_192
"""Rows multiplied at a time."""
QUERIES = 1_024
"""Queries multiplied at a time: with a block, they fill 32 MB."""


def greatest_products(queries: Singles, vectors: Singles, n: int) -> tuple[Singles, Int32s]:
    """The n greatest products of each query, best first, and their rows. There must be n rows."""
    products = np.empty((len(queries), n), np.float32)
    rows = np.empty((len(queries), n), np.int32)
    for begin in range(0, len(queries), QUERIES):
        some = slice(begin, begin + QUERIES)
        for first in range(0, len(vectors), BLOCK):
            _offer(_products(queries[some], vectors[first : first + BLOCK]), first, rows[some], products[some])
    _sorted(rows, products)
    return products, rows


def _products(queries: Singles, vectors: Singles) -> Singles:
    # For a single query, the threads that multiply matrices wait for each other longer than they work.
    return np.einsum("qd,vd->qv", queries, vectors) if len(queries) == 1 else queries @ vectors.T


@compiled
def _offer(block, first, rows, products):  # type: ignore[no-untyped-def]
    """Take the products of a block of rows into heaps of the best."""
    n = rows.shape[1]
    for q in range(block.shape[0]):
        size = min(first, n)
        for c in range(block.shape[1]):
            if size < n:
                push(rows[q], products[q], size, np.int32(first + c), block[q, c])
                size += 1
            # Of equal products the row with the smaller number stays.
            elif block[q, c] > products[q, 0]:
                sink(rows[q], products[q], n, np.int32(first + c), block[q, c])


@compiled
def _sorted(rows, products):  # type: ignore[no-untyped-def]
    """Turn heaps into lists, best first."""
    for q in range(rows.shape[0]):
        for left in range(rows.shape[1] - 1, 0, -1):
            row, product = rows[q, 0], products[q, 0]
            sink(rows[q], products[q], left, rows[q, left], products[q, left])
            rows[q, left], products[q, left] = row, product
