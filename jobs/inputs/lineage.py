"""Whether inputs that come from stages belong together: candidates are judged by the folds that they were made from."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from fusion.errors import InputError
from jobs.runtime.stages import MADE_FROM
from jobs.runtime.versions import STAGE_FILE, Versions, version_of
from udfs.stores.addresses import without_dots

PREPARED = "prepared"
"""The stage that all others of a dataset are made from."""


def check_lineage(sources: Iterable[str]) -> None:
    """Refuse inputs of which some were made from another version of the prepared dataset than is read now."""
    read: dict[str, tuple[str, str]] = {}
    made_from: dict[str, dict[str, str]] = {}
    for source in sources:
        root, version = version_of(source) or ("", "")
        if not version:
            continue
        if posixpath.basename(root) == PREPARED:
            read[root] = (source, version)
        about = Versions(root, STAGE_FILE).about(version) or {}
        inputs = {without_dots(f"{root}/{place}"): name for place, name in about.get(MADE_FROM, {}).items()}
        made_from[source] = {place: name for place, name in inputs.items() if posixpath.basename(place) == PREPARED}
    for source, inputs in made_from.items():
        for place, name in inputs.items():
            other, version = read.get(place, ("", name))
            if _fingerprint(version) != _fingerprint(name):
                raise InputError(
                    f"{source} was made from another version of the prepared dataset ({_fingerprint(name)}) than "
                    f"{other} holds now ({_fingerprint(version)}): run the retriever again, or 'xmtc-fusion run'"
                )


def _fingerprint(version: str) -> str:
    return version.partition("-")[0]
