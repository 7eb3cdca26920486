"""BM25 in the workers: tokens in parallel, one worker that builds a fold's index, and scoring in parallel.

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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, overload

import bm25s
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fusion.retrieval.neighbours import Aggregation, Postings, TextLabels, label_scores, nearest
from fusion.retrieval.ranked import Ranked
from fusion.retrieval.tokens import Tokenizer
from fusion.types import Array, Int32s, Ints
from udfs.lists import Batches, list_rows
from udfs.stores.cache import readable_folder, writable_folder

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


LABEL, TEXT = 0, 1
"""The kinds of rows that make an index."""
ROWS_SCHEMA = "kind int, id long, text string, label_ids array<int>, label_group string"
COUNTS_SCHEMA = "documents long, tokens long, terms long, postings long, stray_text long, stray_label int"


@dataclass(frozen=True)
class Formula:
    """What is indexed, and the parameters of BM25."""

    mode: Mode
    k1: float
    b: float


def tokenize_rows(tokenizer: Tokenizer) -> Callable[[Batches], Batches]:
    """For `mapInArrow`: the tokens of the column `text`, with a space between them; null if there are none.

    This is done before rows meet in one worker, since cutting and stemming take longer than indexing.
    """

    def run(batches: Batches) -> Batches:
        for batch in batches:
            joined = [" ".join(tokenizer(text)) or None if text else None for text in batch["text"].to_pylist()]
            yield batch.set_column(batch.schema.get_field_index("text"), "text", pa.array(joined, pa.string()))

    return run


def build_index(uri: str, formula: Formula, groups: tuple[str, ...]) -> Callable[[Batches], Batches]:
    """For `mapInArrow` on one partition, rows tokenised and sorted by kind and id: write the index to `uri`.

    Yields a row of counts. Nothing is written if there is no token, or if a text carries a label that does not
    exist, which the counts then name.
    """

    def run(batches: Batches) -> Batches:
        rows = Gathered(groups)
        for batch in batches:
            rows.add(batch)
        corpus, stray = rows.corpus(formula.mode), rows.stray()
        postings = 0
        if corpus.vocab and stray is None:
            postings = _write(uri, formula, groups, rows, corpus)
        counts: dict[str, Any] = {
            "documents": len(corpus.ids),
            "tokens": rows.tokens,
            "terms": len(corpus.vocab),
            "postings": postings,
            "stray_text": stray[0] if stray else None,
            "stray_label": stray[1] if stray else None,
        }
        types = {"stray_label": pa.int32()}
        yield pa.RecordBatch.from_pydict(
            {name: pa.array([value], types.get(name, pa.int64())) for name, value in counts.items()}
        )

    return run


@dataclass
class Corpus:
    """What bm25s indexes: the vocabulary, and each document as a list of term numbers."""

    ids: Sequence[list[int]]
    vocab: dict[str, int]


class Gathered:
    """Rows of labels and texts, kept as numbers. Terms are numbered in the order in which they first appear."""

    def __init__(self, groups: tuple[str, ...]) -> None:
        self.vocabulary: dict[str, int] = {}
        self._groups = pa.array(groups, pa.string())
        # The numbers of labels and texts one after another: pieces, put together when all are there.
        self._token: list[Int32s] = [np.empty(0, np.int32)]
        self._sizes: list[Ints] = [np.empty(0, np.int64)]
        self._kind: list[Int32s] = [np.empty(0, np.int32)]
        self._id: list[Ints] = [np.empty(0, np.int64)]
        self._label: list[Int32s] = [np.empty(0, np.int32)]
        self._label_sizes: list[Ints] = [np.empty(0, np.int64)]
        self._group: list[Array] = [np.empty(0, np.int8)]

    def add(self, batch: pa.RecordBatch) -> None:
        words = pc.split_pattern(batch["text"], " ")
        encoded = words.flatten().dictionary_encode()
        numbers = [self.vocabulary.setdefault(word, len(self.vocabulary)) for word in encoded.dictionary.to_pylist()]
        self._token.append(np.array(numbers, np.int32)[encoded.indices.to_numpy()])
        self._sizes.append(_sizes(words))
        kind = batch["kind"].to_numpy().astype(np.int32)
        self._kind.append(kind)
        self._id.append(batch["id"].to_numpy())
        self._label.append(batch["label_ids"].flatten().to_numpy().astype(np.int32))
        self._label_sizes.append(_sizes(batch["label_ids"])[kind == TEXT])
        code = pc.index_in(batch["label_group"], value_set=self._groups).fill_null(-1).to_numpy()
        self._group.append(code[kind == LABEL].astype(np.int8))

    @property
    def tokens(self) -> int:
        return sum(map(len, self._token))

    @property
    def label_group(self) -> Array:
        return np.concatenate(self._group)

    @property
    def text_id(self) -> Ints:
        return np.concatenate(self._id)[np.concatenate(self._kind) == TEXT]

    @property
    def carried(self) -> tuple[Ints, Int32s]:
        """Where the labels of each text begin, and the labels."""
        return _offset(self._label_sizes), np.concatenate(self._label)

    def stray(self) -> tuple[int, int] | None:
        """The first text with a label that does not exist, and that label."""
        offset, label = self.carried
        bad = np.flatnonzero((label < 0) | (label >= len(self.label_group)))
        if not len(bad):
            return None
        text = np.searchsorted(offset, bad[0], side="right") - 1
        return int(self.text_id[text]), int(label[bad[0]])

    def corpus(self, mode: Mode) -> Corpus:
        self._token = [np.concatenate(self._token)]
        rows = TextDocuments(self._token[0], _offset(self._sizes))
        labels = len(self.label_group)
        if mode == "texts":
            return Corpus(TextDocuments(rows.token, rows.offset[labels:]), self.vocabulary)
        return Corpus(LabelDocuments(rows, labels, *self.carried), self.vocabulary)


class TextDocuments(Sequence[list[int]]):
    """Documents over one array of term numbers: Python lists only while bm25s looks at them."""

    def __init__(self, token: Int32s, offset: Ints) -> None:
        self.token = token
        self.offset = offset

    def __len__(self) -> int:
        return len(self.offset) - 1

    def piece(self, n: int) -> Int32s:
        return self.token[self.offset[n] : self.offset[n + 1]]

    @overload
    def __getitem__(self, n: int) -> list[int]: ...
    @overload
    def __getitem__(self, n: slice) -> list[list[int]]: ...
    def __getitem__(self, n: int | slice) -> list[int] | list[list[int]]:
        if isinstance(n, slice):
            return [self[i] for i in range(*n.indices(len(self)))]
        return self.piece(n).tolist()

    def __iter__(self) -> Iterator[list[int]]:
        return (self[n] for n in range(len(self)))


class LabelDocuments(TextDocuments):
    """One document per label: its own words, then those of the training texts that carry it."""

    def __init__(self, rows: TextDocuments, labels: int, offset: Ints, label: Int32s) -> None:
        super().__init__(rows.token, rows.offset)
        self._labels = labels
        self._text = labels + np.repeat(np.arange(len(offset) - 1), np.diff(offset))[np.argsort(label, kind="stable")]
        self._first = np.searchsorted(np.sort(label), np.arange(labels + 1))

    def __len__(self) -> int:
        return self._labels

    def __getitem__(self, n: Any) -> Any:
        if isinstance(n, slice):
            return super().__getitem__(n)
        texts = self._text[self._first[n] : self._first[n + 1]]
        return np.concatenate([self.piece(n), *map(self.piece, texts)]).tolist()


def _write(uri: str, formula: Formula, groups: tuple[str, ...], rows: Gathered, corpus: Corpus) -> int:
    """Let bm25s index the corpus, and write its files and ours; the number of postings.

    The term frequency part is ATIRE's, tf (k1 + 1) / (tf + k1 (1 - b + b l / mean l)), and the idf is Robertson's,
    ln((N - n + 0.5) / (n + 0.5)), but 0 for a term in more than half of the N documents: BM25Okapi, as rank-bm25
    has it, except that rank-bm25 gives those terms a quarter of the mean idf.
    """
    # scipy turns postings around 8 times faster than bm25s's numpy code, in a third of the memory.
    index = bm25s.BM25(formula.k1, formula.b, method="atire", idf_method="robertson", csc_backend="scipy")
    index.index(corpus, create_empty_token=False, show_progress=False)
    with writable_folder(uri) as folder:
        index.save(folder)
        arrays = {"text_id": rows.text_id, "label_group": rows.label_group}
        if formula.mode == "texts":
            arrays["carried_offset"], arrays["carried"] = rows.carried
        for name, values in arrays.items():
            np.save(folder / f"{name}.npy", values)
        about = {"mode": formula.mode, "groups": groups}
        (folder / ABOUT_FILE).write_text(json.dumps(about) + "\n", encoding="utf-8")
    return len(index.scores["data"])


def _sizes(lists: pa.Array) -> Ints:
    return pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)


def _offset(sizes: list[Ints]) -> Ints:
    return np.concatenate(([0], np.cumsum(np.concatenate(sizes))))
