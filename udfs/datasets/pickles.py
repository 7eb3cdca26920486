"""Pickled samples, read without running what a pickle may carry."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from io import SEEK_END
from typing import IO, Any

import pyarrow as pa

from fusion.errors import InputError
from udfs.datasets.texts import AS_TEXTS, Row, Text
from udfs.steps import Batches, Step
from udfs.text_files import opened

KEYS = ("idx", "text", "labels_ids", "labels")
ROWS = 4096
MOST_BYTES = 8 << 30
"""The largest file that is read: a pickle is held in memory as a whole."""


class PlainUnpickler(pickle.Unpickler):
    """Admits containers, numbers and strings, which pickles have instructions of their own for, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        raise InputError(
            f"the pickle asks for {module}.{name}, which is refused: only lists, tuples, dicts, numbers and strings "
            "are read. Save the samples again as plain Python values"
        )

    def persistent_load(self, pid: Any) -> Any:
        raise InputError(f"the pickle asks for the outside object {str(pid)[:100]!r}, which is refused")


def load_plain(stream: IO[bytes], source: str) -> Any:
    """The content of a pickle, or an error that says what is wrong with it."""
    try:
        size = stream.seek(0, SEEK_END)
        if size > MOST_BYTES:
            raise InputError(f"the pickle has {size:,} bytes, and at most {MOST_BYTES:,} are read: split it")
        stream.seek(0)
        return PlainUnpickler(stream).load()
    except InputError as error:
        raise InputError(f"{source}: {error}") from None
    except Exception as error:  # garbage can make the unpickler fail in any way
        raise InputError(f"{source} is not a readable pickle: {type(error).__name__}: {error}") from None


def _read(path: str) -> Iterator[list[dict[str, Any]]]:
    """The samples of a file as rows, some thousands at a time. A file that cannot be read is one row with a problem."""
    try:
        with opened(path, path) as stream:
            samples = load_plain(stream, path)
        if not isinstance(samples, list | tuple):
            raise InputError(f"{path}: expected a list of samples, found {type(samples).__name__}")
    except (InputError, OSError) as error:
        yield [{"problem": str(error)}]
        return
    for first in range(0, len(samples), ROWS):
        chunk = samples[first : first + ROWS]
        yield [_checked_row(sample, f"{path} sample {first + n}") for n, sample in enumerate(chunk)]


def sample_texts_step(role: str | None) -> Step:
    """From rows of paths to the texts of these files."""

    def run(batches: Batches) -> Batches:
        for path in _paths(batches):
            for rows in _read(path):
                yield AS_TEXTS.batch([Row(row.get("text_id"), _text(row, role), row.get("problem")) for row in rows])

    return Step(run, AS_TEXTS.schema, in_python=True)


def _text(row: dict[str, Any], role: str | None) -> Text | None:
    return Text(row["text"], row["labels"], role=role) if "text" in row else None


NAMED = pa.schema([("label", pa.string()), ("name", pa.string())])


def _names(batches: Batches) -> Batches:
    for path in _paths(batches):
        named: dict[tuple[str, str], None] = {}
        for rows in _read(path):
            for row in rows:
                named |= dict.fromkeys(zip(row.get("labels", ()), row.get("names", ()), strict=True))
        yield pa.RecordBatch.from_pylist([{"label": label, "name": name} for label, name in named], NAMED)


SAMPLE_LABELS = Step(_names, NAMED, in_python=True)
"""From rows of paths to the labels with their names in these files, each pair once per file."""


def _paths(batches: Batches) -> Iterator[str]:
    for batch in batches:
        yield from batch["path"].to_pylist()


def _checked_row(sample: Any, place: str) -> dict[str, Any]:
    try:
        return sample_row(sample, place)
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, endless nesting
        return {"problem": f"{place} cannot be written: {error}"}


def sample_row(sample: Any, place: str) -> dict[str, Any]:
    """A sample as a row; one that cannot be used has only a problem."""
    if not isinstance(sample, Mapping):
        return {"problem": f"{place}: expected a dict, found {type(sample).__name__}"}
    missing = [key for key in KEYS if key not in sample]
    if missing:
        return {"problem": f"{place}: missing {', '.join(map(repr, missing))}; it has {', '.join(map(str, sample))}"}
    number, text, ids, names = (sample[key] for key in KEYS)
    if not _whole(number):
        return {"problem": f"{place}: idx {number!r} is not a whole number"}
    if not isinstance(text, str):
        return {"problem": f"{place}: text is {type(text).__name__}, expected str"}
    if not all(isinstance(value, list | tuple) for value in (ids, names)) or len(ids) != len(names):
        return {"problem": f"{place}: labels_ids and labels must be lists of the same length"}
    strange = [label for label in ids if not _whole(label) or label < 0]
    if strange:
        return {"problem": f"{place}: label id {strange[0]!r} is not a whole number from 0 on"}
    try:
        "".join([text, *map(str, names)]).encode()
    except UnicodeEncodeError as error:
        return {"problem": f"{place}: text that is not Unicode: {error.reason}"}
    # The authors kept the line breaks of the files they read.
    row = {"text_id": number, "text": text.rstrip("\r\n")}
    return {**row, "labels": [str(label) for label in ids], "names": [str(name).strip() for name in names]}


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
