"""What each retriever adds to the others, in the report: table, page, figure and terminal say the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import xmtc_fusion as xf
from fusion.cells import Cell
from jobs.reporting.additions import addition_lines, additions_table
from jobs.reporting.dataset import DatasetReport
from tests.reports import with_parts

TEXTS, LABELS = 120, 40
Runs = dict[str, dict[str, dict[str, float]]]


def made() -> tuple[Runs, dict[str, list[str]]]:
    """Two retrievers that each see a part of the truth, and one that only guesses."""
    rng = np.random.default_rng(8)
    relevant = {f"t{q}": [f"l{label}" for label in rng.choice(LABELS, 3, replace=False)] for q in range(TEXTS)}
    runs: Runs = {"bm25": {}, "dense": {}, "noise": {}}
    for name, sight in zip(runs, (1.2, 1.0, 0.0), strict=True):
        for text, labels in relevant.items():
            scores = rng.normal(size=LABELS) + sight * np.isin([f"l{label}" for label in range(LABELS)], labels)
            runs[name][text] = {f"l{label}": float(score) for label, score in enumerate(scores)}
    return runs, relevant


@pytest.fixture(scope="module")
def result() -> xf.Evaluation:
    runs, relevant = made()
    settings = {"grid.subsets": "all", "evaluate.randomizations": 1000, "report.figures": True}
    return xf.evaluate(relevant, runs, cells=["zmuv+combsum", "rrf"], metrics="ndcg@5", settings=settings)


@pytest.fixture(scope="module")
def dataset(result: xf.Evaluation) -> DatasetReport:
    return result._dataset


def test_each_retriever_has_its_contribution(dataset: DatasetReport) -> None:
    found = {one.to_most.retriever: one for one in dataset.additions}
    assert list(found) == ["bm25", "dense", "noise"]
    assert found["bm25"].to_most.others == ("dense", "noise")
    assert found["bm25"].verdict.outcome == "better" and found["dense"].verdict.outcome == "better"
    assert found["noise"].verdict.outcome != "better"
    # To the two others together, and to each of them alone.
    assert all(len(one.to_each) == 3 for one in found.values())
    for one in found.values():
        differences = [each.comparison.difference for each in one.to_each]
        assert one.least.comparison.difference == min(differences)
        assert one.most.comparison.difference == max(differences)
    assert dataset.recommendation is not None
    recommended = dataset.recommendation.cell
    assert {one.to_most.cell for one in found.values()} == {Cell(recommended.scaling, recommended.fusion)}


def test_p_is_corrected_over_the_retrievers(result: xf.Evaluation, dataset: DatasetReport) -> None:
    rows = [row for row in result.details["additions"].to_pylist() if "+" in row["others"]]
    for one in dataset.additions:
        (row,) = [
            row
            for row in rows
            if row["retriever"] == one.to_most.retriever and row["fusion"] == one.to_most.cell.fusion
        ]
        assert row["p"] <= one.to_most.comparison.p_queries <= min(1, 3 * row["p"]) + 1e-12
        assert one.to_most.comparison.difference == row["difference"]


def test_everything_that_is_written_shows_it(result: xf.Evaluation, dataset: DatasetReport, tmp_path: Path) -> None:
    table = additions_table(dataset)
    assert [line[2].text for block in table.blocks for line in block] == ["bm25", "dense", "noise"]
    page = Path(result.report(str(tmp_path / "report"))).read_text()
    written = (tmp_path / "report" / "report.md").read_text()
    for name in ("bm25", "dense", "noise"):
        assert f"<b>{name}</b>" in page and f"| {name} |" in written
    assert 'id="additions"' in page and 'href="#additions"' in page
    assert "### What each retriever adds to the others" in written
    assert list((tmp_path / "report").rglob("*additions-all.png"))
    (line,) = addition_lines(dataset)
    assert "bm25 adds +" in line and line.replace("\N{MINUS SIGN}", "-") in result.table()
    assert result.plot("additions").axes


def test_many_others_are_named_by_those_left_out(dataset: DatasetReport) -> None:
    """Lists of seven names would make the table too wide to read."""
    names = [f"r{number}" for number in range(8)]

    def told(*others: str) -> list[str]:
        one = dataset.additions[0]
        most = replace(one.to_most, retriever="r0", others=others)
        shown = [replace(one, to_most=replace(most, retriever=name), to_each=(most,)) for name in names]
        return [entry.text for entry in additions_table(with_parts(dataset, additions=tuple(shown))).blocks[0][0]]

    assert told(*names[1:])[3] == "all 7 others"
    assert told(*names[1:6])[3] == "all others but r6 and r7"
    assert told(*names[1:4])[3] == "r1, r2 and r3" and told(*names[1:4])[-1].endswith(", r1, r2 and r3")


def test_the_figure_has_a_row_per_retriever(result: xf.Evaluation) -> None:
    (axes,) = result.plot("additions").axes
    assert {label.get_text() for label in axes.get_yticklabels()} >= {"bm25", "dense", "noise"}


def test_nothing_is_shown_where_no_subset_was_evaluated() -> None:
    runs, relevant = made()
    plain = xf.evaluate(relevant, runs, cells=["rrf"], metrics="ndcg@5", settings={"evaluate.randomizations": 0})
    assert not plain._dataset.additions and "adds" not in plain.table()
