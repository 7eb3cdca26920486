"""Stages that are done once: the same inputs, settings and code give the same folder, so it is not built again."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fusion.compiled import code_version
from fusion.errors import InputError
from jobs.outputs import STAGE_FILE, ResultFolder, folder_size, read_text, whole_folder
from jobs.settings import OutputSettings

PACKAGES = ("fusion", "udfs", "jobs")
"""All code that results may depend on."""


def run_stage(
    name: str,
    path: str,
    key: Mapping[str, Any],
    build: Callable[[ResultFolder], Mapping[str, Any]],
    code: Sequence[str] = PACKAGES,
) -> bool:
    """Build the folder `path` unless it was built from the same key by the same code; whether it was built.

    `key` holds everything else that the result depends on: settings, and the fingerprints of the inputs. `build` writes
    the folder, which appears whole or not at all, and returns counts for the log. A stage that takes hours names the
    packages or modules whose `code` matters to it, so that not every change of any code repeats it.
    """
    wanted = fingerprint({"stage": name, "code": code_version(*code), **key})
    if stage_fingerprint(path) == wanted:
        log(f"{name}: {path} is up to date")
        _record({"stage": name, "skipped": True})
        return False
    log(f"{name}: started")
    with stage_line(name, path) as counts, whole_folder(OutputSettings(path=path, mode="overwrite")) as folder:
        counts.update(build(folder))
        about = {"stage": name, "fingerprint": wanted, **counts}
        folder.write_text(STAGE_FILE, json.dumps(about, indent=2) + "\n")
    return True


@contextmanager
def stage_line(name: str, path: str | None) -> Iterator[dict[str, Any]]:
    """A line in the log when the block is done: how long it took, the size of what it wrote, and the counts it adds."""
    begin = time.monotonic()
    counts: dict[str, Any] = {}
    yield counts
    size = {} if path is None else {"bytes": folder_size(path)}
    log_line(stage=name, seconds=round(time.monotonic() - begin, 1), **size, **counts)


def stage_fingerprint(path: str) -> str | None:
    """The fingerprint of a finished stage, None if there is no such folder."""
    text = read_text(f"{path}/{STAGE_FILE}")
    return None if text is None else str(json.loads(text)["fingerprint"])


def input_fingerprint(path: str) -> str:
    """What stands for an input: a stage's own fingerprint, or a digest of the file's bytes (or the folder's files).

    Names of files do not count: Spark invents new ones every time. Folders do, since they may be partitions.
    """
    done = stage_fingerprint(path)
    if done is not None:
        return done
    place = Path(path)
    if not place.exists():
        raise InputError(f"{path} does not exist")
    found = []
    for file in place.rglob("*") if place.is_dir() else [place]:
        if file.is_file() and not file.name.startswith((".", "_")):
            digest = hashlib.sha256()
            with file.open("rb") as stream:
                while block := stream.read(1 << 20):
                    digest.update(block)
            found.append([file.relative_to(place).parent.as_posix(), digest.hexdigest()])
    return fingerprint(sorted(found))


def fingerprint(value: Any) -> str:
    """A short digest of anything that JSON can hold."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def log(message: str) -> None:
    """A line about the work, beside the results on standard output."""
    print(f"[xmtc-fusion] {message}", file=sys.stderr, flush=True)


def log_line(**fields: Any) -> None:
    """A line of key=value pairs, one a finished stage, for people and for programs that read logs."""
    words = (f"{key.replace(' ', '_')}={_word(value)}" for key, value in {**_context, **fields}.items())
    log(" ".join(words))
    _record(fields)


def _word(value: Any) -> str:
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if not text or set(text) & set(' "=') else text


_context: dict[str, Any] = {}


@contextmanager
def log_context(**fields: Any) -> Iterator[None]:
    """Fields that every line of the block begins with, such as the run and the dataset."""
    before = dict(_context)
    _context.update(fields)
    try:
        yield
    finally:
        _context.clear()
        _context.update(before)


_records: list[list[dict[str, Any]]] = []


@contextmanager
def recorded() -> Iterator[list[dict[str, Any]]]:
    """What the lines of the block say, for those who want it as data; stages that were skipped included."""
    lines: list[dict[str, Any]] = []
    _records.append(lines)
    try:
        yield lines
    finally:
        _records.pop()


def _record(fields: dict[str, Any]) -> None:
    for lines in _records:
        lines.append(fields)
