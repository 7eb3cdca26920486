"""Hard negatives of training texts: labels that BM25 lists for a text and that it does not have.

The training texts of a fold are indexed as bags of tokens, each is searched among all of them, and a label scores by
the most similar text that carries it, as in the retriever `bm25`. Nothing but training texts is read, so a label
without one is never listed.
"""

from __future__ import annotations

import numpy as np

from fusion.retrieval.bags import Bags, columns_of, document_frequencies
from fusion.retrieval.contrastive import LabelSets
from fusion.retrieval.label_scores import TextLabels, label_scores
from fusion.retrieval.postings import Postings, nearest
from fusion.retrieval.ranked import Ranked
from fusion.types import Array, Ints

K1, B = 1.5, 0.75
"""The usual parameters of BM25, which are also those of the setting `sparse`."""
NEIGHBOURS = 64
"""Similar texts that labels are taken from."""
CHUNK = 1024
"""Texts that are searched at once, which bounds the memory."""


def bm25_postings(bags: Bags, tokens: int) -> Postings:
    """The BM25 index of texts, with the formula of the retriever `bm25`.

    A token t that is in n of N texts, and c times in text i of l(i) tokens, is worth there

        ln((N - n + 0.5) / (n + 0.5)) * c (k1 + 1) / (c + k1 (1 - b + b l(i) / mean l))

    and nothing if it is in more than half of the texts.
    """
    texts = len(bags.offset) - 1
    frequencies = document_frequencies(bags, tokens)
    by_token = columns_of(bags, np.arange(texts), tokens)
    lengths = np.bincount(by_token.row, by_token.times, minlength=texts)
    norm = K1 * (1 - B + B * lengths / (lengths.mean() or 1))
    idf = np.maximum(np.log((texts - frequencies + 0.5) / (frequencies + 0.5)), 0)
    worth = np.repeat(idf, frequencies) * by_token.times * (K1 + 1) / (by_token.times + norm[by_token.row])
    start = np.concatenate(([0], np.cumsum(frequencies)))
    return Postings(start, by_token.row, worth.astype(np.float32))


def hard_negatives(bags: Bags, known: LabelSets, tokens: int, most: int) -> LabelSets:
    """The first labels, at most so many, that BM25 lists for each text among those that it is not known to have."""
    postings = bm25_postings(bags, tokens)
    chunks = [np.arange(begin, min(begin + CHUNK, len(known))) for begin in range(0, len(known), CHUNK)]
    listed = [_without(_listed(postings, bags, known, texts, most), known.take(texts), most) for texts in chunks]
    sizes = np.concatenate([np.empty(0, np.int64), *(np.diff(some.offsets) for some in listed)])
    labels = np.concatenate([np.empty(0, np.int64), *(some.labels for some in listed)])
    return LabelSets(np.concatenate(([0], np.cumsum(sizes))), labels)


def draw_labels(negatives: LabelSets, texts: Ints, each: int, rng: np.random.Generator) -> Ints:
    """So many draws for each of the texts, with replacement, from the negatives of the text; none if it has none."""
    first, size = negatives.offsets[texts], np.diff(negatives.offsets)[texts]
    inside = (rng.random((each, len(texts))) * size).astype(np.int64)
    return negatives.labels[(first + inside)[:, size > 0].ravel()]


def _listed(postings: Postings, bags: Bags, known: LabelSets, texts: Ints, most: int) -> Ranked:
    """The labels of the texts most similar to each text, enough of them that `most` are left without its own."""
    first, last = bags.offset[texts[0]], bags.offset[texts[-1] + 1]
    token = np.repeat(bags.token[first:last], bags.times[first:last].astype(np.int64))
    ends = np.concatenate(([0], np.cumsum(bags.times[first:last], dtype=np.int64)))
    offset = ends[bags.offset[texts[0] : texts[-1] + 2] - first]
    # The text itself is among its neighbours, but all that it brings are labels of its own, which do not count.
    neighbours = nearest(postings, _one_group(len(known)), 1, token, offset, NEIGHBOURS + 1)
    carried = TextLabels(known.offsets, known.labels.astype(np.int32))
    enough = most + int(np.diff(known.offsets)[texts].max())
    return label_scores(neighbours, carried, _one_group(int(known.labels.max(initial=0)) + 1), 1, "max", enough)


def _one_group(size: int) -> Array:
    return np.zeros(size, np.int8)


def _without(lists: Ranked, own: LabelSets, most: int) -> LabelSets:
    """The first labels of each list that the text does not have."""
    text = np.repeat(np.arange(len(own)), np.diff(lists.offset))
    owner, owned = own.pairs()
    width = 1 + max(lists.item.max(initial=0), owned.max(initial=0))
    foreign = ~np.isin(text * width + lists.item, owner * width + owned)
    before = np.concatenate(([0], np.cumsum(foreign)))
    kept = foreign & (before[:-1] - before[lists.offset[text]] < most)
    sizes = np.bincount(text[kept], minlength=len(own))
    return LabelSets(np.concatenate(([0], np.cumsum(sizes))), lists.item[kept].astype(np.int64))
