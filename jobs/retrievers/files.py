"""Retrievers in a file of one's own: read when the configuration names the file."""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from fusion.errors import ConfigError
from jobs.retrievers.base import RETRIEVERS, Retriever


def load_file(path: str) -> list[Retriever]:
    """The retrievers that a Python file registers. A file that has changed since is read again."""
    place = Path(path).expanduser().absolute()
    try:
        content = place.read_bytes()
    except OSError as error:
        raise ConfigError(f"the retriever {path} cannot be read: {error.strerror}") from None
    return _loaded(place, hashlib.sha256(content).hexdigest())


@cache
def _loaded(place: Path, digest: str) -> list[Retriever]:
    name = f"retriever_{place.stem}_{digest[:8]}"
    spec = spec_from_file_location(name, place)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    # Whoever pickles a function of the file looks for its module here.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ConfigError(f"the retriever {place} cannot be imported: {type(error).__name__}: {error}") from error
    registered = [entry for entry in RETRIEVERS if entry.origin == str(place)]
    if not registered:
        raise ConfigError(f"{place} registers no retriever: decorate a function with @xmtc_fusion.retriever(...)")
    return registered
