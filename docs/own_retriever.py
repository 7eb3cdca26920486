"""A retriever in one file: labels by the share of their name's words that a text has.

Use: retrievers: [bm25, dense, docs/own_retriever.py]
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

import xmtc_fusion as xf


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


@xf.retriever(
    "name-words",
    indexes="the words of the labels' names",
    scores="the share of the name's words that the text has; the more frequent label first",
    citation="an example",
)
def name_words(fold: xf.FoldTexts) -> Callable[[list[str]], list[tuple[list[int], list[float]]]]:
    """Learns how frequent each label is, and returns what ranks the labels of texts."""
    names = [words(name) for name in fold.labels.names]
    frequency = np.bincount(fold.train.known.labels, minlength=len(names)) / max(len(fold.train.ids), 1)
    least = fold.settings.get("least", 0.0)

    def rank(texts: list[str]) -> list[tuple[list[int], list[float]]]:
        lists = []
        for text in map(words, texts):
            share = {label: len(name & text) / len(name) for label, name in enumerate(names) if name & text}
            labels = [label for label in share if share[label] > least]
            lists.append((labels, [share[label] + frequency[label] / 1000 for label in labels]))
        return lists

    return rank
