"""Names of datasets and nights, which become parts of paths."""

from __future__ import annotations

import unicodedata

LONGEST = 100
SIGNS = " ._+-"


def checked_name(name: str) -> str:
    """A name that is safe as a folder's: letters and digits of any script, and a few signs within. The same name may
    be written in several ways in Unicode; here it always comes out in one."""
    name = unicodedata.normalize("NFC", name)
    if not name or len(name.encode()) > LONGEST:
        raise ValueError(f"it becomes part of a path: 1 to {LONGEST} bytes")
    if not all(sign.isalnum() or sign in SIGNS for sign in name):
        raise ValueError("letters, digits, space, '.', '_', '+' and '-' only: it becomes part of a path")
    if not name[0].isalnum() or name[-1] in " .":
        raise ValueError("it becomes part of a path: it should begin with a letter or digit, and not end with a dot")
    return name


RESERVED = ("nightly", "history")
"""Folders that all datasets of a work folder share."""


def checked_dataset(name: str) -> str:
    """The name of a dataset, which has a folder in the work folder."""
    name = checked_name(name)
    if name.lower() in RESERVED:
        raise ValueError(f"a dataset cannot be called {name!r}: the work folder has a folder of that name")
    return name
