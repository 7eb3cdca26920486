"""The notebooks, from top to bottom on the shipped data, and what they leave behind."""

from __future__ import annotations

import ast
import os
import re
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from tests import reference
from xmtc_fusion.notebook import chart, show, show_figure, show_page, widget

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.py"))
TEXTS = 500


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all: what one notebook has prepared serves the next."""
    return tmp_path_factory.mktemp("work")


@pytest.fixture
def run(work: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Execute a notebook in an empty folder; its variables."""
    monkeypatch.chdir(work)
    monkeypatch.setenv("XMTC_WORK", str(work))
    monkeypatch.setenv("XMTC_LIMIT", str(TEXTS))
    return lambda name: runpy.run_path(str(FOLDER / f"{name}.py"))


@pytest.fixture
def pictures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """The charts that a notebook shows, each drawn to a file."""
    shown: list[Any] = []

    def keep(figure: Any) -> None:
        shown.append(figure)
        path = Path(os.environ.get("XMTC_PICTURES", tmp_path), f"{len(shown)}.png")
        figure.savefig(path)
        assert path.stat().st_size > 5000

    monkeypatch.setattr("xmtc_fusion.notebook.show_figure", keep)
    return shown


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_source_form(path: Path) -> None:
    """The form that Databricks imports: a first line, cells with a line between them, markdown behind `# MAGIC`."""
    first, text = path.read_text(encoding="utf-8").split("\n", 1)
    assert first == "# Databricks notebook source"
    for cell in text.split("\n# COMMAND ----------\n"):
        lines = cell.strip().split("\n")
        magic = [line.startswith("# MAGIC") for line in lines]
        assert any(lines) and all(magic) == any(magic)
        assert not magic[0] or re.match("# MAGIC %(md$|pip install |restart_python$)", lines[0])
        assert all(line == "# MAGIC" or line.startswith("# MAGIC ") for line in lines if magic[0])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_few_cells_and_a_chart(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("# COMMAND ----------") + 1 <= 12
    assert "chart(" in text or "show_figure(" in text


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_cell_installs_the_wheel(path: Path) -> None:
    """From where docs/databricks.md copies it, with extras that the package has."""
    cell = r"^# MAGIC %pip install --find-links (\S+) xmtc-fusion\[(.+)]$"
    (line,) = re.findall(cell, path.read_text(encoding="utf-8"), re.MULTILINE)
    copied = (FOLDER.parent / "docs/databricks.md").read_text(encoding="utf-8")
    assert f"databricks fs cp -r ../../dist dbfs:{line[0]}" in " ".join(copied.split())
    known = re.findall(r'^    "(\w+)": \[', (FOLDER.parent / "setup.py").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(line[1].split(",")) <= set(known)


def test_all_notebooks_are_tried() -> None:
    named = ["explore_dataset", "fuse_and_compare", "bring_your_own_runs", "nightly_review", "label_new_texts"]
    assert [path.stem for path in NOTEBOOKS] == [f"{number:02}_{name}" for number, name in enumerate(named, start=1)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_only_the_public_package_is_used(path: Path) -> None:
    modules = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add(node.module or "")
    assert "xmtc_fusion" in modules
    assert not {name.partition(".")[0] for name in modules} & {"jobs", "fusion", "udfs"}


def test_a_terminal_prints_tables_and_keeps_figures(capsys: pytest.CaptureFixture[str]) -> None:
    table = pd.DataFrame({"band": [1, 2], "pairs": [10, 30], "labels": [5, 5]})
    show(table, rows=1)
    assert capsys.readouterr().out.split() == ["band", "pairs", "labels", "1", "10", "5"]
    figure = chart(table, "band", ["pairs", "labels"], "Pairs")
    assert figure is not None
    assert [bar.get_height() for bar in figure.axes[0].containers[0]] == [10, 30]
    assert (figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()) == ("band", "")
    single = chart(table, "band", "pairs", "Pairs", x_title="band of labels")
    assert single is not None
    assert (single.axes[0].get_xlabel(), single.axes[0].get_ylabel()) == ("band of labels", "pairs")
    assert not capsys.readouterr().out


def test_databricks_shows_widgets_tables_and_pages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What Databricks puts among a notebook's names is used where it is there."""
    widgets: dict[str, str] = {"limit": "7"}
    made = SimpleNamespace(text=lambda name, default, label: widgets.setdefault(name, default), get=widgets.get)
    shown: list[Any] = []
    names = {"dbutils": SimpleNamespace(widgets=made), "display": shown.append, "displayHTML": shown.append}
    shell = SimpleNamespace(user_ns=names)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert [widget("limit", "1000", "Number"), widget("work", "here", "Folder")] == ["7", "here"]
    show(pd.DataFrame({"a": [1, 2]}), rows=1)
    (tmp_path / "page.html").write_text("<p>seen</p>")
    show_page(str(tmp_path / "page.html"))
    figure = chart(pd.DataFrame({"a": [1, 2], "b": [3, 4]}), "a", "b", "A chart", kind="line")
    show_figure(figure)
    assert shown[0].to_dict("list") == {"a": [1]} and shown[1:] == ["<p>seen</p>", figure, figure]


@pytest.mark.drill
def test_explore_dataset(run: Any, pictures: list[Any]) -> None:
    left = run("01_explore_dataset")
    assert len(pictures) == 4
    assert all(figure.axes[0].get_xlabel() and figure.axes[0].get_ylabel() for figure in pictures)
    statistics = left["statistics"]
    assert statistics["texts"] == TEXTS
    assert left["tested"].collect() == [(TEXTS, TEXTS)]
    shape = left["shape"].collect()
    assert sum(row["labels"] for row in shape) == statistics["labels"]
    assert sum(row["percent_of_pairs"] for row in shape) == pytest.approx(100, abs=0.5)
    assert {row["label_group"]: row["pairs"] for row in left["groups"].collect()} == {
        "head": pytest.approx(statistics["head_per_text"] * TEXTS),
        "tail": pytest.approx(statistics["tail_per_text"] * TEXTS),
    }


@pytest.mark.drill
def test_fuse_and_compare(run: Any, pictures: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    left = run("02_fuse_and_compare")
    assert f"all labels, {TEXTS} texts" in capsys.readouterr().out
    assert len(pictures) == 4
    best = left["result"].best("ndcg@10")
    assert left["winner"] == best.cell
    assert (left["ties"].p > 0.05).all() and (left["ties"].difference <= 0).all()
    explained = left["explanation"].table.to_pylist()
    assert sum(row["relevant"] for row in explained) >= 1
    assert [row["rank"] for row in explained] == list(range(1, len(explained) + 1))
    # The text that was looked at, fused by the plain formulas.
    lists = {
        name: {row["label_id"]: row[f"{name}_score"] for row in explained if row[f"{name}_score"] is not None}
        for name in ("bm25", "bm25-labels")
    }
    expected = reference.fuse(lists, *left["winner"])
    assert [row["label_id"] for row in explained] == [label for label, _ in expected]


def test_bring_your_own_runs(run: Any, work: Path, pictures: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    left = run("03_bring_your_own_runs")
    assert len(pictures) == 2
    page = Path(left["page"])
    assert page == work / "own" / "report" / "index.html" and page.is_file()
    printed = capsys.readouterr().out
    assert f"open {page}" in printed
    # Without folds the texts decide, and the verdict says so.
    texts = left["result"].input_counts["judged_texts"]
    assert f"(tested over {texts} texts)" in printed and "not tested" not in printed
    assert f"tested over {texts} texts" in page.read_text() and "not tested (one fold" not in page.read_text()
    assert left["result"].engine == "local"
    added = left["every_subset"].details["additions"].to_pandas()
    assert set(added.retriever) == {"words", "names", "popular"}
    assert added.value.max() == left["every_subset"].best("ndcg@10").mean > 0.3
    assert left["choice"] == left["every_subset"].best("ndcg@10").cell
    assert left["fused"].text_id.nunique() == left["result"].input_counts["judged_texts"]
    assert left["fused"].groupby("text_id").size().max() == 10
    assert "broken.trec" in left["message"] and "use::printing" in left["message"]


def test_nightly_review(run: Any, pictures: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    left = run("04_nightly_review")
    assert [night.exit_code for night in left["nights"]] == [0, 0, 10, 14, 0]
    verdicts = left["verdicts"].set_index("run_id")
    assert list(verdicts.verdict) == ["ok", "ok", "regression", "data check", "ok"]
    assert list(verdicts.baseline[2:4]) == ["2026-03-03", "2026-03-03"]
    assert verdicts.changed["2026-03-04"] == "first"
    assert set(verdicts.changed["2026-03-05"].split(", ")) == {"first", "judgements", "second"}
    tail = left["trend"].query("label_group == 'tail' and cell == 'zmuv+combmnz'").set_index("run_id")["mean"]
    assert tail["2026-03-04"] < tail["2026-03-03"] == tail["2026-03-02"]
    # One chart per label group with every watched cell in it, and one of the losses.
    assert len(pictures) == left["trend"].label_group.nunique() + 1
    assert all(figure.axes[0].get_xlabel() and figure.axes[0].get_ylabel() for figure in pictures)
    assert {text.get_text() for text in pictures[0].legends[0].get_texts()} == set(left["trend"].cell)
    assert set(left["drifted"].quantity) == {"label frequencies"}
    assert set(left["failed"].query("quantity == 'gone_texts'").run_id) == {"2026-03-05"}
    assert left["losses"].cell[0] == "single+first" and left["losses"].change[0] < -10
    assert "fell from" in capsys.readouterr().out


def test_label_new_texts(run: Any, work: Path, pictures: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    left = run("05_label_new_texts")
    assert len(pictures) == 1 and pictures[0].axes[0].get_xlabel() == "candidates"
    assert left["figures"]["texts"] > TEXTS / 20
    assert set(left["labelled"].text_id) <= {"mail", "chess", "solver"}
    assert left["labelled"].probability.between(0, 1).all()
    assert len(left["explanation"].table) == 5
    printed = capsys.readouterr().out
    assert "calibration error" in printed and "static rank" in printed
    assert (work / "labelling/model/model.json").exists()
