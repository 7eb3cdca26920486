"""Nights and other jobs as processes that tests stop or kill."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import yaml

from tests.lists import random_relevant, random_texts, write_tables


def night_command(folder: Path, texts: int, *options: str) -> list[str]:
    """The night `tonight` over a small dataset, on the command line."""
    rng = np.random.default_rng(0)
    settings = write_tables(folder, random_texts(rng, texts), random_relevant(rng, texts), folds=2)
    inputs = {key.split(".")[1]: value for key, value in settings.items()}
    (folder / "sample.yaml").write_text(yaml.safe_dump({"dataset": "sample", "inputs": inputs}))
    places = ["--datasets", str(folder / "sample.yaml"), "--work", str(folder / "work"), "--run-id", "tonight"]
    return [sys.executable, "-m", "jobs.cli", "nightly", *places, "--log-format", "keyvalue", *options]


def start(command: list[str]) -> subprocess.Popen[str]:
    """In a process group of its own: the driver, its JVM and its workers."""
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)


def wait_for(process: subprocess.Popen[str], words: str) -> None:
    """Until a line on stderr matches."""
    assert process.stderr is not None
    if not any(re.search(words, line) for line in process.stderr):
        raise AssertionError(f"{words!r} was never said")


def kill(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
