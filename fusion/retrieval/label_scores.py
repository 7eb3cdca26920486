"""From the training texts that a text resembles to scores of labels.

    score(text, label) = max (or sum) of score(text, t) over the retrieved training texts t that carry the label

Labels are ordered by score descending, then by label id ascending, and each label group keeps its first n.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from fusion.kernel.compiled import compiled
from fusion.kernel.ranking import top
from fusion.retrieval.ranked import Ranked, frozen
from fusion.types import Array, Int32s, Ints, Singles

Aggregation = Literal["max", "sum"]


class TextLabels(NamedTuple):
    """The labels of training text t are `label[offset[t] : offset[t + 1]]`."""

    offset: Ints
    label: Int32s


def label_scores(
    neighbours: Ranked, carried: TextLabels, group: Array, groups: int, aggregation: Aggregation, n: int
) -> Ranked:
    """The n best labels of each group, for every list of neighbours.

    `group` holds the group of every label, 0 to groups - 1. Sums are taken in double precision, from the best
    neighbour to the last, and rounded to float32 before they are compared.
    """
    fixed = frozen(carried.offset), frozen(carried.label), frozen(group)
    offset, label, score = _pools(*neighbours, *fixed, groups, aggregation == "sum")
    chosen, begin = top(score, offset, n)
    return Ranked(begin, label[chosen], score[chosen])


def matrix_lists(scores: Singles, group: Array, groups: int, n: int) -> Ranked:
    """The n best labels of each group, for every row of a matrix (texts x labels); NaN is no candidate."""
    by_group = np.argsort(group, kind="stable").astype(np.int32)
    pool = np.ascontiguousarray(scores[:, by_group])
    candidate = ~np.isnan(pool)
    sizes = [candidate[:, group[by_group] == g].sum(axis=1) for g in range(groups)]
    offset = np.concatenate(([0], np.cumsum(np.stack(sizes, axis=1).ravel())))
    label = np.broadcast_to(by_group, pool.shape)[candidate]
    chosen, begin = top(pool[candidate], offset, n)
    return Ranked(begin, label[chosen], pool[candidate][chosen])


def reference(
    neighbours: Sequence[tuple[int, float]],
    carried: Sequence[Sequence[int]],
    group: Mapping[int, str],
    aggregation: Aggregation,
    n: int,
) -> dict[str, list[tuple[int, float]]]:
    """The same for one text in plain Python: from (training text, score) to (label, score) by group, best first."""
    scores_of: dict[int, list[float]] = {}
    for text, score in neighbours:
        for label in carried[text]:
            scores_of.setdefault(label, []).append(float(score))
    aggregate = max if aggregation == "max" else sum
    scores = {label: float(np.float32(aggregate(values))) for label, values in scores_of.items()}
    ranked = sorted(scores.items(), key=lambda entry: (-entry[1], entry[0]))
    return {name: [entry for entry in ranked if group[entry[0]] == name][:n] for name in sorted(set(group.values()))}


@compiled
def _pools(offset, item, score, carried_offset, carried, group, groups, add):  # type: ignore[no-untyped-def]
    """The labels that each list of neighbours carries, by group and label id ascending, with their scores."""
    lists = offset.size - 1
    size = 0
    for e in range(item.size):
        size += carried_offset[item[e] + 1] - carried_offset[item[e]]
    ends = np.zeros(lists * groups + 1, np.int64)
    labels = np.empty(size, np.int32)
    scores = np.empty(size, np.float32)
    total = np.zeros(group.size, np.float64)
    seen = np.zeros(group.size, np.bool_)
    touched = np.empty(size, np.int32)
    end = 0
    for row in range(lists):
        count = 0
        for e in range(offset[row], offset[row + 1]):
            for c in range(carried_offset[item[e]], carried_offset[item[e] + 1]):
                label = carried[c]
                if not seen[label]:
                    seen[label] = True
                    touched[count] = label
                    count += 1
                    total[label] = score[e]
                elif add:
                    total[label] += score[e]
                else:
                    total[label] = max(total[label], np.float64(score[e]))
        carried_labels = np.sort(touched[:count])
        for g in range(groups):
            for label in carried_labels:
                if group[label] == g:
                    labels[end] = label
                    scores[end] = total[label]
                    end += 1
            ends[row * groups + g + 1] = end
        for label in carried_labels:
            seen[label] = False
    return ends, labels[:end].copy(), scores[:end].copy()
