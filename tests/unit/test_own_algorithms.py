"""The examples of docs/: an algorithm of one's own is one file, and the pages show these files to the letter."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = {
    "own_fusion.py": ("algorithms.md", "fusion/fusions/power.py"),
    "own_normalization.py": ("algorithms.md", "fusion/normalizations/bounded.py"),
    "own_metric.py": ("metrics.md", "fusion/metrics/rbp.py"),
}
USE = """
import runpy

for file in ("own_fusion.py", "own_normalization.py", "own_metric.py"):
    runpy.run_path(f"docs/{file}")

import xmtc_fusion as xf

runs = {"x": {"t": {"a": 3.0, "b": 2.0, "c": 1.0}}, "y": {"t": {"c": 2.0, "a": 1.0}}}
settings = {"evaluate.details": False}
cells = ["power(p=[1,2])", "bounded(b=0.5)+combsum", "bounded+power"]
result = xf.evaluate({"t": ["b", "c"]}, runs, cells=cells, metrics=["rbp", "rbp@1"], settings=settings)
values = {(row["normalization"], row["fusion"], row["k"]): row["value"] for row in result.metrics.to_pylist()}
# 1 + 1/4 for a, 1/9 + 1 for c, 1/4 for b: hits at ranks 2 and 3.
assert abs(values["none", "power(p=2)", 0] - 0.2 * (0.8 + 0.64)) < 1e-11
assert values["none", "power", 1] == 0
fused = xf.fuse(runs, "bounded(b=0.5)+combsum")["t"]
# Cut off at half a standard deviation: a 0.5 - 0.5, b 0, c -0.5 + 0.5.
assert fused == {"a": 0.0, "b": 0.0, "c": 0.0}
"""


@pytest.mark.parametrize("file", FILES)
def test_the_page_shows_the_file(file: str) -> None:
    page, place = FILES[file]
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    (block,) = re.findall(rf"^```python\n# {re.escape(place)}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    own = (ROOT / "docs" / file).read_text(encoding="utf-8")
    documented, _, code = own.partition('"""\n\n')
    assert code == block
    assert place in documented and f"]({file})" in text


def test_the_files_work() -> None:
    done = subprocess.run([sys.executable, "-c", USE], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
