"""Compiled code, kept on disk so that a machine compiles each function once.

numba itself keeps compiled code next to the source, or under the source's path. On a cluster that is another place for
every application (an unpacked archive) or none (a zip), and each worker would compile everything again. Here it is a
folder of the user's, named for what the code depends on: the sources of this package and the versions beneath it. Of
workers that need the same function one compiles it; the others wait and load. NUMBA_CACHE_DIR chooses another place.
"""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba import njit
from numba.core import config as numba_config
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult as NumbaResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.serialize import dumps

from fusion.digests import code_version, digest, source_of

# numba's own modules are typed in part.
config: Any = numba_config
CompileResult: Any = NumbaResult

try:
    from fcntl import LOCK_EX, flock
except ImportError:  # Windows: workers that start together compile side by side.
    flock = None  # type: ignore[assignment]


def make_dispatcher(function: Callable[..., Any]) -> Any:
    """numba's object for a function, which looks for compiled code on disk before it compiles."""
    dispatcher: Any = njit(nogil=True)(function)
    if config.DISABLE_JIT:
        return function
    kept = _KeptCode(function)
    compile_anew = dispatcher.compile

    def compile_once(signature: Any) -> Any:
        with global_compiler_lock:
            if kept.holds(signature, dispatcher.targetctx):
                return compile_anew(signature)
            with _machine_lock(function):
                return compile_anew(signature)

    dispatcher._cache = kept
    dispatcher.compile = compile_once
    return dispatcher


@cache
def cache_folder() -> Path | None:
    """Where compiled code is kept. None if there is no place to write: then every worker compiles for itself."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    versions = f"{sys.implementation.cache_tag} numba {numba.__version__} numpy {np.__version__}"
    # All sources, since functions call each other, and read constants, across files.
    name = f"xmtc-fusion-{user}-{digest(versions, code_version('fusion'))}"
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    for place in [config.CACHE_DIR] if config.CACHE_DIR else [home, None]:
        # Where a user has no home, or none to write in, there is the folder for temporary files.
        with suppress(OSError, RuntimeError):
            folder = Path(place or tempfile.gettempdir()).expanduser() / name
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            about = folder.stat()
            # What lies here is executed, so nobody else may have made it.
            if os.access(folder, os.W_OK) and (os.name == "nt" or (about.st_uid, about.st_mode & 0o022) == (user, 0)):
                return folder
    return None


class _KeptCode(_Cache):
    """The compiled forms of one function: a file each, which appears whole, so that writers cannot disturb others."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @property
    def cache_path(self) -> str:
        return str(cache_folder())

    def holds(self, signature: Any, target: Any) -> bool:
        path = self._path(signature, target)
        return path is not None and path.exists()

    def load_overload(self, signature: Any, target: Any) -> Any:
        path = self._path(signature, target)
        # A file that a crash left incomplete is worth no more than none.
        with suppress(Exception):
            return path and CompileResult._rebuild(target, *pickle.loads(path.read_bytes()))

    def save_overload(self, signature: Any, result: Any) -> None:
        path = self._path(signature, result.target_context)
        # Addresses of this process mean nothing to another one.
        if path is None or result.library.has_dynamic_globals:
            return
        part = path.with_suffix(f".{uuid.uuid4().hex}")
        # A full disk is no reason to stop: the function works.
        with suppress(OSError):
            part.write_bytes(dumps(result._reduce()))  # type: ignore[no-untyped-call]
            part.replace(path)
        part.unlink(missing_ok=True)

    def enable(self) -> None: ...

    def disable(self) -> None: ...

    def flush(self) -> None: ...

    def _path(self, signature: Any, target: Any) -> Path | None:
        folder, module = cache_folder(), self._function.__module__
        source = source_of(module)
        if folder is None or source is None:
            return None
        target.refresh()
        # The last part names the processor: machines may share a folder.
        key = digest(source, str(signature), str(target.codegen().magic_tuple()))
        return folder / f"{module}.{self._function.__qualname__}-{key}.code"


_compiling: set[str] = set()
"""The functions that this process is compiling: one, and those that it calls."""


@contextmanager
def _machine_lock(function: Callable[..., Any]) -> Iterator[None]:
    """Held by the one process of a machine that compiles the function; others may compile others."""
    folder, name = cache_folder(), f"{function.__module__}.{function.__qualname__}"
    if flock is None or folder is None or name in _compiling:
        yield
        return
    with (folder / f"{name}.lock").open("ab") as file:
        # Where the file system has no locks, workers compile side by side.
        with suppress(OSError):
            flock(file, LOCK_EX)
        _compiling.add(name)
        try:
            yield
        finally:
            _compiling.remove(name)
