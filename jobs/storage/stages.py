"""Stages that are done once: the same inputs, settings and code give the same folder, so it is not built again.

A stage is a folder with versions. The name of a version begins with the fingerprint of what it was made from, so runs
with different settings leave each other's stages alone.
"""

from __future__ import annotations

import ast
import hashlib
import json
import posixpath
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

from fusion.digests import code_version
from fusion.errors import InputError
from jobs.runtime.log import log_fields
from jobs.runtime.machine import code_origin, processor
from jobs.storage.folders import ResultFolder, discard, output_errors, read_text, stage_line
from jobs.storage.versions import STAGE_FILE, Versions, link_plain_paths, linked, recorded_reads, resolve, versions_seen
from udfs.stores.addresses import locate
from udfs.stores.objects import content_digest, files_below

PACKAGES = ("fusion", "udfs", "jobs")
"""All code of this project."""
NOT_FOLLOWED = frozenset(
    {
        "jobs.engines.credentials",
        "jobs.engines.progress",
        "jobs.runtime.log",
        "jobs.runtime.machine",
        "jobs.settings.base",
        "jobs.settings.config",
    }
)
"""Modules that cannot change what a stage writes: the settings are part of its key, and the others only give access to
storage, write the log, or say what the machine is.
Sections in modules of their own, such as jobs.settings.built_in, do count: their properties are code."""


@cache
def import_closure(*entries: str) -> tuple[str, ...]:
    """The entry modules and every module of this project that they import, directly or through others; sorted.

    The `__init__` of a package counts where something is imported from the package itself. What it does besides, such
    as filling the registries, matters only to those who import the registries.
    """
    closure: set[str] = set()
    waiting = list(entries)
    while waiting:
        module = waiting.pop()
        if module not in closure and module not in NOT_FOLLOWED:
            closure.add(module)
            waiting += _imports_of(module)
    return tuple(sorted(closure))


@cache
def _imports_of(module: str) -> tuple[str, ...]:
    return tuple(imported_modules(_source(module)))


def imported_modules(source: str) -> Iterator[str]:
    """The modules of this project that a source imports wherever it may run as part of a stage."""
    waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if _is_ours(alias.name))
        elif isinstance(node, ast.ImportFrom) and node.module and _is_ours(node.module):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if _is_package(node.module) and find_spec(inner) is not None else node.module
        elif not (isinstance(node, ast.If) and _never_in_a_stage(node.test)):
            waiting += ast.iter_child_nodes(node)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in PACKAGES


def _is_package(module: str) -> bool:
    spec = find_spec(module)
    return spec is not None and spec.submodule_search_locations is not None


def _never_in_a_stage(test: ast.expr) -> bool:
    """`if __name__ == "__main__"` and `if TYPE_CHECKING`."""
    return ast.unparse(test) in ("__name__ == '__main__'", "TYPE_CHECKING")


def _source(module: str) -> str:
    spec = find_spec(module)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"{module} is imported, but cannot be found")
    # Loaders of files and of zip archives both have it.
    return str(spec.loader.get_source(module) or "")  # type: ignore[attr-defined]


STAGE_NOTES = ("seconds", "processor", "code", "precision")
"""Fields of a marker that say how a stage was made. The last is noted by stages that resolve such a setting."""
MADE_FROM = "made_from"
"""The field of a marker that names the versions of the stages that this one was made from."""


def run_stage(
    name: str,
    path: str,
    key: Mapping[str, Any],
    build: Callable[[ResultFolder], Mapping[str, Any]],
    code: Sequence[str] = PACKAGES,
    notes: Mapping[str, Any] | None = None,
) -> bool:
    """Build the stage `path` unless it was built from the same key by the same code; whether it was built.

    `key` holds everything else that the result depends on: settings, and the fingerprints of the inputs. `build` writes
    the folder, which counts when it is complete, and returns counts for the log. `code` names the packages or modules
    that matter to the stage, so that not every change of any code repeats it. `notes` go into the marker. Who reads the
    stage afterwards asks `stage_folder` where it is.
    """
    wanted = fingerprint({"stage": name, "code": code_version(*code), **key})
    versions = Versions.of_stage(path)
    with output_errors(path):
        finished = versions.find(wanted)
        if finished is not None:
            _make_current(versions, finished)
    if finished is not None:
        log_fields(f"{name}: up to date", stage=name, skipped=True)
        return False
    version = versions.new_name(wanted)
    begin = time.monotonic()
    with stage_line(name, path) as counts, output_errors(path):
        try:
            with recorded_reads() as reads:
                counts.update(build(ResultFolder(versions.folder(version))))
        except BaseException:
            discard(versions, version)
            raise
        made = {"seconds": round(time.monotonic() - begin, 1), "processor": processor(), "code": code_origin()}
        made_from = _inputs_of(path, {**_named(key), **reads})
        about = {"stage": name, "fingerprint": wanted, **counts, **made, **(notes or {}), MADE_FROM: made_from}
        versions.complete(version, about)
        _make_current(versions, version)
    return True


def _make_current(versions: Versions, version: str) -> None:
    versions.make_current(version)
    if linked(versions.root):
        link_plain_paths(versions.root, version)


def _named(key: Mapping[str, Any]) -> dict[str, str]:
    """The versions whose fingerprints a key holds, of those that the job has seen: Spark may read them without asking
    where they are once more."""
    text = json.dumps(key)
    return {root: version for root, version in versions_seen().items() if f'"{version.partition("-")[0]}"' in text}


def _inputs_of(path: str, versions: Mapping[str, str]) -> dict[str, str]:
    """Versions by their place as seen from this stage: the work folder may be moved."""
    here = str(locate(path))
    return {posixpath.relpath(root, here): version for root, version in sorted(versions.items()) if root != here}


def stage_folder(path: str) -> str:
    """Where the finished stage is, as Spark names it: the version that this job has built or seen, else the current."""
    return locate(resolve(path)).spark


def stage_marker(path: str) -> dict[str, Any] | None:
    """What is known about a finished stage, None if there is none or its marker cannot be read."""
    text = read_text(f"{path}/{STAGE_FILE}")
    try:
        about = json.loads(text or "")
    except ValueError:
        return None
    return about if isinstance(about, dict) and "fingerprint" in about else None


def stage_fingerprint(path: str) -> str | None:
    """The fingerprint of a finished stage, None if there is no such folder."""
    about = stage_marker(path)
    return None if about is None else str(about["fingerprint"])


def input_fingerprint(path: str) -> str:
    """The fingerprint of an input: that of its stage, or a digest of the file's bytes (or the folder's files).

    Names of files do not count: Spark invents new ones every time. Folders do, since they may be partitions. In a store
    of objects, the store's own tags serve in place of the bytes.
    """
    done = stage_fingerprint(path)
    if done is not None:
        return done
    place = resolve(path)
    every = files_below(place)
    if not every:
        raise InputError(f"{path} does not exist")
    files = [listed for listed in every if not posixpath.basename(listed.name).startswith((".", "_"))]
    return fingerprint(
        sorted([posixpath.dirname(listed.name) or ".", content_digest(place, listed)] for listed in files)
    )


def fingerprint(value: Any) -> str:
    """A short digest of anything that JSON can hold."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
