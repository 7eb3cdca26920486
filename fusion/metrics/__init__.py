"""The metrics. A metric at a cut-off is written `ndcg@10`; that is its name everywhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fusion.errors import ConfigError
from fusion.metrics.ndcg import ndcg
from fusion.metrics.precision import precision
from fusion.registry import METRICS

__all__ = ["LARGEST_K", "Measure", "decisive", "decisiveness", "ndcg", "parse_measures", "precision"]

LARGEST_K = 128
"""Counts are kept for every rank up to k and every number of relevant labels up to k."""


class Measure(NamedTuple):
    """A metric at a cut-off."""

    metric: str
    k: int

    def __str__(self) -> str:
        return f"{self.metric}@{self.k}"


def decisiveness(measure: Measure) -> tuple[bool, int]:
    """The greater it is, the more a measure says where one has to do: nDCG first, then depth."""
    return measure.metric == "ndcg", measure.k


def decisive(measures: Iterable[Measure]) -> Measure:
    """The measure that ranks the cells where one has to do: the deepest nDCG."""
    return max(measures, key=decisiveness)


def parse_measures(names: str | Iterable[str]) -> list[Measure]:
    """`ndcg@10,precision@10`, or a list of such names."""
    words = names.split(",") if isinstance(names, str) else [word for name in names for word in name.split(",")]
    measures = []
    for word in (word.strip() for word in words):
        name, _, cut = word.partition("@")
        entry = METRICS[{"p": "precision"}.get(name.lower(), name.lower())]
        if not (cut.isdecimal() and 1 <= int(cut) <= LARGEST_K):
            raise ConfigError(f"metric {word!r} needs a cut-off from 1 to {LARGEST_K}, as in '{entry.name}@10'.")
        measures.append(Measure(entry.name, int(cut)))
    return list(dict.fromkeys(measures))
