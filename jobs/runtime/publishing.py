"""The plain paths of results, such as out/metrics.csv: links on a local disk, copies in a store.

Links all change at once. Copies cannot: they are brought up to date after the new version is current, and while that
goes on, a note beside them says so. Readers of this project go by the version and never see a mixture.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jobs.runtime.versions import CURRENT_LINK, Versions, json_object, link_plain_paths, linked, pointer
from udfs.stores.addresses import locate
from udfs.stores.objects import children, copy_files, delete_file, delete_folder, put

NOTE = ".publishing.json"
"""There while copies are brought up to date. It lists every plain file there may be."""


def announce(versions: Versions, name: str) -> None:
    """Before a version becomes current: note the plain files of the one before, which only the pointer knows."""
    if linked(versions.root):
        return
    before = pointer(versions.root)
    # A writer that was killed has left plain copies that only its note tells of.
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
