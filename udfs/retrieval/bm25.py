"""BM25 over the training texts of a fold, or over one document per label, in shards of a bounded size.

A worker that fits a fold holds the tokens of one shard (12 bytes per distinct token of a text) and its postings (8
bytes per posting, a term in a document), the fold's terms (16 bytes each) and the ids of its training texts. Workers
that rank map the postings, which the workers of a machine share.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from fusion.errors import InputError
from fusion.retrieval.bags import Bags, numbered
from fusion.retrieval.bm25 import Figures, label_documents, postings
from fusion.retrieval.contrastive import LabelSets
from fusion.retrieval.neighbours import Neighbours, Postings, TextLabels, label_scores, nearest
from fusion.retrieval.ranked import Ranked, merged
from fusion.types import Array, Ints
from udfs.retrieval.folds import FoldSource, label_sets, read_label_groups, role_texts
from udfs.retrieval.retriever import Scoring, fold_folder, mapped
from udfs.retrieval.words import Words, bags_of, read_bags, read_sizes
from udfs.stores.cache import writable_folder

ABOUT_FILE = "about.json"
SHARD_POSTINGS = 20_000_000
"""Postings of a shard at most, unless a single document has more."""


@dataclass(frozen=True)
class Bm25:
    """BM25 as a retriever."""

    name: str
    groups: tuple[str, ...]
    encoding: Words
    text_tokens: str
    label_tokens: str | None
    """The tokens of the labels' own words, where labels are the documents; None where training texts are."""
    k1: float
    b: float
    scoring: Scoring
    shard_postings: int = SHARD_POSTINGS
    in_threads: bool = True

    def fit(self, source: FoldSource, models: str) -> dict[str, int]:
        """Write the index of a fold; its figures."""
        ids = role_texts(source, "train")
        label_groups, known = read_label_groups(source.prepared), label_sets(source, ids)
        _check_labels(known, ids, len(label_groups))
        documents = (
            _TextDocuments(self.text_tokens, ids)
            if self.label_tokens is None
            else _LabelDocuments(self.text_tokens, ids, self.label_tokens, known, len(label_groups))
        )
        edges = _shards(documents.sizes(), self.shard_postings)
        # Of a single shard the tokens are read once.
        read = lru_cache(maxsize=1)(documents.read)
        figures = Figures.of(read(*edge) for edge in pairwise(edges))
        if not len(figures.terms):
            raise InputError(
                f"fold {source.fold}: no training text has a token; loosen the tokenizer of {self.name} "
                f"(min_length is {self.encoding.tokenizer.min_length}), or look at samples.parquet"
            )
        count = 0
        with writable_folder(fold_folder(models, source.fold)) as place:
            for number, edge in enumerate(pairwise(edges)):
                shard = postings(read(*edge), figures, self.k1, self.b)
                for name, values in shard._asdict().items():
                    np.save(place / f"shard-{number}.{name}.npy", values)
                count += len(shard.worth)
            number_of_group = np.searchsorted(np.array(self.groups), label_groups).astype(np.int8)
            arrays: dict[str, Array] = {"terms": figures.terms, "label_group": number_of_group}
            if self.label_tokens is None:
                arrays |= {"carried_offset": known.offsets, "carried": known.labels.astype(np.int32)}
            for name, values in arrays.items():
                np.save(place / f"{name}.npy", values)
            about = {"edges": edges, "documents": "labels" if self.label_tokens else "texts"}
            (place / ABOUT_FILE).write_text(json.dumps(about) + "\n", encoding="utf-8")
        return {
            "documents": figures.documents,
            "tokens": figures.tokens,
            "terms": len(figures.terms),
            "postings": count,
        }

    def open(self, place: Path) -> BoundIndex:
        about = json.loads((place / ABOUT_FILE).read_text(encoding="utf-8"))
        shards = [
            Postings(*(mapped(place, f"shard-{number}.{name}") for name in Postings._fields))
            for number in range(len(about["edges"]) - 1)
        ]
        carried = None
        if about["documents"] == "texts":
            carried = TextLabels(mapped(place, "carried_offset"), mapped(place, "carried"))
        index = Index(
            mapped(place, "terms"), tuple(shards), tuple(about["edges"]), mapped(place, "label_group"), carried
        )
        return BoundIndex(index, len(self.groups), self.scoring)


