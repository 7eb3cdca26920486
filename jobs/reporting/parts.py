"""What a document is made of: sections of texts, tables and charts, which each format renders in its own way."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar, Literal, NamedTuple

from jobs.reporting.model import Outcome

BEST = "\N{DAGGER}"
Style = Literal["plain", "lead", "facts", "small", "warning", "loses", "quote"]


class Entry(NamedTuple):
    """What a table has in a line and column."""

    text: str
    bold: bool = False
    best: bool = False


class Table(NamedTuple):
    """A table to print."""

    name: str
    caption: str
    header: list[tuple[str, ...]]
    """Of each column, from the widest heading above it to its own."""
    align: str
    """Of each column, l or r."""
    blocks: list[list[list[Entry]]]
    """Lines, in blocks that are set apart."""
    warnings: Collection[str] = ()

    @property
    def kind(self) -> str:
        return "table"

    def upper_headings(self) -> Iterator[list[tuple[str, int]]]:
        """The lines above the lowest headings: headings with the number of columns below them."""
        for level in range(1, len(self.header[0])):
            groups = groupby(self.header, key=lambda names: names[:level])
            yield [(names[-1], len(list(columns))) for names, columns in groups]


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    words: str
    style: Style = "plain"
    outcome: Outcome | None = None
    """What it says of a cell, where that has a sign."""
    link: str = ""
    """The section that the words lead to."""

    kind: ClassVar[str] = "text"


@dataclass(frozen=True)
class Lines:
    """A list of sentences."""

    items: Sequence[str]
    kind: ClassVar[str] = "lines"


@dataclass(frozen=True)
class Facts:
    """Names with what is to be said of each."""

    items: Mapping[str, str]
    kind: ClassVar[str] = "facts"


@dataclass(frozen=True)
class Code:
    """A text that is shown as it is."""

    text: str
    language: str = ""
    kind: ClassVar[str] = "code"


@dataclass(frozen=True)
class Fold:
    """Parts that a reader unfolds."""

    title: str
    parts: Sequence[Part]
    opened: bool = False
    kind: ClassVar[str] = "fold"


@dataclass(frozen=True)
class Group:
    """Parts below a heading."""

    title: str
    parts: Sequence[Part]
    kind: ClassVar[str] = "group"


@dataclass(frozen=True)
class Columns:
    """Groups next to each other."""

    groups: Sequence[Group]
    kind: ClassVar[str] = "columns"


class Bar(NamedTuple):
    """A figure, and the share of the width that its bar has."""

    name: str
    figure: str
    width: float
    strong: bool


@dataclass(frozen=True)
class Card:
    """What is to be said of a label group, with its figures as bars."""

    title: str
    note: str
    bars: Sequence[Bar]
    ends: tuple[str, str]
    """Where the bars start and end."""
    from_zero: bool
    parts: Sequence[Text]


@dataclass(frozen=True)
class Cards:
    """Cards next to each other."""

    cards: Sequence[Card]
    kind: ClassVar[str] = "cards"


class Interval(NamedTuple):
    """A difference with its interval, as shares of the width."""

    name: str
    words: str
    middle: float
    ends: tuple[float, float] | None
    strokes: Sequence[float]
    filled: bool


@dataclass(frozen=True)
class Intervals:
    """Differences with their intervals below each other. Shares of the width fit any page without a script."""

    title: str
    lines: Sequence[Interval]
    zero: float
    ticks: Sequence[tuple[float, str]]
    kind: ClassVar[str] = "intervals"


@dataclass(frozen=True)
class Images:
    """Charts that were drawn as files: captions and paths."""

    items: Sequence[tuple[str, str]]
    kind: ClassVar[str] = "images"


@dataclass(frozen=True)
class Script:
    """What a page draws with its script, by the name of its template; other formats have nothing of it."""

    name: str
    kind: ClassVar[str] = "script"


@dataclass(frozen=True)
class Static:
    """Parts that a page with a script shows in another way."""

    parts: Sequence[Part]
    kind: ClassVar[str] = "static"


@dataclass(frozen=True)
class Printed:
    """Parts that a page leaves out to stay small, since its script shows them in another way."""

    parts: Sequence[Part]
    kind: ClassVar[str] = "printed"


Part = (
    Table
    | Text
    | Lines
    | Facts
    | Code
    | Fold
    | Group
    | Columns
    | Cards
    | Intervals
    | Images
    | Script
    | Static
    | Printed
)


@dataclass(frozen=True)
class Article:
    """The part of a section that is about one dataset."""

    dataset: str
    parts: Sequence[Part]
    title: str = ""
    """What it says more than the title of its section."""


@dataclass(frozen=True)
class Section:
    """A chapter of a document: what is above its articles, one article per dataset, and what is below them."""

    name: str
    title: str
    articles: Sequence[Article] = ()
    intro: Sequence[Part] = ()
    outro: Sequence[Part] = ()
    link: str = ""
    """What leads to it where the title is too long."""
    hidden: bool = False
    """Whether a page shows no title above it."""
    style: str = ""
    """The class that a page draws it with."""

    @property
    def scripted(self) -> bool:
        """Whether only a page with a script has anything to show."""
        parts = [*self.intro, *self.outro]
        return not self.articles and all(isinstance(part, Script) for part in parts)
