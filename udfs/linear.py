"""One linear classifier per label over TF-IDF, as a scorer of `udfs.learned`."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from fusion.errors import SetupError
from fusion.retrieval.tokens import Tokenizer
from fusion.types import Array, Singles
from udfs.fold_data import FoldTexts


@dataclass(frozen=True)
class LinearScorer:
    """The signed distance of a text to each label's plane."""

    vectorizer: Any
    coefficients: Any
    """Sparse, labels x terms."""
    intercepts: Singles
    learned: Array
    """Whether a label has training texts."""

    def __call__(self, texts: list[str]) -> Singles:
        vectors = self.vectorizer.transform(texts)
        scores = np.asarray((vectors @ self.coefficients.T).todense(), np.float32) + self.intercepts
        return np.where(self.learned, scores, np.float32(np.nan))


def learn_linear(fold: FoldTexts) -> LinearScorer:
    """Train a support vector machine with squared hinge loss for every label that training texts carry.

    Coefficients below `prune` are dropped, which makes them sparse and costs nothing that can be measured.
    """
    text, svm, sparse = (_package(name) for name in ("sklearn.feature_extraction.text", "sklearn.svm", "scipy.sparse"))
    settings = fold.settings
    fewest = min(settings["min_texts"], len(fold.train.ids))
    vectorizer = text.TfidfVectorizer(analyzer=Tokenizer(), sublinear_tf=True, min_df=fewest, dtype=np.float32)
    vectors = vectorizer.fit_transform(fold.train.texts)
    row, label = fold.train.known.pairs()
    learned = np.bincount(label, minlength=len(fold.labels)) > 0
    planes, intercepts = [], np.zeros(len(fold.labels), np.float32)
    for number in range(len(fold.labels)):
        carried = np.zeros(vectors.shape[0], np.bool_)
        carried[row[label == number]] = True
        if not learned[number] or carried.all():
            planes.append(sparse.csr_matrix((1, vectors.shape[1]), dtype=np.float32))
            continue
        machine = svm.LinearSVC(C=settings["cost"], random_state=settings["seed"]).fit(vectors, carried)
        plane = machine.coef_[0].astype(np.float32)
        plane[np.abs(plane) < settings["prune"]] = 0
        planes.append(sparse.csr_matrix(plane))
        intercepts[number] = machine.intercept_[0]
    return LinearScorer(vectorizer, sparse.vstack(planes).tocsr(), intercepts, learned)


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise SetupError(f"the retriever linear needs {name} ({error}): pip install 'xmtc-fusion[linear]'") from None
