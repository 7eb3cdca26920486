"""Contrastive training of a bi-encoder: the NT-Xent loss with masks, the learning rate, and what is watched meanwhile.

PyTorch is imported when it is needed, so that everything sparse works without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from math import floor
from typing import Any, NamedTuple

import numpy as np

from fusion.errors import ConfigError, SetupError
from fusion.types import Array, Ints, Singles

REMEDY = "pip install '.[dense]'"
COLLAPSED = 0.01
"""A dispersion below this means that all vectors point the same way (a healthy model has 0.3 and more)."""
SHRUNK = 0.1
"""Models that start with little dispersion are collapsed when this share of it is left."""
SAMPLE = 2048
"""Vectors that are enough to see a collapse."""


@dataclass(frozen=True)
class Training:
    """How a model is trained."""

    temperature: float
    learning_rate_low: float
    learning_rate_high: float
    epochs: int
    patience: int
    train_batch: int
    dimension: int | None = None
    """The width of projections; None keeps the encoder's."""
    seed: int = 0


class CollapseError(ConfigError):
    """Raised when training drives all vectors to one point, or to values that are not finite."""


def dense_package(name: str) -> Any:
    """An optional package that pretrained models need, imported now."""
    try:
        return import_module(name)
    except ImportError as error:
        raise SetupError(f"a pretrained model needs the package {name!r} ({error}): {REMEDY}") from None


