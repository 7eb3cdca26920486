"""How algorithms and cells are written: `rrf(k=10)`, `bm25+dense: zmuv+wsum(bm25=0.3,dense=0.7)`.

Only the syntax is known here; which names and parameters exist is the registry's business.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from fusion.errors import ConfigError

REMEMBERED = 65_536
"""Names whose parts are kept: all subsets of eight retrievers make thousands of cells, each of which is asked often."""
Number = int | float
QUOTED = r'"(?:[^"\\]|\\.)*"'
PLAIN = r'[^\s"()\[\]=,+:]+'
_TOKEN = re.compile(rf'{QUOTED}|[^"()\[\]]|[()\[\]]|"', re.DOTALL)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_CALL = re.compile(rf"\s*({PLAIN})\s*(?:\((.*)\))?\s*", re.DOTALL)


class Call(NamedTuple):
    """An algorithm by name, with the values that each of its parameters is to take."""

    name: str
    values: dict[str, list[Number]]


class CellText(NamedTuple):
    """A cell as it was written: the retrievers it is fixed to (none: all), normalisation (empty: none) and fusion."""

    subset: tuple[str, ...]
    normalization: str
    fusion: str


def split(text: str, separator: str) -> list[str]:
    """The parts of a text between separators that stand outside of quotes, parentheses and brackets."""
    return list(_split(text, separator))


@lru_cache(REMEMBERED)
def _split(text: str, separator: str) -> tuple[str, ...]:
    parts, depth = [""], 0
    for token in _TOKEN.findall(text):
        depth += (token in "([") - (token in ")]")
        if token == separator and depth == 0:
            parts.append("")
        else:
            parts[-1] += token
    return tuple(part.strip() for part in parts)


def parse_call(text: str) -> Call:
    """`rrf(k=[10,60])`, as the name and the values of every parameter."""
    match = _CALL.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"{text!r} is not an algorithm: expected NAME or NAME(PARAMETER=NUMBER,...), as in 'rrf(k=10)'"
        )
    name, inside = match.groups()
    values: dict[str, list[Number]] = {}
    for word in split(inside, ",") if inside and inside.strip() else []:
        parameter, *rest = split(word, "=")
        if len(rest) != 1 or not parameter:
            raise ConfigError(f"{text!r}: expected PARAMETER=NUMBER, found {word!r}")
        parameter = unquoted(parameter)
        if parameter in values:
            raise ConfigError(f"{text!r}: {parameter!r} is given twice")
        values[parameter] = _numbers(rest[0], text)
    return Call(name, values)


def print_call(name: str, values: Mapping[str, Number]) -> str:
    """The one way to write an algorithm with these values."""
    inside = ",".join(f"{quoted(parameter)}={print_number(value)}" for parameter, value in values.items())
    return f"{name}({inside})" if inside else name


def print_number(value: Number) -> str:
    """The shortest text that reads back as the same number; whole numbers have no point."""
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))


def parse_cell(text: str) -> CellText:
    """`zmuv+combmnz`, `rrf(k=10)` or `bm25+dense: zmuv+combmnz`."""
    before, *after = split(text, ":")
    if len(after) > 1:
        raise ConfigError(f"cell {text!r}: expected at most one ':', after the retrievers it is fixed to")
    algorithms = split(after[0] if after else before, "+")
    if len(algorithms) > 2 or not all(algorithms):
        raise ConfigError(f"cell {text!r}: expected NORMALIZATION+FUSION, as in 'zmuv+combmnz'")
    return CellText(parse_subset(before) if after else (), "+".join(algorithms[:-1]), algorithms[-1])


def parse_subset(text: str) -> tuple[str, ...]:
    """`dense+bm25`, in the order of the names."""
    names = [unquoted(name) for name in split(text, "+")]
    if len(set(names)) < 2 or len(set(names)) < len(names) or not all(names):
        raise ConfigError(f"{text!r}: expected two or more retrievers, each once, as in 'bm25+dense'")
    return tuple(sorted(names))


def print_subset(names: Iterable[str]) -> str:
    return "+".join(map(quoted, sorted(names)))


@lru_cache(REMEMBERED)
def quoted(name: str) -> str:
    """A retriever's name within the name of a cell: in quotes where signs in it would be read as syntax."""
    return name if re.fullmatch(PLAIN, name) else json.dumps(name, ensure_ascii=False)


@lru_cache(REMEMBERED)
def unquoted(text: str) -> str:
    if re.fullmatch(PLAIN, text):
        return text
    try:
        name = json.loads(text, strict=False)
    except ValueError:
        name = None
    if not isinstance(name, str):
        raise ConfigError(f"{text!r} is not a name: put it in double quotes if it holds spaces or any of ()[]=,+:")
    return name


def _numbers(text: str, whole: str) -> list[Number]:
    """One number, or several in brackets."""
    listed = text[1:-1].split(",") if text.startswith("[") and text.endswith("]") else [text]
    numbers: list[Number] = []
    for word in (word.strip() for word in listed):
        if not _NUMBER.fullmatch(word):
            raise ConfigError(f"{whole!r}: expected a number, found {word!r}")
        value = float(word)
        if value in (float("inf"), float("-inf")):
            raise ConfigError(f"{whole!r}: {word} is too large")
        numbers.append(int(word) if re.fullmatch(r"[+-]?\d+", word) else value)
    return numbers
