"""JSON that means one thing (no key twice, no half characters, no bottomless nesting), and the records in it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

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


LIST, TEXT = "a list", "a string or a number"


@dataclass(frozen=True)
class Fields:
    """The fields that are read: as lists of strings or as strings. Others are passed over."""

    lists: Sequence[str] = ()
    texts: Sequence[str] = ()
    required: Sequence[str] = ()
    """Those that must be there: in every JSON line, or as columns of the table."""
    any_of: Sequence[str] = ()
    """Every JSON line must have one of these, and a table all of them."""


def json_record_rows(fields: Fields) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`: lines (column `value`, null where a line cannot be decoded) become records (column `record`),
    and `problem`, if it is null, says what is wrong with them. All other columns stay."""
    kinds = {**dict.fromkeys(fields.texts, pa.string()), **dict.fromkeys(fields.lists, pa.list_(pa.string()))}
    struct = pa.struct(list(kinds.items()))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            records, problems = [], batch["problem"].to_pylist()
            for number, line in enumerate(batch["value"].to_pylist()):
                record = None
                if line is not None:
                    try:
                        record = _record(parse_json(line.decode(), written_numbers=True), fields)
                    except ValueError as error:
                        problems[number] = problems[number] or f"{batch['place'][number]}: {error}"
                records.append(record)
            kept = [name for name in batch.schema.names if name not in ("value", "problem")]
            columns = {name: batch[name] for name in kept}
            columns |= {"problem": pa.array(problems, pa.string()), "record": pa.array(records, struct)}
            yield pa.RecordBatch.from_pydict(columns)

    return run


def _record(value: Any, fields: Fields) -> dict[str, Any]:
    """The fields of a record; a ValueError says what is wrong with it."""
    if not isinstance(value, dict):
        raise ValueError(f"{json_kind(value)}, expected a JSON object")
    for name in fields.lists:
        if not isinstance(value.get(name), list | None):
            raise ValueError(f"the key {name!r} is {json_kind(value[name])}, expected {LIST}")
        for element in value.get(name) or ():
            if not isinstance(element, str | None):
                raise ValueError(f"the key {name!r} holds {json_kind(element)}, expected strings or numbers")
    for name in fields.texts:
        if not isinstance(value.get(name), str | None):
            raise ValueError(f"the key {name!r} is {json_kind(value[name])}, expected {TEXT}")
    for name in fields.required:
        _check_present(value, [name], fields)
    _check_present(value, fields.any_of, fields)
    return {name: value.get(name) for name in (*fields.texts, *fields.lists)}


def _check_present(value: Mapping[str, Any], names: Sequence[str], fields: Fields) -> None:
    """Refuse a record that has none of some keys."""
    if not names or any(value.get(name) is not None for name in names):
        return
    name = names[0]
    if len(names) > 1:
        raise ValueError(f"all of the keys {', '.join(map(repr, names))} are missing or null")
    if name in value:
        raise ValueError(f"the key {name!r} is null, expected {LIST if name in fields.lists else TEXT}")
    raise ValueError(f"the key {name!r} is missing; it has {', '.join(value)}")
