"""The files of the folder `conf`, which ship with the project."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from fusion.errors import SetupError

if TYPE_CHECKING:
    from importlib.abc import Traversable


def conf_file(name: str) -> Traversable:
    """A file of `conf`, by its name below that folder; also from a zip."""
    # A path in the file system or in a zip: both have a parent.
    packages = files("jobs").parent  # type: ignore[attr-defined]
    # Installed, the folder is inside the public package; in a checkout it is beside the packages.
    for folder in ("xmtc_fusion/conf", "conf"):
        file: Traversable = packages.joinpath(f"{folder}/{name}")
        if file.is_file():
            return file
    raise SetupError(f"xmtc-fusion is not installed completely: it has no file conf/{name}; install it again")
