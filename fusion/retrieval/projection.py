"""Projection heads over vectors that a frozen encoder has made: the training that a CPU can afford.

A text's vector x becomes unit(x W + b). A label has parts: the vector of its text, and the mean of the vectors of
its training texts; side by side they go through a head of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from fusion.compiled import compiled
from fusion.errors import InputError
from fusion.retrieval.contrastive import (
    SAMPLE,
    LabelSets,
    Training,
    check_collapse,
    dense_package,
    epoch_rate,
    first_dispersion,
    mean_reciprocal_rank,
    negatives,
    nt_xent,
)
from fusion.types import EPS, Ints, Singles


@dataclass(frozen=True)
class Head:
    """A linear map to unit vectors."""

    weights: Singles
    bias: Singles

    def __call__(self, vectors: Singles) -> Singles:
        return unit(_affine(np.ascontiguousarray(vectors), self.weights, self.bias))


@dataclass(frozen=True)
class Heads:
    """The two heads, in one space."""

    text: Head
    label: Head


@dataclass(frozen=True)
class Examples:
    """Texts by their vectors, and the labels that each is known to have."""

    vectors: Singles
    known: LabelSets


@dataclass(frozen=True)
class Trained:
    """Heads as they were when validation was best: after epoch `best`, 0 being before training."""

    heads: Heads
    mrr: list[float]
    """The validation MRR before training and after each epoch."""
    losses: list[float]
    best: int


def unit(vectors: Singles) -> Singles:
    """Rows of length 1; zero rows stay zero."""
    return _unit(np.ascontiguousarray(vectors, np.float32))


class LabelParts:
    """What is known of every label before training: the vector of its text and the mean of its training texts.

    What a label lacks is a row of zeros.
    """

    def __init__(self, count: int, words: Singles | None, train: Examples | None) -> None:
        self.count = count
        self.words = words
        self.train = train
        self.sums: Singles | None = None
        if train is not None:
            text, label = train.known.pairs()
            order = np.argsort(label, kind="stable")
            begin = np.searchsorted(label[order], np.arange(count + 1))
            self.sums = _sums(np.ascontiguousarray(train.vectors), text[order], begin)

    def all(self) -> list[Singles]:
        """The parts of all labels, each (labels x dimensions)."""
        means = [] if self.sums is None else [unit(self.sums)]
        return ([] if self.words is None else [self.words]) + means

    def without(self, labels: Ints, texts: Ints) -> list[Singles]:
        """The parts of the labels of training pairs, each as if its pair's text were not among the label's texts.

        A text to be classified is not in the means either. With it, a rare label's mean would be nearly the text
        itself, and the head would learn to trust a similarity that no test text has.
        """
        words = [] if self.words is None else [self.words[labels]]
        if self.sums is None or self.train is None:
            return words
        rest = self.sums[labels] - self.train.vectors[texts]
        # What is left of a label's only text is rounding, not a direction.
        alone = np.linalg.norm(rest, axis=1) < 1e-4
        rest[alone] = 0
        return [*words, unit(rest)]


def combined(parts: Sequence[Singles]) -> Singles:
    """Label vectors without training: the direction between the parts."""
    return unit(np.sum(np.stack(list(parts)), axis=0))


def described(parts: Sequence[Singles]) -> Ints:
    """The labels of which anything is known. The others cannot be retrieved."""
    return np.flatnonzero(np.any([part.any(axis=1) for part in parts], axis=0))


def train_heads(parts: LabelParts, train: Examples, validation: Examples, settings: Training, where: str) -> Trained:
    """Heads trained with NT-Xent and AdamW on the pairs of `train`, stopped early by the MRR on `validation`.

    They begin as the identity, which is what retrieval without training does, and the best epoch is kept, that one
    included: by the validation texts, training is never worse than none. Without validation texts, the last epoch
    is kept. The same seed gives the same bytes on one machine: one thread, deterministic kernels.
    """
    torch = dense_package("torch")
    texts, labels = train.known.pairs()
    if not len(texts):
        raise InputError(f"{where}: there is no training text with a label; look at the folds of the prepared data")
    rng = np.random.default_rng(settings.seed)
    every = parts.all()
    wide, sample = np.hstack(every), train.vectors[:: max(1, len(train.vectors) // SAMPLE)]
    steps = -(-len(texts) // settings.train_batch)
    with deterministic(torch):
        weights = [torch.from_numpy(array).requires_grad_() for array in _start(every, settings.dimension, rng)]
        optimizer = torch.optim.AdamW(weights, lr=settings.learning_rate_low)
        heads = _heads(weights)
        start = first_dispersion(heads.text(sample), heads.label(wide), where)
        mrr, losses, best = [_judge(heads, wide, validation)], list[float](), 0
        for epoch in range(1, settings.epochs + 1):
            order, total = rng.permutation(len(texts)), 0.0
            for step in range(steps):
                rate = epoch_rate(step, steps, settings.learning_rate_low, settings.learning_rate_high)
                for group in optimizer.param_groups:
                    group["lr"] = rate
                batch = order[step * settings.train_batch : (step + 1) * settings.train_batch]
                sides = train.vectors[texts[batch]], np.hstack(parts.without(labels[batch], texts[batch]))
                z = [torch.from_numpy(side) @ weights[2 * n] + weights[2 * n + 1] for n, side in enumerate(sides)]
                mask = torch.from_numpy(negatives(labels[batch], train.known.take(texts[batch])))
                loss = nt_xent(z[0], z[1], mask, settings.temperature)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += float(loss.detach()) * len(batch)
            losses.append(total / len(texts))
            now = _heads(weights)
            check_collapse(now.text(sample), now.label(wide), start, f"{where}, epoch {epoch}")
            mrr.append(_judge(now, wide, validation))
            if mrr[-1] > mrr[best] or not len(validation.known.labels):
                heads, best = now, epoch
            if epoch - best >= settings.patience:
                break
    return Trained(heads, mrr, losses, best)


def rank_rows(queries: Singles, vectors: Singles, rows: Ints, size: int) -> tuple[Ints, Singles]:
    """The best `size` of the given rows for each query by the total order, and their cosines; -1 where there are fewer.

    Cosines are summed in one order and in double precision, so that they depend on nothing but the two vectors.
    """
    return _rank_rows(queries, vectors, rows, size)


@contextmanager
def deterministic(torch: Any, threads: int = 1) -> Iterator[None]:
    """Kernels whose sums do not depend on threads; what was set before comes back afterwards."""
    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        torch.use_deterministic_algorithms(before[1])


def _heads(weights: Sequence[Any]) -> Heads:
    """The heads as they are now."""
    text, text_bias, label, label_bias = (weight.detach().numpy().copy() for weight in weights)
    return Heads(Head(text, text_bias), Head(label, label_bias))


def _judge(heads: Heads, labels: Singles, validation: Examples) -> float:
    return mean_reciprocal_rank(heads.text(validation.vectors), heads.label(labels), validation.known)


def _start(parts: Sequence[Singles], dimension: int | None, rng: np.random.Generator) -> list[Singles]:
    """Weights and biases of the text head, then of the label head: the identity, or a random map to `dimension`."""
    width = parts[0].shape[1]
    size = dimension or width
    same = np.eye(width) if size == width else rng.standard_normal((width, size)) / np.sqrt(size)
    square, zero = same.astype(np.float32), np.zeros(size, np.float32)
    return [square.copy(), zero.copy(), np.vstack([square] * len(parts)), zero.copy()]


@compiled
def _unit(vectors):  # type: ignore[no-untyped-def]
    out = np.zeros_like(vectors)
    for row in range(vectors.shape[0]):
        length = 0.0
        for k in range(vectors.shape[1]):
            length += np.float64(vectors[row, k]) ** 2
        length = np.sqrt(length)
        # What is not a number stays visible.
        if not length <= EPS:
            for k in range(vectors.shape[1]):
                out[row, k] = vectors[row, k] / length
    return out


@compiled
def _sums(vectors, text, begin):  # type: ignore[no-untyped-def]
    """The sum of the vectors of each label's texts, which stand between begin[label] and begin[label + 1]."""
    sums = np.zeros((begin.size - 1, vectors.shape[1]), np.float32)
    for label in range(begin.size - 1):
        total = np.zeros(vectors.shape[1], np.float64)
        for i in range(begin[label], begin[label + 1]):
            total += vectors[text[i]]
        sums[label] = total
    return sums


