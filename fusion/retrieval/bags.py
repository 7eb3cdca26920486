"""Texts as bags of tokens, their sums of token vectors, and the way back from gradients of sums to token vectors.

With E the token vectors, w the token weights and c(i, t) how often token t is in text i:

    sum(i) = sum over tokens t of c(i, t) max(w(t), 0) E(t)

A batch is worked on token by token: a token's vector is read once, changed once, and everything that belongs to the
texts of a batch fits a core's cache. Tokens that are not in the batch are not touched.

TF-IDF: a term's weight in a text is (1 + ln(count)) times ln((1 + N) / (1 + n)) + 1 for a term in n of N training
texts; vectors have length 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fusion.compiled import compiled
from fusion.types import Array, Floats, Int32s, Ints, Singles

FIRST_DECAY, SECOND_DECAY, DAMPING = 0.9, 0.999, 1e-8
"""Adam's usual constants."""
WEIGHT_DECAY = 0.01


Rates = tuple[float, float]
"""The learning rates of token vectors and of token weights."""


class Bags(NamedTuple):
    """Text i has the distinct tokens `token[offset[i]:offset[i + 1]]`, ascending, each as often as `times` says."""

    offset: Ints
    token: Array
    """Numbers of a vocabulary (32 bits), or digests of words (64 bits)."""
    times: Singles

    @property
    def lengths(self) -> Ints:
        """How many tokens each text has, repetitions included."""
        begin = np.concatenate(([0], np.cumsum(self.times, dtype=np.float64)))
        return np.diff(begin[self.offset]).astype(np.int64)


def counted(tokens: Array, offset: Ints) -> Bags:
    """The bags of texts whose tokens, in any order, are `tokens[offset[i]:offset[i + 1]]`."""
    return Bags(*_counted(tokens, offset))


def numbered(bags: Bags, vocabulary: Ints) -> Bags:
    """The bags with tokens as places in an ascending vocabulary. Tokens that are not in it are left out."""
    place = np.searchsorted(vocabulary, bags.token)
    kept = vocabulary[np.minimum(place, len(vocabulary) - 1)] == bags.token if len(vocabulary) else place < 0
    offset = np.concatenate(([0], np.cumsum(kept)))[bags.offset]
    return Bags(offset, place[kept].astype(np.int32), bags.times[kept])


