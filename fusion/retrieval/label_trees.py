"""Label trees: labels with similar texts share a branch, and every node has one linear classifier per child.

    P(label | x) = mean over trees of exp(-sum of max(0, 1 - w(c) x)^2 over the children c on the way to the label)

A tree is grown from the top: the labels of a node are clustered by the means of their training texts, in two halves
(Parabel: Prabhu et al., WWW 2018) or in up to a hundred clusters (Bonsai: Khandagale et al., Machine Learning 2020),
until few are left. The classifiers of a node learn from the texts that carry one of its labels. Texts go down the tree
in a beam. What is drawn at random depends on the seed, the tree and the node alone, so that trees and nodes may be
worked on in any order and by any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np

from fusion.compiled import compiled
from fusion.kernel.ranking import top
from fusion.retrieval.bags import Bags
from fusion.retrieval.classifiers import Classifiers, Seed, classifiers, taken
from fusion.retrieval.contrastive import LabelSets
from fusion.retrieval.neighbours import TextLabels, label_scores
from fusion.retrieval.ranked import Ranked, frozen
from fusion.types import Array, Int32s, Ints, Singles

Kind = Literal["parabel", "bonsai"]
CLUSTERS: dict[Kind, int] = {"parabel": 2, "bonsai": 100}
DEPTH: dict[Kind, int] = {"parabel": 40, "bonsai": 3}
"""Levels of nodes at most."""
GAIN = 1e-4
"""Clustering ends when the mean cosine of labels and their centres rises by less."""


class Growing(NamedTuple):
    """How trees are grown."""

    kind: Kind
    trees: int
    leaf: int
    """A node with fewer labels is a leaf."""
    cost: float
    """The inverse strength of regularisation."""
    seed: int = 0


class Node(NamedTuple):
    """A node: its children, each a set of labels, and the numbers of their nodes; a leaf has one label per child."""

    parts: list[Ints]
    nodes: list[int]


class Forest(NamedTuple):
    """All trees, as arrays. Node n has the children `row[n]` to `row[n + 1]`, and weights for the terms
    `term[start[n] : start[n + 1]]`; those of term number t are `weight[entry[t] : entry[t + 1]]`, of the children
    `child[...]` of its node."""

    roots: Ints
    leaf: Array
    row: Ints
    target: Int32s
    """Of a child: its node, or its label if this is a leaf."""
    bias: Singles
    start: Ints
    term: Int32s
    entry: Ints
    child: Int32s
    weight: Singles


Mapping = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
"""As the function map; that of a pool of threads does the same in less time."""


def grow_forest(texts: Bags, terms: int, known: LabelSets, growing: Growing, mapping: Mapping = map) -> Forest:
    """The trees of training texts, whose vectors have length 1, and the labels that each carries."""
    text, label = known.pairs()
    order = np.lexsort((text, label))
    labels, first = np.unique(label[order], return_index=True)
    carrying = LabelSets(np.append(first, len(order)), text[order])
    means = label_means(texts, carrying, terms)

    def tree(number: int) -> list[Node]:
        return grown(means, terms, growing, (growing.seed, number))

    def learned(node: tuple[int, Node]) -> Classifiers:
        return classifiers(texts, terms, carrying, node[1].parts, growing.cost, (growing.seed, node[0]))

    grown_trees = list(mapping(tree, range(growing.trees)))
    nodes = [node for nodes in grown_trees for node in nodes]
    first_of = np.concatenate(([0], np.cumsum([len(nodes) for nodes in grown_trees])))
    roots = np.repeat(first_of[:-1], np.diff(first_of)).tolist()
    parts = list(mapping(learned, enumerate(nodes)))
    target = [
        [root + below for below in node.nodes] or labels[np.concatenate(node.parts)].tolist()
        for root, node in zip(roots, nodes, strict=True)
    ]
    return Forest(
        roots=first_of[:-1],
        leaf=np.array([not node.nodes for node in nodes]),
        row=_ends(len(below) for below in target),
        target=np.array([number for below in target for number in below], np.int32),
        bias=np.concatenate([part.bias for part in parts]),
        start=_ends(len(part.term) for part in parts),
        term=np.concatenate([part.term for part in parts]),
        entry=_ends(np.concatenate([part.entries for part in parts])),
        child=np.concatenate([part.child for part in parts]),
        weight=np.concatenate([part.weight for part in parts]),
    )


def _ends(sizes: Any) -> Ints:
    return np.concatenate(([0], np.cumsum(np.fromiter(sizes, np.int64)))).astype(np.int64)


def label_means(texts: Bags, carrying: LabelSets, terms: int) -> Bags:
    """The sum of each label's texts, scaled to length 1."""
    return Bags(*_label_means(*texts, carrying.offsets, carrying.labels, terms))


