"""Relative places: those in a configuration file start at the file, others at the working folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobs.cli import main
from jobs.settings.built_in import StaticSettings
from jobs.settings.config import Config, load_config, overlaid
from jobs.settings.layers import starting_at

ROOT = Path(__file__).parents[2]
PARTS = [{"name": "a", "texts": "x"}]


@pytest.mark.parametrize(
    ("section", "given", "expected"),
    [
        ("work", {"path": "work"}, {"path": "conf/work"}),
        ("work", {"path": "../work"}, {"path": "work"}),
        ("work", {"path": "/data/work"}, {"path": "/data/work"}),
        ("work", {"path": "s3://b/work"}, {"path": "s3://b/work"}),
        ("work", {"path": 3, "keep": 2, "kep": "x"}, {"path": 3, "keep": 2, "kep": "x"}),
        ("output", {"path": "~/out"}, {"path": "~/out"}),
        ("prepare", {"folder": "texts", "parts": []}, {"folder": "conf/texts", "parts": []}),
        (
            "prepare",
            {"parts": [{"name": "a", "texts": "x"}]},
            {"parts": [{"name": "a", "texts": "x"}], "folder": "conf"},
        ),
        ("prepare", {"limit": 3}, {"limit": 3}),
        ("inputs", {"candidates": "runs/all.parquet"}, {"candidates": "conf/runs/all.parquet"}),
        (
            "inputs",
            {"candidates": {"a": "a.trec", "b": "s3://b/b"}},
            {"candidates": {"a": "conf/a.trec", "b": "s3://b/b"}},
        ),
        ("inputs", {"judgements": "trec:qrels"}, {"judgements": "trec:conf/qrels"}),
        ("inputs", {"judgements": "main.labels.judged"}, {"judgements": "main.labels.judged"}),
        ("inputs", {"folds": "table:main.folds"}, {"folds": "table:main.folds"}),
        ("inputs", {"label_groups": "pareto"}, {"label_groups": "pareto"}),
        ("report", {"results": "a, /b"}, {"results": ["conf/a", "/b"]}),
        ("report", {"compare": ["a", "b"]}, {"compare": ["conf/a", "conf/b"]}),
        ("nightly", {"datasets": ["datasets/a.yaml"]}, {"datasets": ["conf/datasets/a.yaml"]}),
        ("nightly", {"alerts": {"junit": "night.xml"}}, {"alerts": {"junit": "conf/night.xml"}}),
        ("nightly", {"history": "table:main.nights.all"}, {"history": "table:main.nights.all"}),
        ("retrievers", ["bm25", "tree.py"], ["bm25", "conf/tree.py"]),
        ("retrievers", "bm25, tree.py", ["bm25", "conf/tree.py"]),
        ("retrievers", {"own/tree.py": {"depth": 3}}, {"conf/own/tree.py": {"depth": 3}}),
        ("retrievers", {"dense": {"model": "a/b"}, "bm25": None}, {"dense": {"model": "a/b"}, "bm25": None}),
    ],
)
def test_places_of_a_file(section: str, given: Any, expected: Any) -> None:
    assert starting_at("conf/mine.yaml", {section: given}, Config) == {section: expected}


def test_places_of_a_file_in_a_store() -> None:
    given = {"work": {"path": "../work"}, "inputs": {"judgements": "main.judged", "folds": "folds.parquet"}}
    expected = {
        "work": {"path": "s3://b/work"},
        "inputs": {"judgements": "main.judged", "folds": "s3://b/x/folds.parquet"},
    }
    assert starting_at("s3://b/x/mine.yaml", given, Config) == expected


def test_a_model_that_is_a_folder_next_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "encoder").mkdir()
    (tmp_path / "mine.yaml").write_text("retrievers: {static: {model: encoder}}")
    config = load_config(str(tmp_path / "mine.yaml"))
    assert config.retrievers.settings("static", StaticSettings).model == str(tmp_path / "encoder")


def test_options_start_at_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.yaml").write_text("work: {path: work}\noutput: {path: out}\n")
    (tmp_path / "night.yaml").write_text("nightly: {datasets: [mine.yaml]}")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    config = load_config("../mine.yaml", {"output.path": "here"})
    assert (config.work.path, config.output.path) == ("../work", "here")
    night = load_config(str(tmp_path / "night.yaml"))
    assert overlaid(night, night.nightly.datasets[0]).work.path == str(tmp_path / "work")


def test_the_record_of_a_run_holds_the_places_that_it_used(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(Config().to_yaml())
    (tmp_path / "run.json").write_text("{}")
    assert load_config(str(tmp_path / "config.yaml")) == Config()


def test_the_demo_is_found_from_any_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "jobs.cli", "config", "--config", "conf/datasets/debtags.yaml"]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
    )
    assert yaml.safe_load(done.stdout)["prepare"]["folder"] == str(ROOT / "data/debtags")


RUN = "1 Q0 {label} 1 {score} run\n2 Q0 {label} 1 {score} run\n"


def test_a_night_started_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """As Airflow and cron do."""
    files = {
        "conf/night.yaml": "nightly: {datasets: [datasets/small.yaml]}\nwork: {path: ../work}\n",
        "conf/datasets/small.yaml": "dataset: small\ninputs:\n  candidates: {a: ../../a.trec, b: ../../b.trec}\n"
        "  judgements: ../../q.qrels\n",
        "a.trec": RUN.format(label="x", score=2.0),
        "b.trec": RUN.format(label="y", score=1.0),
        "q.qrels": "1 0 x 1\n2 0 y 1\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert main(["nightly", "--config", "../conf/night.yaml"]) == 0, capsys.readouterr().err
    assert (tmp_path / "work" / "nightly").is_dir()
    assert not list((tmp_path / "elsewhere").iterdir())
