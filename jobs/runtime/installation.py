"""What is installed here, seen without Spark: this project's own code, packages, extras, pyspark and Java."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any, Literal, NamedTuple

from fusion.errors import SetupError
from jobs.runtime.java import current_java, ensure_java

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
    """What this project always needs; `versions` are those of the packages beside pyspark."""
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
