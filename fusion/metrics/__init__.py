"""The metrics. A metric at a cut-off is written `ndcg@10`, one over the whole ranking `map`: its name everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from fusion.errors import ConfigError, unknown_name
from fusion.labels import ALL
from fusion.metrics.average_precision import average_precision
from fusion.metrics.bpref import bpref
from fusion.metrics.coverage import coverage
from fusion.metrics.f1 import f1
from fusion.metrics.hit_rate import hit_rate
from fusion.metrics.macro_f1 import macro_f1
from fusion.metrics.macro_precision import macro_precision
from fusion.metrics.macro_recall import macro_recall
from fusion.metrics.micro_f1 import micro_f1
from fusion.metrics.micro_precision import micro_precision
from fusion.metrics.micro_recall import micro_recall
from fusion.metrics.mrr import mrr
from fusion.metrics.ndcg import ndcg
from fusion.metrics.precision import precision
from fusion.metrics.psndcg import psndcg
from fusion.metrics.psp import psp
from fusion.metrics.r_precision import r_precision
from fusion.metrics.recall import recall
from fusion.metrics.rp import rp
from fusion.metrics.sample_f1 import sample_f1
from fusion.metrics.sample_precision import sample_precision
from fusion.registry import METRICS, LabelMetric, TextMetric
from fusion.worth import Rules


__all__ = [
    "LARGEST_K",
    "WHOLE",
    "Aspect",
    "Metric",
    "average_precision",
    "bpref",
    "coverage",
    "decisive",
    "decisiveness",
    "f1",
    "hit_rate",
    "is_tabled",
    "label_metrics",
    "macro_f1",
    "macro_precision",
    "macro_recall",
    "metric_names",
    "metric_parts",
    "micro_f1",
    "micro_precision",
    "micro_recall",
    "mrr",
    "ndcg",
    "parse_metrics",
    "precision",
    "psndcg",
    "psp",
    "r_precision",
    "recall",
    "rp",
    "sample_f1",
    "sample_precision",
    "text_metrics",
]

LARGEST_K = 1000
MOST_CUTOFFS = 100
"""That one mean may have."""
LARGEST_TABLE = 128
"""The deepest cut-off for which hits are counted by rank and number of relevant labels; those counts grow with its
square."""
WHOLE = 0
"""The cut-off of a metric that looks at the whole ranking."""


class Metric(NamedTuple):
    """A metric at a cut-off; WHOLE is none. A mean over cut-offs has none, since its name has them all."""

    name: str
    k: int

    def __str__(self) -> str:
        return f"{self.name}@{self.k}" if self.k else self.name

    @property
    def parts(self) -> list[Metric]:
        """What it is the mean of: the metric at each of its cut-offs, or itself."""
        name = self.name.partition("@")[0]
        return [Metric(name, k) for k in METRICS[self.name].cutoffs] or [self]

    @property
    def deepest(self) -> int:
        """The last rank that it looks at; WHOLE: any."""
        return self.parts[-1].k


class Aspect(NamedTuple):
    """One column of figures: a metric of a label group, and which labels make the ideal ranking."""

    label_group: str
    metric: str
    k: int
    ideal: str = ALL

    @property
    def metric_at_k(self) -> Metric:
        return Metric(self.metric, self.k)

    def __str__(self) -> str:
        return f"{self.label_group} {self.metric_at_k} {self.ideal}"


def decisiveness(metric: Metric) -> tuple[bool, bool, int]:
    """The greater it is, the more a metric says where one has to do: nDCG first, then depth. Only chosen cells have a
    metric of labels, so these come last."""
    of_texts = not isinstance(METRICS[metric.name], LabelMetric)
    return metric.name == "ndcg", of_texts, metric.deepest or LARGEST_K + 1


def decisive(metrics: Iterable[Metric]) -> Metric:
    """The metric that ranks the cells where one has to do: the deepest nDCG."""
    return max(metrics, key=decisiveness)


def decisive_aspect(aspects: Iterable[Aspect]) -> Aspect:
    """The aspect that ranks the cells where one has to do: the deepest nDCG, by the paper's protocol."""
    return max(aspects, key=lambda aspect: (aspect.ideal == ALL, *decisiveness(aspect.metric_at_k)))


