"""docs/metrics.md, followed to the letter: its file makes a metric that everything knows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
USE = """
import importlib.util, sys

spec = importlib.util.spec_from_file_location("rbp", sys.argv[1])
spec.loader.exec_module(importlib.util.module_from_spec(spec))

import xmtc_fusion as xf
from jobs.config import load_config

judgements = {"t1": ["a", "c"], "t2": ["b"]}
run = {"t1": {"a": 3.0, "b": 2.0, "c": 1.0}, "t2": {"a": 2.0, "b": 1.0}}
settings = {"evaluate.randomizations": 100}
result = xf.evaluate(judgements, {"x": run, "y": run}, metrics=["RBP", "rbp@1"], cells=["rank+isr"], settings=settings)
assert load_config(None, {"nightly.watch.metrics": ["rbp"]}).nightly.watch.measures[0].metric == "rbp"
assert "rbp" in {row["metric"] for row in result.details["comparisons"].to_pylist()}
assert "rbp" in result.table()
print(*(row["value"] for row in result.metrics.to_pylist() if row["fusion"] == "x"))
"""


def test_the_example_of_the_page(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    [block] = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    [file] = re.findall(r"^# (fusion/metrics/\w+\.py)$", block, re.MULTILINE)
    path = tmp_path / Path(file).name
    path.write_text(block)
    done = subprocess.run(
        [sys.executable, "-c", USE, str(path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    # Hits at ranks 1 and 3, and at rank 2.
    expected = [(0.2 * (1 + 0.8**2) + 0.2 * 0.8) / 2, 0.2 / 2]
    assert [float(word) for word in done.stdout.split()] == pytest.approx(expected, abs=1e-11)


def test_every_metric_is_on_the_page() -> None:
    from fusion.registry import METRICS

    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    for entry in METRICS:
        assert f"`{entry.name}`" in page
        for alias in entry.aliases[:1]:
            assert f"`{alias}`" in page