@compiled
def _affine(vectors, weights, bias):  # type: ignore[no-untyped-def]
    """vectors @ weights + bias, summed in one order: a row's result does not depend on the rows around it."""
    out = np.empty((vectors.shape[0], weights.shape[1]), np.float32)
    for row in range(vectors.shape[0]):
        out[row] = bias
        for k in range(weights.shape[0]):
            x = vectors[row, k]
            if x != 0:
                for j in range(weights.shape[1]):
                    out[row, j] += x * weights[k, j]
    return out


@compiled
def _rank_rows(queries, vectors, rows, size):  # type: ignore[no-untyped-def]
    best = np.full((rows.shape[0], size), -1, np.int64)
    cosines = np.zeros((rows.shape[0], size), np.float32)
    for q in range(rows.shape[0]):
        here = np.sort(rows[q][rows[q] >= 0])
        scores = np.empty(here.size, np.float32)
        for i in range(here.size):
            total = 0.0
            for k in range(queries.shape[1]):
                total += np.float64(queries[q, k]) * np.float64(vectors[here[i], k])
            scores[i] = total
        # A stable sort keeps equal scores in the order of their label ids.
        order = np.argsort(-scores, kind="mergesort")[:size]
        best[q, : order.size] = here[order]
        cosines[q, : order.size] = scores[order]
    return best, cosines
