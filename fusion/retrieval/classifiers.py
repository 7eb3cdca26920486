"""Classifiers over the same texts: a support vector machine with squared hinge loss for each of several sets of labels.

The dual is solved coordinate by coordinate, and coordinates that have come to rest are left out (Hsieh et al., A dual
coordinate descent method for large-scale linear SVM, ICML 2008).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fusion.compiled import compiled
from fusion.retrieval.bags import Bags
from fusion.retrieval.contrastive import LabelSets
from fusion.types import Int32s, Ints, Singles

TOLERANCE, PASSES = 0.1, 20
"""Learning ends when the projected gradients differ by less, or after that many passes over the texts."""
LEAST_WEIGHT = 0.1
"""Coefficients that are smaller are dropped."""
Seed = tuple[int, ...]


class Classifiers(NamedTuple):
    """The terms of the texts, ascending, how many weights each has, and for which of the classifiers."""

    bias: Singles
    term: Int32s
    entries: Ints
    child: Int32s
    weight: Singles


def classifiers(
    texts: Bags, terms: int, carrying: LabelSets, parts: list[Ints], cost: float, seed: Seed
) -> Classifiers:
    """One classifier per set of labels: whether a text that carries a label of any of the sets carries one of its."""
    sets = carrying.take(np.concatenate(parts))
    part = np.repeat(np.arange(len(parts)), [len(labels) for labels in parts])
    pairs = np.unique(np.repeat(part, np.diff(sets.offsets)) * (len(texts.offset) - 1) + sets.labels)
    part, text = np.divmod(pairs, len(texts.offset) - 1)
    rows, place = np.unique(text, return_inverse=True)
    offset, token, value, used = taken(texts, rows, terms)
    begin = np.searchsorted(part, np.arange(len(parts) + 1))
    learned = _classifiers(offset, token, value, len(used), begin, place, cost, np.random.default_rng(seed))
    bias, local, entries, child, weight = learned
    return Classifiers(bias, used[local], entries, child, weight)


def taken(rows: Bags, some: Ints, terms: int) -> tuple[Ints, Ints, Singles, Int32s]:
    """Some rows, with their terms numbered among those that occur in them, and these terms."""
    offset, token, value, used = _taken(*rows, some, terms)
    return offset, token, value, used


@compiled
def _taken(offset, token, value, rows, terms):  # type: ignore[no-untyped-def]
    number = np.zeros(terms, np.int32)
    ends = np.zeros(rows.size + 1, np.int64)
    for i in range(rows.size):
        first, last = offset[rows[i]], offset[rows[i] + 1]
        ends[i + 1] = ends[i] + last - first
        for e in range(first, last):
            number[token[e]] = 1
    used = np.flatnonzero(number).astype(np.int32)
    for t in range(used.size):
        number[used[t]] = t
    tokens, values = np.empty(ends[-1], np.uint32), np.empty(ends[-1], np.float32)
    for i in range(rows.size):
        first = offset[rows[i]]
        for e in range(ends[i + 1] - ends[i]):
            tokens[ends[i] + e] = number[token[first + e]]
            values[ends[i] + e] = value[first + e]
    return ends, tokens, values, used


@compiled
def _classifiers(offset, token, value, terms, begin, member, cost, rng):  # type: ignore[no-untyped-def]
    """The classifiers of a node, by term; the texts of child number c are `member[begin[c] : begin[c + 1]]`."""
    children = begin.size - 1
    bias = np.zeros(children, np.float32)
    texts = offset.size - 1
    square = np.empty(texts, np.float32)
    for i in range(texts):
        square[i] = 1 + 0.5 / cost
        for e in range(offset[i], offset[i + 1]):
            square[i] += value[e] ** 2
    size = 0
    local, child, weight = np.empty(1024, np.int32), np.empty(1024, np.int32), np.empty(1024, np.float32)
    count = np.zeros(terms + 1, np.int64)
    plane = np.empty(terms, np.float32)
    side = np.empty(texts, np.float32)
    for c in range(children):
        side[:] = -1
        side[member[begin[c] : begin[c + 1]]] = 1
        bias[c] = _plane(offset, token, value, square, side, np.float32(0.5 / cost), plane, rng)
        for t in range(terms):
            if abs(plane[t]) > LEAST_WEIGHT:
                if size == local.size:
                    local = np.concatenate((local, np.empty_like(local)))
                    child = np.concatenate((child, np.empty_like(child)))
                    weight = np.concatenate((weight, np.empty_like(weight)))
                local[size], child[size], weight[size] = t, c, plane[t]
                count[t + 1] += 1
                size += 1
    used = np.flatnonzero(count[1:])
    place = np.cumsum(count)
    by_term, weights = np.empty(size, np.int32), np.empty(size, np.float32)
    for j in range(size):
        by_term[place[local[j]]], weights[place[local[j]]] = child[j], weight[j]
        place[local[j]] += 1
    return bias, used, count[1:][used], by_term, weights


@compiled
def _plane(offset, token, value, square, side, diagonal, plane, rng):  # type: ignore[no-untyped-def]
    """The coefficients of a support vector machine, written to `plane`, and its intercept."""
    plane[:] = 0
    bias = np.float32(0)
    texts = side.size
    alpha = np.zeros(texts, np.float32)
    order = np.arange(texts)
    active, bar = texts, np.inf
    for _ in range(PASSES):
        highest, lowest = -np.inf, np.inf
        for s in range(active - 1):
            other = s + rng.integers(0, active - s)
            order[s], order[other] = order[other], order[s]
        s = 0
        while s < active:
            i = order[s]
            tokens, values = token[offset[i] : offset[i + 1]], value[offset[i] : offset[i + 1]]
            # Two sums, since each addition waits for the one before.
            even, odd = bias, np.float32(0)
            for e in range(tokens.size // 2):
                even += plane[tokens[2 * e]] * values[2 * e]
                odd += plane[tokens[2 * e + 1]] * values[2 * e + 1]
            if tokens.size % 2:
                even += plane[tokens[-1]] * values[-1]
            dot = even + odd
            gradient = side[i] * dot - np.float32(1) + alpha[i] * diagonal
            if alpha[i] == 0 and gradient > bar:
                active -= 1
                order[s], order[active] = order[active], order[s]
                continue
            projected = min(gradient, np.float32(0)) if alpha[i] == 0 else gradient
            highest, lowest = max(highest, projected), min(lowest, projected)
            if abs(projected) > 1e-12:
                after = max(alpha[i] - gradient / square[i], np.float32(0))
                step = (after - alpha[i]) * side[i]
                alpha[i] = after
                bias += step
                for e in range(tokens.size):
                    plane[tokens[e]] += step * values[e]
            s += 1
        if highest - lowest <= TOLERANCE:
            if active == texts:
                break
            active, bar = texts, np.inf
        else:
            bar = highest if highest > 0 else np.inf
    return bias
