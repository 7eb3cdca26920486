"""What a choice is to make as large as possible: a metric, or a weighted sum of several."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from fusion.errors import ConfigError
from fusion.metrics import Measure, label_measures, parse_measures
from fusion.names import print_number
from fusion.statistics.tally import Tally
from fusion.types import Floats

_TERM = re.compile(r"\s*(?:(\d+\.?\d*|\.\d+)\s*\*)?\s*([a-zA-Z][\w-]*(?:@\d+)?)\s*")


class Objective(NamedTuple):
    """A weighted sum of measures, each over all texts of a view, under the ideal `all`."""

    terms: tuple[tuple[float, Measure], ...]

    def __str__(self) -> str:
        if len(self.terms) == 1 and self.terms[0][0] == 1:
            return str(self.terms[0][1])
        return "+".join(f"{print_number(weight)}*{measure}" for weight, measure in self.terms)

    @property
    def measures(self) -> tuple[Measure, ...]:
        return tuple(dict.fromkeys(measure for _, measure in self.terms))

    def values(self, tally: Tally, view: int) -> Floats:
        """Of every column, in a view by its number."""
        columns = [(weight, tally.values(view, 0, measure)) for weight, measure in self.terms]
        return np.sum([weight * np.array(values) for weight, values in columns], axis=0)


def parse_objective(text: str) -> Objective:
    """`ndcg@10`, or `0.5*ndcg@10+0.5*precision@1`."""
    terms = []
    for word in text.split("+"):
        match = _TERM.fullmatch(word)
        if match is None:
            raise ConfigError(f"objective {text!r}: expected METRIC or WEIGHT*METRIC+..., as in 'ndcg@10'")
        terms.append((float(match[1] or 1), parse_measures(match[2])[0]))
    of_labels = label_measures([measure for _, measure in terms])
    if of_labels:
        raise ConfigError(f"objective {text!r}: {of_labels[0]} is a mean over labels; choose metrics over texts")
    return Objective(tuple(terms))