def thinned(bags: Bags, most: int) -> Bags:
    """At most that many of the texts, evenly spread."""
    count = len(bags.offset) - 1
    texts = np.arange(0, count, max(1, -(-count // most)))
    begin, size = bags.offset[texts], np.diff(bags.offset)[texts]
    offset = np.concatenate(([0], np.cumsum(size)))
    entry = np.arange(offset[-1]) + np.repeat(begin - offset[:-1], size)
    return Bags(offset, bags.token[entry], bags.times[entry])


def joined(first: Bags, second: Bags) -> Bags:
    """The bags of both, one after the other."""
    offset = np.concatenate((first.offset, second.offset[1:] + first.offset[-1]))
    return Bags(offset, np.concatenate((first.token, second.token)), np.concatenate((first.times, second.times)))


def document_frequencies(bags: Bags, tokens: int) -> Ints:
    """In how many texts each token is."""
    return np.bincount(bags.token, minlength=tokens)


def bag_sums(bags: Bags, table: Singles) -> Singles:
    """The sum of each text's rows of `table`, which holds token vectors with their weights."""
    return _bag_sums(bags.offset, bags.token, bags.times, table)


class TfIdf(NamedTuple):
    """The terms that count, ascending, and their inverse document frequencies."""

    terms: Ints
    idf: Floats

    @classmethod
    def of(cls, bags: Bags, least: int, most: int | None = None) -> TfIdf:
        """From training texts: terms in at least `least` of them; of more than `most`, the most frequent ones."""
        texts = len(bags.offset) - 1
        terms, frequency = np.unique(bags.token, return_counts=True)
        kept = np.flatnonzero(frequency >= min(least, texts))
        if most is not None and len(kept) > most:
            kept = np.sort(kept[np.argsort(-frequency[kept], kind="stable")[:most]])
        return cls(terms[kept], np.log((1 + texts) / (1 + frequency[kept])) + 1)

    def vectors(self, bags: Bags) -> Bags:
        """The vectors of texts; tokens are the numbers of terms."""
        counts = numbered(bags, self.terms)
        weights = (1 + np.log(counts.times.astype(np.float64))) * self.idf[counts.token]
        texts = len(counts.offset) - 1
        text = np.repeat(np.arange(texts), np.diff(counts.offset))
        # Added up text by text, so that the sum does not depend on the texts before it.
        squares = np.bincount(text, weights**2, texts)
        return counts._replace(times=(weights / np.sqrt(squares)[text]).astype(np.float32))


class Columns(NamedTuple):
    """A batch by token: token u of the batch is `token[u]`, in the batch's texts `row[start[u]:start[u + 1]]`."""

    token: Int32s
    start: Ints
    row: Int32s
    times: Singles


def columns_of(bags: Bags, texts: Ints, tokens: int) -> Columns:
    """The bags of some texts, token by token."""
    return Columns(*_columns(bags.offset, bags.token, bags.times, texts, tokens))


@dataclass
class Adam:
    """A parameter, one row for each token or label, and Adam's moments of it. Rows without a gradient stay as they are.

    Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015, with the decoupled weight decay of
    Loshchilov and Hutter, "Decoupled Weight Decay Regularization", ICLR 2019.
    """

    value: Singles
    first: Singles
    second: Singles

    @classmethod
    def of(cls, start: Singles) -> Adam:
        return cls(start.copy(), np.zeros_like(start), np.zeros_like(start))

    def step(self, rows: Ints, gradient: Singles, number: int, rate: float) -> None:
        """One step for some rows, which are distinct. Steps are numbered from 1."""
        _adam(self.value, self.first, self.second, rows, gradient, rate, *corrections(number))


def corrections(number: int) -> tuple[float, float]:
    """What Adam divides its moments by at a step, since they start at zero."""
    return 1 - FIRST_DECAY**number, 1 - SECOND_DECAY**number


def forward(columns: Columns, vectors: Singles, weights: Singles, texts: int) -> Singles:
    """The sums of the texts of a batch."""
    return _forward(*columns, vectors, weights, texts)


def backward(columns: Columns, gradient: Singles, vectors: Adam, weights: Adam, number: int, rates: Rates) -> None:
    """From the gradient of the sums to one step of token vectors and of token weights, which are one column."""
    _backward(
        *columns,
        gradient,
        *(vectors.value, vectors.first, vectors.second),
        *(weights.value, weights.first, weights.second),
        *rates,
        *corrections(number),
    )


@compiled
def _counted(tokens, offset):  # type: ignore[no-untyped-def]
    ends = np.zeros(offset.size, np.int64)
    token = np.empty_like(tokens)
    times = np.empty(tokens.size, np.float32)
    end = 0
    for i in range(offset.size - 1):
        ordered = np.sort(tokens[offset[i] : offset[i + 1]])
        for e in range(ordered.size):
            if e > 0 and ordered[e] == ordered[e - 1]:
                times[end - 1] += 1
            else:
                token[end] = ordered[e]
                times[end] = 1
                end += 1
        ends[i + 1] = end
    return ends, token[:end].copy(), times[:end].copy()


@compiled
def _bag_sums(offset, token, count, table):  # type: ignore[no-untyped-def]
    sums = np.zeros((offset.size - 1, table.shape[1]), np.float32)
    for i in range(offset.size - 1):
        for e in range(offset[i], offset[i + 1]):
            c = count[e]
            for k in range(table.shape[1]):
                sums[i, k] += c * table[token[e], k]
    return sums


@compiled
def _columns(offset, token, count, texts, tokens):  # type: ignore[no-untyped-def]
    place = np.zeros(tokens + 1, np.int64)
    for i in texts:
        for e in range(offset[i], offset[i + 1]):
            place[token[e] + 1] += 1
    distinct = 0
    for t in range(tokens):
        distinct += place[t + 1] > 0
    present = np.empty(distinct, np.int32)
    start = np.zeros(distinct + 1, np.int64)
    u = 0
    for t in range(tokens):
        if place[t + 1] > 0:
            present[u] = t
            start[u + 1] = start[u] + place[t + 1]
            u += 1
        place[t + 1] += place[t]
    row = np.empty(place[tokens], np.int32)
    times = np.empty(place[tokens], np.float32)
    for n in range(texts.size):
        for e in range(offset[texts[n]], offset[texts[n] + 1]):
            row[place[token[e]]] = n
            times[place[token[e]]] = count[e]
            place[token[e]] += 1
    return present, start, row, times


@compiled
def _forward(token, start, row, count, vectors, weights, texts):  # type: ignore[no-untyped-def]
    sums = np.zeros((texts, vectors.shape[1]), np.float32)
    for u in range(token.size):
        weight = weights[token[u], 0]
        if weight > 0:
            vector = vectors[token[u]]
            for e in range(start[u], start[u + 1]):
                c = count[e] * weight
                text = sums[row[e]]
                for k in range(vector.size):
                    text[k] += c * vector[k]
    return sums


@compiled
def _backward(  # type: ignore[no-untyped-def]
    token, start, row, count, gradient, vectors, first, second, weights, w_first, w_second, rate, w_rate, c1, c2
):
    total = np.empty(vectors.shape[1], np.float32)
    for u in range(token.size):
        t = token[u]
        weight = weights[t, 0]
        if weight <= 0:
            # Neither its vector nor its weight has any effect any more.
            continue
        total[:] = 0
        for e in range(start[u], start[u + 1]):
            c = count[e]
            text = gradient[row[e]]
            for k in range(total.size):
                total[k] += c * text[k]
        slope = np.float32(0)
        vector = vectors[t]
        for k in range(total.size):
            slope += total[k] * vector[k]
        for k in range(total.size):
            total[k] *= weight
        _adam_row(vector, first[t], second[t], total, rate, c1, c2)
        total[0] = slope
        _adam_row(weights[t], w_first[t], w_second[t], total[:1], w_rate, c1, c2)


@compiled
def _adam(value, first, second, rows, gradient, rate, c1, c2):  # type: ignore[no-untyped-def]
    for n in range(rows.size):
        _adam_row(value[rows[n]], first[rows[n]], second[rows[n]], gradient[n], rate, c1, c2)


@compiled
def _adam_row(value, first, second, gradient, rate, c1, c2):  # type: ignore[no-untyped-def]
    kept = np.float32(1 - rate * WEIGHT_DECAY)
    size = np.float32(rate / c1)
    scale = np.float32(1 / np.sqrt(c2))
    for k in range(value.size):
        g = gradient[k]
        first[k] = np.float32(FIRST_DECAY) * first[k] + np.float32(1 - FIRST_DECAY) * g
        second[k] = np.float32(SECOND_DECAY) * second[k] + np.float32(1 - SECOND_DECAY) * g * g
        root = np.sqrt(second[k]) * scale + np.float32(DAMPING)
        value[k] = kept * value[k] - size * first[k] / root