@dataclass(frozen=True)
class LabelSets:
    """The labels of texts, by text: those of text i are `labels[offsets[i]:offsets[i + 1]]`."""

    offsets: Ints
    labels: Ints

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def take(self, texts: Ints) -> LabelSets:
        """The sets of some texts, in their order."""
        sizes = np.diff(self.offsets)[texts]
        offsets = np.concatenate(([0], np.cumsum(sizes)))
        inside = np.arange(offsets[-1]) - np.repeat(offsets[:-1], sizes)
        return LabelSets(offsets, self.labels[np.repeat(self.offsets[texts], sizes) + inside])

    def pairs(self) -> tuple[Ints, Ints]:
        """Every (text, label), as two arrays."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets)), self.labels


def negatives(labels: Ints, known: LabelSets) -> Array:
    """Which pairs of a batch are contrasted: a matrix [text i, label j] of the batch's pairs (text i, label i).

    True where label j is a negative of text i. Labels that text i is known to have are none, so neither its other
    labels nor a second occurrence of label i count against it. `known` holds the sets of the batch's texts.
    """
    distinct, column = np.unique(labels, return_inverse=True)
    place = np.minimum(np.searchsorted(distinct, known.labels), len(distinct) - 1)
    hit = distinct[place] == known.labels
    owns = np.zeros((len(known), len(distinct)), np.bool_)
    owns[known.pairs()[0][hit], place[hit]] = True
    return np.logical_not(owns[:, column])


def nt_xent(texts: Any, labels: Any, negative: Any, temperature: float) -> Any:
    """NT-Xent over a batch of pairs; row i of `texts` belongs to row i of `labels`. Rows need not be normalised.

    With s(i, j) the cosine of text i and label j over the temperature, and N the matrix of `negatives`:

        loss = 1/2B * sum over i of
               - log( exp s(i,i) / (exp s(i,i) + sum over j with N(i,j) of exp s(i,j)) )      text -> label
               - log( exp s(i,i) / (exp s(i,i) + sum over j with N(j,i) of exp s(j,i)) )      label -> text

    Every pair is an anchor from both its sides, as in Chen et al., "A Simple Framework for Contrastive Learning of
    Visual Representations", ICML 2020. Contrasts are between texts and labels only: retrieval compares nothing else.
    """
    torch = dense_package("torch")
    unit = torch.nn.functional.normalize
    cosine = unit(texts, dim=1) @ unit(labels, dim=1).T
    allowed = negative | torch.eye(len(cosine), dtype=torch.bool, device=cosine.device)
    logits = (cosine / temperature).masked_fill(~allowed, float("-inf"))
    positive = logits.diagonal()
    return (logits.logsumexp(dim=1) + logits.logsumexp(dim=0) - 2 * positive).mean() / 2


class Side(NamedTuple):
    """The texts, or the labels, of a batch of pairs: each one once, and which of them every pair has."""

    texts: list[str]
    rows: Ints

    @classmethod
    def of(cls, numbers: Ints, texts: Sequence[str]) -> Side:
        """The side of pairs that have these numbers in `texts`. Short ones come first: less of a chunk is padding."""
        distinct, rows = np.unique(numbers, return_inverse=True)
        order = np.argsort([len(texts[number]) for number in distinct], kind="stable")
        return cls([texts[number] for number in distinct[order]], np.argsort(order)[rows])


def cached_step(
    vectors: Callable[[list[str]], Any], sides: tuple[Side, Side], negative: Any, temperature: float, chunk: int
) -> float:
    """The gradient of NT-Xent over a batch of pairs of texts, for a model that can take only `chunk` texts at a time.

    The vectors of all chunks are made without gradients, the loss gives the gradient of every vector, and with that
    each chunk is done again and passed back. Memory is that of one chunk, and the result that of the whole batch: a
    chunk is repeated with the random numbers of its first time. The loss is returned.

    Gao et al., "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup", RepL4NLP 2021.
    """
    torch = dense_package("torch")
    chunks = [side.texts[n : n + chunk] for side in sides for n in range(0, len(side.texts), chunk)]
    states, leaves = [], list[Any]()
    with torch.no_grad():
        for texts in chunks:
            states.append(random_state())
            leaves.append(vectors(texts))
    last = random_state()
    together = torch.cat([leaf.requires_grad_() for leaf in leaves])
    rows = [torch.from_numpy(side.rows).to(together.device) for side in sides]
    loss = nt_xent(together[rows[0]], together[rows[1] + len(sides[0].texts)], negative, temperature)
    loss.backward()
    for texts, state, leaf in zip(chunks, states, leaves, strict=True):
        set_random_state(state)
        vectors(texts).backward(leaf.grad)
    set_random_state(last)
    return float(loss.detach())


def random_state() -> list[Any]:
    """The state of PyTorch's random numbers, on this process's GPU as well if there is one."""
    torch = dense_package("torch")
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state()] if torch.cuda.is_available() else [])]


def set_random_state(state: Sequence[Any]) -> None:
    """Go on from a state. That of a GPU is passed over on a machine that has none."""
    torch = dense_package("torch")
    torch.set_rng_state(state[0])
    if torch.cuda.is_available() and len(state) > 1:
        torch.cuda.set_rng_state(state[1])


def triangular_rate(position: float, half_cycle: float, low: float, high: float) -> float:
    """The triangular cyclical learning rate: from low up to high in `half_cycle` steps and back, again and again.

    L. N. Smith, "Cyclical Learning Rates for Training Neural Networks", WACV 2017.
    """
    cycle = floor(1 + position / (2 * half_cycle))
    return low + (high - low) * max(0.0, 1 - abs(position / half_cycle - 2 * cycle + 1))


def epoch_rate(step: int, steps: int, low: float, high: float) -> float:
    """The rate of a step where an epoch of so many steps is one cycle: each epoch is judged after its low end.

    Taken in the middle of the step, so that even an epoch of one step learns.
    """
    return triangular_rate(step + 0.5, max(steps, 1) / 2, low, high)


def mean_reciprocal_rank(texts: Singles, labels: Singles, relevant: LabelSets, block: int = 256) -> float:
    """MRR: the mean over texts of 1 / rank of the best relevant label among all labels.

    Rows are unit vectors; label j is row j. The order is the one total order: score descending, then label id
    ascending. A text without labels does not count.
    """
    total, counted = 0.0, 0
    for first in range(0, len(relevant), block):
        scores = texts[first : first + block] @ labels.T
        for row, scored in enumerate(scores):
            wanted = relevant.labels[relevant.offsets[first + row] : relevant.offsets[first + row + 1]]
            if len(wanted):
                best = wanted[np.lexsort((wanted, -scored[wanted]))[0]]
                above = np.count_nonzero(scored > scored[best]) + np.count_nonzero(scored[:best] == scored[best])
                total += float(1 / (1 + above))
                counted += 1
    return total / counted if counted else 0.0


def dispersion(vectors: Singles) -> float:
    """How far unit vectors point in different directions: 1 - |mean|^2, their total variance.

    It is 1 less the mean cosine of all pairs: 0 if all are the same, near 1 if they are all over the sphere.
    """
    mean = vectors[:: max(1, len(vectors) // SAMPLE)].mean(axis=0, dtype=np.float64)
    return float(1 - mean @ mean)


def first_dispersion(texts: Singles, labels: Singles, where: str) -> float:
    """The smaller dispersion of the two sides before training; an error if all vectors are the same."""
    start = min(dispersion(texts), dispersion(labels))
    if not start > 1e-6:
        raise CollapseError(
            f"{where}: every text, or every label, has the same vector, so there is nothing to learn. Texts with "
            "different words and several labels are needed; if there are both, choose another model to start from"
        )
    return start


def check_collapse(texts: Singles, labels: Singles, start: float, where: str) -> float:
    """The smaller dispersion of the two sides; an error if it is next to nothing, or if vectors are not finite.

    `start` is the dispersion before training.
    """
    finite = bool(np.isfinite(texts).all() and np.isfinite(labels).all())
    now = min(dispersion(texts), dispersion(labels)) if finite else 0.0
    if finite and now >= min(COLLAPSED, SHRUNK * start):
        return now
    seen = f"all cosines are near 1 (dispersion {now:.2g}, {start:.2g} before)" if finite else "vectors are not finite"
    raise CollapseError(
        f"{where}: training has collapsed: {seen}. Lower learning_rate_high (a tenth of it, say; fine-tuning a "
        f"whole model rarely bears more than 5e-5), or raise temperature or train_batch"
    )
