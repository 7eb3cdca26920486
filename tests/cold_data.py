"""The demo's texts with most rare labels taken out of training, and two retrievers: one of them can see such labels."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa
from scipy import sparse

from fusion.labels import pareto_groups
from fusion.retrieval.tokens import Tokenizer
from tests.demo import demo_rows

PARTS, TOP, NEIGHBOURS = 5, 32, 300
"""One text in five is taken; lists are so long, from so many similar training texts."""
ROLES = ("train", "train", "validation", "test")


class ColdData(NamedTuple):
    """The arguments of `xf.tune`, and the labels without a training text."""

    judgements: pa.Table
    runs: dict[str, pa.Table]
    folds: pa.Table
    label_groups: pa.Table
    cold: frozenset[int]


@cache
def cold_data() -> ColdData:
    """Texts of one source package have one role; of six rare labels, five are taken out of the training texts. The
    validation texts keep theirs: they are as new to the retrievers as test texts."""
    texts = [row for row in demo_rows("texts") if crc32(row["key"].encode()) % PARTS == 0]
    words = demo_rows("labels")
    number = {row["label"]: n for n, row in enumerate(words)}
    carried = [[number[label] for label in row["labels"]] for row in texts]
    frequency = Counter(label for labels in carried for label in labels)
    counts = np.array([frequency[n] for n in range(len(words))])
    groups = pareto_groups(np.arange(len(words)), counts)
    cold = frozenset(n for n in range(len(words)) if groups[n] == "tail" and n % 6)
    roles = [ROLES[crc32(f"role {row['key']}".encode()) % len(ROLES)] for row in texts]
    known = [
        [label for label in labels if role != "train" or label not in cold]
        for labels, role in zip(carried, roles, strict=True)
    ]
    vectors, of_names = _vectors(
        [row["text"] for row in texts], [f"{row['name']} {row['description']}" for row in words]
    )
    train, listed = (np.array([(role == "train") == wanted for role in roles]) for wanted in (True, False))
    ids = np.flatnonzero(listed)
    carriers = _carriers([known[n] for n in np.flatnonzero(train)], len(words))
    scores = {
        "neighbours": _of_neighbours((vectors[ids] @ vectors[train].T).toarray(), carriers),
        "names": (vectors[ids] @ of_names.T).toarray(),
    }
    lists = {name: _lists(of, ids, [roles[n] for n in ids], groups) for name, of in scores.items()}
    every = np.arange(len(texts))
    return ColdData(
        pa.table({"text_id": every, "label_ids": pa.array(known, pa.list_(pa.int32()))}),
        lists,
        pa.table({"fold": np.zeros(len(texts), np.int32), "text_id": every, "role": roles}),
        pa.table({"label_id": pa.array(range(len(words)), pa.int32()), "label_group": groups.tolist()}),
        cold,
    )


def _vectors(texts: list[str], names: list[str]) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
    """TF-IDF of texts and of the labels' words, of length 1."""
    tokenizer, terms = Tokenizer(), dict[str, int]()
    counted = [Counter(tokenizer(text)) for text in (*texts, *names)]
    for bag in counted[: len(texts)]:
        for term in bag:
            terms.setdefault(term, len(terms))
    rows = [(n, terms[term], times) for n, bag in enumerate(counted) for term, times in bag.items() if term in terms]
    row, column, times = map(np.array, zip(*rows, strict=True))
    carriers = np.bincount(column[row < len(texts)], minlength=len(terms))
    weight = (1 + np.log(times)) * np.log(len(texts) / np.maximum(carriers[column], 1))
    matrix = sparse.csr_matrix((weight, (row, column)), (len(counted), len(terms)))
    norms = np.sqrt(matrix.multiply(matrix).sum(axis=1)).A1
    matrix = sparse.csr_matrix(sparse.diags(1 / np.maximum(norms, 1e-9)) @ matrix)
    return matrix[: len(texts)], matrix[len(texts) :]


def _carriers(known: list[list[int]], labels: int) -> np.ndarray:
    """Which training texts carry which labels."""
    carried = np.zeros((len(known), labels), np.bool_)
    for n, of_text in enumerate(known):
        carried[n, of_text] = True
    return carried


def _of_neighbours(cosines: np.ndarray, carriers: np.ndarray) -> np.ndarray:
    """The greatest cosine of the nearest training texts that carry a label; 0 where none does."""
    nearest = np.argsort(-cosines, axis=1, kind="stable")[:, :NEIGHBOURS]
    near = np.take_along_axis(cosines, nearest, axis=1)
    return np.stack([(near[q][:, None] * carriers[nearest[q]]).max(axis=0) for q in range(len(cosines))])


def _lists(scores: np.ndarray, ids: np.ndarray, roles: list[str], groups: np.ndarray) -> pa.Table:
    rows = []
    for q, (text, role) in enumerate(zip(ids.tolist(), roles, strict=True)):
        for group in ("tail", "head"):
            inside = np.flatnonzero((groups == group) & (scores[q] > 0))
            best = inside[np.argsort(-scores[q, inside], kind="stable")][:TOP]
            if len(best):
                key = {"fold": 0, "text_id": text, "role": role, "label_group": group}
                rows.append({**key, "label_ids": best.tolist(), "scores": scores[q, best].tolist()})
    types = [("fold", pa.int32()), ("text_id", pa.int64()), ("role", pa.string()), ("label_group", pa.string())]
    types += [("label_ids", pa.list_(pa.int32())), ("scores", pa.list_(pa.float64()))]
    return pa.Table.from_pylist(rows, pa.schema(types))
