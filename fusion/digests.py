"""The digests by which code is known."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Any


@cache
def code_version(*names: str) -> str:
    """A digest of the sources of packages and modules."""
    return digest(*(part for name in names for part in _parts(name)))


def _parts(name: str) -> Iterator[str]:
    if hasattr(import_module(name), "__path__"):
        yield from _sources(files(name))
    else:
        yield source_of(name) or ""


def _sources(folder: Any) -> Iterator[str]:
    """The Python files of a package, which may lie in a zip."""
    for entry in sorted(folder.iterdir(), key=lambda entry: str(entry.name)):
        if entry.is_dir():
            yield from _sources(entry)
        elif entry.name.endswith(".py"):
            yield from (entry.name, entry.read_text(encoding="utf-8"))


@cache
def source_of(module: str) -> str | None:
    """The text of a module, None where it has none, as in a notebook."""
    loader = getattr(sys.modules[module], "__loader__", None)
    with suppress(ImportError, AttributeError):
        return loader.get_source(module)  # type: ignore[union-attr]
    return None


def digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