def metric_names() -> dict[str, str]:
    """Every name that people may type, and the metric behind it."""
    names = {entry.name: entry.name for entry in METRICS}
    others = {alias: entry.name for entry in METRICS for alias in entry.aliases}
    return {**names, **{alias: name for alias, name in others.items() if alias not in names}}


def parse_metrics(names: str | Iterable[str]) -> list[Metric]:
    """`ndcg@10,map`, or a list of such names."""
    words = names.split(",") if isinstance(names, str) else [word for name in names for word in name.split(",")]
    known = metric_names()
    return list(dict.fromkeys(_parse(word.strip(), known) for word in words))


def _parse(word: str, known: Mapping[str, str]) -> Metric:
    typed, at, cut = word.partition("@")
    name = known.get(typed.strip().lower().replace("_", "-"))
    if name is None:
        raise unknown_name("metric", typed, known)
    cutoff = METRICS[name].cutoff
    if not at and cutoff != "needed":
        return Metric(name, WHOLE)
    if cutoff == "none":
        raise ConfigError(f"metric {word!r} has no cut-off: it is written {name!r}.")
    if ":" in cut:
        return Metric(f"{name}@{_parse_cutoffs(word, cut)}", WHOLE)
    if not (cut.isdecimal() and 1 <= int(cut) <= LARGEST_K):
        also = f" or none at all, as in {name!r}" if cutoff == "optional" else ""
        raise ConfigError(f"metric {word!r} needs a cut-off from 1 to {LARGEST_K:,}, as in '{name}@10'{also}.")
    return Metric(name, int(cut))


def _parse_cutoffs(word: str, cutoffs: str) -> str:
    """The range of a mean over cut-offs: `5:50:5`, which includes both ends."""
    numbers = cutoffs.split(":")
    expected = f"metric {word!r}: a mean over cut-offs is written FIRST:LAST:STEP, as in 'recall@5:50:5'"
    if len(numbers) != 3 or not all(number.strip().isdecimal() for number in numbers):
        raise ConfigError(f"{expected}.")
    first, last, step = map(int, numbers)
    if not (1 <= first < last <= LARGEST_K and step >= 1):
        raise ConfigError(f"{expected}, from 1 to {LARGEST_K:,} and ascending.")
    if (last - first) % step:
        end = last - (last - first) % step
        raise ConfigError(f"{expected}; no step from {first} ends at {last}, the last one before is at {end}.")
    if (last - first) // step >= MOST_CUTOFFS:
        raise ConfigError(f"{expected}, with at most {MOST_CUTOFFS} cut-offs.")
    return f"{first}:{last}:{step}"


def metric_parts(metrics: Iterable[Metric]) -> list[Metric]:
    """What has to be counted for metrics: themselves, and the parts of means over cut-offs."""
    return list(dict.fromkeys(part for metric in metrics for part in metric.parts))


def text_metrics(metrics: Iterable[Metric]) -> list[Metric]:
    """Those that have a figure for every text."""
    return [metric for metric in metrics if isinstance(METRICS[metric.name], TextMetric)]


def label_metrics(metrics: Iterable[Metric]) -> list[Metric]:
    """Those that are means over labels."""
    return [metric for metric in metrics if isinstance(METRICS[metric.name], LabelMetric)]


def is_tabled(metric: Metric, rules: Rules) -> bool:
    """Whether counts of hits by rank and number of relevant labels say all about a metric."""
    entry = METRICS[metric.name]
    if not entry.capped or rules.ties == "expected":
        return False
    return 0 < metric.deepest <= LARGEST_TABLE and not (entry.gain == "grade" and rules.graded)
