"""What computes a result on this machine: the code, the packages and the processor."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

from fusion import __version__

PACKAGE = "xmtc-fusion"
NUMERIC = ("numpy", "numba", "scipy", "pyarrow", "pandas", "pyspark", "torch", "sentence-transformers", "faiss-cpu")
"""Packages whose versions can move a figure."""


@cache
def commit() -> str | None:
    """The commit of this code, where it runs out of a checkout."""
    return _git("rev-parse", "HEAD") or None


@cache
def code_origin() -> str:
    """Where the code comes from: a commit, and whether files differ from it; or the wheel that was installed."""
    if (known := commit()) is not None:
        changed = _git("status", "--porcelain", "--untracked-files=no")
        return f"commit {known[:12]}" + (", with changes" if changed else "")
    try:
        installed = distribution(PACKAGE)
    except PackageNotFoundError:
        return f"version {__version__}, not installed"
    with suppress(ValueError, KeyError, TypeError):
        hashes = json.loads(installed.read_text("direct_url.json") or "")["archive_info"]["hashes"]
        return f"wheel sha256 {hashes['sha256'][:12]}"
    # Not from a file, but from an index or a folder: the hashes of all installed files are in its list of them.
    record = hashlib.sha256((installed.read_text("RECORD") or "").encode()).hexdigest()
    return f"wheel {installed.version}, installed files {record[:12]}"


def _git(*words: str) -> str | None:
    home = Path(__file__).resolve().parents[2]
    if not (home / ".git").exists():
        return None
    with suppress(OSError, subprocess.SubprocessError):
        asked = subprocess.run(["git", *words], cwd=home, capture_output=True, text=True, timeout=10, check=True)
        return asked.stdout.strip()
    return None


@cache
def package_versions() -> dict[str, str]:
    """Of the packages that are installed."""
    versions = {"python": platform.python_version()}
    for name in NUMERIC:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


@cache
def processor() -> str:
    """The processor's name and how many of its cores may be used."""
    name = platform.processor() or platform.machine()
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return f"{name}, {cores} core{'s' * (cores > 1)}"
