"""Trees laid out for scoring many candidates at once, without following any of them from node to node.

A candidate leaves a tree at its first leaf, from left to right, that no node takes away: a node whose test fails (the
feature is above the threshold) takes away the leaves of its left subtree. Leaves are bits, so that a node is one
comparison and one "and", for a vector of candidates at a time. The thresholds of a feature are numbered in ascending
order, and instead of a candidate's value the number of thresholds below it is compared: the outcome is the same, and
the numbers are small. (C. Lucchese et al. QuickScorer: a fast algorithm to rank documents with additive ensembles of
regression trees. SIGIR 2015.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fusion.kernel.compiled import compiled
from fusion.tuning.feature_filling import fill_features
from fusion.types import Array, Floats, Int32s, Ints

MOST_LEAVES = 64
"""The bits of the widest mask."""
MULTIPLIERS = {8: 0x1D, 16: 0x09AF, 64: 0x03F79D71B4CB0A89}
"""By the bits of a mask, De Bruijn sequences: times a single bit, their upper bits are another number for every bit."""


class TreeTables(NamedTuple):
    """The trees of a model as compiled code reads them."""

    used: Ints
    """The features that some node tests."""
    cut: Floats
    """Their thresholds, feature after feature, each ascending."""
    first_cut: Ints
    first_node: Int32s
    """Where the nodes of each tree begin."""
    feature: Ints
    """Of each node, as a place in `used`."""
    level: Array
    """The place of each node's threshold among those of its feature."""
    mask: Array
    """The leaves of its tree that each node leaves if its test fails."""
    value: Floats
    """The values of the leaves (trees x slots), in the slots that the multiplier gives their bits."""
    multiplier: np.unsignedinteger[Any]
    ones: np.unsignedinteger[Any]


def tree_tables(
    first_node: Int32s,
    first_leaf: Int32s,
    feature: Int32s,
    threshold: Floats,
    left: Int32s,
    right: Int32s,
    value: Floats,
) -> TreeTables:
    """From trees whose nodes have two children each; a child below 0 is a leaf (see TreeModel)."""
    leaves = int(np.diff(first_leaf).max(initial=1))
    bits = next(bits for bits in MULTIPLIERS if leaves <= bits)
    kind = np.dtype(f"uint{bits}").type
    used = np.unique(feature).astype(np.int64)
    cuts = [np.unique(threshold[feature == f]) for f in used]
    most = max(map(len, cuts), default=0)
    level = np.zeros(len(feature), np.uint8 if most <= 255 else np.uint32)
    for f, of_feature in zip(used, cuts, strict=True):
        level[feature == f] = np.searchsorted(of_feature, threshold[feature == f])
    mask, place = np.zeros(len(feature), kind), np.zeros(len(value), np.int64)
    _lay_out(first_node, first_leaf, left, right, mask, place)
    slot = np.array([(MULTIPLIERS[bits] << n) % 2**bits * bits >> bits for n in range(bits)])
    values = np.zeros((len(first_node) - 1, bits))
    values[np.repeat(np.arange(len(values)), np.diff(first_leaf)), slot[place]] = value
    return TreeTables(
        used,
        np.concatenate([np.empty(0), *cuts]),
        np.cumsum([0, *map(len, cuts)]),
        first_node,
        np.searchsorted(used, feature),
        level,
        mask,
        values,
        kind(MULTIPLIERS[bits]),
        kind(2**bits - 1),
    )


@compiled
def _lay_out(first_node, first_leaf, left, right, mask, place):  # type: ignore[no-untyped-def]
    """Number the leaves of every tree from left to right, and mark in every mask those outside the left subtree."""
    for t in range(first_node.size - 1):
        nodes, leaves = first_node[t], first_leaf[t]
        begin = np.full(first_node[t + 1] - nodes, -1)
        path = np.empty(begin.size + 1, np.int64)
        path[0] = 0 if begin.size else -1
        depth, found = 1, 0
        while depth:
            node = path[depth - 1]
            if node < 0:
                place[leaves - 1 - node] = found
                found += 1
                depth -= 1
            elif begin[node] < 0:
                begin[node] = found
                path[depth] = left[nodes + node]
                depth += 1
            else:
                for leaf in range(begin[node], found):
                    mask[nodes + node] |= np.uint64(1) << np.uint64(leaf)
                mask[nodes + node] = ~mask[nodes + node]
                path[depth - 1] = right[nodes + node]


