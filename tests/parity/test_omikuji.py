"""Our label trees against those of omikuji, which cannot be given a seed: the same quality, not the same bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import omikuji
import pytest

from fusion.retrieval.bags import Bags
from fusion.retrieval.contrastive import LabelSets
from fusion.retrieval.label_trees import DEPTH, Growing, forest_labels, grow_forest
from fusion.retrieval.ranked import Ranked
from tests.unit.test_label_trees import LABELS, WORDS, labelled_texts

BEAM, FIRST = 10, 3


def text_of(texts: Bags, row: int) -> list[tuple[int, float]]:
    some = slice(texts.offset[row], texts.offset[row + 1])
    return list(zip(texts.token[some].tolist(), texts.times[some].tolist(), strict=True))


def their_forest(folder: Path, texts: Bags, known: LabelSets, growing: Growing) -> omikuji.Model:
    lines = [f"{len(known)} {WORDS} {LABELS}"]
    for row in range(len(known)):
        labels = known.labels[known.offsets[row] : known.offsets[row + 1]]
        terms = " ".join(f"{term}:{value:.8f}" for term, value in text_of(texts, row))
        lines.append(f"{','.join(map(str, labels))} {terms}")
    (folder / "texts.txt").write_text("\n".join(lines) + "\n")
    settings = omikuji.Model.default_hyper_param()
    settings.n_trees, settings.min_branch_size, settings.linear_c = growing.trees, growing.leaf, growing.cost
    settings.max_depth = DEPTH[growing.kind]
    return omikuji.Model.train_on_data(str(folder / "texts.txt"), settings, n_threads=1)


def precision(lists: list[list[int]], known: LabelSets) -> float:
    return float(
        np.mean(
            [
                np.isin(some, known.labels[known.offsets[i] : known.offsets[i + 1]]).mean()
                for i, some in enumerate(lists)
            ]
        )
    )


def first_labels(ranked: Ranked) -> list[list[int]]:
    return [ranked.item[begin:end].tolist() for begin, end in zip(ranked.offset[:-1], ranked.offset[1:], strict=True)]


@pytest.mark.parametrize("leaf", [8, LABELS + 1])
def test_the_same_quality(tmp_path: Path, leaf: int) -> None:
    """With a single leaf there is nothing to cluster, and the probabilities are close as well.

    Bonsai is not compared: omikuji ends the process if a node has fewer labels than clusters.
    """
    (texts, known), (new, new_known) = labelled_texts(), labelled_texts(seed=1)
    growing = Growing("parabel", trees=3, leaf=leaf, cost=1.0)
    theirs = their_forest(tmp_path, texts, known, growing)
    found = [theirs.predict(text_of(new, row), BEAM, LABELS) for row in range(len(new_known))]
    ours = grow_forest(texts, WORDS, known, growing)
    listed = forest_labels(ours, new, WORDS, np.zeros(LABELS, np.int8), 1, BEAM, FIRST)
    gap = precision(first_labels(listed), new_known) - precision(
        [[n for n, _ in row[:FIRST]] for row in found], new_known
    )
    assert abs(gap) < 0.03
    if leaf > LABELS:
        best = np.array([row[0][1] for row in found])
        assert np.abs(listed.score[listed.offset[:-1]] - best).mean() < 0.03
