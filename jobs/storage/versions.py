"""Folders that have versions: each is written under a name of its own, never changed, and made current by one put.

A version is complete when its marker is there, which is put last. A small object next to the versions, the pointer,
names the current one. So a reader sees a whole version or none, on storage that cannot rename folders as on a disk, and
what a killed writer leaves has no marker. docs/storage.md describes the whole protocol.

The plain paths of results, such as out/metrics.csv: links on a local disk, copies in a store.

Links all change at once. Copies cannot: they are brought up to date after the new version is current, and while that
goes on, a note next to them says so. Readers of this project go by the version and never see a mixture.
"""

from __future__ import annotations

import json
import re
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from udfs.stores.addresses import in_volume, locate
from udfs.stores.objects import children, copy_files, delete_file, delete_folder, flush_folder, put, read_bytes

POINTER = ".current.json"
CURRENT_LINK = ".current"
"""On a local disk, a link to the current version, so that all plain paths change at once."""
NEW_LINK = re.compile(r"\..+\.[0-9a-f]{12}\.tmp")
"""A link that is to replace another one."""
LEFT_AFTER = 3600.0
"""Seconds after which such a link is taken for one that a killed writer left."""
STAGE_FILE, RESULT_FILE = "stage.json", ".complete.json"
"""The markers: of a stage, with its fingerprint and counts, and of a job's results."""
HIDDEN = ".versions"
"""Where versions of results lie; those of stages lie in the stage's folder itself."""
VERSION_NAME = re.compile(r"[0-9a-f]{16}-[0-9a-f]{8}")
LEVELS = 5
"""How far above a path a pointer is looked for."""

_seen: ContextVar[dict[str, str] | None] = ContextVar("seen", default=None)
_reads: ContextVar[dict[str, str] | None] = ContextVar("reads", default=None)


@contextmanager
def one_view() -> Iterator[None]:
    """Within the block every folder is read in the version that was written or first read there, even if others make
    another one current meanwhile. A block within another shares its view."""
    if _seen.get() is not None:
        yield
        return
    token = _seen.set({})
    try:
        yield
    finally:
        _seen.reset(token)


def versions_seen() -> dict[str, str]:
    """The versions that the block has written or read, by folder."""
    return dict(_seen.get() or {})


@contextmanager
def recorded_reads() -> Iterator[dict[str, str]]:
    """The versions that the block reads, by folder: a dictionary that fills while the block runs."""
    reads: dict[str, str] = {}
    token = _reads.set(reads)
    try:
        yield reads
    finally:
        _reads.reset(token)


@dataclass(frozen=True)
class Versions:
    """The versions of one folder."""

    root: str
    """The folder, as people name it."""
    marker: str
    inside: str = ""
    """Where versions lie below the root."""

    @classmethod
    def of_stage(cls, path: str) -> Versions:
        return cls(path.rstrip("/"), STAGE_FILE)

    @classmethod
    def of_results(cls, path: str) -> Versions:
        return cls(path.rstrip("/"), RESULT_FILE, f"{HIDDEN}/")

    def new_name(self, fingerprint: str) -> str:
        """A new name: two writers of the same content do not meet."""
        return f"{self.inside}{fingerprint}-{uuid.uuid4().hex[:8]}"

    def folder(self, name: str) -> str:
        return f"{self.root}/{name}"

    def about(self, name: str) -> dict[str, Any] | None:
        """What the marker of a version says, None if the version is not complete."""
        return json_object(f"{self.root}/{name}/{self.marker}")

    def complete(self, name: str, about: Mapping[str, Any]) -> None:
        """Put the marker, after everything else is on disk."""
        flush_folder(self.folder(name))
        put(f"{self.root}/{name}/{self.marker}", (json.dumps(about, indent=2) + "\n").encode())

    def make_current(self, name: str) -> None:
        """From now on readers of the folder see this version."""
        if pointer(self.root) != name:
            put(f"{self.root}/{POINTER}", (json.dumps({"version": name}) + "\n").encode())
        remember(self.root, name)

    def find(self, fingerprint: str) -> str | None:
        """A complete version with a fingerprint: the current one if it has it."""
        current = pointer(self.root)
        names = [name for name in children(f"{self.root}/{self.inside}".rstrip("/")) if VERSION_NAME.fullmatch(name)]
        wanted = [self.inside + name for name in names if name.startswith(f"{fingerprint}-")]
        for name in sorted(wanted, key=lambda name: (name != current, name)):
            if (self.about(name) or {}).get("fingerprint") == fingerprint:
                return name
        return None


def pointer(root: str) -> str | None:
    """The name of a folder's current version, None if the folder has no versions."""
    # A store may refuse to say that something is not there; reading the place itself then says why.
    with suppress(OSError):
        name = (json_object(f"{root}/{POINTER}") or {}).get("version")
        return name if isinstance(name, str) and VERSION_NAME.fullmatch(name.removeprefix(f"{HIDDEN}/")) else None
    return None


def remember(root: str, name: str) -> None:
    """Go on with this version, within the block of `one_view`."""
    for versions in (_seen.get(), _reads.get()):
        if versions is not None:
            versions[str(locate(root))] = name


