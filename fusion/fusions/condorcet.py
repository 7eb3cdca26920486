"""Condorcet: label a beats b if more lists rank a above b than b above a; the score is wins minus losses.

A list that lacks a label ranks it below all it has; two labels that both lack there tie.
"""

from __future__ import annotations

import numpy as np

from fusion.compiled import compiled
from fusion.kernel.candidates import Candidates
from fusion.registry import fusion
from fusion.types import Array, Floats

LONG = 4096
"""Pools of more labels are counted another way: bitsets grow with the square of their number."""


@fusion(
    "condorcet",
    reads="ranks",
    formula="labels beaten - labels lost to, by pairwise majority of the lists",
    citation="M. Montague, J. A. Aslam. Condorcet fusion for improved retrieval. CIKM 2002. A. H. Copeland, 1951.",
    when="Three or more retrievers, decided by majority; slow for many retrievers.",
    standard=True,
)
def condorcet(candidates: Candidates) -> Array:
    pools = candidates.pools
    if len(pools.position) == 2:
        longest = np.diff(pools.offset).max(initial=0)
        of_two = _of_two_lists if longest <= LONG else _of_two_long_lists
        return of_two(pools.offset, candidates.order, pools.size)
    return _of_many_lists(pools.offset, candidates.order, pools.size)


@condorcet.reference
def _(x: Floats, ranks: Floats) -> Floats:
    place = np.where(np.isnan(ranks), np.inf, ranks)
    above = (place[:, :, None] < place[:, None, :]).sum(axis=0)
    return np.sign(above - above.T).sum(axis=1).astype(np.float64)


@compiled
def _of_two_lists(offset, position, size):  # type: ignore[no-untyped-def]
    """With two lists, a beats or ties b in both iff b is in neither list above a. For every place v of a list,
    the set of labels at v or below is kept as a bitset; two intersections a label give its wins and losses
    (labels that tie it in both lists are in both counts and cancel)."""
    out = np.empty(position.shape[1], np.float64)
    for p in range(offset.size - 1):
        first, last = offset[p], offset[p + 1]
        words = (last - first + 63) // 64
        at = np.zeros((2, max(size[p, 0], size[p, 1]) + 2, words), np.uint64)
        for r in range(2):
            bottom = size[p, r]
            for c in range(first, last):
                place = position[r, c] if position[r, c] >= 0 else bottom
                b = c - first
                at[r, place, b >> 6] |= np.uint64(1) << np.uint64(b & 63)
            for place in range(bottom - 1, -1, -1):
                for w in range(words):
                    at[r, place, w] |= at[r, place + 1, w]
        for c in range(first, last):
            i = position[0, c] if position[0, c] >= 0 else size[p, 0]
            j = position[1, c] if position[1, c] >= 0 else size[p, 1]
            balance = 0
            for w in range(words):
                # Bits beyond the last label are set in neither complement's partner: they are masked by `at[., 0]`.
                below = at[0, i, w] & at[1, j, w]
                above = (at[0, 0, w] & ~at[0, i + 1, w]) & ~at[1, j + 1, w]
                balance += _ones(below) - _ones(above)
            out[c] = balance
    return out


@compiled
def _ones(word):  # type: ignore[no-untyped-def]
    """The number of bits set."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@compiled
def _of_two_long_lists(offset, position, size):  # type: ignore[no-untyped-def]
    """The same counts in n log n steps. Labels are met in the order of the first list; a Fenwick tree over the places
    of the second one counts those met so far."""
    out = np.empty(position.shape[1], np.float64)
    for p in range(offset.size - 1):
        first, count = offset[p], offset[p + 1] - offset[p]
        place = np.empty((2, count), np.int64)
        for r in range(2):
            for c in range(count):
                held_at = position[r, first + c]
                place[r, c] = held_at if held_at >= 0 else size[p, r]
        # How many labels are above each place of the second list.
        above = np.zeros(size[p, 1] + 2, np.int64)
        for c in range(count):
            above[place[1, c] + 1] += 1
        above = np.cumsum(above)
        order = np.argsort(place[0])
        tree = np.zeros(size[p, 1] + 2, np.int64)
        start = 0
        while start < count:
            end = start
            while end < count and place[0, order[end]] == place[0, order[start]]:
                end += 1
            for c in order[start:end]:
                j = place[1, c]
                # At a or below in both lists: all but those above in one or the other.
                out[first + c] = count - start - above[j] + _met(tree, j)
            for c in order[start:end]:
                j = place[1, c] + 1
                while j < tree.size:
                    tree[j] += 1
                    j += j & -j
            for c in order[start:end]:
                out[first + c] -= _met(tree, place[1, c] + 1)
            start = end
    return out


@compiled
def _met(tree, places):  # type: ignore[no-untyped-def]
    """The labels met so far at the first places of the second list."""
    met = 0
    while places > 0:
        met += tree[places]
        places -= places & -places
    return met


@compiled
def _of_many_lists(offset, position, size):  # type: ignore[no-untyped-def]
    retrievers, candidates = position.shape
    out = np.empty(candidates, np.float64)
    for p in range(offset.size - 1):
        first, last = offset[p], offset[p + 1]
        place = np.empty((retrievers, last - first), np.int32)
        for r in range(retrievers):
            for c in range(first, last):
                place[r, c - first] = position[r, c] if position[r, c] >= 0 else size[p, r]
        ahead = np.empty(last - first, np.int32)
        for a in range(last - first):
            ahead[:] = 0
            for r in range(retrievers):
                mine = place[r, a]
                for b in range(last - first):
                    ahead[b] += np.int32(place[r, b] > mine) - np.int32(place[r, b] < mine)
            balance = 0
            for b in range(last - first):
                balance += np.int64(ahead[b] > 0) - np.int64(ahead[b] < 0)
            out[first + a] = balance
    return out
