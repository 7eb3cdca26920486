"""The compiled part of sums over texts: figures [column, text] in whole numbers, and what these add up to.

Every sum is one of whole numbers, hence exact in any order. The texts of a column lie side by side, so that a processor
works on many at once.
"""

from __future__ import annotations

import numpy as np

from fusion.kernel.compiled import compiled
from fusion.types import Array, Floats, Int32s, Ints

TEXTS_TOGETHER = 16
"""Figures of so many texts are found before they are written, those of a column side by side."""


@compiled
def find_figures(figures: Int32s, texts: Ints, first: Ints, ranks: Int32s, weights: Floats, number: Ints) -> None:
    """figures[column, n]: the worth of the hits of texts[n], rounded to whole units. `weights[number, rank]` says what
    a hit is worth, by the number of relevant labels of its text."""
    columns = ranks.shape[1]
    cutoff = weights.shape[1] - 1
    totals = np.empty((TEXTS_TOGETHER, columns))
    for begin in range(0, texts.size, TEXTS_TOGETHER):
        some = texts[begin : begin + TEXTS_TOGETHER]
        for n in range(some.size):
            t = some[n]
            worth, total = weights[number[t]], totals[n]
            total[:] = 0
            for j in range(first[t], first[t + 1]):
                of_hit = ranks[j]
                for column in range(columns):
                    rank = of_hit[column]
                    total[column] += worth[np.uint32(rank if rank <= cutoff else 0)]
        for column in range(columns):
            of_column = figures[column, begin : begin + some.size]
            for n in range(some.size):
                of_column[n] = np.int32(np.rint(totals[n, column]))


@compiled
def add_sums(sums: Ints, blocks: Ints, figures: Int32s, ends: Ints, block: Array) -> None:
    """The figures of the texts ends[s] to ends[s + 1] of every size s, added to the sums of the size, and to those of
    the block of each text. `block` has numbers without a sign, which need not be checked for one."""
    sizes, columns = sums.shape
    for column in range(columns):
        of_text, of_block = figures[column], blocks[column]
        for s in range(sizes):
            of_size = of_text[ends[s] : ends[s + 1]]
            total = np.int64(0)
            for n in range(of_size.size):
                total += np.int64(of_size[n])
            sums[s, column] += total
        if of_block.size:
            for n in range(block.size):
                of_block[block[n]] += of_text[n]


@compiled
def add_products(products: Ints, figures: Int32s, ends: Ints) -> None:
    """The products of columns i <= j, added up over the texts ends[s] to ends[s + 1] of every size s: two columns with
    four at a time, so that what is fetched once serves several products. BLAS would do the same, but with threads of
    its own, which slow down processes that keep every core busy already."""
    sizes, columns, _ = products.shape
    last = columns - 1
    # Missing columns are taken to be the last one; their rows and columns are left out in the end.
    total = np.empty((columns + 1, columns + 3), np.int64)
    for s in range(sizes):
        begin, end = ends[s], ends[s + 1]
        if begin == end:
            continue
        for i in range(0, columns, 2):
            u, v = figures[i, begin:end], figures[min(i + 1, last), begin:end]
            for j in range(i, columns, 4):
                w, x = figures[j, begin:end], figures[min(j + 1, last), begin:end]
                y, z = figures[min(j + 2, last), begin:end], figures[min(j + 3, last), begin:end]
                uw = ux = uy = uz = vw = vx = vy = vz = np.int64(0)
                for n in range(end - begin):
                    un, vn = np.int64(u[n]), np.int64(v[n])
                    wn, xn, yn, zn = np.int64(w[n]), np.int64(x[n]), np.int64(y[n]), np.int64(z[n])
                    uw += un * wn
                    ux += un * xn
                    uy += un * yn
                    uz += un * zn
                    vw += vn * wn
                    vx += vn * xn
                    vy += vn * yn
                    vz += vn * zn
                row, next_row = total[i], total[i + 1]
                row[j], row[j + 1], row[j + 2], row[j + 3] = uw, ux, uy, uz
                next_row[j], next_row[j + 1], next_row[j + 2], next_row[j + 3] = vw, vx, vy, vz
        for i in range(columns):
            for j in range(i, columns):
                products[s, i, j] += total[i, j]
