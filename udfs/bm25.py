"""BM25 on Spark: tokens in parallel, one worker that builds a fold's index, and scoring in parallel.

What sits where:
- The driver sees only counts. Texts stream from storage through the workers in batches.
- The one worker that builds an index holds the numbers of all tokens (4 bytes per token), the vocabulary (a Python
  dictionary, some 200 bytes per term) and, at the end, 20 bytes per posting (a term in a document), 8 of which go to
  storage. 200,000 texts of 80 tokens take half a gigabyte and 15 seconds. In the mode `labels` the document of one
  label at a time is a Python list as well (some 40 bytes per token). On a cluster, this is memory overhead of an
  executor (spark.executor.memoryOverhead).
- Workers that score map the postings: they share the machine's page cache, whatever their number. Each one holds
  the vocabulary, 8 bytes per document or label, and the labels that one batch of texts touches.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import bm25s
import numpy as np

from fusion.retrieval.label_scores import Aggregation, TextLabels, label_scores
from fusion.retrieval.postings import Postings, nearest
from fusion.retrieval.ranked import Ranked
from fusion.retrieval.tokens import Tokenizer
from fusion.types import Array, Int32s, Ints
from udfs.candidate_rows import Batches, list_rows
from udfs.storage import readable_folder

Mode = Literal["texts", "labels"]

RETRIEVER = "bm25"
ABOUT_FILE = "about.json"
_CHUNK = 1_024
"""Texts scored in one call: enough to make the call cheap, few enough to need no memory."""


@dataclass(frozen=True)
class Scoring:
    """How many training texts a text is compared with, and what becomes of their scores."""

    neighbours: int
    aggregation: Aggregation
    top: int


@dataclass(frozen=True)
class Index:
    """An index of documents, which are training texts or labels, as it lies on storage.

    `group` and `groups` tell the label group of every label. In the mode `texts`, `carried` holds the labels of
    every document.
    """

    vocabulary: dict[str, int]
    postings: Postings
    documents: int
    group: Array
    groups: tuple[str, ...]
    carried: TextLabels | None

    @classmethod
    def open(cls, folder: Path) -> Index:
        """Map the files of a finished index."""
        about = json.loads((folder / ABOUT_FILE).read_text(encoding="utf-8"))
        # The vocabulary is read here: bm25s would keep a second copy of its numbers.
        ready = bm25s.BM25.load(folder, mmap=True, load_vocab=False)
        scores = {name: np.asarray(values) for name, values in ready.scores.items()}
        carried = None
        if about["mode"] == "texts":
            carried = TextLabels(mapped(folder, "carried_offset"), mapped(folder, "carried"))
        return cls(
            json.loads((folder / "vocab.index.json").read_text(encoding="utf-8")),
            Postings(scores["indptr"].astype(np.int64), scores["indices"], scores["data"]),
            int(ready.scores["num_docs"]),
            mapped(folder, "label_group"),
            tuple(about["groups"]),
            carried,
        )

    def terms(self, texts: list[list[str]]) -> tuple[Int32s, Ints]:
        """The term numbers of tokens, and where each text's begin. Unknown tokens are left out."""
        known = [[self.vocabulary[token] for token in tokens if token in self.vocabulary] for tokens in texts]
        offset = np.concatenate(([0], np.cumsum([len(numbers) for numbers in known], dtype=np.int64)))
        return np.array([number for numbers in known for number in numbers], np.int32), offset

    def rank(self, texts: list[list[str]], scoring: Scoring) -> Ranked:
        """The best labels of each text and label group: list number text * len(groups) + group."""
        token, offset = self.terms(texts)
        groups = len(self.groups)
        if self.carried is None:
            return nearest(self.postings, self.group, groups, token, offset, scoring.top)
        together = np.zeros(self.documents, np.int8)
        neighbours = nearest(self.postings, together, 1, token, offset, scoring.neighbours)
        return label_scores(neighbours, self.carried, self.group, groups, scoring.aggregation, scoring.top)


def mapped(folder: Path, name: str) -> Array:
    """An array of an index, mapped and not read."""
    return np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r"))


_opened: dict[tuple[str, str], Index] = {}


def open_index(uri: str, fingerprint: str) -> Index:
    """The index at `uri`, opened once per Python worker. Folds come one after another, so only the last is kept."""
    if (uri, fingerprint) not in _opened:
        _opened.clear()
        _opened[uri, fingerprint] = Index.open(readable_folder(uri, fingerprint))
    return _opened[uri, fingerprint]


def score_texts(
    uri: str, fingerprint: str, fold: int, tokenizer: Tokenizer, scoring: Scoring, retriever: str
) -> Callable[[Batches], Batches]:
    """For `mapInArrow`: from rows (text_id, text) to rows of ranked labels, as LISTS_SCHEMA says.

    A text without a known token, or none whose label is in a group, has no list there.
    """

    def run(batches: Batches) -> Batches:
        for batch in batches:
            index = open_index(uri, fingerprint)
            for begin in range(0, batch.num_rows, _CHUNK):
                chunk = batch.slice(begin, _CHUNK)
                texts = [tokenizer(text or "") for text in chunk["text"].to_pylist()]
                lists = index.rank(texts, scoring)
                yield list_rows(fold, retriever, chunk["text_id"], index.groups, lists)

    return run
