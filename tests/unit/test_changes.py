"""Two results side by side: what is tested, over which texts, and what is refused."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import xmtc_fusion as xf
from fusion.cells import Cell
from fusion.errors import ConfigError, InputError
from fusion.metrics import Aspect
from jobs.cli import main
from jobs.reporting.compare import SideBySide, short_names, side_by_side
from jobs.reporting.compare_words import change_markdown, change_page, headline, notes, terminal
from tests.lists import random_relevant, random_texts, whole

TEXTS = 200
MADE = random_texts(np.random.default_rng(5), TEXTS)
WORSE = {name: {f"t{q}": whole(text)[name] for q, text in enumerate(MADE)} for name in MADE[0]}
"""Lists without any skill."""
JUDGEMENTS = {f"t{q}": sorted(labels) for q, labels in enumerate(random_relevant(np.random.default_rng(6), TEXTS))}
BETTER = {
    text: {label: score + 2.0 * (label in JUDGEMENTS[text]) for label, score in scores.items()}
    for text, scores in WORSE["dense"].items()
}
RUNS = {"bm25": WORSE["bm25"], "dense": BETTER}
"""The dense retriever puts relevant labels first."""
CHOSEN: dict[str, Any] = {"normalizations": "zmuv,max", "fusions": "combmnz,isr", "metrics": "ndcg@5,precision@10"}
FUSED, DENSE = Cell("zmuv", "combmnz"), Cell("single", "dense")


def saved(folder: Path, runs: Any = RUNS, judgements: Any = JUDGEMENTS, **given: Any) -> str:
    return xf.evaluate(judgements, runs, per_query=True, **{**CHOSEN, **given}).save(str(folder))


def compared(*paths: str) -> SideBySide:
    return side_by_side(paths, "Rank fusion", "folds", 0.05, "1.0")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    home = tmp_path_factory.mktemp("results")
    return saved(home / "monday"), saved(home / "tuesday", WORSE)


def test_changes_are_those_of_the_texts(folders: tuple[str, str]) -> None:
    found = compared(*folders)
    assert (found.before.name, found.after.name) == ("monday", "tuesday")
    tables = [pq.read_table(f"{path}/query_metrics.parquet").to_pylist() for path in folders]
    figures = [{(row["normalization"], row["fusion"], row["text_id"]): row for row in rows} for rows in tables]
    assert len(found.changes) == 2 * 5  # two metrics; two fused cells, one of all normalisations, two retrievers
    for change in found.changes:
        key = f"{change.aspect.metric}@{change.aspect.k}"
        cell = (*change.cell,) if change.cell.normalization != "(any)" else ("zmuv", change.cell.fusion)
        differences = [figures[1][(*cell, text)][key] - figures[0][(*cell, text)][key] for text in JUDGEMENTS]
        assert change.tested is not None and change.p is not None
        assert change.tested.difference == pytest.approx(np.mean(differences), abs=1e-5)
        assert change.tested.low < np.mean(differences) + 1e-9 and change.tested.high > np.mean(differences) - 1e-9
        assert change.after - change.before == pytest.approx(change.tested.difference, abs=1e-5)
    outcome = {(change.cell, change.aspect.metric): change.outcome for change in found.changes}
    assert (
        outcome[DENSE, "ndcg"] == "worse" and outcome[Cell("single", "bm25"), "ndcg"] == "not significantly different"
    )
    same = next(change for change in found.changes if change.cell == Cell("single", "bm25"))
    assert same.same and same.tested == (0, 0, 0, 1)
    # Only what changed is corrected for.
    changed = [change for change in found.changes if not change.same]
    smallest = min(change.tested.p for change in changed if change.tested)
    hypotheses = len({change.blocks for change in changed})
    assert min(change.p for change in changed if change.p is not None) == pytest.approx(hypotheses * smallest)
    assert hypotheses < len(found.changes)
    assert found.texts["all"].common == TEXTS


def test_blocks_with_other_texts_or_judgements_are_left_out(folders: tuple[str, str], tmp_path: Path) -> None:
    other = {text: labels for text, labels in JUDGEMENTS.items() if text != "t3"}
    other["t9"] = [*other["t9"][1:], 49 if 49 not in other["t9"] else 48]
    found = compared(folders[0], saved(tmp_path / "fewer", judgements=other))
    texts = found.texts["all"]
    assert (texts.before, texts.after, texts.refused) == (TEXTS, TEXTS - 1, "")
    assert TEXTS - 12 < texts.common <= TEXTS - 2
    assert all(change.tested is not None and change.tested.difference == 0 for change in found.changes)
    tested = f"tested over {texts.common} texts in sign blocks that are the same in both"
    assert any(tested in note for note in notes(found))


def test_other_texts_are_refused(folders: tuple[str, str], tmp_path: Path) -> None:
    renamed = {name: {f"x{text}": labels for text, labels in run.items()} for name, run in RUNS.items()}
    judgements = {f"x{text}": labels for text, labels in JUDGEMENTS.items()}
    found = compared(folders[0], saved(tmp_path / "renamed", renamed, judgements))
    assert not found.tested and {change.outcome for change in found.changes} == {"not tested"}
    assert "Not tested: no sign block is the same in both: the texts, or their judgements, differ." in headline(found)
    blocks = compared(folders[0], saved(tmp_path / "blocks", settings={"evaluate.blocks": 64}))
    assert "1,024 sign blocks in the first and 64 in the second" in blocks.texts["all"].refused
    without = compared(folders[0], saved(tmp_path / "without", settings={"evaluate.details": False}))
    assert "holds no sums by sign block" in without.texts["all"].refused
    assert "Settings that differ: evaluate.details." in notes(without)
    (line,) = [line for line in terminal(without).splitlines() if line.startswith("evaluate.details")]
    assert line.split() == ["evaluate.details", "True", "False"]
    assert "| evaluate.details | True | False |" in change_markdown(without) and ">False<" in change_page(without)


def test_other_cells_and_metrics(folders: tuple[str, str], tmp_path: Path) -> None:
    """A fusion that reads ranks is the same under any normalisation; what one side lacks is named."""
    other = saved(tmp_path / "other", normalizations="max", fusions="combsum,isr", metrics="ndcg@5,ndcg@10")
    found = compared(folders[0], other)
    assert {change.aspect for change in found.changes} == {Aspect("all", "ndcg", 5)}
    assert {change.cell.fusion for change in found.changes} == {"isr", "bm25", "dense"}
    lines = notes(found)
    assert f"Only in {found.after.name}: max+combsum." in lines
    assert any(line.startswith("Only in ") and "zmuv+combmnz" in line for line in lines)
    assert any(line.startswith("Settings that differ: ") and "grid.fusions" in line for line in lines)


def test_page_markdown_and_terminal_say_the_same(folders: tuple[str, str]) -> None:
    found = compared(*folders)
    sentence = headline(found)
    assert " fell from " in sentence and "over 200 texts, p <0.001" in sentence
    page, text = change_page(found), change_markdown(found)
    assert sentence.replace("<", "&lt;") in page and "<script" not in page
    assert "| **fell** |" in text and text.count("<details>") == 1
    shown = terminal(found)
    assert sentence.replace("\N{MINUS SIGN}", "-") in shown and "dense alone" in shown
    assert "Of 10 figures that both have, " in shown


def test_the_job_and_the_function(folders: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--compare", *folders]) == 0
    printed = capsys.readouterr().out
    assert " fell from " in printed and f"The report's page is {folders[1]}/comparison/index.html" in printed
    assert xf.report(folders[1], str(tmp_path / "out"), compare=folders[0]) == f"{tmp_path}/out/index.html"
    rows = list(csv.DictReader((tmp_path / "out" / "changes.csv").open()))
    assert len(rows) == 10 and {row["outcome"] for row in rows} == {"worse", "not told apart"}
    with pytest.raises(ConfigError, match="only one folder"):
        xf.report(list(folders), str(tmp_path / "no"), compare=folders[0])
    named = saved(tmp_path / "named", settings={"dataset": "another"})
    with pytest.raises(InputError, match="different datasets"):
        compared(folders[0], named)


def test_short_names() -> None:
    assert short_names("work/mon/results/", "work/tue/results") == ("mon", "tue")
    assert short_names("a", "b") == ("a", "b")
    assert short_names("work/a", "work/a/b") == ("work/a", "work/a/b")
    assert short_names("results", "results") == ("results", "results")
