"""The static bi-encoder: token vectors and token weights, fine-tuned as a whole with NT-Xent on a CPU.

A text's vector is the direction of the sum of its tokens' vectors, each times its weight (see `bags`). A label's vector
is the direction of name(l) + own(l): the unit vector of its words, plus a vector of its own that starts at zero, so
that a label without training texts is found by its words alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, pi
from typing import Any

import numpy as np

from fusion.errors import InputError
from fusion.retrieval.bags import Adam, Bags, backward, bag_sums, columns_of, document_frequencies, forward, joined
from fusion.retrieval.contrastive import (
    LabelSets,
    check_collapse,
    dense_package,
    first_dispersion,
    mean_reciprocal_rank,
    negatives,
)
from fusion.retrieval.projection import deterministic, unit
from fusion.types import Ints, Singles

WEIGHT_RATE, OWN_RATE = 10.0, 5.0
"""How much faster token weights and labels' own vectors learn than token vectors."""
RISE = 0.3
"""The share of the steps in which the rate rises."""
UNSEEN = 0.1
"""What is added to a token's idf, so that one in every text still counts a little."""


@dataclass(frozen=True)
class StaticTraining:
    """How a static model is trained."""

    temperature: float
    learning_rate: float
    epochs: int
    patience: int
    train_batch: int
    extra_labels: int
    """Labels drawn for every batch, beside those of its pairs."""
    seed: int


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


def wide_nt_xent(texts: Any, labels: Any, pairs: tuple[Any, Any], negative: Any, temperature: float) -> Any:
    """NT-Xent over a batch of pairs (text row, label row) whose texts are contrasted with more labels than the pairs'.

    As `nt_xent`, with two differences: a text is contrasted with every row of `labels`, and with each but once, however
    many pairs have it. Row i of `negative` belongs to pair i, its columns to the labels. Rows of texts and labels need
    not be normalised.
    """
    torch = dense_package("torch")
    normalize = torch.nn.functional.normalize
    of_text, of_label = pairs
    logits = (normalize(texts, dim=1) @ normalize(labels, dim=1).T)[of_text] / temperature
    right = torch.nn.functional.one_hot(of_label, len(labels)).bool()
    square = logits[:, of_label]
    opposed = negative[:, of_label] | torch.eye(len(of_label), dtype=torch.bool)
    to_labels = logits.masked_fill(~(negative | right), float("-inf")).logsumexp(dim=1)
    to_texts = square.masked_fill(~opposed, float("-inf")).logsumexp(dim=0)
    return (to_labels + to_texts - 2 * square.diagonal()).mean() / 2


class _Trainer:
    """The parameters of a model in training, and one step of it."""

    def __init__(self, start: Singles, train: Labelled, names: Bags, settings: StaticTraining) -> None:
        self.torch = dense_package("torch")
        self.train, self.names, self.settings = train, names, settings
        self.everything = joined(train.bags, names)
        self.vectors = Adam.of(start)
        self.weights = Adam.of(inverse_frequencies(train.bags, len(start))[:, None])
        self.own = Adam.of(np.zeros((len(names.offset) - 1, start.shape[1]), np.float32))
        self.number = 0

    def model(self) -> StaticModel:
        return StaticModel(np.maximum(self.weights.value, 0) * self.vectors.value, self.own.value.copy())

    def step(self, texts: Ints, labels: Ints, extra: Ints, rate: float) -> float:
        """Learn from the pairs (texts[i], labels[i]) and from further labels; the loss."""
        self.number += 1
        some_texts, text_row = np.unique(texts, return_inverse=True)
        some_labels = np.union1d(labels, extra)
        label_row = np.searchsorted(some_labels, labels)
        rows = np.concatenate((some_texts, len(self.train.known) + some_labels))
        columns = columns_of(self.everything, rows, len(self.vectors.value))
        sums = self._leaf(forward(columns, self.vectors.value, self.weights.value, len(rows)))
        own = self._leaf(self.own.value[some_labels])
        names = self.torch.nn.functional.normalize(sums[len(some_texts) :], dim=1)
        mask = self.torch.from_numpy(negatives(some_labels, self.train.known.take(texts)))
        pairs = self.torch.from_numpy(text_row), self.torch.from_numpy(label_row)
        loss = wide_nt_xent(sums[: len(some_texts)], names + own, pairs, mask, self.settings.temperature)
        loss.backward()
        backward(columns, sums.grad.numpy(), self.vectors, self.weights, self.number, (rate, rate * WEIGHT_RATE))
        self.own.step(some_labels, own.grad.numpy(), self.number, rate * OWN_RATE)
        return float(loss.detach())

    def _leaf(self, values: Singles) -> Any:
        return self.torch.from_numpy(values).requires_grad_()


def train_static(
    start: Singles, train: Labelled, validation: Labelled, names: Bags, settings: StaticTraining, where: str
) -> TrainedStatic:
    """Train on the pairs of `train` and stop early by the MRR on `validation`; `start` holds the first token vectors.

    The best epoch is kept, that before training included; without validation texts, the last one. Labels without a
    training text are never drawn as negatives: they would only be driven away from all texts. The same seed gives the
    same bytes on one machine.
    """
    texts, labels = train.known.pairs()
    if not len(texts):
        raise InputError(f"{where}: there is no training text with a label; look at the folds of the prepared data")
    rng = np.random.default_rng(settings.seed)
    trainer = _Trainer(start, train, names, settings)
    steps = -(-len(texts) // settings.train_batch)
    carried = np.unique(labels)
    drawn = min(settings.extra_labels, len(carried))
    model, best = trainer.model(), 0
    sample = validation.bags if len(validation.known) else train.bags
    dispersed = first_dispersion(model.texts(sample), model.labels(names), where)
    mrr, losses = [_judge(model, names, validation)], list[float]()
    with deterministic(trainer.torch):
        for epoch in range(1, settings.epochs + 1):
            order, total = rng.permutation(len(texts)), 0.0
            for step in range(steps):
                batch = order[step * settings.train_batch : (step + 1) * settings.train_batch]
                share = rising_and_falling(trainer.number, steps * settings.epochs)
                extra = rng.choice(carried, drawn, replace=False)
                loss = trainer.step(texts[batch], labels[batch], extra, settings.learning_rate * share)
                total += len(batch) * loss
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
