"""One registry of normalisations, fusions and metrics.

An entry lives in one file with its formula, its citation and what it reads. Importing the package
`fusion` registers all of them; a file of your own registers on import in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeAlias, TypeVar

import numpy as np

from fusion.errors import ConfigError, unknown_name
from fusion.names import parse_call
from fusion.parameters import LEARNED, WEIGHT, WEIGHTS, Algorithm, Limits, Parameters
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


class ListArithmetic(Protocol):
    """What a normalisation may do with the scores of a list, other than add and multiply them."""

    def guard(self, denominator: Any) -> Any:
        """The denominator, but at least eps."""

    def sum(self, values: Any) -> Any:
        """The sum over the list that a value belongs to."""

    def clip(self, values: Any, low: float, high: float) -> Any: ...

    def sqrt(self, values: Any) -> Any: ...

    def exp(self, values: Any) -> Any: ...


class Named(Protocol):
    @property
    def name(self) -> str: ...


Entry = TypeVar("Entry", bound=Named)
Chosen = TypeVar("Chosen", bound=Algorithm)


class Registry(Generic[Entry]):
    """Entries by name, in the order they were registered. A name may set parameters: `rrf(k=10)`."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, Entry] = {}
        self._bound: dict[str, Entry] = {}

    def add(self, entry: Entry) -> Entry:
        if entry.name in self._entries:
            raise ConfigError(f"the {self.kind} {entry.name!r} is registered already")
        self._entries[entry.name] = entry
        return entry

    def __getitem__(self, name: str) -> Entry:
        if name in self._entries:
            return self._entries[name]
        if name not in self._bound:
            entries = self.expanded(name)
            if len(entries) > 1:
                raise ConfigError(f"{name!r} stands for {len(entries)} {self.kind}s where one is expected")
            self._bound[name] = entries[0]
        return self._bound[name]

    def __contains__(self, name: str) -> bool:
        try:
            return bool(self.expanded(name))
        except ConfigError:
            return False

    def expanded(self, name: str) -> list[Entry]:
        """The entries that a name stands for: several if it lists several values of a parameter."""
        called, values = parse_call(name)
        if called not in self._entries:
            raise unknown_name(self.kind, called, self._entries)
        entry = self._entries[called]
        if not values:
            return [entry]
        if not isinstance(entry, Algorithm):
            raise ConfigError(f"{self.kind} {called} has no parameters, but {name!r} gives some")
        combined = entry.parameters.combinations(called, values)
        return [entry.bound(values) if any(values) else entry for values in combined]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def names(self) -> list[str]:
        return list(self._entries)


