"""BM25: what a term is worth in a document, from figures that are counted over all documents.

With N documents, n of which hold term t, f(t, d) times t in document d, and l its length in tokens:

    idf(t)      = ln((N - n + 0.5) / (n + 0.5)), but 0 for a term in more than half of the documents
    worth(t, d) = idf(t) f(t, d) (k1 + 1) / (f(t, d) + k1 (1 - b + b l / mean l))

This is BM25Okapi as rank-bm25 has it, except that rank-bm25 gives terms in more than half of the documents a quarter of
the mean idf. Robertson et al., Okapi at TREC-3, 1994.

Postings are made of a part of the documents at a time, with the figures of all of them: scores do not depend on how
documents are divided.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fusion.compiled import compiled
from fusion.retrieval.bags import Bags, numbered
from fusion.retrieval.neighbours import Postings
from fusion.types import Ints, Singles


@dataclass(frozen=True)
class Figures:
    """What is counted over all documents."""

    terms: Ints
    """The distinct terms, ascending."""
    frequency: Ints
    """How many documents hold each term."""
    documents: int
    tokens: int

    @classmethod
    def of(cls, parts: Iterable[Bags]) -> Figures:
        """The figures of documents that come in parts."""
        terms, frequency, documents, tokens = np.empty(0, np.int64), np.empty(0, np.int64), 0, 0
        for bags in parts:
            some, count = np.unique(bags.token, return_counts=True)
            every, place = np.unique(np.concatenate((terms, some)), return_inverse=True)
            frequency = np.bincount(place, np.concatenate((frequency, count)), len(every)).astype(np.int64)
            terms, documents = every, documents + len(bags.offset) - 1
            tokens += int(bags.lengths.sum())
        return cls(terms, frequency, documents, tokens)

    @property
    def idf(self) -> Singles:
        odds = (self.documents - self.frequency + 0.5) / (self.frequency + 0.5)
        return np.log(np.maximum(odds, 1.0)).astype(np.float32)

    @property
    def mean_length(self) -> float:
        return self.tokens / max(self.documents, 1)


def postings(bags: Bags, figures: Figures, k1: float, b: float) -> Postings:
    """What each term is worth in some of the documents."""
    known = numbered(bags, figures.terms)
    shared = k1 * (1 - b + b * bags.lengths / max(figures.mean_length, 1e-300))
    return Postings(*_postings(*known, figures.idf, shared, k1 + 1))


def label_documents(own: Bags, texts: Bags, offset: Ints, text: Ints) -> Bags:
    """One document per label: its own words, and those of the texts `text[offset[i]:offset[i + 1]]` that carry it."""
    terms = np.unique(np.concatenate((own.token, texts.token)))
    document, token, times = _label_documents(*numbered(own, terms), *numbered(texts, terms), offset, text, len(terms))
    return Bags(document, terms[token], times)


@compiled
def _postings(offset, token, times, idf, shared, factor):  # type: ignore[no-untyped-def]
    start = np.zeros(idf.size + 1, np.int64)
    for e in range(token.size):
        start[token[e] + 1] += 1
    for t in range(idf.size):
        start[t + 1] += start[t]
    place = start[:-1].copy()
    document = np.empty(token.size, np.int32)
    worth = np.empty(token.size, np.float32)
    for d in range(offset.size - 1):
        for e in range(offset[d], offset[d + 1]):
            t = token[e]
            count = np.float64(times[e])
            document[place[t]] = d
            worth[place[t]] = np.float64(idf[t]) * (count * factor / (count + shared[d]))
            place[t] += 1
    return start, document, worth


@compiled
def _label_documents(  # type: ignore[no-untyped-def]
    own_offset, own_token, own_times, offset, token, times, carrying, text, terms
):
    labels = own_offset.size - 1
    size = own_token.size
    for e in range(text.size):
        size += offset[text[e] + 1] - offset[text[e]]
    ends = np.zeros(labels + 1, np.int64)
    out = np.empty(size, np.int32)
    out_times = np.empty(size, np.float32)
    total = np.zeros(terms, np.float32)
    touched = np.empty(terms, np.int32)
    end = 0
    for n in range(labels):
        count = 0
        for e in range(own_offset[n], own_offset[n + 1]):
            touched[count] = own_token[e]
            total[own_token[e]] = own_times[e]
            count += 1
        for c in range(carrying[n], carrying[n + 1]):
            for e in range(offset[text[c]], offset[text[c] + 1]):
                if total[token[e]] == 0:
                    touched[count] = token[e]
                    count += 1
                total[token[e]] += times[e]
        held = np.sort(touched[:count])
        for t in held:
            out[end] = t
            out_times[end] = total[t]
            total[t] = 0
            end += 1
        ends[n + 1] = end
    return ends, out[:end].copy(), out_times[:end].copy()
