"""The notebooks, from top to bottom on the shipped data, and what they leave behind."""

from __future__ import annotations

import ast
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from fusion import reference
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
    """Execute a notebook where notebooks run, in their own folder; its variables."""
    monkeypatch.chdir(FOLDER)
    monkeypatch.setenv("XMTC_WORK", str(work))
    monkeypatch.setenv("XMTC_LIMIT", str(TEXTS))
    return lambda name: runpy.run_path(str(FOLDER / f"{name}.py"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_source_form(path: Path) -> None:
    """The form that Databricks imports: a first line, cells with a line between them, markdown behind `# MAGIC`."""
    first, text = path.read_text(encoding="utf-8").split("\n", 1)
    assert first == "# Databricks notebook source"
    for cell in text.split("\n# COMMAND ----------\n"):
        lines = cell.strip().split("\n")
        magic = [line.startswith("# MAGIC") for line in lines]
        assert any(lines) and all(magic) == any(magic)
        assert not magic[0] or (lines[0] == "# MAGIC %md" and len(lines) > 1)
        assert all(line == "# MAGIC" or line.startswith("# MAGIC ") for line in lines if magic[0])


def test_all_notebooks_are_tried() -> None:
    named = ["01_explore_dataset", "02_fuse_and_compare", "03_bring_your_own_runs", "04_nightly_review"]
    assert [path.stem for path in NOTEBOOKS] == named


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
    figure = chart(pd.DataFrame({"a": [1, 2], "b": [3, 4]}), "a", "b", "A figure", kind="line")
    show_figure(figure)
    assert shown[0].to_dict("list") == {"a": [1]} and shown[1:] == ["<p>seen</p>", figure, figure]


def test_explore_dataset(run: Any) -> None:
    left = run("01_explore_dataset")
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


def test_fuse_and_compare(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    left = run("02_fuse_and_compare")
    assert f"all labels, {TEXTS} texts" in capsys.readouterr().out
    assert left["cells"].size == 60
    assert left["cells"].max().max() == pytest.approx(100 * left["means"][tuple(left["winner"])], abs=0.05)
    assert list(left["gains"]["against_fusion"]) == ["neighbours", "documents"]
    # The text that was looked at, fused by the plain formulas.
    expected = reference.fuse(left["lists"], *left["winner"])[:64]
    ranking = left["ranking"]
    assert list(ranking.index) == [label for label, _ in expected]
    assert list(ranking.fused) == [pytest.approx(score, rel=1e-5) for _, score in expected]
    for retriever, scores in left["lists"].items():
        held = ranking[retriever].notna()
        assert list(held) == [label in scores for label in ranking.index]


def test_bring_your_own_runs(run: Any, work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left = run("03_bring_your_own_runs")
    page = Path(left["page"])
    assert page == work / "own" / "report" / "index.html" and page.is_file()
    printed = capsys.readouterr().out
    assert f"open {page}" in printed
    # Without folds the texts decide, and the verdict says so.
    texts = left["result"].input_counts["judged_texts"]
    assert f"(tested over {texts} texts)" in printed and "not tested" not in printed
    assert f"tested over {texts} texts" in page.read_text() and "not tested (one fold" not in page.read_text()
    assert left["result"].engine == "local"
    assert list(left["reached"].without) == ["", "words", "names", "popular"]
    assert left["choice"].ndcg_at_10 == left["reached"].ndcg_at_10.max() > 0.3
    assert left["fused"].text_id.nunique() == left["result"].input_counts["judged_texts"]
    assert left["fused"].groupby("text_id").size().max() == 10
    assert "broken.trec" in left["message"] and "use::printing" in left["message"]


def test_nightly_review(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    left = run("04_nightly_review")
    assert [night.exit_code for night in left["nights"]] == [0, 0, 10, 14, 0]
    found = {row["run_id"]: (row["verdict"], row["baseline"]) for row in left["verdicts"].collect()}
    assert found["2026-03-04"] == ("regression", "2026-03-03") and found["2026-03-05"] == ("data check", "2026-03-03")
    changed = {row["run_id"]: sorted(row["inputs"]) for row in left["changed"].collect() if row["verdict"] != "ok"}
    assert changed == {"2026-03-04": ["first"], "2026-03-05": ["first", "judgements", "second"]}
    means = {(row["run_id"], row["label_group"]): row["mean"] for row in left["trend"].collect()}
    assert means["2026-03-04", "tail"] < means["2026-03-03", "tail"] == means["2026-03-02", "tail"]
    assert {row["quantity"] for row in left["drifted"].collect()} == {"label frequencies"}
    assert {row["run_id"] for row in left["failed"].collect() if row["quantity"] == "gone_texts"} == {"2026-03-05"}
    worst = left["losses"].first()
    assert (worst["normalization"], worst["fusion"]) == ("single", "first") and worst["change"] < -10
    assert "fell from" in capsys.readouterr().out
