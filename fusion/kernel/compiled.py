"""Functions that numba compiles when they are first called, and the digests by which code is known.

numba takes a quarter of a second to import, which a `--help` or a wrong setting should not wait for.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, cached_property, update_wrapper
from importlib import import_module
from importlib.resources import files
from typing import Any


class Compiled:
    """A function that is compiled for the types it is called with; it runs without the interpreter's lock."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        return self.dispatcher(*arguments)

    @cached_property
    def dispatcher(self) -> Any:
        """numba's own object for the function."""
        from fusion.kernel.code_cache import make_dispatcher

        # Compiled code calls compiled code, and numba knows only its own objects.
        names = self._function.__globals__
        for name in self._function.__code__.co_names:
            if isinstance(names.get(name), Compiled):
                names[name] = names[name].dispatcher
        dispatcher = make_dispatcher(self._function)
        # Later calls need not come through here; small calls are many.
        if names.get(self._function.__name__) is self:
            names[self._function.__name__] = dispatcher
        return dispatcher


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function when it is first called, and keep the code on disk (see code_cache)."""
    return Compiled(function)


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
