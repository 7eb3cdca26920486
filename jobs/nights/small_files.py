"""Small JSON files that are replaced in one step, on disk or in an object store."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs

from fusion.errors import OutputError
from udfs.stores.addresses import local_folder


def read_file(path: str) -> bytes | None:
    """The content of a file; None if there is none."""
    local = local_folder(path)
    try:
        if local is not None:
            return local.read_bytes()
        filesystem, inner = fs.FileSystem.from_uri(path)
        with filesystem.open_input_stream(inner) as stream:
            return bytes(stream.read())
    except (OSError, pa.ArrowException):
        return None


def read_json(path: str) -> dict[str, Any] | None:
    """What a file holds; None if there is none, or one that was not written to its end or is damaged otherwise."""
    try:
        values = json.loads(read_file(path) or b"")
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def write_json(path: str, values: Mapping[str, Any]) -> None:
    """Replace a file; after a full disk or a crash it is the old one or the new one."""
    write_file(path, json.dumps(values).encode())


def write_file(path: str, content: bytes) -> None:
    """Replace a file of any content, in one step."""
    local = local_folder(path)
    try:
        if local is None:
            filesystem, inner = fs.FileSystem.from_uri(path)
            with filesystem.open_output_stream(inner) as stream:
                stream.write(content)
            return
        local.absolute().parent.mkdir(parents=True, exist_ok=True)
        _replace(local, content)
    except (OSError, pa.ArrowException) as error:
        raise OutputError(f"cannot write to {path}: {error}") from None


def _replace(path: Path, content: bytes) -> None:
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.part")
    try:
        with beside.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
