"""CONTRIBUTING.md, followed to the letter: each of its files makes an entry that everything knows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fusion.registry import METRICS
from tests.doc_blocks import ROOT, blocks

PAGE = ROOT / "CONTRIBUTING.md"
FILES = {
    match[1]: text
    for language, text in blocks(PAGE)
    if language == "python" and (match := re.match(r"# ([\w/]+\.py)\n", text))
}
# The checkout is left alone: the file goes to another folder that its package looks into as well.
IMPORT = """
import importlib, sys
folder, package, module = sys.argv[1:]
importlib.import_module(package).__path__.append(folder)
importlib.import_module(f"{package}.{module}")
"""
TOLD = """
import contextlib, io
from benchmarks.registry_tables import algorithm_tables, metric_tables
from jobs.cli import main

def told(job, name):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        main([job, "--help"])
    assert name in printed.getvalue(), (job, name)

def reported(result, name):
    from jobs.reporting.page import page
    assert name in page(result._report)
"""
ALGORITHMS = (
    TOLD
    + """
import math
import xmtc_fusion as xf
from tests import reference
runs = {"a": {"t": {"l1": 9.0, "l2": 2.0, "l3": 1.0}}, "b": {"t": {"l3": 0.9, "l2": 0.8}}}
lists = {name: run["t"] for name, run in runs.items()}

def agree(cell, normalization, fusion):
    fused, plain = xf.fuse(runs, cell)["t"], reference.fuse(lists, normalization, fusion)
    assert [label for label, _ in plain] == list(fused), (plain, fused)
    assert all(math.isclose(score, fused[label], rel_tol=1e-6, abs_tol=1e-7) for label, score in plain)
"""
)
FUSION = """
agree("power", "rank", "power")
agree("power(p=0.5)", "rank", "power(p=0.5)")
assert abs(xf.fuse(runs, "power(p=2)")["t"]["l3"] - (1 / 9 + 1)) < 1e-7
assert "sum(r^-p)" in xf.explain(runs, "t", "power(p=2)").text
try:
    xf.fuse(runs, "power(p=11)")
except xf.ConfigError as error:
    assert "p must be from 0 to 10" in str(error)
for job in ("evaluate", "fuse", "explain"):
    told(job, "power(p=1)")
assert "| `power(p=1)` + | sum(r<sup>-p</sup>) |" in algorithm_tables()["fusions of ranks"]
result = xf.evaluate({"t": ["l3"]}, runs, normalizations="all", fusions="power", metrics="ndcg@3")
reported(result, "power")
print(len(result.metrics))
"""
NORMALIZATION = """
agree("bounded+combsum", "bounded", "combsum")
agree("bounded(b=0.5)+combsum", "bounded(b=0.5)", "combsum")
chosen = dict(normalizations="bounded(b=[1,2])", fusions="combsum", metrics="ndcg@3")
for job in ("evaluate", "fuse", "explain"):
    told(job, "bounded(b=2)")
assert "| `bounded(b=2)` + |" in algorithm_tables()["normalizations"]
result = xf.evaluate({"t": ["l3"]}, runs, **chosen)
reported(result, "bounded(b=1)+combsum")
print(len(result.metrics))
"""
METRIC = (
    TOLD
    + """
import xmtc_fusion as xf
from jobs.settings.config import load_config

judgements = {"t1": ["a", "c"], "t2": ["b"]}
run = {"t1": {"a": 3.0, "b": 2.0, "c": 1.0}, "t2": {"a": 2.0, "b": 1.0}}
settings = {"evaluate.randomizations": 100}
result = xf.evaluate(judgements, {"x": run, "y": run}, metrics=["RBP", "rbp@1"], cells=["rank+isr"], settings=settings)
assert load_config(None, {"nightly.watch.metrics": ["rbp"]}).nightly.watch.parsed_metrics[0].name == "rbp"
assert "rbp" in {row["metric"] for row in result.details["comparisons"].to_pylist()}
assert "rbp" in result.table()
for job in ("evaluate", "run", "tune", "nightly"):
    told(job, " rbp")
assert "sum over hits of 0.8<sup>rank \\N{MINUS SIGN} 1</sup> |" in metric_tables()["metrics of texts"]
reported(result, "rbp@1")
print(*(row["value"] for row in result.metrics.to_pylist() if row["fusion"] == "x"))
"""
)


def followed(file: str, folder: Path, use: str) -> str:
    """What some code prints once a file of the page is imported as part of its package."""
    path = folder / Path(file).name
    path.write_text(FILES[file], encoding="utf-8")
    package = ".".join(Path(file).parent.parts)
    command = [sys.executable, "-c", IMPORT + use, str(folder), package, path.stem]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_is_a_file_for_each_kind_of_entry() -> None:
    assert {str(Path(file).parent) for file in FILES} == {
        "fusion/fusions",
        "fusion/normalizations",
        "fusion/metrics",
        "jobs/retrievers",
        "jobs/datasets",
    }
    assert all((ROOT / Path(file).parent / "__init__.py").exists() for file in FILES)


def test_a_fusion(tmp_path: Path) -> None:
    # The cells share one column: six normalisations and two single retrievers are reported.
    assert followed("fusion/fusions/power.py", tmp_path, ALGORITHMS + FUSION) == "8\n"


def test_a_normalization(tmp_path: Path) -> None:
    assert followed("fusion/normalizations/bounded.py", tmp_path, ALGORITHMS + NORMALIZATION) == "4\n"


def test_a_metric(tmp_path: Path) -> None:
    printed = followed("fusion/metrics/rbp.py", tmp_path, METRIC)
    # Hits at ranks 1 and 3, and at rank 2.
    expected = [(0.2 * (1 + 0.8**2) + 0.2 * 0.8) / 2, 0.2 / 2]
    assert [float(word) for word in printed.split()] == pytest.approx(expected, abs=1e-11)


def test_every_metric_is_on_its_page() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    for entry in METRICS:
        assert all(f"`{name}`" in page for name in (entry.name, *entry.aliases))


def test_a_retriever_by_name_and_as_a_file(tmp_path: Path) -> None:
    use = """
from jobs.settings.retrievers import RETRIEVERS
print(RETRIEVERS["most-frequent"].scores)
"""
    assert followed("jobs/retrievers/most_frequent.py", tmp_path, use) == "that number, whatever the text says\n"


def test_the_files_are_styled_as_the_code_is(tmp_path: Path) -> None:
    for file, text in FILES.items():
        (tmp_path / Path(file).name).write_text(text, encoding="utf-8")
    for check in (["check", "--select", "E,F,I,UP,W"], ["format", "--check"]):
        command = [sys.executable, "-m", "ruff", *check, "--config", str(ROOT / "pyproject.toml"), str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0, done.stdout + done.stderr