@compiled
def score_by_tables(source, pools, wanted, tables, rows, width, scores) -> Any:  # type: ignore[no-untyped-def]
    """The scores of the candidates of some pools. `rows`: where the features that the trees use stand among all."""
    x = np.empty((wanted.size, width))
    code = np.empty((tables.used.size, width), tables.level.dtype)
    bits = np.empty(width, tables.mask.dtype)
    slot = np.empty((tables.first_node.size - 1, width), np.uint8)
    total = np.empty(width)
    first = 0
    while first < pools.size:
        behind, candidates = fill_features(source, pools, first, wanted, x)
        for f in range(rows.size):
            _count_cuts(x[rows[f], :candidates], tables.cut[tables.first_cut[f] : tables.first_cut[f + 1]], code[f])
        # Leaves are added for eight candidates at a time, also where there are fewer.
        slot[:, candidates : (candidates + 7) // 8 * 8] = 0
        for t in range(slot.shape[0]):
            _pass_nodes(code, tables, tables.first_node[t], tables.first_node[t + 1], bits[:candidates])
            _find_slots(bits[:candidates], tables.multiplier, slot[t])
        _add_leaves(slot, tables.value, candidates, total)
        first = put_scores(total, source.offset, pools, first, behind, scores)


@compiled
def put_scores(total, offset, pools, first, behind, scores) -> Any:  # type: ignore[no-untyped-def]
    """Put the scores of the candidates of some pools in their places; the first pool behind these."""
    at = 0
    for n in range(first, behind):
        p = pools[n]
        size = offset[p + 1] - offset[p]
        scores[offset[p] : offset[p + 1]] = total[at : at + size]
        at += size
    return behind


@compiled
def _count_cuts(x, cut, code):  # type: ignore[no-untyped-def]
    """How many thresholds each value is not at most."""
    count = np.zeros(x.size, np.int32)
    whole = cut.size // 8 * 8
    for k in range(0, whole, 8):
        eight = cut[k : k + 8]
        a, b, c, d, e, f, g, h = eight[0], eight[1], eight[2], eight[3], eight[4], eight[5], eight[6], eight[7]
        for n in range(x.size):
            v = x[n]
            lower = np.int32(not (v <= a)) + np.int32(not (v <= b)) + np.int32(not (v <= c)) + np.int32(not (v <= d))
            upper = np.int32(not (v <= e)) + np.int32(not (v <= f)) + np.int32(not (v <= g)) + np.int32(not (v <= h))
            count[n] += lower + upper
    for k in range(whole, cut.size):
        a = cut[k]
        for n in range(x.size):
            count[n] += np.int32(not (x[n] <= a))
    for n in range(x.size):
        code[n] = count[n]


@compiled
def _pass_nodes(code, tables, first, last, bits):  # type: ignore[no-untyped-def]
    """The leaves of a tree that its nodes leave to each candidate; two nodes at a time."""
    ones = tables.ones
    bits[:] = ones
    whole = first + (last - first) // 2 * 2
    for n in range(first, whole, 2):
        x, level, mask = code[tables.feature[n]], tables.level[n], tables.mask[n]
        next_x, next_level, next_mask = code[tables.feature[n + 1]], tables.level[n + 1], tables.mask[n + 1]
        for c in range(bits.size):
            bits[c] &= (mask if x[c] > level else ones) & (next_mask if next_x[c] > next_level else ones)
    for n in range(whole, last):
        x, level, mask = code[tables.feature[n]], tables.level[n], tables.mask[n]
        for c in range(bits.size):
            bits[c] &= mask if x[c] > level else ones


@compiled
def _find_slots(bits, multiplier, slot):  # type: ignore[no-untyped-def]
    """The slot of the first leaf that is left."""
    width = np.iinfo(bits.dtype).bits
    shift = width - (3 if width == 8 else 4 if width == 16 else 6)
    for c in range(bits.size):
        # Stored in between, so that the product is cut to the width of the mask.
        bits[c] = (bits[c] & -bits[c]) * multiplier
        slot[c] = bits[c] >> shift


@compiled
def _add_leaves(slot, value, candidates, total):  # type: ignore[no-untyped-def]
    """The sum of the values in the order of the trees; of eight candidates at a time, none waits for another."""
    words = slot.view(np.uint64)
    for group in range((candidates + 7) // 8):
        of_trees = words[:, group]
        a = b = c = d = e = f = g = h = 0.0
        for t in range(value.shape[0]):
            # The slots of the eight are the bytes of a word.
            word, leaf = of_trees[t], value[t]
            a += leaf[word & 255]
            b += leaf[(word >> 8) & 255]
            c += leaf[(word >> 16) & 255]
            d += leaf[(word >> 24) & 255]
            e += leaf[(word >> 32) & 255]
            f += leaf[(word >> 40) & 255]
            g += leaf[(word >> 48) & 255]
            h += leaf[word >> 56]
        eight = total[8 * group : 8 * group + 8]
        eight[0], eight[1], eight[2], eight[3] = a, b, c, d
        eight[4], eight[5], eight[6], eight[7] = e, f, g, h
