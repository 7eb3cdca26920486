"""Tables say what the data says: figures, marks, warnings, in every format."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from fusion.cells import SINGLE, Cell
from fusion.metrics import Aspect
from jobs.reporting.dataset import DatasetReport, Report
from jobs.reporting.formats import MINUS, NOTHING, points
from jobs.reporting.formats import gain as gained
from jobs.reporting.model import Comparison, Verdict
from jobs.reporting.renderers import report_markdown, table_markdown
from jobs.reporting.report import dataset_csv, dataset_latex, latex, latex_document
from jobs.reporting.tables import (
    WIDEST,
    aspects_by_group,
    file_names,
    gain_table,
    grid_tables,
    paper_tables,
    tie_table,
    warnings,
)
from jobs.settings.sections import Test
from tests.reports import ASPECTS, CELLS, sample_report, with_parts


def renamed(report: Report, old: str, new: str) -> Report:
    """The report with a retriever of another name."""
    dataset = report.datasets[0]
    rows = tuple(replace(row, cell=Cell(SINGLE, new)) if row.cell.fusion == old else row for row in dataset.rows)
    gains = tuple(
        replace(
            gain,
            singles={new if name == old else name: value for name, value in gain.singles.items()},
            better_single=new if gain.better_single == old else gain.better_single,
        )
        for gain in dataset.gains
    )
    return replace(report, datasets=(with_parts(dataset, rows=rows, gains=gains, name="R&D_{1}"),))


def of_group(dataset: DatasetReport, *groups: str) -> list[Aspect]:
    return [aspect for group in groups for aspect in aspects_by_group(dataset)[group]]


def expected(dataset: DatasetReport, aspects: list[Aspect]) -> list[list[tuple[str, bool, bool]]]:
    """Text, bold and best of every figure, line by line."""
    lines = []
    for row in dataset.rows:
        values = [row.values[aspect] for aspect in aspects]
        lines.append([(f"{100 * v.mean:.1f}({100 * (v.std or 0):.1f})", v.bold, v.best) for v in values])
    return lines


def test_markdown_marks_exactly_what_is_flagged() -> None:
    report = sample_report()
    dataset = report.datasets[0]
    tables = list(grid_tables(report, dataset))
    assert [table.name for table in tables] == ["grid-tail-head", "grid-all"]
    for table, groups in zip(tables, (("tail", "head"), ("all",)), strict=True):
        aspects = of_group(dataset, *groups)
        lines = [line for line in table_markdown(table).splitlines() if line.startswith("| ")]
        header, _, *body = [[word.strip() for word in line.strip("|").split("|")] for line in lines]
        assert header[2:] == [f"{c.label_group} labels {'nDCG' if c.metric == 'ndcg' else 'P'}@{c.k}" for c in aspects]
        body = [line for line in body if any(line)]
        assert [Cell(*line[:2]) for line in body] == [row.cell for row in dataset.rows]
        read = [[(w.strip("*†"), w.startswith("**"), w.endswith("†")) for w in line[2:]] for line in body]
        assert read == expected(dataset, aspects)
        assert any(bold and not best for line in read for _, bold, best in line)


def test_latex_marks_exactly_what_is_flagged() -> None:
    report = sample_report()
    dataset = report.datasets[0]
    table = next(iter(grid_tables(report, dataset)))
    _, *blocks = latex(table, "x").split("\\midrule\n")
    lines = [line for block in blocks for line in block.splitlines() if line.endswith(r"\\")]
    read = []
    for line in lines:
        words = line.removesuffix(r" \\").split(" & ")[2:]
        marks = [(r"\textbf{" in word, r"\underline{" in word) for word in words]
        plain = [word.replace(r"\underline{", "").replace(r"\textbf{", "").replace("}", "") for word in words]
        read.append([(text, *mark) for text, mark in zip(plain, marks, strict=True)])
    assert read == expected(dataset, of_group(dataset, "tail", "head"))


def test_tables_are_no_wider_than_a_page() -> None:
    aspects = tuple(Aspect(group, "ndcg", k) for group in ("tail", "head", "all") for k in (10, 5, 1))
    report = sample_report(aspects=aspects)
    assert [table.name for table in grid_tables(report, report.datasets[0])] == ["grid-tail-head", "grid-all"]
    many = tuple(Aspect(f"group {i}", "ndcg", k) for i in range(5) for k in (1, 5, 10))
    dataset = with_parts(report.datasets[0], aspects=many, texts={f"group {i}": 9 for i in range(5)})
    tables = list(grid_tables(report, dataset))
    assert [len(table.header) - 2 for table in tables] == [WIDEST, 3]
    assert [heading[2] for heading in tables[0].header[2:5]] == ["@1", "@5", "@10"]


def test_special_signs_are_escaped() -> None:
    report = renamed(sample_report(), "bm25", "my_run%")
    text = latex_document(report)
    assert r"my\_run\%" in text and "my_run%" not in text
    assert r"R\&D\_\{1\}." in text
    assert " log-isr & " in text
    assert r"$<$0.001" in text
    page = report_markdown(renamed(sample_report(), "bm25", "a|b*c*"))
    assert r"a\|b\*c\*" in page and "a|b" not in page
    assert r"## R\&D\_{1}" in page


@pytest.mark.parametrize("test", ["folds", "queries", "randomization"])
def test_one_fold(test: Test) -> None:
    report = sample_report(folds=1, test=test)
    dataset = report.datasets[0]
    assert warnings(dataset) == ["one fold: no standard deviation, the tests over texts decide"]
    table = next(iter(grid_tables(report, dataset)))
    assert not any("(" in entry.text for block in table.blocks for line in block for entry in line)
    assert "over all folds' texts, Holm-corrected over the cells; alpha = 0.05" in table.caption
    assert ("one fold leaves nothing for a test over folds" in table.caption) == (test == "folds")
    assert any(entry.bold and not entry.best for block in table.blocks for line in block for entry in line)
    gains = table_markdown(gain_table(dataset))
    assert "better (tested over 10,043 texts)" in gains and "not tested" not in gains
    assert ",0." in dataset_csv(dataset) and "nan" not in dataset_csv(dataset)


def test_nothing_tested_is_said() -> None:
    report = sample_report(folds=1)
    rows = tuple(
        replace(row, values={aspect: replace(value, against_best=None) for aspect, value in row.values.items()})
        for row in report.datasets[0].rows
    )
    gains = tuple(replace(gain, verdict=Verdict("not tested", 1)) for gain in report.datasets[0].gains)
    dataset = with_parts(report.datasets[0], rows=rows, gains=gains)
    assert warnings(dataset) == ["one fold: no standard deviation, no test"]
    assert "nothing is tested" in next(iter(grid_tables(report, dataset))).caption
    assert "not tested (one fold, no figures per text)" in table_markdown(gain_table(dataset))


def test_a_bold_figure_below_a_plain_one_is_explained() -> None:
    aspect = Aspect("tail", "precision", 10)
    report = sample_report(aspects=[aspect])
    dataset = report.datasets[0]
    last, first = CELLS[0], Cell("zmuv", "combsum")
    changes = {last: (0.1292, True), first: (0.1301, False)}
    rows = []
    for row in dataset.rows:
        mean, bold = changes.get(row.cell, (0.135, row.values[aspect].best))
        value = replace(row.values[aspect], mean=mean, std=0.002, bold=bold)
        if row.single or value.best or row.cell in changes:
            rows.append(replace(row, values={**row.values, aspect: value}))
    for plain, explained in ((rows, True), ([row for row in rows if row.cell != last], False)):
        changed = with_parts(dataset, rows=tuple(plain))
        caption = next(iter(grid_tables(report, changed))).caption
        words = "tail P@10: 12.9(0.2) of min-max+combmin is bold and 13.0(0.2) of zmuv+combsum is not."
        assert (words in caption) == explained


def test_missing_folds_are_said_in_every_format() -> None:
    report = sample_report(missing=[2, 3])
    warning = "folds 2, 3 are missing: figures are over 3 of 5 folds"
    assert f"> [!WARNING]\n> {warning}" in report_markdown(report)
    assert rf"\textbf{{Warning: {warning}.}}" in dataset_latex(report, report.datasets[0])
    assert "| Eurlex-4K (!) |" in report_markdown(report)
    report = sample_report(missing=[4])
    assert warnings(report.datasets[0]) == ["fold 4 is missing: figures are over 4 of 5 folds"]
    assert warnings(sample_report().datasets[0]) == []


def test_the_legend_names_the_deciding_test() -> None:
    report = replace(sample_report(), alpha=0.01)
    caption = next(iter(grid_tables(report, report.datasets[0]))).caption
    assert "two-sided paired t-test over the folds' means; alpha = 0.01" in caption
    assert "over 5 folds" in caption and "10,043 texts (tail labels), 19,120 texts (head labels)" in caption


def test_gain_beside_single_retrievers() -> None:
    report = sample_report()
    table = gain_table(report.datasets[0])
    gain = report.datasets[0].gains[0]
    line = dict(zip([heading[-1] for heading in table.header], table.blocks[0][0], strict=True))
    assert line["bm25"].text == f"{100 * gain.singles['bm25'].mean:.1f}({100 * (gain.singles['bm25'].std or 0):.1f})"
    assert (line["fusion"].text, line["verdict"].text) == (str(gain.best), gain.verdict.outcome)
    assert line["gain"].text == gained(gain.comparison)
    assert line["folds"].text == "<0.001"
    metrics = [line[1].text for block in table.blocks for line in block]
    assert "nDCG@5 (group)" in metrics and "P@5 (group)" not in metrics
    assert gained(Comparison(0.0123)) == "+1.2"
    assert gained(Comparison(-0.01, -0.02, -0.0001)) == f"{MINUS}1.0 [{MINUS}2.0, +0.0]"


def test_ties_by_each_test() -> None:
    report = sample_report()
    dataset = report.datasets[0]
    folds, queries, _ = tie_table(report, dataset).blocks[0]
    aspects = of_group(dataset, "tail", "head", "all")
    bold = [sum(row.values[aspect].bold for row in dataset.rows) for aspect in aspects]
    assert [int(entry.text) for entry in folds[1:]] == bold
    assert folds[0].bold and not queries[0].bold
    one_fold = sample_report(folds=1)
    folds, queries, _ = tie_table(one_fold, one_fold.datasets[0]).blocks[0]
    assert {entry.text for entry in folds[1:]} == {NOTHING}
    assert NOTHING not in {entry.text for entry in queries[1:]}


def test_the_paper_beside_ours() -> None:
    dataset = sample_report().datasets[0]
    assert dataset.paper is not None
    tables = list(paper_tables(dataset))
    assert [table.name for table in tables] == ["paper-tail", "paper-head"]
    (correlations,), lines = tables[1].blocks
    aspect = Aspect("head", "ndcg", 1)
    assert correlations[2].text == f"{dataset.paper.rank_correlation[aspect]:.2f}"
    assert [Cell(line[0].text, line[1].text) for line in lines] == CELLS
    ours, theirs = dataset.rows[2].values[aspect].mean, dataset.paper.values[CELLS[0], aspect][0]
    assert lines[0][2].text == f"{100 * ours:.1f} / {100 * theirs:.1f} / {points(ours - theirs)}"
    assert "Table 3" in tables[0].caption and "unsorted lists" in tables[0].caption
    assert not list(paper_tables(with_parts(dataset, paper=None)))


def test_csv_has_every_figure_in_full() -> None:
    dataset = sample_report().datasets[0]
    assert dataset.paper is not None
    lines = list(csv.DictReader(io.StringIO(dataset_csv(dataset))))
    assert len(lines) == len(dataset.rows)
    for line, row in zip(lines, dataset.rows, strict=True):
        assert (line["dataset"], line["normalization"], line["fusion"]) == (dataset.name, *row.cell)
        value = row.values[Aspect("tail", "ndcg", 10)]
        assert float(line["tail_ndcg@10_mean"]) == value.mean
        assert float(line["tail_ndcg@10_std"]) == value.std
        assert (line["tail_ndcg@10_bold"], line["tail_ndcg@10_best"]) == (str(int(value.bold)), str(int(value.best)))
        assert float(line["head_ndcg@5_ideal-group_mean"]) == row.values[Aspect("head", "ndcg", 5, "group")].mean
        theirs = dataset.paper.values.get((row.cell, Aspect("head", "precision", 5)))
        assert line["head_precision@5_paper_mean"] == (str(theirs[0]) if theirs else "")
    assert "paper" not in dataset_csv(with_parts(dataset, paper=None))


def test_the_whole_report() -> None:
    report = sample_report(2)
    charts = {"eurlex-4k_gain": "figures/eurlex-4k_gain.svg", "wiki10-31k_grid-tail": "figures/wiki10.svg"}
    head, first, second, reading = report_markdown(report, charts).split("\n## ")
    assert head.count("**Deploy ") == 2
    assert "texts" in reading and "t-test" not in head
    assert "](<figures/eurlex-4k_gain.svg>)" in first and "wiki10.svg" not in first
    assert "](<figures/wiki10.svg>)" in second
    for text in (first, second):
        for part in ("### All cells", "#### Next to the paper", "found by bm25", "seed: 42"):
            assert part in text
    bare = report_markdown(sample_report(aspects=ASPECTS[-1:], paper=False, agreement=False, bands=False))
    assert "Next to the paper" not in bare and "Agreement" not in bare
    assert report_markdown(report) == report_markdown(sample_report(2))


@pytest.mark.parametrize(
    ("names", "files"),
    [
        (["Eurlex-4K", "AmazonCat-13K"], ["eurlex-4k", "amazoncat-13k"]),
        (["a_b", "a b", "A/B", "a-b-2"], ["a-b", "a-b-2", "a-b-3", "a-b-2-2"]),
        (["_", "%"], ["2", "3"]),
    ],
)
def test_file_names_are_distinct(names: list[str], files: list[str]) -> None:
    assert list(file_names(names).values()) == files
