"""Retrievers that are a Python function, in the workers; one of them is the linear classifier."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa

from fusion.errors import InputError, SetupError, XmtcError
from fusion.retrieval.neighbours import matrix_lists
from fusion.retrieval.tokens import Tokenizer
from fusion.types import Array, Singles
from udfs.lists import Batches, list_rows
from udfs.retrieval.folds import FoldSource, FoldTexts, read_fold
from udfs.stores.cache import readable_folder, writable_folder

Scorer = Callable[[list[str]], Any]
"""From texts to their scores of all labels: a matrix (texts x labels), NaN where a label is no candidate."""
Learn = Callable[[FoldTexts], Scorer]
SCORER_FILE, GROUPS_FILE = "scorer.pickle", "groups.npy"
TRIED = 3
"""Training texts that a new scorer is tried on, so that a wrong one is reported before all texts are scored."""
CHUNK = 256
"""Texts scored at a time: the matrix has a column for each label."""


def learn_fold(folder: str, retriever: str, learn: Learn, settings: Mapping[str, Any]) -> Callable[[FoldSource], Any]:
    """The work of `over_folds` that lets a retriever learn from a fold and keeps its scorer in `folder`/fold=N."""

    def work(source: FoldSource) -> dict[str, int]:
        from pyspark import cloudpickle

        fold = read_fold(source, settings)
        where = f"retriever {retriever}, fold {source.fold}"
        try:
            scorer = learn(fold)
            tried = checked_scores(scorer, fold.train.texts[:TRIED], len(fold.labels), where)
            content = cloudpickle.dumps(scorer)  # type: ignore[no-untyped-call]
        except XmtcError:
            raise
        # The code is not ours: whatever it raises is the answer to what went wrong.
        except Exception as error:
            raise InputError(f"{where}: {type(error).__name__}: {error}") from error
        with writable_folder(f"{folder}/fold={source.fold}") as place:
            (place / SCORER_FILE).write_bytes(content)
            np.save(place / GROUPS_FILE, np.array(fold.labels.groups))
        return {"texts": len(fold.train.ids), "candidates": int(np.count_nonzero(~np.isnan(tried)))}

    return work


def checked_scores(scorer: Scorer, texts: list[str], labels: int, where: str) -> Array:
    """The scores of some texts, if they are a matrix of the right shape without infinite values."""
    scores = np.asarray(scorer(texts), np.float32)
    if scores.shape != (len(texts), labels):
        raise InputError(
            f"{where}: the scores of {len(texts)} texts have the shape {scores.shape}, expected one row per text and "
            f"one column per label: ({len(texts)}, {labels})"
        )
    if np.isinf(scores).any():
        raise InputError(f"{where}: a score is infinite; NaN stands for a label that is no candidate")
    return scores


@lru_cache(maxsize=1)
def open_scorer(uri: str, fingerprint: str) -> tuple[Scorer, Array]:
    """The scorer of a fold and the groups of its labels, read once per Python worker."""
    place = readable_folder(uri, fingerprint)
    return pickle.loads((place / SCORER_FILE).read_bytes()), np.load(place / GROUPS_FILE)


def score_lists(
    uri: str, fingerprint: str, retriever: str, groups: Sequence[str], top: int
) -> Callable[[Batches], Batches]:
    """For `mapInArrow` on rows (fold, text_id, text): the ranked labels of each text, by the scorer of its fold."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            folds = batch["fold"].to_numpy()
            for fold in np.unique(folds):
                rows = batch.filter(pa.array(folds == fold))
                for begin in range(0, len(rows), CHUNK):
                    yield lists_of(rows.slice(begin, CHUNK), int(fold))

    def lists_of(rows: pa.RecordBatch, fold: int) -> pa.RecordBatch:
        scorer, label_groups = open_scorer(f"{uri}/fold={fold}", fingerprint)
        texts = [text or "" for text in rows["text"].to_pylist()]
        scores = checked_scores(scorer, texts, len(label_groups), f"retriever {retriever}, fold {fold}")
        number = np.searchsorted(np.array(groups), label_groups)
        return list_rows(fold, retriever, rows["text_id"], groups, matrix_lists(scores, number, len(groups), top))

    return run


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


MIN_TEXTS = 2
"""Terms in fewer training texts do not count."""
PRUNE = 0.01
"""Coefficients that are smaller are dropped."""


def learn_linear(fold: FoldTexts) -> LinearScorer:
    """Train a support vector machine with squared hinge loss for every label that training texts carry.

    Small coefficients are dropped, which makes them sparse and costs nothing that can be measured.
    """
    text, svm, sparse = (_package(name) for name in ("sklearn.feature_extraction.text", "sklearn.svm", "scipy.sparse"))
    fewest = min(MIN_TEXTS, len(fold.train.ids))
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
        machine = svm.LinearSVC(C=fold.settings["cost"], random_state=0).fit(vectors, carried)
        plane = machine.coef_[0].astype(np.float32)
        plane[np.abs(plane) < PRUNE] = 0
        planes.append(sparse.csr_matrix(plane))
        intercepts[number] = machine.intercept_[0]
    return LinearScorer(vectorizer, sparse.vstack(planes).tocsr(), intercepts, learned)


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise SetupError(f"the retriever linear needs {name} ({error}): pip install '.[linear]'") from None