def grown(means: Bags, terms: int, growing: Growing, seed: Seed) -> list[Node]:
    """The nodes of a tree, a parent before its children."""
    waiting = [(np.arange(len(means.offset) - 1), 1)]
    nodes: list[Node] = []
    while len(nodes) < len(waiting):
        labels, depth = waiting[len(nodes)]
        parts: list[Ints] = []
        if len(labels) >= growing.leaf and depth < DEPTH[growing.kind]:
            offset, token, value, used = taken(means, labels, terms)
            clusters = min(CLUSTERS[growing.kind], len(labels))
            rng = np.random.default_rng([*seed, len(nodes)])
            cluster = _clusters(offset, token, value, len(used), clusters, growing.kind == "parabel", GAIN, rng)
            parts = [labels[cluster == number] for number in np.unique(cluster)]
        if len(parts) > 1:
            nodes.append(Node(parts, list(range(len(waiting), len(waiting) + len(parts)))))
            waiting += [(part, depth + 1) for part in parts]
        else:
            nodes.append(Node([labels[n : n + 1] for n in range(len(labels))], []))
    return nodes


def forest_labels(forest: Forest, texts: Bags, terms: int, group: Array, groups: int, beam: int, n: int) -> Ranked:
    """The n best labels of each group for texts, whose vectors have length 1; `group` is that of each label.

    In each tree, a text goes down to the `beam` best leaves, and all their labels count.
    """
    fixed = Forest(*(frozen(values) for values in forest))
    found = [_leaf_labels(fixed, int(root), texts, terms, beam) for root in forest.roots]
    text, label, score = (np.concatenate(values) for values in zip(*found, strict=True))
    order = np.argsort(text, kind="stable")
    offset = np.searchsorted(text[order], np.arange(len(texts.offset)))
    listed = Ranked(offset, label[order], score[order] / np.float32(len(forest.roots)))
    every = np.arange(len(group) + 1)
    return label_scores(listed, TextLabels(every, every[:-1].astype(np.int32)), group, groups, "sum", n)


def _leaf_labels(forest: Forest, root: int, texts: Bags, terms: int, beam: int) -> tuple[Array, Int32s, Singles]:
    """The labels of the leaves that texts reach in a tree."""
    count = len(texts.offset) - 1
    text, node, score = np.arange(count), np.full(count, root), np.zeros(count, np.float32)
    while len(node) and not forest.leaf[node].all():
        branch = ~forest.leaf[node]
        below: tuple[Array, ...] = _below(forest, texts, terms, text[branch], node[branch], score[branch])
        stayed: tuple[Array, ...] = (text[~branch], node[~branch], score[~branch])
        text, node, score = (np.concatenate((one, other)) for one, other in zip(stayed, below, strict=True))
        order = np.argsort(text, kind="stable")
        chosen = order[top(score[order], np.searchsorted(text[order], np.arange(count + 1)), beam)[0]]
        text, node, score = text[chosen], node[chosen], score[chosen]
    text, label, score = _below(forest, texts, terms, text, node, score)
    return text, label, np.exp(score)


def _below(
    forest: Forest, texts: Bags, terms: int, text: Ints, node: Ints, score: Singles
) -> tuple[Ints, Int32s, Singles]:
    """From texts at nodes to the children of these nodes, with the logarithms of their probabilities."""
    order = np.argsort(node, kind="stable")
    text, node = text[order], node[order]
    sizes = forest.row[node + 1] - forest.row[node]
    begin = np.concatenate(([0], np.cumsum(sizes)))
    rows = np.arange(begin[-1]) + np.repeat(forest.row[node] - begin[:-1], sizes)
    weights = forest.start, forest.term, forest.entry, forest.child, forest.weight
    scores = _margins(*weights, *texts, terms, text, node, begin)
    scores = np.repeat(score[order], sizes) - np.maximum(1 - (scores + forest.bias[rows]), 0) ** 2
    return np.repeat(text, sizes), forest.target[rows], scores


