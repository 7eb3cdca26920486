"""Old versions of a dataset's stages: removed by number and age, but never one that something was made from."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass

from jobs.runtime.log import log
from jobs.runtime.stages import MADE_FROM
from jobs.runtime.versions import HIDDEN, STAGE_FILE, VERSION_NAME, Versions, pointer
from udfs.stores.addresses import locate, without_dots
from udfs.stores.objects import delete_folder, files_below

LEFT_AFTER = 48.0
"""Hours after which a version without a marker is taken for one that a killed writer left."""


@dataclass
class _Version:
    """What is known of a version from a listing."""

    modified: float = 0.0
    complete: bool = False


def sweep(folder: str, keep: int, hours: float) -> list[str]:
    """Remove versions of stages below a folder; where they were.

    Of each stage, the current version and the newest of the others stay, `keep` in all, and so does whatever the marker
    of any version names. The rest goes once it is older than `hours`; so does what killed writers have left.
    """
    stages = _listed(folder)
    if not any(len(versions) > 1 for versions in stages.values()) and all(
        version.complete for versions in stages.values() for version in versions.values()
    ):
        return []
    named = _named(stages)
    now, removed = time.time(), []
    for root, versions in stages.items():
        finished = {name: version.modified for name, version in versions.items() if version.complete}
        newest = sorted(finished, key=lambda name: finished[name], reverse=True)
        current = pointer(root)
        kept = {current, *[name for name in newest if name != current][: keep - 1]}
        for name, version in versions.items():
            old = now - version.modified > 3600 * (hours if version.complete else max(hours, LEFT_AFTER))
            if old and name not in kept and (root, name) not in named:
                delete_folder(f"{root}/{name}")
                removed.append(f"{root}/{name}")
    if removed:
        log(f"{len(removed)} old version{'s' * (len(removed) > 1)} of stages removed (work.keep is {keep})")
    return removed


def _listed(folder: str) -> dict[str, dict[str, _Version]]:
    """The versions of all stages below a folder, from one listing of it."""
    base = str(locate(folder))
    stages: dict[str, dict[str, _Version]] = defaultdict(lambda: defaultdict(_Version))
    for listed in files_below(base):
        steps = listed.name.split("/")
        for place, step in enumerate(steps):
            if not VERSION_NAME.fullmatch(step) or HIDDEN in steps[:place]:
                continue
            version = stages["/".join([base, *steps[:place]])][step]
            version.modified = max(version.modified, listed.modified)
            version.complete |= steps[place + 1 :] == [STAGE_FILE]
            break
    return stages


def _named(stages: dict[str, dict[str, _Version]]) -> set[tuple[str, str]]:
    """Every version that a marker says something was made from."""
    named = set()
    for root, versions in stages.items():
        for name in versions:
            about = Versions.of_stage(root).about(name) or {}
            for place, other in (about.get(MADE_FROM) or {}).items():
                named.add((without_dots(f"{root}/{place}"), other))
    return named