def resolve(uri: str) -> str:
    """The place of a path inside the current version of the folder that it is in; the path itself if that has none.

    `work/d/prepared/samples.parquet` becomes `/.../work/d/prepared/<version>/samples.parquet`.
    """
    place = str(locate(uri))
    scheme, separator, path = place.rpartition("://")
    host, _, inside = path.partition("/")
    steps = inside.strip("/").split("/")
    named = next((count for count, step in enumerate(steps) if step == HIDDEN or VERSION_NAME.fullmatch(step)), None)
    if named is not None:
        reads = _reads.get()
        if reads is not None and steps[named] != HIDDEN:
            reads[f"{scheme}{separator}{host}/{'/'.join(steps[:named])}"] = steps[named]
        return uri
    for count in range(len(steps), max(0, len(steps) - LEVELS), -1):
        root = f"{scheme}{separator}{host}/{'/'.join(steps[:count])}"
        name = (_seen.get() or {}).get(root) or pointer(root)
        if name is not None:
            remember(root, name)
            return "/".join([root, name, *steps[count:]])
    return uri


def version_of(uri: str) -> tuple[str, str] | None:
    """The folder with versions that a path is in, and the version that is read there; None for any other path."""
    steps = str(locate(resolve(uri))).split("/")
    for count, step in enumerate(steps):
        if VERSION_NAME.fullmatch(step) and steps[count - 1] != HIDDEN:
            return "/".join(steps[:count]), step
    return None


def linked(root: str) -> bool:
    """Whether plain paths of a folder can be links to its current version."""
    place = locate(root)
    return place.is_file and not in_volume(Path(place.path)) and not place.spark.startswith("dbfs:")


def link_plain_paths(root: str, name: str) -> None:
    """On a local disk: let plain paths of a folder lead to a version, all of them at once.

    Each is a link that goes by way of one other link, which is replaced in one step. Names that are new lead nowhere
    before that step, names that are gone lead nowhere after it.
    """
    folder = Path(locate(root).path)
    entries = {entry.name for entry in (folder / name).iterdir() if not entry.name.startswith(".")}
    for entry in sorted(entries):
        _replace_link(folder / entry, f"{CURRENT_LINK}/{entry}")
    _replace_link(folder / CURRENT_LINK, name)
    for path in folder.iterdir():
        if path.name in entries or not path.is_symlink():
            continue
        with suppress(FileNotFoundError):
            if NEW_LINK.fullmatch(path.name):
                # A young one is about to be put in place by another writer, an old one was left by a killed writer.
                gone = time.time() - path.lstat().st_mtime > LEFT_AFTER
            else:
                gone = not path.name.startswith(".") and path.readlink().parts[:1] == (CURRENT_LINK,)
            if gone:
                path.unlink()


def _replace_link(path: Path, target: str) -> None:
    if path.is_symlink() and str(path.readlink()) == target:
        return
    # A copied folder may have files where it had links.
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.tmp")
    beside.symlink_to(target)
    try:
        beside.replace(path)
    except BaseException:
        beside.unlink()
        raise


def json_object(uri: str) -> dict[str, Any] | None:
    """A small file that holds a JSON object; None for what is not there, empty or broken."""
    try:
        value = json.loads(read_bytes(uri) or b"")
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


NOTE = ".publishing.json"
"""There while copies are brought up to date. It lists every plain file there may be."""


def announce(versions: Versions, name: str) -> None:
    """Before a version becomes current: note the plain files of the one before, which only the pointer knows."""
    if linked(versions.root):
        return
    before = pointer(versions.root)
    # A writer that was killed has left plain copies that only its note lists.
    files = {*_files(json_object(f"{versions.root}/{NOTE}")), *_files(versions.about(name))}
    files |= set(_files(versions.about(before))) if before is not None else set()
    put(f"{versions.root}/{NOTE}", (json.dumps({"files": sorted(files)}) + "\n").encode())


def publish(versions: Versions, name: str, replaced: bool) -> None:
    """Let the plain paths show the version that is current now."""
    if linked(versions.root):
        try:
            link_plain_paths(versions.root, name)
        except OSError:
            # A file system without links: one that has made them before has other reasons to fail.
            if (Path(locate(versions.root).path) / CURRENT_LINK).is_symlink():
                raise
        else:
            _remove_inner_results(versions.root, replaced)
            return
    shown: str | None = None
    current: str | None = name
    # Another writer may have made its own version current meanwhile.
    while current is not None and current != shown:
        _copy(versions, current)
        shown, current = current, pointer(versions.root)
    _remove_inner_results(versions.root, replaced)
    delete_file(f"{versions.root}/{NOTE}")


def _copy(versions: Versions, name: str) -> None:
    files = _files(versions.about(name))
    # Files of a table that are not in the new one go first, lest the two are read as one.
    for stale in sorted({*_files(json_object(f"{versions.root}/{NOTE}"))} - {*files}):
        delete_file(f"{versions.root}/{stale}")
    copy_files(versions.folder(name), versions.root, files)


def _remove_inner_results(root: str, replaced: bool) -> None:
    """What was made of results that were replaced, such as their report, is not about the new ones."""
    for name in children(root) if replaced else []:
        if not name.startswith(".") and pointer(f"{root}/{name}") is not None:
            delete_folder(f"{root}/{name}")


def _files(about: dict[str, Any] | None) -> list[str]:
    return [name for name in (about or {}).get("files", []) if isinstance(name, str)]
