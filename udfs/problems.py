"""Rows that cannot be used: counted where they are found, reported together at the end."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field

from fusion.errors import InputError, visible


@dataclass(frozen=True, order=True)
class Problem:
    """A row that cannot be used: what is wrong, in which column of which source, and where."""

    what: str
    source: str
    column: str
    text_id: str
    retriever: str = ""
    label_group: str = ""
    detail: str = ""

    def __str__(self) -> str:
        where = [f"text_id {self.text_id}"]
        where += [f"label_group {self.label_group}"] if self.label_group else []
        where += [self.detail] if self.detail else []
        return visible(", ".join(where))


@dataclass
class Problems:
    """Problems found so far: all are counted, the first few of each kind are kept."""

    keep: int = 5
    found: dict[tuple[str, str, str], list[Problem]] = field(default_factory=dict)
    counts: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.counts)

    def add(self, problem: Problem, count: int = 1) -> None:
        kind = (problem.source, problem.column, problem.what)
        self.counts[kind] = self.counts.get(kind, 0) + count
        self.found[kind] = sorted([*self.found.get(kind, []), problem])[: self.keep]

    def update(self, other: Problems) -> None:
        for kind, first in other.found.items():
            for n, problem in enumerate(first):
                # The first one stands for those that are not kept, too.
                self.add(problem, other.counts[kind] - len(first) + 1 if n == 0 else 1)

    def to_json(self) -> str:
        return json.dumps(
            [
                {"count": self.counts[kind], "first": [asdict(problem) for problem in first]}
                for kind, first in self.found.items()
            ]
        )

    @classmethod
    def from_json(cls, texts: Iterable[str]) -> Problems:
        problems = cls()
        for kind in (kind for text in texts for kind in json.loads(text)):
            first = [Problem(**problem) for problem in kind["first"]]
            key = (first[0].source, first[0].column, first[0].what)
            problems.update(cls(found={key: first}, counts={key: kind["count"]}))
        return problems

    def error(self, places: Mapping[Problem, str] | None = None) -> InputError:
        """The error that names the first problems of each kind; places: where they stand in a file, in words."""
        places, lines = places or {}, []
        for kind in sorted(self.found):
            source, column, what = kind
            first = self.found[kind]
            lines.append(f"{visible(source)}: column {column!r}: {what} ({self.counts[kind]:,} in all). First:")
            lines += [f"  {places[problem]}: {problem}" if problem in places else f"  {problem}" for problem in first]
        return InputError("\n".join(lines))
