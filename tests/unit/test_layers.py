"""The house: imports point from xmtc_fusion to jobs to udfs to fusion, and inside jobs down one ladder of rooms."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from jobs.cli import JOBS

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
PACKAGES = ("xmtc_fusion", "jobs", "udfs", "fusion")
OUTSIDE = {"tests", "benchmarks", "notebooks"}
FORBIDDEN = {
    "fusion": {"pyspark", "py4j", "pathlib", "time", "datetime", "os", *OUTSIDE},
    "udfs": OUTSIDE,
    "jobs": OUTSIDE,
    "xmtc_fusion": OUTSIDE,
}
LADDER = (
    "nights",
    "reporting",
    "prediction",
    "tuning",
    "evaluation",
    "retrievers",
    "datasets",
    "inputs",
    "engines",
    "storage",
    "runtime",
    "settings",
)
"""The rooms of jobs/: each imports only what is below it."""
ROOMS = {
    "fusion": {"normalizations", "fusions", "metrics", "kernel", "grid", "models", "statistics", "retrieval", "tuning"},
    "jobs": set(LADDER),
    "udfs": {"stores", "datasets", "prediction", "retrieval"},
}
LONGEST = 60
MOST_POSITIONS = 6
HOUSEKEEPING = {"code_cache.py"}
"""Keeps compiled code on disk, which is not arithmetic: it alone may use files."""
NOT_ON_CONNECT = {"rdd", "sparkContext", "_jvm", "_jsc", "_jdf", "cache", "persist"}
CLASSIC_ONLY = {"jobs/engines/progress.py": {"sparkContext"}}
"""Counts the tasks that are done in sessions that have a context; tests/connect runs it in one that has none."""


def modules(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def known() -> frozenset[str]:
    return frozenset(name_of(path) for package in PACKAGES for path in modules(package))


def imported(path: Path) -> Iterator[str]:
    """Every module that a file imports, in functions and for type checks too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in known() else node.module


def circles(folders: tuple[str, ...], level: Callable[[str], str]) -> list[str]:
    """The first circle of imports between modules, or between what `level` makes of them."""
    graph: dict[str, set[str]] = {}
    for path in (path for folder in folders for path in modules(folder)):
        here = level(name_of(path))
        there = {level(name) for name in imported(path) if name in known() and name.split(".")[0] in folders}
        graph.setdefault(here, set()).update(there - {here})
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def room(module: str) -> str:
    """`jobs.inputs.lists` is in `inputs`; what is directly in jobs/ is the roof."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in LADDER else ""


@pytest.mark.parametrize("folder", PACKAGES)
def test_imports_point_one_way(folder: str) -> None:
    above = set(PACKAGES[: PACKAGES.index(folder)])
    for path in modules(folder):
        wrong = {name.split(".")[0] for name in imported(path)} & (above | FORBIDDEN[folder])
        assert not wrong or (path.name in HOUSEKEEPING and not wrong & above), f"{path.relative_to(ROOT)}: {wrong}"


def test_rooms_are_a_ladder() -> None:
    wrong = [
        f"{name_of(path)} imports {name}"
        for path in modules("jobs")
        for name in imported(path)
        if room(name_of(path)) and name.startswith("jobs.")
        if not room(name) or LADDER.index(room(name)) < LADDER.index(room(name_of(path)))
    ]
    assert not wrong


@pytest.mark.parametrize("folder", ["fusion", "udfs", "jobs"])
def test_no_circles(folder: str) -> None:
    """Neither between modules nor between packages."""
    assert not circles((folder,), lambda name: name)
    packages = {name_of(path.parent / "__init__.py") for path in modules(folder)} - {folder}
    package = {name: name.rpartition(".")[0] for name in known() if name not in packages}
    assert not circles((folder,), lambda name: package[name] if package.get(name) in packages else name)


@pytest.mark.parametrize("folder", ROOMS)
def test_rooms(folder: str) -> None:
    """A folder holds one kind of thing, and is listed here."""
    assert {path.parent.name for path in (ROOT / folder).glob("*/__init__.py")} == ROOMS[folder]


def test_jobs_are_thin_files_that_nothing_imports() -> None:
    names = {path.stem for path in (ROOT / "jobs").glob("*.py")} - {"__init__", "cli", "help"}
    assert names == set(JOBS) - {"config"}
    for name in names:
        assert len((ROOT / "jobs" / f"{name}.py").read_text().splitlines()) < 20
    submitted = {f"jobs.{name}" for name in names}
    for path in (path for folder in (*PACKAGES, *OUTSIDE) for path in modules(folder)):
        assert not submitted & set(imported(path)), path


@pytest.mark.parametrize("folder", PACKAGES)
def test_no_function_is_too_long(folder: str) -> None:
    long = {
        f"{path.relative_to(ROOT)} {node.name}"
        for path in modules(folder)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno >= LONGEST
    }
    assert not long


@pytest.mark.parametrize("folder", [*PACKAGES, "benchmarks"])
def test_no_named_tuple_has_another_base(folder: str) -> None:
    """Python 3.10 refuses such a class when its module is imported; neither ruff nor mypy says so."""
    wrong = {
        f"{path.relative_to(ROOT)} {node.name}"
        for path in modules(folder)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and len(node.bases) > 1 and "NamedTuple" in map(ast.unparse, node.bases)
    }
    assert not wrong


@pytest.mark.parametrize("folder", PACKAGES)
def test_no_object_is_made_of_many_positions(folder: str) -> None:
    """Nobody can check seven arguments without names by reading them; a starred argument counts as one."""
    wrong = {
        f"{path.relative_to(ROOT)}:{node.lineno} {node.func.id}"
        for path in modules(folder)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) > MOST_POSITIONS
        if node.func.id[0].isupper() or node.func.id == "cls"
    }
    assert not wrong


def test_the_best_cell_is_read_from_the_metrics() -> None:
    """What makes reports, tunes, or repeats the evaluation is not even imported."""
    code = """
