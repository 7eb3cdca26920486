"""The cells that tuning tries, what it tries to maximise, and where it looks next."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from math import comb
from typing import NamedTuple

import numpy as np

from fusion.cells import Cell
from fusion.errors import ConfigError
from fusion.grid.grid import cross
from fusion.metrics import Metric, label_metrics, parse_metrics
from fusion.names import Number, parse_call, print_call, print_number
from fusion.registry import FUSIONS, NORMALIZATIONS
from fusion.statistics.tally import Tally
from fusion.types import Floats

WEIGHTED = ("wsum", "mixed")
STEPS = (50, 25, 20, 10, 8, 6, 5, 4, 3)
"""Weights are multiples of one of these fractions, the finest that leaves few enough cells."""
VALUES: dict[tuple[str, str], tuple[Number, ...]] = {
    ("rrf", "k"): (1, 2, 3, 5, 8, 12, 20, 30, 45, 60, 90, 140, 200),
    ("rbc", "phi"): (0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98),
    ("logn-isr", "sigma"): (0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
    ("combgmnz", "gamma"): (0.2, 0.4, 0.6, 0.8, 1.2, 1.5, 2.0, 3.0),
    ("softmax", "temperature"): (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0),
}
"""By algorithm and parameter."""
PARTNERS = ("combsum", "combmnz")
"""The fusions that normalisations with parameters are tried with."""


def weighted_cells(retrievers: Sequence[str], most: int) -> list[Cell]:
    """Weighted fusions of the normalisations that the paper has, with weights that sum to 1."""
    scalings = [entry.name for entry in NORMALIZATIONS if entry.standard]
    families = len(WEIGHTED) * len(scalings)
    steps = next((n for n in STEPS if families * comb(n - 1, len(retrievers) - 1) <= most), STEPS[-1])
    steps = max(steps, len(retrievers))
    vectors = [[part / steps for part in parts] for parts in _compositions(steps, len(retrievers))]
    return [
        _weighted(scaling, fusion, retrievers, vector)
        for scaling in scalings
        for fusion in WEIGHTED
        for vector in vectors
    ]


def parameter_cells() -> list[Cell]:
    """Fusions and normalisations with parameters, each with several values."""
    scalings = [entry.name for entry in NORMALIZATIONS if entry.standard]
    cells: list[Cell] = []
    for (algorithm, parameter), values in VALUES.items():
        named = [print_call(algorithm, {parameter: value}) for value in values]
        if algorithm in NORMALIZATIONS:
            cells += cross(named, PARTNERS)
        else:
            cells += cross(["none"] if FUSIONS[algorithm].reads == "ranks" else scalings, named)
    return cells


def around(best: Iterable[Cell], retrievers: Sequence[str], distance: float) -> list[Cell]:
    """The neighbours of cells: weights that differ by a distance in one retriever, and parameters halfway to the
    next value that was tried."""
    return list(
        dict.fromkeys(
            neighbour
            for cell in best
            for neighbour in (*_other_weights(cell, retrievers, distance), *_other_values(cell, distance))
        )
    )


def _other_weights(cell: Cell, retrievers: Sequence[str], distance: float) -> Iterator[Cell]:
    name = parse_call(cell.fusion).name
    if name not in WEIGHTED:
        return
    given = FUSIONS[cell.fusion].weights
    weights = [given.get(retriever, 1.0) for retriever in retrievers]
    for r in range(len(weights)):
        for change in (-distance, distance):
            if 0 < weights[r] + change < 1:
                rest = (1 - weights[r] - change) / max(sum(weights) - weights[r], 1e-9)
                moved = [w + change if n == r else w * rest for n, w in enumerate(weights)]
                yield _weighted(cell.scaling, name, retrievers, moved)


def _other_values(cell: Cell, distance: float) -> Iterator[Cell]:
    """Between a value and its neighbours, as far along as the distance says."""
    for (algorithm, parameter), values in VALUES.items():
        for scales, text in ((True, cell.scaling), (False, cell.fusion)):
            called, given = parse_call(text)
            if called != algorithm:
                continue
            known = (NORMALIZATIONS[called] if scales else FUSIONS[called]).parameters.known
            whole = any(entry.name == parameter and isinstance(entry.default, int) for entry in known)
            value = given.get(parameter, [next(entry.default for entry in known if entry.name == parameter)])[0]
            below, above = [v for v in values if v < value][-1:], [v for v in values if v > value][:1]
            for other in (*below, *above):
                between = value + (other - value) * min(20 * distance, 0.5)
                moved = round(between) if whole else float(f"{between:.4g}")
                if moved not in (value, other):
                    changed = print_call(called, {parameter: moved})
                    yield from cross([changed], [cell.fusion]) if scales else cross([cell.scaling], [changed])


def _weighted(scaling: str, fusion: str, retrievers: Sequence[str], weights: Sequence[float]) -> Cell:
    named = {name: float(f"{weight:.6g}") for name, weight in zip(retrievers, weights, strict=True)}
    return Cell(scaling, FUSIONS[print_call(fusion, named)].name)


def _compositions(total: int, parts: int) -> Iterator[list[int]]:
    """All ways to write a number as a sum of `parts` positive ones."""
    if parts == 1:
        yield [total]
        return
    for first in range(1, total - parts + 2):
        yield from ([first, *rest] for rest in _compositions(total - first, parts - 1))


_TERM = re.compile(r"\s*(?:(\d+\.?\d*|\.\d+)\s*\*)?\s*([a-zA-Z][\w-]*(?:@\d+(?::\d+)*)?)\s*")


class Objective(NamedTuple):
    """A weighted sum of metrics, each over all texts of a view, under the ideal `all`."""

    terms: tuple[tuple[float, Metric], ...]

    def __str__(self) -> str:
        if len(self.terms) == 1 and self.terms[0][0] == 1:
            return str(self.terms[0][1])
        return "+".join(f"{print_number(weight)}*{metric}" for weight, metric in self.terms)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return tuple(dict.fromkeys(metric for _, metric in self.terms))

    def values(self, tally: Tally, view: int) -> Floats:
        """Of every column, in a view by its number."""
        columns = [(weight, tally.values(view, 0, metric)) for weight, metric in self.terms]
        return np.sum([weight * np.array(values) for weight, values in columns], axis=0)


def parse_objective(text: str) -> Objective:
    """`ndcg@10`, or `0.5*ndcg@10+0.5*precision@1`."""
    terms = []
    for word in text.split("+"):
        match = _TERM.fullmatch(word)
        if match is None:
            raise ConfigError(f"objective {text!r}: expected METRIC or WEIGHT*METRIC+..., as in 'ndcg@10'")
        terms.append((float(match[1] or 1), parse_metrics(match[2])[0]))
    of_labels = label_metrics([metric for _, metric in terms])
    if of_labels:
        raise ConfigError(f"objective {text!r}: {of_labels[0]} is a mean over labels; choose metrics over texts")
    return Objective(tuple(terms))