@compiled
def _margins(start, term, entry, child, weight, offset, token, value, terms, text, node, begin):  # type: ignore[no-untyped-def]
    """The products of texts with the weights of the children of their nodes, which are in ascending order."""
    scores = np.zeros(begin[-1], np.float32)
    place = np.full(terms, -1, np.int64)
    last = -1
    for i in range(node.size):
        if node[i] != last:
            if last >= 0:
                place[term[start[last] : start[last + 1]]] = -1
            last = node[i]
            for t in range(start[last], start[last + 1]):
                place[term[t]] = t
        for e in range(offset[text[i]], offset[text[i] + 1]):
            t = place[token[e]]
            if t >= 0:
                for j in range(entry[t], entry[t + 1]):
                    scores[begin[i] + child[j]] += weight[j] * value[e]
    return scores


@compiled
def _label_means(offset, token, value, label_offset, text, terms):  # type: ignore[no-untyped-def]
    labels = label_offset.size - 1
    total = np.zeros(terms, np.float64)
    seen = np.zeros(terms, np.bool_)
    ends = np.zeros(labels + 1, np.int64)
    most = 0
    for k in range(text.size):
        most += offset[text[k] + 1] - offset[text[k]]
    touched = np.empty(terms, np.int32)
    tokens, values = np.empty(most, np.int32), np.empty(most, np.float32)
    for label in range(labels):
        count = 0
        for k in range(label_offset[label], label_offset[label + 1]):
            for e in range(offset[text[k]], offset[text[k] + 1]):
                if not seen[token[e]]:
                    seen[token[e]] = True
                    touched[count] = token[e]
                    count += 1
                total[token[e]] += value[e]
        squares = 0.0
        ordered = np.sort(touched[:count])
        for t in ordered:
            squares += total[t] ** 2
        begin = ends[label]
        for place in range(count):
            t = ordered[place]
            tokens[begin + place] = t
            values[begin + place] = total[t] / np.sqrt(squares)
            total[t] = 0
            seen[t] = False
        ends[label + 1] = begin + count
    return ends, tokens[: ends[-1]].copy(), values[: ends[-1]].copy()


@compiled
def _clusters(offset, token, value, terms, clusters, halves, gain, rng):  # type: ignore[no-untyped-def]
    """The cluster of each row: spherical k-means, or two clusters of the same size."""
    rows = offset.size - 1
    centre = np.zeros((terms, clusters), np.float32)
    order = np.arange(rows)
    for c in range(clusters):
        other = c + rng.integers(0, rows - c)
        order[c], order[other] = order[other], order[c]
        for e in range(offset[order[c]], offset[order[c] + 1]):
            centre[token[e], c] = value[e]
    cluster = np.zeros(rows, np.int64)
    cosine = np.zeros((rows, clusters), np.float32)
    before = -2.0
    while True:
        cosine[:] = 0
        for i in range(rows):
            for e in range(offset[i], offset[i + 1]):
                for c in range(clusters):
                    cosine[i, c] += value[e] * centre[token[e], c]
        if halves:
            cluster[:] = 1
            cluster[np.argsort(cosine[:, 1] - cosine[:, 0], kind="mergesort")[: rows // 2]] = 0
        else:
            for i in range(rows):
                cluster[i] = np.argmax(cosine[i])
        mean = 0.0
        for i in range(rows):
            mean += cosine[i, cluster[i]] / rows
        if mean - before < gain:
            break
        before = mean
        centre[:] = 0
        for i in range(rows):
            for e in range(offset[i], offset[i + 1]):
                centre[token[e], cluster[i]] += value[e]
        squares = np.zeros(clusters, np.float64)
        for t in range(terms):
            for c in range(clusters):
                squares[c] += centre[t, c] ** 2
        for c in range(clusters):
            squares[c] = 1 / np.sqrt(squares[c]) if squares[c] > 0 else 0.0
        for t in range(terms):
            for c in range(clusters):
                centre[t, c] *= squares[c]
    if not halves:
        _without_single(cluster, cosine)
    return cluster


@compiled
def _without_single(cluster, cosine):  # type: ignore[no-untyped-def]
    """Put rows that are alone in their cluster into the best one that has several."""
    size = np.bincount(cluster, minlength=cosine.shape[1])
    if size.max() > 1:
        for i in range(cluster.size):
            if size[cluster[i]] == 1:
                best = -1
                for c in range(size.size):
                    if size[c] > 1 and (best < 0 or cosine[i, c] > cosine[i, best]):
                        best = c
                cluster[i] = best
