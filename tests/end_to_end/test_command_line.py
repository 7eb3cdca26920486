"""The README's commands, as a user types them."""

from __future__ import annotations

import csv
import os
import random
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from fusion import FUSIONS, NORMALIZATIONS
from jobs.runtime.machine import ensure_java
from tests import reference

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A standard TREC pair, with ids that are words."""
    rng = random.Random(4)
    labels = [f"label-{x}" for x in range(40)]
    with (tmp_path / "q.txt").open("w") as qrels:
        for q in range(20):
            qrels.writelines(f"text{q} 0 {label} 1\n" for label in rng.sample(labels, 3))
    for name in "ab":
        with (tmp_path / f"{name}.trec").open("w") as run:
            for q in range(20):
                for rank, label in enumerate(rng.sample(labels, 12), 1):
                    run.write(f"text{q} Q0 {label} {rank} {30 - rank + rng.random():.3f} {name}\n")
    return tmp_path


def call(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    ensure_java()
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "PYSPARK_PYTHON": sys.executable}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


def readme_command(job: str) -> list[str]:
    text = (ROOT / "README.md").read_text().replace("\\\n", " ")
    found = re.search(rf"^xmtc-fusion {job} .*$", text, re.MULTILINE)
    assert found
    return shlex.split(found.group(0))


def test_evaluate_trec_files(folder: Path) -> None:
    done = call(folder, *readme_command("evaluate"))
    assert done.returncode == 0, done.stderr
    assert "all labels, 20 texts, best by ndcg@10" in done.stdout
    # Two small files need no Spark; on the terminal is only what this job says, and that it is at work while compiling.
    engine, evaluated = (line for line in done.stderr.splitlines() if "at work" not in line)
    assert engine == "engine: local, in this process, since the inputs have 0.0 MB, at most 100 (grid.local_limit)"
    assert evaluated.startswith("evaluate: 20 texts, ")
    rows = list(csv.DictReader((folder / "out" / "metrics.csv").open()))
    assert list(rows[0]) == [
        "fold", "normalization", "fusion", "label_group", "metric", "k", "ideal", "value", "queries",
    ]  # fmt: skip
    cells = sum(entry.standard for entry in NORMALIZATIONS) * sum(entry.standard for entry in FUSIONS)
    assert len(rows) == (cells + 2) * 6
    assert pq.read_table(folder / "out" / "metrics.parquet").num_rows == len(rows)
    wanted = {"normalization": "zmuv", "fusion": "combmnz", "metric": "ndcg", "k": "10"}
    row = next(row for row in rows if wanted.items() <= row.items())
    assert float(row["value"]) == pytest.approx(_expected(folder), abs=1e-12)


def _expected(folder: Path) -> float:
    """The mean nDCG@10 of zmuv + CombMNZ, by the reference."""
    relevant: dict[str, set[str]] = {}
    for line in (folder / "q.txt").read_text().splitlines():
        text, _, label, _ = line.split()
        relevant.setdefault(text, set()).add(label)
    lists: dict[str, dict[str, dict[str, float]]] = {text: {"a": {}, "b": {}} for text in relevant}
    for name in "ab":
        for line in (folder / f"{name}.trec").read_text().splitlines():
            text, _, label, _, score, _ = line.split()
            lists[text][name][label] = float(score)
    values = []
    for text, labels in relevant.items():
        ranking = [label for label, _ in reference.fuse(lists[text], "zmuv", "combmnz")]
        values.append(reference.evaluate(ranking, labels, "ndcg", 10))
    return sum(values) / len(values)


def test_spark_submit(folder: Path) -> None:
    """A job through spark-submit, in a folder with packages called like ours; a second time it refuses, for the
    results are there."""
    for name in ("fusion", "udfs"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("raise ImportError('not the package of xmtc-fusion')\n")
    options = [*readme_command("evaluate")[2:6], "--cells", "zmuv+combmnz", "--output", "fused/"]
    few = ["--conf", "spark.sql.shuffle.partitions=2"]
    submit = ["spark-submit", "--master", "local[2]", *few, str(ROOT / "jobs" / "fuse.py"), *options]
    done = call(folder, *submit)
    assert done.returncode == 0, done.stderr
    assert "20 fused lists written to fused/" in done.stdout
    again = call(folder, *submit)
    assert again.returncode == 4
    # spark-submit hands on what a program says on either channel as standard output.
    assert "fused/ exists already" in again.stdout


def test_bad_input_ends_with_one_clear_message(folder: Path) -> None:
    with (folder / "b.trec").open("a") as run:
        run.write("text1 Q0 label-1 99 NaN b\n")
    done = call(folder, *readme_command("evaluate"))
    assert done.returncode == 3
    message = done.stderr[done.stderr.index("xmtc-fusion: error:") :]
    assert "b.trec" in message and "'scores'" in message and "text_id text1" in message
    assert "Traceback" not in done.stderr and "\tat " not in done.stderr
    assert not (folder / "out").exists()
