"""Relative places in a configuration file start at that file, wherever a job is started."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from jobs.settings.base import Place
from jobs.settings.retrievers import RETRIEVERS, OwnSettings, Retrievers, is_file
from udfs.stores.addresses import has_scheme

ELSEWHERE = ("/", "~", "table:", "dbfs:", "file:", "bundled:")
"""What begins like this is absolute, or is not a path."""
TABLE_FILE = re.compile(r"\.(parquet|pq|trec|run|txt|qrels?|tsv|res|csv|jsonl?|gz)$", re.IGNORECASE)
"""Sources that end like this are files; other names without a slash may be catalog tables."""


def starting_at(file: str, values: Mapping[str, Any], section: type[BaseModel]) -> dict[str, Any]:
    """The settings of a file with relative places as they are seen from the working folder."""
    folder = posixpath.dirname(file)
    placed = _section(section, values, folder)
    prepare = placed.get("prepare")
    if isinstance(prepare, dict) and "parts" in prepare and "folder" not in prepare:
        # The files of the parts are in this file, and start there.
        placed["prepare"] = {**prepare, "folder": folder or "."}
    return placed


def _section(section: type[BaseModel], values: Mapping[str, Any], folder: str) -> dict[str, Any]:
    fields = section.model_fields
    return {
        name: _placed(fields[name].annotation, value, folder, fields[name].metadata) if name in fields else value
        for name, value in values.items()
    }


def _placed(annotation: Any, value: Any, folder: str, marks: Sequence[Any] = ()) -> Any:
    """A value with the places in it; `marks` are those on its type."""
    origin, inner = get_origin(annotation), get_args(annotation)
    for mark in marks:
        if isinstance(mark, Place):
            return joined(value, folder, mark)
    if origin is Annotated:
        return _placed(inner[0], value, folder, inner[1:])
    if origin in (Union, UnionType):
        for each in inner:
            value = _placed(each, value, folder)
        return value
    if origin in (list, tuple):
        holds_places = any(isinstance(mark, Place) for mark in get_args(inner[0])[1:])
        items = _listed(value) if holds_places else value
        return [_placed(inner[0], item, folder) for item in items] if isinstance(items, list) else value
    if annotation is Retrievers:
        return _retrievers(value, folder)
    if isinstance(value, Mapping) and origin is dict:
        return {name: _placed(inner[1], below, folder) for name, below in value.items()}
    if isinstance(value, Mapping) and isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _section(annotation, value, folder)
    return value


def _listed(value: Any) -> Any:
    """Names separated by commas stand for a list."""
    return [name.strip() for name in value.split(",")] if isinstance(value, str) else value


def _retrievers(value: Any, folder: str) -> Any:
    """The retrievers of a file, whose own ones are files as well."""
    if isinstance(value, Mapping):
        return {_own_file(name, folder): _placed(_model_of(name), below, folder) for name, below in value.items()}
    names = _listed(value)
    return [_own_file(name, folder) for name in names] if isinstance(names, list) else value


def _model_of(retriever: Any) -> type[BaseModel]:
    entry = RETRIEVERS.find(retriever)
    return entry.settings if entry else OwnSettings


def _own_file(name: Any, folder: str) -> Any:
    return joined(name, folder, Place("FILE")) if isinstance(name, str) and is_file(name) else name


def joined(value: Any, folder: str, place: Place) -> Any:
    """A place as it is seen from the working folder, if it is a relative one."""
    if not isinstance(value, str) or not value or has_scheme(value) or value.startswith(ELSEWHERE):
        return value
    if value.startswith("trec:"):
        return f"trec:{joined(value.removeprefix('trec:'), folder, Place('FILE'))}"
    scheme, _, start = folder.rpartition("://")
    path = posixpath.normpath(posixpath.join(start, value))
    in_file = not place.word or (place.metavar == "SOURCE" and ("/" in value or TABLE_FILE.search(value)))
    if scheme:
        return f"{scheme}://{path}" if in_file else value
    # A word may be the name of a folder, or of something else.
    return path if in_file or Path(path).exists() else value