def _check_labels(known: LabelSets, ids: pa.Array, labels: int) -> None:
    bad = np.flatnonzero((known.labels < 0) | (known.labels >= labels))
    if len(bad):
        text = np.searchsorted(known.offsets, bad[0], side="right") - 1
        raise InputError(
            f"samples.parquet: text_id {ids[text]} carries label_id {known.labels[bad[0]]}, which is not in "
            "labels.parquet. Run 'xmtc-fusion prepare' again."
        )


def _shards(sizes: Ints, most: int) -> list[int]:
    """The documents at which shards begin and end."""
    edges, end = [0], np.cumsum(sizes)
    while edges[-1] < len(sizes):
        before = end[edges[-1] - 1] if edges[-1] else 0
        edges.append(max(edges[-1] + 1, int(np.searchsorted(end, before + most, side="right"))))
    return edges


@dataclass(frozen=True)
class _TextDocuments:
    """Every training text is a document."""

    tokens: str
    ids: pa.Array

    def sizes(self) -> Ints:
        return read_sizes(self.tokens, self.ids)

    def read(self, begin: int, end: int) -> Bags:
        return read_bags(self.tokens, self.ids[begin:end])


@dataclass(frozen=True)
class _LabelDocuments:
    """Every label is a document: its own words, then those of the training texts that carry it."""

    tokens: str
    ids: pa.Array
    label_tokens: str
    known: LabelSets
    labels: int

    def sizes(self) -> Ints:
        """At most: a word of several texts is one posting."""
        text, label = self.known.pairs()
        sizes = read_sizes(self.tokens, self.ids)[text]
        own = read_sizes(self.label_tokens, pa.array(range(self.labels), pa.int64()))
        return own + np.bincount(label, sizes, self.labels).astype(np.int64)

    def read(self, begin: int, end: int) -> Bags:
        text, label = self.known.pairs()
        chosen = np.flatnonzero((label >= begin) & (label < end))
        chosen = chosen[np.argsort(label[chosen], kind="stable")]
        some, place = np.unique(text[chosen], return_inverse=True)
        offset = np.searchsorted(label[chosen], np.arange(begin, end + 1))
        own = read_bags(self.label_tokens, pa.array(range(begin, end), pa.int64()))
        return label_documents(own, read_bags(self.tokens, self.ids.take(pa.array(some))), offset, place)


@dataclass(frozen=True)
class Index:
    """The index of a fold: documents are training texts or labels, `edges[k]` to `edges[k + 1]` those of shard k."""

    terms: Ints
    shards: tuple[Postings, ...]
    edges: tuple[int, ...]
    label_group: Array
    carried: TextLabels | None
    """The labels of every document, where documents are texts."""

    def nearest(self, texts: Bags, group: Array, groups: int, n: int) -> Ranked:
        """The n best documents of each group, whatever the shards."""
        queries = numbered(texts, self.terms)
        return merged(list(self._by_shard(queries, group, groups, n)), n)

    def _by_shard(self, queries: Bags, group: Array, groups: int, n: int) -> Iterator[Ranked]:
        for shard, (begin, end) in zip(self.shards, pairwise(self.edges), strict=True):
            found = nearest(shard, group[begin:end], groups, queries, n)
            yield found._replace(item=found.item + np.int32(begin))

    def rank(self, texts: Bags, groups: int, scoring: Scoring) -> Ranked:
        """The best labels of each text and label group."""
        if self.carried is None:
            return self.nearest(texts, self.label_group, groups, scoring.top)
        neighbours = self.nearest_texts(texts, scoring)
        return label_scores(neighbours, self.carried, self.label_group, groups, scoring.aggregation, scoring.top)

    def nearest_texts(self, texts: Bags, scoring: Scoring) -> Ranked:
        """The best training texts of each text, where documents are texts."""
        return self.nearest(texts, np.zeros(self.edges[-1], np.int8), 1, scoring.neighbours)


@dataclass(frozen=True)
class BoundIndex:
    """An index with the settings that it is searched with."""

    index: Index
    groups: int
    scoring: Scoring

    def rank(self, rows: pa.RecordBatch) -> Ranked:
        return self.index.rank(bags_of(rows), self.groups, self.scoring)

    def neighbours(self, row: pa.RecordBatch) -> Neighbours | None:
        if self.index.carried is None:
            return None
        _, text, score = self.index.nearest_texts(bags_of(row), self.scoring)
        return Neighbours(text, score, self.index.carried)
