"""One registry of normalisations, fusions and metrics.

An entry lives in one file with its formula, its citation and what it reads. Importing the package
`fusion` registers all of them; a file of your own registers on import in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeAlias, TypeVar

from fusion.errors import ConfigError, unknown_name
from fusion.types import Array, Floats, Ints

if TYPE_CHECKING:
    from fusion.worth import JudgedTexts, Worth

Reads = Literal["scores", "ranks"]
Gain = Literal["one", "grade", "propensity"]
CutOff = Literal["needed", "optional", "none"]
Affine: TypeAlias = tuple[Any, Any]
"""Shift and scale."""


class Statistics(Protocol):
    """What a normalisation may know of a list. Numbers, numpy arrays or Spark columns: all do arithmetic."""

    size: Any
    low: Any
    high: Any
    total: Any
    mean: Any
    std: Any
    candidates: Any

    def guard(self, denominator: Any) -> Any:
        """The denominator, but at least eps."""


class Named(Protocol):
    @property
    def name(self) -> str: ...


Entry = TypeVar("Entry", bound=Named)


class Registry(Generic[Entry]):
    """Entries by name, in the order they were registered."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, Entry] = {}

    def add(self, entry: Entry) -> Entry:
        if entry.name in self._entries:
            raise ConfigError(f"the {self.kind} {entry.name!r} is registered already")
        self._entries[entry.name] = entry
        return entry

    def __getitem__(self, name: str) -> Entry:
        if name not in self._entries:
            raise unknown_name(self.kind, name, self._entries)
        return self._entries[name]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def names(self) -> list[str]:
        return list(self._entries)


@dataclass
class Normalization:
    """`(value - shift) / scale`, where value is a result's score or its 0-based position.

    `affine` gives shift and scale from a list's statistics. Since it only does arithmetic, the same line runs
    on numpy arrays inside the kernel and on Spark columns in the `windows` engine.
    """

    name: str
    reads: Reads
    formula: str
    citation: str
    affine: Callable[[Any], Affine]
    standard: bool = True
    """Whether `normalizations: all` includes it."""
    needs_candidates: bool = False
    """Whether it reads the number of candidates of all lists, which a window over one list cannot count."""
    imputed: Callable[[Any], Any] | None = None
    """The score of a candidate that the list missed; None if such a candidate has no score there."""
    plain: Callable[[Floats, int], Floats] = field(init=False)
    """The reference: the scores of a list, best first, and the number of candidates, to normalised scores."""

    def missing(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        self.imputed = function
        return function

    def reference(self, function: Callable[[Floats, int], Floats]) -> Callable[[Floats, int], Floats]:
        self.plain = function
        return function


@dataclass
class Fusion:
    """From the scores (or the ranks) of labels in several lists to one score per label.

    `kernel` sees a block of many texts at once, `plain` one text: the normalised scores and the 1-based ranks
    as matrices (lists x labels), NaN where a list lacks the label.
    """

    name: str
    reads: Reads
    formula: str
    citation: str
    kernel: Callable[[Any], Array]
    plain: Callable[[Floats, Floats], Floats] = field(init=False)

    def reference(self, function: Callable[[Floats, Floats], Floats]) -> Callable[[Floats, Floats], Floats]:
        self.plain = function
        return function


@dataclass(frozen=True)
class Metric:
    """What all metrics have. One name and some others that people type."""

    name: str
    formula: str
    citation: str
    aliases: tuple[str, ...] = ()
    cutoff: CutOff = "needed"


@dataclass(frozen=True)
class TextMetric(Metric):
    """A mean over texts. `worth` says what the hits of each text are worth; see fusion/worth.py."""

    worth: Callable[[int, JudgedTexts], Worth] = field(kw_only=True)
    gain: Gain = "one"
    """What a hit counts: one, a gain that follows from its grade, or the inverse propensity of its label."""
    ideal: bool = True
    """Whether it matters which labels make the ideal ranking: all of the text, or those of the label group."""
    capped: bool = False
    """Whether the number of relevant labels matters only up to k, and every hit counts by its rank alone: then counts
    of hits by rank and number say it all."""
    pooled: bool = False
    """Whether the figure is a ratio of sums over texts instead of the mean of the texts' ratios."""
    nonrelevant: bool = False
    """Whether it looks at labels that are judged and not relevant."""


@dataclass(frozen=True)
class LabelMetric(Metric):
    """A mean over the labels that test texts carry. `of_labels(hits, listed, carried)` has an array entry per label:
    the texts that carry it and have it among their first k, that have it there, and that carry it."""

    of_labels: Callable[[Ints, Ints, Ints], Array] = field(kw_only=True)
    ideal: bool = False


NORMALIZATIONS: Registry[Normalization] = Registry("normalization")
FUSIONS: Registry[Fusion] = Registry("fusion")
METRICS: Registry[TextMetric | LabelMetric] = Registry("metric")


def normalization(
    name: str,
    *,
    reads: Reads,
    formula: str,
    citation: str,
    standard: bool = True,
    needs_candidates: bool = False,
) -> Callable[[Callable[[Any], Affine]], Normalization]:
    """Register a normalisation."""

    def register(affine: Callable[[Any], Affine]) -> Normalization:
        return NORMALIZATIONS.add(Normalization(name, reads, formula, citation, affine, standard, needs_candidates))

    return register


def fusion(name: str, *, reads: Reads, formula: str, citation: str) -> Callable[[Callable[[Any], Array]], Fusion]:
    """Register a fusion."""

    def register(kernel: Callable[[Any], Array]) -> Fusion:
        return FUSIONS.add(Fusion(name, reads, formula, citation, kernel))

    return register


def metric(
    name: str,
    *,
    formula: str,
    citation: str,
    aliases: Iterable[str] = (),
    cutoff: CutOff = "needed",
    gain: Gain = "one",
    ideal: bool = True,
    capped: bool = False,
    pooled: bool = False,
    nonrelevant: bool = False,
) -> Callable[[Callable[[int, JudgedTexts], Worth]], TextMetric]:
    """Register a metric that is a mean over texts."""

    def register(worth: Callable[[int, JudgedTexts], Worth]) -> TextMetric:
        entry = TextMetric(
            name,
            formula,
            citation,
            tuple(aliases),
            cutoff,
            worth=worth,
            gain=gain,
            ideal=ideal,
            capped=capped,
            pooled=pooled,
            nonrelevant=nonrelevant,
        )
        METRICS.add(entry)
        return entry

    return register


def label_metric(
    name: str, *, formula: str, citation: str, aliases: Iterable[str] = ()
) -> Callable[[Callable[[Ints, Ints, Ints], Array]], LabelMetric]:
    """Register a metric that is a mean over labels."""

    def register(of_labels: Callable[[Ints, Ints, Ints], Array]) -> LabelMetric:
        entry = LabelMetric(name, formula, citation, tuple(aliases), of_labels=of_labels)
        METRICS.add(entry)
        return entry

    return register


def choose(registry: Registry[Entry], names: str | Iterable[str], standard: Iterable[str]) -> list[Entry]:
    """The entries behind `all` or a list of names, in the order given and without repetitions."""
    wanted = [names] if isinstance(names, str) else list(names)
    expanded = [name for word in wanted for name in (standard if word == "all" else [word])]
    return [registry[name] for name in dict.fromkeys(expanded)]
