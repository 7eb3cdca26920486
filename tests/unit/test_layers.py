"""A line of code knows its room: imports point from jobs to udfs to fusion, never back."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FORBIDDEN = {
    "fusion": {"pyspark", "udfs", "jobs", "py4j", "pathlib", "time", "datetime", "os"},
    "udfs": {"jobs"},
    "jobs": {"tests", "benchmarks"},
}
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


@pytest.mark.parametrize("folder", ["jobs", "udfs", "notebooks"])
def test_only_what_spark_connect_has(folder: str) -> None:
    """No RDDs, Spark context, JVM access or caching: remote and serverless sessions have none."""
    for path in modules(folder):
        used = {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
        assert not used & NOT_ON_CONNECT, f"{path.relative_to(ROOT)} uses {used & NOT_ON_CONNECT}"
