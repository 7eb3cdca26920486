"""One linear classifier per label over TF-IDF, in the workers."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fusion.errors import SetupError
from fusion.retrieval.bags import TfIdf
from fusion.retrieval.neighbours import Postings, nearest
from fusion.retrieval.ranked import Ranked
from fusion.types import Array, Floats, Ints
from udfs.retrieval.folds import FoldSource, label_sets, read_label_groups, role_texts
from udfs.retrieval.retriever import fold_folder, mapped
from udfs.retrieval.words import Words, bags_of, read_bags
from udfs.stores.cache import writable_folder

MIN_TEXTS = 2
"""Terms in fewer training texts do not count."""
PRUNE = 0.01
"""Coefficients that are smaller are dropped."""


@dataclass(frozen=True)
class Linear:
    """A support vector machine with squared hinge loss for every label that training texts carry, as a retriever.

    Small coefficients are dropped, which makes them sparse and costs nothing that can be measured.
    """

    name: str
    groups: tuple[str, ...]
    encoding: Words
    text_tokens: str
    cost: float
    top: int
    in_threads: bool = False

    def fit(self, source: FoldSource, models: str) -> dict[str, int]:
        ids = role_texts(source, "train")
        bags, known = read_bags(self.text_tokens, ids), label_sets(source, ids)
        label_groups = read_label_groups(source.prepared)
        known_terms = TfIdf.of(bags, MIN_TEXTS)
        vectors, terms = known_terms.vectors(bags), len(known_terms.terms)
        sparse = package("scipy.sparse")
        matrix = sparse.csr_matrix((vectors.times, vectors.token, vectors.offset), (len(ids), terms))
        row, label = known.pairs()
        planes, base = self._planes(matrix, row, label, len(label_groups))
        with writable_folder(fold_folder(models, source.fold)) as place:
            arrays: dict[str, Array] = {**known_terms._asdict(), "base": base, **planes._asdict()}
            arrays["label_group"] = np.searchsorted(np.array(self.groups), label_groups).astype(np.int8)
            for name, values in arrays.items():
                np.save(place / f"{name}.npy", values)
        return {"terms": terms, "labels": int(np.isfinite(base).sum())}

    def _planes(self, vectors: Any, row: Ints, label: Ints, labels: int) -> tuple[Postings, Floats]:
        """The coefficients of all labels by term, and the intercepts: -inf for labels without training texts."""
        svm, sparse = package("sklearn.svm"), package("scipy.sparse")
        planes, base = [], np.full(labels, -np.inf)
        for number in range(labels):
            carried = np.zeros(vectors.shape[0], np.bool_)
            carried[row[label == number]] = True
            plane = np.zeros(vectors.shape[1], np.float32)
            if carried.any():
                base[number] = 0.0
            if carried.any() and not carried.all():
                machine = svm.LinearSVC(C=self.cost, random_state=0).fit(vectors, carried)
                plane, base[number] = machine.coef_[0].astype(np.float32), np.float32(machine.intercept_[0])
                plane[np.abs(plane) < PRUNE] = 0
            planes.append(sparse.csr_matrix(plane))
        by_term = sparse.vstack(planes).tocsc()
        return Postings(by_term.indptr.astype(np.int64), by_term.indices.astype(np.int32), by_term.data), base

    def open(self, place: Path) -> LinearModel:
        postings = Postings(*(mapped(place, name) for name in Postings._fields))
        terms = TfIdf(*(mapped(place, name) for name in TfIdf._fields))
        return LinearModel(self, postings, terms, mapped(place, "base"), mapped(place, "label_group"))


@dataclass(frozen=True)
class LinearModel:
    """The classifiers of a fold: the score of a label is the signed distance of the text to its plane."""

    retriever: Linear
    planes: Postings
    terms: TfIdf
    base: Floats
    label_group: Array

    def rank(self, rows: pa.RecordBatch) -> Ranked:
        texts = self.terms.vectors(bags_of(rows))
        groups, top = len(self.retriever.groups), self.retriever.top
        return nearest(self.planes, self.label_group, groups, texts, top, self.base)


def package(name: str) -> Any:
    """A module of an optional package."""
    try:
        return import_module(name)
    except ImportError as error:
        raise SetupError(f"the retriever linear needs {name} ({error}): pip install '.[linear]'") from None
