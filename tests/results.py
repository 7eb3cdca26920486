"""What people see of a folder of results: plain paths, and not the housekeeping behind them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path


def plain_names(folder: Path) -> list[str]:
    """The files and folders directly inside."""
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def plain_files(folder: Path) -> dict[str, bytes]:
    """Every file with its content, by its path."""
    contents = {}
    for place, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(place, name)
            # A link that leads nowhere is no file to anybody.
            if not name.startswith(".") and path.exists():
                contents[path.relative_to(folder).as_posix()] = path.read_bytes()
    return contents


def alike(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Files that are equal whatever made them: run.json without the engine and the seconds that it took."""
    about = json.dumps({**json.loads(files["run.json"]), "made": None}).encode()
    return {**files, "run.json": about}
