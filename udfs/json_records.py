"""JSON that means one thing (no key twice, no half characters, no bottomless nesting)."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
QUOTED = 80
"""Characters of a broken document that are quoted."""


class Number(str):
    """A number as it is written."""

    __slots__ = ()


def parse_json(text: str, written_numbers: bool = False) -> Any:
    """The value of a JSON document; a ValueError says what is wrong with it. With `written_numbers`, numbers are
    strings of the class Number."""
    try:
        value = (_WITH_NUMBERS_AS_WRITTEN if written_numbers else _STRICT).decode(text)
    except _RepeatedKeyError:
        raise ValueError(_repeated_key(text)) from None
    except RecursionError:
        raise ValueError("JSON with too many lists and objects inside each other") from None
    except ValueError as error:
        raise ValueError(f"broken JSON ({error}): {text[:QUOTED]}") from None
    if SURROGATE.search(text):
        _check_characters(value)
    return value


def json_kind(value: Any) -> str:
    """What a value of JSON is, in plain words."""
    if isinstance(value, float) and value - value != 0:
        return "NaN or infinite"
    kinds = {list: "a list", dict: "an object", str: "a string", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


class _RepeatedKeyError(Exception):
    """Raised for an object with a key twice."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise _RepeatedKeyError
    return value


_STRICT = json.JSONDecoder(object_pairs_hook=_object)
_WITH_NUMBERS_AS_WRITTEN = json.JSONDecoder(object_pairs_hook=_object, parse_int=Number, parse_float=Number)


def _repeated_key(text: str) -> str:
    """The first key that an object has twice, and the keys that lead to that object."""
    waiting: list[tuple[list[str], Any]] = [([], json.loads(text, object_pairs_hook=tuple))]
    while waiting:
        path, value = waiting.pop(0)
        if isinstance(value, tuple):
            key, count = Counter(key for key, _ in value).most_common(1)[0] if value else ("", 0)
            if count > 1:
                inside = f" inside {' > '.join(map(repr, path))}" if path else ""
                return f"the key {key!r} occurs {count} times{inside}; keep one"
            waiting += [([*path, key], inner) for key, inner in value]
        elif isinstance(value, list):
            waiting += [(path, inner) for inner in value]
    raise AssertionError("unreachable")


def _check_characters(value: Any) -> None:
    """Refuse strings with half of a character, which no file can hold as UTF-8."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise ValueError(f"a string with {half}, which is half of a character (a lone surrogate)") from None
