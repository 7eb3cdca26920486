"""A line of code knows its room: imports point from xmtc_fusion to jobs to udfs to fusion, never back."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.cli import JOBS

ROOT = Path(__file__).parents[2]
OUTSIDE = {"tests", "benchmarks", "notebooks"}
FORBIDDEN = {
    "fusion": {"pyspark", "udfs", "jobs", "xmtc_fusion", "py4j", "pathlib", "time", "datetime", "os", *OUTSIDE},
    "udfs": {"jobs", "xmtc_fusion", *OUTSIDE},
    "jobs": {"xmtc_fusion", *OUTSIDE},
    "xmtc_fusion": OUTSIDE,
}
ROOMS = {
    "fusion": {"normalizations", "fusions", "metrics", "kernel", "statistics", "retrieval", "tuning"},
    "jobs": {
        "settings",
        "datasets",
        "retrievers",
        "retrieval",
        "tuning",
        "inputs",
        "results",
        "reporting",
        "monitoring",
        "runtime",
        "command_line",
    },
    "udfs": {"stores"},
}
LONGEST = 60
HOUSEKEEPING = {"code_cache.py"}
"""Keeps compiled code on disk, which is no arithmetic: it alone may know of files."""
NOT_ON_CONNECT = {"rdd", "sparkContext", "_jvm", "_jsc", "_jdf", "cache", "persist"}


def modules(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def imported(tree: ast.AST) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_imports_point_one_way(folder: str) -> None:
    assert modules(folder)
    for path in [path for path in modules(folder) if path.name not in HOUSEKEEPING]:
        wrong = imported(ast.parse(path.read_text())) & FORBIDDEN[folder]
        assert not wrong, f"{path.relative_to(ROOT)} imports {wrong}"


@pytest.mark.parametrize("folder", ROOMS)
def test_rooms(folder: str) -> None:
    """A folder holds one kind of thing, and is listed here."""
    assert {path.parent.name for path in (ROOT / folder).glob("*/__init__.py")} == ROOMS[folder]


def test_jobs_are_jobs() -> None:
    """Whatever stands directly in jobs/ can be submitted; the rest has a room."""
    names = {path.stem for path in (ROOT / "jobs").glob("*.py")} - {"__init__", "cli", "config"}
    assert names == set(JOBS) - {"config"}


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_no_function_is_too_long(folder: str) -> None:
    long = {
        f"{path.relative_to(ROOT)} {node.name}"
        for path in modules(folder)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno >= LONGEST
    }
    assert not long


@pytest.mark.parametrize("folder", [*FORBIDDEN, "benchmarks"])
def test_no_named_tuple_has_another_base(folder: str) -> None:
    """Python 3.10 refuses such a class when its module is imported; neither ruff nor mypy says so."""
    wrong = {
        f"{path.relative_to(ROOT)} {node.name}"
        for path in modules(folder)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef) and len(node.bases) > 1 and "NamedTuple" in map(ast.unparse, node.bases)
    }
    assert not wrong


def test_a_report_needs_no_spark() -> None:
    """Reports are written where there may be no Java: nothing that they import, even indirectly, is Spark."""
    code = "import sys, jobs.report; print({'pyspark', 'py4j'} & set(sys.modules) or 'no Spark')"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "no Spark\n", done.stdout + done.stderr


@pytest.mark.parametrize("folder", ["jobs", "udfs", "notebooks"])
def test_only_what_spark_connect_has(folder: str) -> None:
    """No RDDs, Spark context, JVM access or caching: remote and serverless sessions have none."""
    for path in modules(folder):
        used = {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
        assert not used & NOT_ON_CONNECT, f"{path.relative_to(ROOT)} uses {used & NOT_ON_CONNECT}"
