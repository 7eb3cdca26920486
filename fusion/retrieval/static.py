"""The static bi-encoder: token vectors and token weights, fine-tuned as a whole with NT-Xent on a CPU.

A text's vector is the direction of the sum of its tokens' vectors, each times its weight (see `bags`). A label's vector
is the direction of name(l) + own(l): the unit vector of its words, plus a vector of its own that starts at zero, so
that a label without training texts is found by its words alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import cos, pi
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from fusion.compiled import compiled
from fusion.errors import InputError
from fusion.retrieval.bags import (
    Adam,
    Bags,
    backward,
    bag_sums,
    columns_of,
    document_frequencies,
    forward,
    joined,
    thinned,
)
from fusion.retrieval.contrastive import (
    SAMPLE,
    LabelSets,
    check_collapse,
    first_dispersion,
    mean_reciprocal_rank,
)
from fusion.retrieval.projection import unit
from fusion.types import EPS, Ints, Singles

WEIGHT_RATE, OWN_RATE = 10.0, 5.0
"""How much faster token weights and labels' own vectors learn than token vectors."""
RISE = 0.3
"""The share of the steps in which the rate rises."""
BATCH = 128, 256
MANY_LABELS, MOST_EXTRA = 1_000, 2_048
"""Chosen on validation texts of the demo, of parts of it, of EURLEX57K and of TIBKAT."""
UNSEEN = 0.1
"""What is added to a token's idf, so that one in every text still counts a little."""

Pairs = tuple[Ints, Ints]
"""The rows of texts and of labels that belong together."""


