"""Stages that are done once: the same inputs, settings and code give the same folder, so it is not built again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fusion.errors import InputError
from fusion.kernel.compiled import code_version
from jobs.runtime.code import PACKAGES
from jobs.runtime.folders import STAGE_FILE, ResultFolder, read_text, whole_folder
from jobs.runtime.log import log_fields, stage_line
from jobs.settings import OutputSettings


def run_stage(
    name: str,
    path: str,
    key: Mapping[str, Any],
    build: Callable[[ResultFolder], Mapping[str, Any]],
    code: Sequence[str] = PACKAGES,
) -> bool:
    """Build the folder `path` unless it was built from the same key by the same code; whether it was built.

    `key` holds everything else that the result depends on: settings, and the fingerprints of the inputs. `build` writes
    the folder, which appears whole or not at all, and returns counts for the log. `code` names the packages or modules
    that matter to the stage, so that not every change of any code repeats it.
    """
    wanted = fingerprint({"stage": name, "code": code_version(*code), **key})
    if stage_fingerprint(path) == wanted:
        log_fields(f"{name}: up to date", stage=name, skipped=True)
        return False
    with stage_line(name, path) as counts, whole_folder(OutputSettings(path=path, mode="overwrite")) as folder:
        counts.update(build(folder))
        about = {"stage": name, "fingerprint": wanted, **counts}
        folder.write_text(STAGE_FILE, json.dumps(about, indent=2) + "\n")
    return True


def stage_fingerprint(path: str) -> str | None:
    """The fingerprint of a finished stage, None if there is no such folder."""
    text = read_text(f"{path}/{STAGE_FILE}")
    return None if text is None else str(json.loads(text)["fingerprint"])


def input_fingerprint(path: str) -> str:
    """What stands for an input: a stage's own fingerprint, or a digest of the file's bytes (or the folder's files).

    Names of files do not count: Spark invents new ones every time. Folders do, since they may be partitions.
    """
    done = stage_fingerprint(path)
    if done is not None:
        return done
    place = Path(path)
    if not place.exists():
        raise InputError(f"{path} does not exist")
    digests = []
    for file in place.rglob("*") if place.is_dir() else [place]:
        if file.is_file() and not file.name.startswith((".", "_")):
            digest = hashlib.sha256()
            with file.open("rb") as stream:
                while block := stream.read(1 << 20):
                    digest.update(block)
            digests.append([file.relative_to(place).parent.as_posix(), digest.hexdigest()])
    return fingerprint(sorted(digests))


def fingerprint(value: Any) -> str:
    """A short digest of anything that JSON can hold."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