import sys
import xmtc_fusion as xf
runs = {name: {"t1": {"a": 2.0, "b": 1.0}, "t2": {"b": 1.0}} for name in ("bm25", "dense")}
xf.evaluate({"t1": ["a"], "t2": ["b"]}, runs).best()
print({name.split(".")[1] for name in sys.modules if name.startswith("jobs.")} & {"reporting", "tuning", "nights"})
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stdout + done.stderr


def test_a_report_needs_no_spark() -> None:
    """Reports are written where there may be no Java: nothing that they import, even indirectly, is Spark."""
    code = "import sys, jobs.reporting.report; print({'pyspark', 'py4j'} & set(sys.modules) or 'no Spark')"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "no Spark\n", done.stdout + done.stderr


@pytest.mark.parametrize("folder", ["jobs", "udfs", "notebooks"])
def test_only_what_spark_connect_has(folder: str) -> None:
    """No RDDs, Spark context, JVM access or caching: remote and serverless sessions have none."""
    for path in modules(folder):
        used = {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
        name = path.relative_to(ROOT).as_posix()
        assert used & NOT_ON_CONNECT == CLASSIC_ONLY.get(name, set()), f"{name} uses {used & NOT_ON_CONNECT}"


def test_nobody_asks_which_engine_it_has() -> None:
    """Only the way from list rows to the kernel is another one for `windows`."""
    asks = re.compile(r"isinstance\([^)]*(Local|Spark)Engine|engine\.name [!=]=")
    found = {
        path.relative_to(ROOT).as_posix()
        for folder in PACKAGES
        for path in modules(folder)
        if asks.search(path.read_text())
    }
    assert found == {"jobs/inputs/lists.py"}


@pytest.mark.parametrize("module", ["cli", "evaluate", "run"])
def test_submitted_files_do_something(module: str) -> None:
    done = subprocess.run(
        [sys.executable, f"jobs/{module}.py", "--help"], cwd=ROOT, capture_output=True, text=True, env=ENVIRONMENT
    )
    assert done.returncode == 0 and done.stdout.startswith("usage: xmtc-fusion"), done.stderr