@dataclass(frozen=True)
class StaticTraining:
    """How a static model is trained."""

    learning_rate: float
    epochs: int
    patience: int
    train_batch: int | None
    """Texts of a batch; None: as many as suit the number of training texts."""
    extra_labels: int | None
    """Labels drawn for every batch, next to those of its texts; None: as many as suit the number of labels."""
    temperature: float = 0.07
    seed: int = 0

    def texts_at_once(self, texts: int) -> int:
        """Of so many training texts. With small batches there is little to contrast; with large ones, few steps."""
        least, most = BATCH
        return self.train_batch or min(max(texts // 100, least), most)

    def labels_drawn(self, labels: int) -> int:
        """Of so many labels of training texts. A batch has frequent labels far more often than rare ones; where there
        are thousands, most would hardly ever be contrasted."""
        suitable = min(labels // 8, MOST_EXTRA) if labels >= MANY_LABELS else 0
        return min(labels, suitable if self.extra_labels is None else self.extra_labels)


@dataclass(frozen=True)
class Labelled:
    """Texts as bags, and the labels that each is known to have."""

    bags: Bags
    known: LabelSets


@dataclass(frozen=True)
class StaticModel:
    """Token vectors times their weights, and the labels' own vectors."""

    table: Singles
    own: Singles

    def texts(self, bags: Bags) -> Singles:
        """Unit vectors of texts; zero for a text without a token that counts."""
        return unit(bag_sums(bags, self.table))

    def labels(self, names: Bags) -> Singles:
        """Unit vectors of labels; zero for a label of which nothing is known."""
        return unit(self.texts(names) + self.own)


def frequency_bias(frequencies: Ints, strength: float) -> Singles:
    """What is added to the cosine of a label that n training texts carry: strength * ln(n + 1).

    Within a batch a label is a negative as often as it is a positive, so that NT-Xent learns nothing of how frequent it
    is; of two labels that suit a text equally, the more frequent one is likelier.
    """
    return (strength * np.log1p(frequencies)).astype(np.float32)


def with_bias(vectors: Singles, bias: Singles | float) -> Singles:
    """Vectors with a last coordinate: the bias of labels, or 1 for texts, so that their product has the bias in it."""
    column = np.broadcast_to(np.asarray(bias, np.float32), len(vectors))
    return np.ascontiguousarray(np.column_stack((vectors, column)))


@dataclass(frozen=True)
class TrainedStatic:
    """The model as it was when validation was best: after epoch `best`, 0 being before training."""

    model: StaticModel
    mrr: list[float]
    """The validation MRR before training and after each epoch."""
    losses: list[float]
    best: int


def rising_and_falling(step: int, steps: int) -> float:
    """The share of the peak rate at a step: from a 25th up to 1 in the first steps, then down to nothing, as cosines.

    L. N. Smith and N. Topin, "Super-Convergence", 2019.
    """
    turn = max(1.0, RISE * steps)
    if step < turn:
        return 1 - (1 - 1 / 25) * (1 + cos(pi * step / turn)) / 2
    return (1 + cos(pi * (step - turn) / max(1.0, steps - turn))) / 2


def inverse_frequencies(bags: Bags, tokens: int) -> Singles:
    """What token weights start at: ln((N + 1) / (n + 1)) + 0.1 for a token in n of N training texts."""
    texts = len(bags.offset) - 1
    return (np.log((texts + 1) / (document_frequencies(bags, tokens) + 1)) + UNSEEN).astype(np.float32)


def word_vectors(train: Bags, tokens: int, width: int, seed: int) -> Singles:
    """What the vectors of words start at where no other model gives them: a random direction for each word, plus the
    direction of the training texts that it is in.

    With r(t) random, x(i, t) the tf-idf weights of text i as a unit vector, and d(i) the direction of the sum of
    x(i, t) r(t), less the mean over texts:

        start(t) = (r(t) + direction of sum over texts i of x(i, t) d(i)) / sqrt 2

    so words of the same texts start near to each other. Kanerva, Kristoferson and Holst, "Random indexing of text
    samples for latent semantic analysis", CogSci 2000.
    """
    rng = np.random.default_rng(seed)
    random = rng.standard_normal((tokens, width), np.float32) / np.float32(np.sqrt(width))
    weights = inverse_frequencies(train, tokens)
    directions = unit(bag_sums(train, weights[:, None] * random))
    directions -= directions.mean(axis=0)
    weighted = (train.times * weights[train.token]).astype(np.float64)
    squares = np.concatenate(([0], np.cumsum(weighted**2)))[train.offset]
    lengths = np.sqrt(np.maximum(np.diff(squares), EPS))
    shares = (weighted / np.repeat(lengths, np.diff(train.offset))).astype(np.float32)
    return (random + unit(_spread(train.offset, train.token, shares, directions, tokens))) / np.float32(np.sqrt(2))


@compiled
def _spread(offset, token, share, directions, tokens):  # type: ignore[no-untyped-def]
    """The sum of the directions of each token's texts."""
    sums = np.zeros((tokens, directions.shape[1]), np.float32)
    for i in range(offset.size - 1):
        for e in range(offset[i], offset[i + 1]):
            for k in range(directions.shape[1]):
                sums[token[e], k] += share[e] * directions[i, k]
    return sums


class Contrasted(NamedTuple):
    """A loss, and its gradients with respect to the vectors of texts and of labels."""

    loss: float
    by_text: Singles
    by_label: Singles


def nt_xent_of_texts(texts: Singles, labels: Singles, pairs: Pairs, temperature: float) -> Contrasted:
    """NT-Xent over a batch of texts with all their labels, contrasted with further labels as well.

    `pairs` says which rows of texts and of labels belong together; none is there twice. With e(i, l) the exponential of
    the cosine of text i and label l over the temperature, Z(i) the sum of e(i, j) over the labels j that text i does
    not have, and Z(l) the sum of e(j, l) over the texts j that do not have label l:

        loss = mean over pairs of 1/2 (ln(1 + Z(i) / e(i, l)) + ln(1 + Z(l) / e(i, l)))

    so the labels of a text do not count against each other. Rows need not be normalised.
    """
    text_units, label_units = unit(texts), unit(labels)
    # A cosine is at most 1, so nothing overflows; e and Z have the same factor.
    power = np.exp((text_units @ label_units.T - 1) / np.float32(temperature))
    positive = power[pairs]
    power[pairs] = 0
    sums = [positive + power.sum(axis=1 - side)[of] for side, of in enumerate(pairs)]
    loss = float(np.log(sums[0] / positive * (sums[1] / positive)).mean() / 2)
    # What a pair's contrasts with all negatives of its text, or of its label, have in common.
    by_text, by_label = (
        np.bincount(of, 1 / total, count).astype(np.float32)
        for of, total, count in zip(pairs, sums, power.shape, strict=True)
    )
    power *= by_text[:, None] + by_label
    power[pairs] = positive / sums[0] + positive / sums[1] - 2
    power /= np.float32(2 * len(positive) * temperature)
    return Contrasted(
        loss,
        through_unit(power @ label_units, texts, text_units),
        through_unit(power.T @ text_units, labels, label_units),
    )


def through_unit(gradient: Singles, vectors: Singles, units: Singles) -> Singles:
    """The gradient with respect to vectors, from that with respect to their unit vectors."""
    length = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(EPS))
    along = (gradient * units).sum(axis=1, keepdims=True)
    return ((gradient - along * units) / length).astype(np.float32)


class _Trainer:
    """The parameters of a model in training, and one step of it."""

    def __init__(self, start: Singles, train: Labelled, names: Bags, settings: StaticTraining) -> None:
        self.train, self.names, self.settings = train, names, settings
        self.everything = joined(train.bags, names)
        self.vectors = Adam.of(start)
        self.weights = Adam.of(inverse_frequencies(train.bags, len(start))[:, None])
        self.own = Adam.of(np.zeros((len(names.offset) - 1, start.shape[1]), np.float32))
        self.number = 0

    def model(self) -> StaticModel:
        return StaticModel(np.maximum(self.weights.value, 0) * self.vectors.value, self.own.value.copy())

    def step(self, texts: Ints, further: Ints, rate: float) -> float:
        """Learn from all labels of some texts, and from further labels; the loss."""
        self.number += 1
        known = self.train.known.take(texts)
        text_row, labels = known.pairs()
        some_labels = np.union1d(labels, further)
        rows = np.concatenate((texts, len(self.train.known) + some_labels))
        columns = columns_of(self.everything, rows, len(self.vectors.value))
        sums = forward(columns, self.vectors.value, self.weights.value, len(rows))
        text_sums, name_sums = sums[: len(texts)], sums[len(texts) :]
        names = unit(name_sums)
        pairs = text_row, np.searchsorted(some_labels, labels)
        loss, by_text, by_label = nt_xent_of_texts(
            text_sums, names + self.own.value[some_labels], pairs, self.settings.temperature
        )
        by_sums = np.vstack((by_text, through_unit(by_label, name_sums, names)))
        backward(columns, by_sums, self.vectors, self.weights, self.number, (rate, rate * WEIGHT_RATE))
        self.own.step(some_labels, by_label, self.number, rate * OWN_RATE)
        return loss


def train_static(
    start: Singles,
    train: Labelled,
    validation: Labelled,
    names: Bags,
    settings: StaticTraining,
    where: str,
    advanced: Callable[[float], object] = lambda share: None,
) -> TrainedStatic:
    """Train on the pairs of `train` and stop early by the MRR on `validation`; `start` holds the first token vectors.

    The best epoch is kept, that before training included; without validation texts, the last one. Labels without a
    training text are never drawn as negatives: they would only be driven away from all texts. The same seed gives the
    same bytes on one machine. `advanced` is called after each step with its share of all epochs.
    """
    carried = np.unique(train.known.labels)
    texts = np.flatnonzero(np.diff(train.known.offsets))
    if not len(texts):
        raise InputError(f"{where}: there is no training text with a label; look at the folds of the prepared data")
    rng = np.random.default_rng(settings.seed)
    trainer = _Trainer(start, train, names, settings)
    at_once, drawn = settings.texts_at_once(len(texts)), settings.labels_drawn(len(carried))
    steps = -(-len(texts) // at_once)
    model, best = trainer.model(), 0
    # Not validation texts: one of them, or two that are equal, are no sign of a collapse.
    sample = thinned(train.bags, SAMPLE)
    dispersed = first_dispersion(model.texts(sample), model.labels(names), where)
    mrr, losses = [_judge(model, names, validation)], list[float]()
    # Sums of products of matrices must not depend on the number of threads.
    with threadpool_limits(1):
        for epoch in range(1, settings.epochs + 1):
            order, total = rng.permutation(texts), 0.0
            for step in range(steps):
                batch = order[step * at_once : (step + 1) * at_once]
                share = rising_and_falling(trainer.number, steps * settings.epochs)
                further = rng.choice(carried, drawn, replace=False)
                loss = trainer.step(batch, further, settings.learning_rate * share)
                total += len(batch) * loss
                advanced(1 / (steps * settings.epochs))
            losses.append(total / len(texts))
            now = trainer.model()
            check_collapse(now.texts(sample), now.labels(names), dispersed, f"{where}, epoch {epoch}")
            mrr.append(_judge(now, names, validation))
            if mrr[-1] > mrr[best] or not len(validation.known.labels):
                model, best = now, epoch
            if epoch - best >= settings.patience:
                break
    return TrainedStatic(model, mrr, losses, best)


def _judge(model: StaticModel, names: Bags, validation: Labelled) -> float:
    return mean_reciprocal_rank(model.texts(validation.bags), model.labels(names), validation.known)
