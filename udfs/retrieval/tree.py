"""Label trees over TF-IDF, in the workers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fusion.errors import InputError
from fusion.retrieval.bags import TfIdf
from fusion.retrieval.label_trees import Forest, Growing, Mapping, forest_labels, grow_forest
from fusion.retrieval.ranked import Ranked
from fusion.types import Array
from udfs.retrieval.folds import FoldSource, label_sets, read_label_groups, role_texts
from udfs.retrieval.retriever import fold_folder, mapped
from udfs.retrieval.words import Words, bags_of, read_bags
from udfs.steps import advanced
from udfs.stores.cache import writable_folder

MIN_TEXTS = 2
"""Terms in fewer training texts do not count."""


@dataclass(frozen=True)
class Tree:
    """Label trees as a retriever: of the labels that training texts carry, those at the ends of the best paths."""

    name: str
    groups: tuple[str, ...]
    encoding: Words
    text_tokens: str
    growing: Growing
    most_terms: int
    beam: int
    top: int
    in_threads: bool = True

    def fit(self, source: FoldSource, models: str) -> dict[str, int]:
        ids = role_texts(source, "train")
        bags, known = read_bags(self.text_tokens, ids), label_sets(source, ids)
        if not len(known.labels):
            raise InputError(f"fold {source.fold}: no training text has a label, so that no tree can be grown")
        label_groups = read_label_groups(source.prepared)
        terms = TfIdf.of(bags, MIN_TEXTS, self.most_terms)
        with ThreadPoolExecutor(_threads()) as pool:
            forest = grow_forest(terms.vectors(bags), len(terms.terms), known, self.growing, stoppable(pool))
        group = np.searchsorted(np.array(self.groups), label_groups).astype(np.int8)
        with writable_folder(fold_folder(models, source.fold)) as place:
            for name, values in {**forest._asdict(), **terms._asdict(), "label_group": group}.items():
                np.save(place / f"{name}.npy", values)
        return {"terms": len(terms.terms), "nodes": len(forest.leaf), "weights": len(forest.weight)}

    def open(self, place: Path) -> TreeModel:
        forest = Forest(*(mapped(place, name) for name in Forest._fields))
        terms = TfIdf(*(mapped(place, name) for name in TfIdf._fields))
        return TreeModel(self, forest, terms, mapped(place, "label_group"))


@dataclass(frozen=True)
class TreeModel:
    """The trees of a fold: the score of a label is the mean of its probabilities in all trees."""

    retriever: Tree
    forest: Forest
    terms: TfIdf
    label_group: Array

    def rank(self, rows: pa.RecordBatch) -> Ranked:
        texts, settings = self.terms.vectors(bags_of(rows)), self.retriever
        shape = len(self.terms.terms), self.label_group, len(settings.groups)
        return forest_labels(self.forest, texts, *shape, settings.beam, settings.top)


def stoppable(pool: ThreadPoolExecutor) -> Mapping:
    """A pool's map, which ends early if nobody waits for the results any more."""

    def mapping(work: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        results: Any = pool.map(work, items)
        with closing(results):
            for result in results:
                advanced()
                yield result

    return mapping


def _threads() -> int:
    """As many as this process may use, which Spark says to its workers in this variable."""
    return int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1)
