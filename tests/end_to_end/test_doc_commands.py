"""Blocks of the docs that need Spark or minutes, run as they are typed, on a part of the demo's texts."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.cli import main
from jobs.runtime.machine import ensure_java
from tests.doc_blocks import BLOCK, OURS, ROOT, blocks, commands, examples, lay_out

BIN = Path(sys.executable).parent
SMALLER = {
    "run": "prepare.limit=400 prepare.folds=2 evaluate.randomizations=100",
    "retrieve": "prepare.limit=400 prepare.folds=2",
    "tune": "prepare.limit=400 prepare.folds=2 evaluate.randomizations=100",
    "explain": "prepare.limit=400 prepare.folds=2",
    "nightly": "prepare.limit=400 prepare.folds=2 evaluate.randomizations=100",
}
"""Settings that make a command quick; what it does is the same."""


TEXTS_PAGE = ROOT / "docs/texts.md"
FIRST_HOUR = [command for command in commands(TEXTS_PAGE) if re.search(r"notices|model/", command.text)]


def call(folder: Path, *command: str) -> str:
    ensure_java()
    environment = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


@pytest.mark.drill
def test_commands_that_start_spark(tmp_path: Path) -> None:
    lay_out(tmp_path, texts=300)
    chosen = [
        command
        for command in commands()
        if command.tier == "drill" and command.page != "nightly.md" and command not in FIRST_HOUR
    ]
    # What `run` leaves is what `explain` and the retrievers' page read.
    order = {"texts.md": 0, "report.md": 1, "tuning.md": 2}
    printed = {}
    for command in sorted(chosen, key=lambda command: order.get(command.page, 3)):
        settings = [word for setting in SMALLER.get(command.words[1], "").split() for word in ("--set", setting)]
        overwrite = ["--mode", "overwrite"] if command.words[1] in ("run", "report", "tune") else []
        printed[command.text] = call(tmp_path, *command.words, *settings, *overwrite)
    assert {command.words[1] for command in chosen} >= {"run", "retrieve", "explain", "doctor"}
    assert any("Ready: jobs can run here" in text for text in printed.values())
    assert (tmp_path / "work/debtags/report/index.html").is_file()

    (tuning,) = [example.code for example in examples() if "xf.tune(" in example.code]
    call(tmp_path, sys.executable, "-c", tuning)
    assert (tmp_path / "model.json").is_file()

    (code,) = [text for _, text in blocks(ROOT / "docs/retrievers.md") if "SentenceTransformer(" in text]
    line = code.replace("SentenceTransformer(", "print(SentenceTransformer(", 1).strip()
    assert call(tmp_path, sys.executable, "-c", re.sub(r'\["a text"\]\)$', '["a text"]).shape)', line)).strip()


def test_the_first_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """From a file of texts to labels for new ones, as the page says, and with the output that it shows."""
    lay_out(tmp_path, texts=1)
    monkeypatch.chdir(tmp_path)
    page, _, _ = TEXTS_PAGE.read_text(encoding="utf-8").partition("## The stages")
    sample, *shown, labels = [block[2] for block in BLOCK.finditer(page) if block[1] == "text"]
    assert (tmp_path / "data/notices/notices.csv").read_text().startswith(sample)
    assert [command.words[1] for command in FIRST_HOUR] == ["init", "run", "fit", "predict"]
    printed = []
    for command in FIRST_HOUR:
        quick = ["--set", "report.figures=false"] if command.words[1] == "run" else []
        assert main([*command.words[1:], *quick]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == shown[0]
    of_run = iter(printed[1].splitlines())
    assert all(line in of_run for line in shown[1].splitlines() if line != "...")
    lines = [json.loads(line) for line in (tmp_path / "labelled/predictions.jsonl").read_text().splitlines()]
    assert {line["text_id"]: line["labels"][0]["label"] for line in lines} == {"n1": "transport", "n2": "schools"}
    (example,) = [example for example in examples() if "xf.load_model(" in example.code and example.page == "texts.md"]
    exec(example.code, {})
    assert capsys.readouterr().out == labels == example.output


@pytest.mark.drill
def test_a_session_of_your_own(spark: SparkSession, tmp_path: Path) -> None:
    (code,) = [text for _, text in blocks(ROOT / "docs/runs.md") if "spark.table(" in text]
    spark.sql("CREATE DATABASE IF NOT EXISTS runs")
    lists = {"bm25": [("t1", "l1", 2.0), ("t2", "l2", 1.0)], "dense": [("t1", "l2", 0.9), ("t2", "l2", 0.8)]}
    try:
        for name, rows in lists.items():
            table = spark.createDataFrame(rows, "text_id string, label_id string, score double")
            table.write.mode("overwrite").option("path", str(tmp_path / name)).saveAsTable(f"runs.{name}")
        pairs = spark.createDataFrame([("t1", "l1"), ("t2", "l2")], "text_id string, label_id string")
        pairs.write.mode("overwrite").option("path", str(tmp_path / "pairs")).saveAsTable("runs.judgements")
        left = {"spark": spark}
        exec(code, left)
        assert left["result"].best("ndcg@10").mean == 1.0 and left["result"].engine == "arrays"
    finally:
        spark.sql("DROP DATABASE runs CASCADE")


def test_every_command_has_a_place() -> None:
    """Ours are run by a test, or CONTRIBUTING.md says why not."""
    for command in commands():
        assert command.tier == "not run" or command.words[0] == OURS, command
