"""Records out of lines of JSON: the fields that are asked for, as strings and lists of strings, or what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from udfs.strict_json import json_kind, parse_json

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
