"""Trees laid out for scoring many candidates at once, without following any of them from node to node.

A candidate leaves a tree at its first leaf, from left to right, that no node takes away: a node whose test fails (the
feature is above the threshold) takes away the leaves of its left subtree. Leaves are bits, so that a node is one
comparison and one "and", for a vector of candidates at a time. The thresholds of a feature are numbered in ascending
order, and instead of a candidate's value the number of thresholds below it is compared: the outcome is the same, and
the numbers are small. Where there are many thresholds, the range that they span is divided into equal buckets, and a
value is compared with those of its own bucket only. (C. Lucchese et al. QuickScorer: a fast algorithm to rank documents
with additive ensembles of regression trees. SIGIR 2015.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fusion.compiled import compiled
from fusion.models.features import WHOLE, fill_features, room_for, same_in_pool
from fusion.types import Array, Floats, Int32s, Ints

MOST_LEAVES = 64
"""The bits of the widest mask."""
MULTIPLIERS = {8: 0x1D, 16: 0x09AF, 64: 0x03F79D71B4CB0A89}
"""By the bits of a mask, De Bruijn sequences: times a single bit, their upper bits are another number for every bit."""
CUTS_AT_ONCE, NODES_AT_ONCE = 4, 7
"""So many thresholds of a feature, and nodes of a tree, are compared in one loop over the candidates; tables are filled
up to whole numbers of these."""
MANY_CUTS, BUCKETS = 17, 1024
"""A feature with so many thresholds is not compared with all of them, but with those of the same bucket of values."""


class TreeTables(NamedTuple):
    """The trees of a model as compiled code reads them."""

    used: Ints
    """The features that some node tests."""
    cut: Floats
    """Their thresholds, feature after feature, each ascending."""
    first_cut: Ints
    start: Array
    """Of the features with many thresholds, how many of these are below each bucket (feature x bucket)."""
    start_of: Ints
    """The row of each feature in `start`; -1 where thresholds are few."""
    low: Floats
    """A value v of a feature falls in the bucket of number (v - low) * scale."""
    scale: Floats
    first_node: Int32s
    """Where the nodes of each tree begin."""
    feature: Ints
    """Of each node, as a place in `used`."""
    level: Array
    """The place of each node's threshold among those of its feature."""
    mask: Array
    """The leaves of its tree that each node leaves if its test fails."""
    value: Floats
    """The values of the leaves (trees x slots), in the slots that the multiplier gives their bits; or, for pairs of
    trees, the sums of two leaves (pairs of trees x pairs of slots)."""
    pairs: bool
    """Whether the leaves of two trees are looked up at once, as their slots fit a byte."""
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
    many = np.array([len(of_feature) >= MANY_CUTS for of_feature in cuts], np.bool_)
    start = np.empty((many.sum(), BUCKETS), level.dtype)
    start_of = np.where(many, np.cumsum(many) - 1, -1)
    low, scale = np.zeros(len(used)), np.zeros(len(used))
    for f in np.flatnonzero(many):
        start[start_of[f]], low[f], scale[f] = _buckets(cuts[f])
    # No value is above the thresholds that fill up; many are followed by one at least.
    cuts = [
        np.append(of_feature, np.full(-(len(of_feature) + more) % CUTS_AT_ONCE + more, np.inf))
        for of_feature, more in zip(cuts, many, strict=True)
    ]
    mask, place = np.zeros(len(feature), kind), np.zeros(len(value), np.int64)
    _lay_out(first_node, first_leaf, left, right, mask, place)
    slot = np.array([(MULTIPLIERS[bits] << n) % 2**bits * bits >> bits for n in range(bits)])
    values = np.zeros((len(first_node) - 1, bits))
    values[np.repeat(np.arange(len(values)), np.diff(first_leaf)), slot[place]] = value
    pairs = bits <= 16
    # Nodes that fill up leave all leaves, whatever the outcome of their test.
    nodes = np.diff(first_node)
    padded = np.concatenate(([0], np.cumsum(-(-nodes // NODES_AT_ONCE) * NODES_AT_ONCE)))
    at = np.arange(len(feature)) + np.repeat(padded[:-1] - first_node[:-1], nodes)
    return TreeTables(
        used=used,
        cut=np.concatenate([np.empty(0), *cuts]),
        first_cut=np.cumsum([0, *map(len, cuts)]),
        start=start,
        start_of=start_of,
        low=low,
        scale=scale,
        first_node=padded.astype(np.int32),
        feature=_spread(np.searchsorted(used, feature), at, padded[-1], 0),
        level=_spread(level, at, padded[-1], 0),
        mask=_spread(mask, at, padded[-1], 2**bits - 1),
        value=_sums_of_pairs(values) if pairs else values,
        pairs=pairs,
        multiplier=kind(MULTIPLIERS[bits]),
        ones=kind(2**bits - 1),
    )


def _buckets(cut: Floats) -> tuple[Ints, float, float]:
    """How many thresholds are below each bucket, and what gives a value its bucket: always the same operations, none of
    which changes the order of two values."""
    low, largest = cut[0], np.finfo(np.float64).max
    # Thresholds may be as near to each other, or as far apart, as numbers can be.
    with np.errstate(over="ignore"):
        scale = min((BUCKETS - 1) / min(cut[-1] - low, largest), largest)
        bucket = np.clip((cut - low) * scale, 0, BUCKETS - 1).astype(np.int64)
    return np.searchsorted(bucket, np.arange(BUCKETS)), low, scale


def _sums_of_pairs(values: Floats) -> Floats:
    """For every two trees, the sum of each leaf of the first and each leaf of the second, slot by slot."""
    if len(values) % 2:
        # The last tree has no other: one that adds nothing comes before it, whose slot is then always 0.
        values = np.insert(values, -1, 0.0, axis=0)
    first, second = values[::2, :, None], values[1::2, None, :]
    return (first + second).reshape(len(first), -1)


def _spread(values: Array, at: Ints, size: int, rest: int) -> Array:
    """The values in their places, and between them all the same."""
    spread = np.full(size, rest, values.dtype)
    spread[at] = values
    return spread


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
def score_by_tables(source, pools, wanted, tables, rows, scores) -> Any:  # type: ignore[no-untyped-def]
    """The scores of the candidates of some pools. `rows`: where the features that the trees use stand among all."""
    width = room_for(source, pools)
    x = np.empty((wanted.size, width))
    code = np.empty((tables.used.size, width), tables.level.dtype)
    bits = np.empty(width, tables.mask.dtype)
    # Rows a power of two apart would compete for the same lines of the cache when columns are read.
    slot = np.empty((tables.value.shape[0], width + 64), np.uint8)
    total = np.empty(width)
    first = 0
    while first < pools.size:
        bounds = fill_features(source, pools, first, wanted, x)
        # Whole vectors only: what stands behind the last candidate is scored, too, and not read.
        candidates = (bounds[-1] + WHOLE - 1) // WHOLE * WHOLE
        _count_cuts(x, rows, source.position.shape[0], tables, bounds, candidates, code)
        _find_slots(code, tables, candidates, bits, slot)
        _add_leaves(slot, tables.value, bounds[-1], total)
        first = put_scores(total, bounds, source.offset, pools, first, scores)


@compiled
def put_scores(total, bounds, offset, pools, first, scores) -> Any:  # type: ignore[no-untyped-def]
    """Put the scores of the candidates of some pools in their places; the first pool behind these."""
    for n in range(bounds.size - 1):
        p = pools[first + n]
        scores[offset[p] : offset[p + 1]] = total[bounds[n] : bounds[n + 1]]
    return first + bounds.size - 1


@compiled
def _count_cuts(x, rows, retrievers, tables, bounds, candidates, code):  # type: ignore[no-untyped-def]
    """How many thresholds of its feature are below each value; four at a time, where they are few."""
    bucket = np.empty(candidates, np.uint32)
    for f in range(rows.size):
        row, first, last, many = rows[f], tables.first_cut[f], tables.first_cut[f + 1], tables.start_of[f]
        if same_in_pool(row, retrievers):
            for p in range(bounds.size - 1):
                k = first
                while k < last and bounds[p] < bounds[p + 1] and x[row, bounds[p]] > tables.cut[k]:
                    k += 1
                for n in range(bounds[p], bounds[p + 1]):
                    code[f, n] = k - first
            continue
        if many >= 0:
            _find_buckets(x, row, tables.low[f], tables.scale[f], tables.start.shape[1] - 1.0, bucket)
            _count_from_start(x, row, tables.cut[first:last], tables.start[many], bucket, f, code)
            continue
        for k in range(first, last, CUTS_AT_ONCE):
            a, b, c, d = tables.cut[k], tables.cut[k + 1], tables.cut[k + 2], tables.cut[k + 3]
            if k == first:
                for n in range(candidates):
                    v = x[row, n]
                    code[f, n] = np.int32(v > a) + np.int32(v > b) + np.int32(v > c) + np.int32(v > d)
            else:
                for n in range(candidates):
                    v = x[row, n]
                    code[f, n] += np.int32(v > a) + np.int32(v > b) + np.int32(v > c) + np.int32(v > d)


@compiled
def _find_buckets(x, row, low, scale, last, bucket):  # type: ignore[no-untyped-def]
    for n in range(bucket.size):
        place = (x[row, n] - low) * scale
        # In this order, what is not a number has a bucket, too, as may stand behind the last candidate.
        place = place if place < last else last
        bucket[n] = np.int32(place if place > 0.0 else 0.0)


@compiled
def _count_from_start(x, row, cut, start, bucket, f, code):  # type: ignore[no-untyped-def]
    """Thresholds of lower buckets are below a value, those of higher ones are not; only its own are compared."""
    for n in range(bucket.size):
        count, v = np.uint64(start[bucket[n]]), x[row, n]
        while v > cut[count]:
            count += np.uint64(1)
        code[f, n] = count


@compiled
def _find_slots(code, tables, candidates, bits, slot):  # type: ignore[no-untyped-def]
    """The slot of the first leaf that the nodes of each tree leave to each candidate; seven nodes at a time. The slots
    of a pair of trees become one number."""
    feature, level, mask, ones = tables.feature, tables.level, tables.mask, tables.ones
    width = np.iinfo(bits.dtype).bits
    slot_bits = 3 if width == 8 else 4 if width == 16 else 6
    shift = width - slot_bits
    for t in range(tables.first_node.size - 1):
        bits[:candidates] = ones
        for n in range(tables.first_node[t], tables.first_node[t + 1], NODES_AT_ONCE):
            f0, f1, f2, f3 = feature[n], feature[n + 1], feature[n + 2], feature[n + 3]
            l0, l1, l2, l3 = level[n], level[n + 1], level[n + 2], level[n + 3]
            m0, m1, m2, m3 = mask[n], mask[n + 1], mask[n + 2], mask[n + 3]
            f4, f5, f6 = feature[n + 4], feature[n + 5], feature[n + 6]
            l4, l5, l6 = level[n + 4], level[n + 5], level[n + 6]
            m4, m5, m6 = mask[n + 4], mask[n + 5], mask[n + 6]
            for c in range(candidates):
                left = (m0 if code[f0, c] > l0 else ones) & (m1 if code[f1, c] > l1 else ones)
                left &= (m2 if code[f2, c] > l2 else ones) & (m3 if code[f3, c] > l3 else ones)
                left &= (m4 if code[f4, c] > l4 else ones) & (m5 if code[f5, c] > l5 else ones)
                bits[c] &= left & (m6 if code[f6, c] > l6 else ones)
        slots, kept = slot[t // 2 if tables.pairs else t], 255 if tables.pairs and t % 2 else 0
        for c in range(candidates):
            # Stored in between, so that the product is cut to the width of the mask.
            bits[c] = (bits[c] & -bits[c]) * tables.multiplier
            slots[c] = (slots[c] & kept) << slot_bits | (bits[c] >> shift)


@compiled
def _add_leaves(slot, value, candidates, total):  # type: ignore[no-untyped-def]
    """The sum of the values of all trees, or pairs of them; of sixteen candidates at a time, none waits for another."""
    words = slot.view(np.uint32)
    for group in range((candidates + 15) // 16):
        of_trees = words[:, 4 * group : 4 * group + 4]
        a = b = c = d = e = f = g = h = i = j = k = m = n = o = p = q = 0.0
        for t in range(value.shape[0]):
            # The slots of the sixteen are the bytes of four words.
            leaf, first, second, third, fourth = (
                value[t],
                of_trees[t, 0],
                of_trees[t, 1],
                of_trees[t, 2],
                of_trees[t, 3],
            )
            a, b = a + leaf[first & 255], b + leaf[(first >> 8) & 255]
            c, d = c + leaf[(first >> 16) & 255], d + leaf[first >> 24]
            e, f = e + leaf[second & 255], f + leaf[(second >> 8) & 255]
            g, h = g + leaf[(second >> 16) & 255], h + leaf[second >> 24]
            i, j = i + leaf[third & 255], j + leaf[(third >> 8) & 255]
            k, m = k + leaf[(third >> 16) & 255], m + leaf[third >> 24]
            n, o = n + leaf[fourth & 255], o + leaf[(fourth >> 8) & 255]
            p, q = p + leaf[(fourth >> 16) & 255], q + leaf[fourth >> 24]
        sums = total[16 * group : 16 * group + 16]
        sums[0], sums[1], sums[2], sums[3], sums[4], sums[5], sums[6], sums[7] = a, b, c, d, e, f, g, h
        sums[8], sums[9], sums[10], sums[11], sums[12], sums[13], sums[14], sums[15] = i, j, k, m, n, o, p, q