@dataclass
class Normalization(Algorithm):
    """`(value - shift) / scale`, where value is a result's score or its 0-based position; then `shape`, if it has one.

    `affine` gives shift and scale from a list's statistics, `shape` bends what comes out. Since both only do
    arithmetic, the same lines run on numpy arrays inside the kernel and on Spark columns in the `windows` engine.
    """

    name: str
    reads: Reads
    formula: str
    citation: str
    affine: Callable[..., Affine]
    standard: bool
    """Whether it is one of the paper's, which `all` stands for."""
    needs_candidates: bool
    """Whether it reads the number of candidates of all lists, which a window over one list cannot count."""
    by_spread: bool
    """Whether it divides by how far the scores of a list lie apart, so that a constant list is a special case."""
    parameters: Parameters
    shape: Callable[..., Any] | None = None
    imputed: Callable[[Any], Any] | None = None
    """The score of a candidate that the list missed; None if such a candidate has no score there."""
    plain: Callable[..., Floats] = field(init=False)
    """The reference: the scores of a list, best first, and the number of candidates, to normalised scores."""
    weights: dict[str, float] = field(default_factory=dict)
    when: str = ""
    """When to use it, in a sentence or two."""
    functions = ("affine", "shape", "plain")

    def shaped(self, function: Callable[..., Any]) -> Callable[..., Any]:
        self.shape = function
        return function

    def missing(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        self.imputed = function
        return function

    def reference(self, function: Callable[..., Floats]) -> Callable[..., Floats]:
        self.plain = function
        return function


@dataclass
class Fusion(Algorithm):
    """From the scores (or the ranks) of labels in several lists to one score per label.

    `kernel` sees a whole text block at once, `plain` one text: the normalised scores and the 1-based ranks
    as matrices (lists x labels), NaN where a list lacks the label. A weighted fusion also gets one weight per list.
    """

    name: str
    reads: Reads
    formula: str
    citation: str
    kernel: Callable[..., Array]
    standard: bool
    """Whether it is one of the paper's, which `all` stands for."""
    parameters: Parameters
    plain: Callable[..., Floats] = field(init=False)
    weights: dict[str, float] = field(default_factory=dict)
    when: str = ""
    """When to use it, in a sentence or two."""
    functions = ("kernel", "plain")

    def reference(self, function: Callable[..., Floats]) -> Callable[..., Floats]:
        self.plain = function
        return function

    def arguments(self, retrievers: Sequence[str], learned: Any = None) -> dict[str, Any]:
        """What `kernel` and `plain` must be given for the lists of some retrievers; `learned`: about these lists."""
        if self.parameters.trained:
            return {LEARNED: learned}
        if self.parameters.weighted:
            return {WEIGHTS: np.array([self.weights.get(name, WEIGHT) for name in retrievers])}
        return {}


@dataclass(frozen=True)
class MetricEntry:
    """What all metrics have. One name and some others that people type."""

    name: str
    formula: str
    citation: str
    aliases: tuple[str, ...] = ()
    cutoff: CutOff = "needed"
    when: str = ""
    """When to use it, in a sentence or two."""
    cutoffs: tuple[int, ...] = ()
    """Of a mean over cut-offs, these; its name is that of the metric with their range: `recall@5:50:5`."""
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
class TextMetric(MetricEntry):
    """A mean over texts. `worth` says what the hits of each text are worth; see fusion/worth.py."""

    worth: Callable[[int, JudgedTexts], Worth] = field(kw_only=True)


@dataclass(frozen=True)
class LabelMetric(MetricEntry):
    """A mean over the labels that test texts carry. `of_labels(hits, listed, carried)` has an array entry per label:
    the texts that carry it and have it among their first k, that have it there, and that carry it."""

    of_labels: Callable[[Ints, Ints, Ints], Array] = field(kw_only=True)
    ideal: bool = False


class MetricRegistry(Registry[TextMetric | LabelMetric]):
    """Metrics by name, and means over cut-offs by theirs: `recall@5:50:5`."""

    def expanded(self, name: str) -> list[TextMetric | LabelMetric]:
        metric, _, cutoffs = name.partition("@")
        if ":" not in cutoffs or metric not in self._entries:
            return super().expanded(name)
        start, stop, step = map(int, cutoffs.split(":"))
        return [replace(self._entries[metric], name=name, cutoffs=tuple(range(start, stop + 1, step)))]


class AlgorithmRegistry(Registry[Chosen]):
    """Normalisations or fusions by name, and by the words that stand for several of them."""

    def chosen(self, names: str | Iterable[str]) -> list[Chosen]:
        """The entries behind names, in the order given and without repetitions. `all` stands for the paper's,
        `everything` for all that need no training, and a name may list values of a parameter."""
        families = {
            "all": [entry for entry in self if entry.standard],
            "everything": [entry for entry in self if not entry.parameters.trained],
        }
        wanted = [names] if isinstance(names, str) else names
        entries = [entry for word in wanted for entry in families.get(word) or self.expanded(word)]
        return list({entry.name: entry for entry in entries}.values())


NORMALIZATIONS: AlgorithmRegistry[Normalization] = AlgorithmRegistry("normalization")
FUSIONS: AlgorithmRegistry[Fusion] = AlgorithmRegistry("fusion")
METRICS = MetricRegistry("metric")


def normalization(
    name: str,
    *,
    reads: Reads,
    formula: str,
    citation: str,
    when: str = "",
    standard: bool = False,
    needs_candidates: bool = False,
    by_spread: bool = False,
    limits: Limits | None = None,
) -> Callable[[Callable[..., Affine]], Normalization]:
    """Register a normalisation. Arguments of the function after the first are its parameters, with their defaults;
    `limits` are the least and the greatest value of each (without limits: 0 and more)."""

    def register(affine: Callable[..., Affine]) -> Normalization:
        parameters = Parameters.of(affine, limits or {})
        entry = Normalization(
            name=name,
            reads=reads,
            formula=formula,
            citation=citation,
            affine=affine,
            standard=standard,
            needs_candidates=needs_candidates,
            by_spread=by_spread,
            parameters=parameters,
            when=when,
        )
        return NORMALIZATIONS.add(entry)

    return register


def fusion(
    name: str,
    *,
    reads: Reads,
    formula: str,
    citation: str,
    when: str = "",
    standard: bool = False,
    limits: Limits | None = None,
) -> Callable[[Callable[..., Array]], Fusion]:
    """Register a fusion. Arguments of the function after the first are its parameters, as for a normalisation; one
    called `weights` gets the weight of each list, which users give by retriever: `wsum(bm25=0.3,dense=0.7)`."""

    def register(kernel: Callable[..., Array]) -> Fusion:
        parameters = Parameters.of(kernel, limits or {})
        return FUSIONS.add(
            Fusion(
                name=name,
                reads=reads,
                formula=formula,
                citation=citation,
                kernel=kernel,
                standard=standard,
                parameters=parameters,
                when=when,
            )
        )

    return register


def metric(
    name: str,
    *,
    formula: str,
    citation: str,
    when: str = "",
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
            when,
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
    name: str, *, formula: str, citation: str, when: str = "", aliases: Iterable[str] = ()
) -> Callable[[Callable[[Ints, Ints, Ints], Array]], LabelMetric]:
    """Register a metric that is a mean over labels."""

    def register(of_labels: Callable[[Ints, Ints, Ints], Array]) -> LabelMetric:
        entry = LabelMetric(name, formula, citation, tuple(aliases), when=when, of_labels=of_labels)
        METRICS.add(entry)
        return entry

    return register
