"""Stages that are done once: the same inputs, settings and code give the same folder, so it is not built again."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fusion import __version__
from fusion.errors import InputError
from jobs.outputs import STAGE_FILE, ResultFolder, folder_size, read_text, whole_folder
from jobs.settings import OutputSettings


def run_stage(name: str, path: str, key: Mapping[str, Any], build: Callable[[ResultFolder], Mapping[str, Any]]) -> bool:
    """Build the folder `path` unless it was built from the same key; whether it was built.

    `key` holds everything the result depends on: settings, and the fingerprints of the inputs. `build` writes the
    folder, which appears whole or not at all, and returns counts for the log.
    """
    wanted = fingerprint({"stage": name, "version": __version__, **key})
    if stage_fingerprint(path) == wanted:
        log(f"{name}: {path} is up to date")
        return False
    begin = time.monotonic()
    log(f"{name}: started")
    with whole_folder(OutputSettings(path=path, mode="overwrite")) as folder:
        counts = dict(build(folder))
        folder.write_text(STAGE_FILE, json.dumps({"stage": name, "fingerprint": wanted, **counts}, indent=2) + "\n")
    log_line(stage=name, seconds=round(time.monotonic() - begin, 1), bytes=folder_size(path), **counts)
    return True


def stage_fingerprint(path: str) -> str | None:
    """The fingerprint of a finished stage, None if there is no such folder."""
    text = read_text(f"{path}/{STAGE_FILE}")
    return None if text is None else str(json.loads(text)["fingerprint"])


def input_fingerprint(path: str) -> str:
    """What stands for an input: a stage's own fingerprint, or a digest of the file's bytes (or the folder's files)."""
    done = stage_fingerprint(path)
    if done is not None:
        return done
    place = Path(path)
    if not place.exists():
        raise InputError(f"{path} does not exist")
    digest = hashlib.sha256()
    for file in sorted(place.rglob("*")) if place.is_dir() else [place]:
        if file.is_file() and not file.name.startswith((".", "_")):
            digest.update(str(file.relative_to(place)).encode())
            with file.open("rb") as stream:
                while block := stream.read(1 << 20):
                    digest.update(block)
    return digest.hexdigest()[:16]


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
