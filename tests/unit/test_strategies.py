"""Fixed, tuned, learned in a report: what it says of choices, optimism and learning curves, in every form."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from fusion.cells import SINGLE, Cell
from fusion.metrics import Aspect
from fusion.models.strategies import CELL, LAMBDAMART, LOGISTIC, WEIGHTS
from jobs.reporting.dataset import Report
from jobs.reporting.formats import objective_name
from jobs.reporting.model import Comparison
from jobs.reporting.page import page
from jobs.reporting.renderers import report_markdown
from jobs.reporting.report import dataset_latex
from jobs.reporting.strategies import band_tables, curve_lines, optimism_lines, pair_table, pays_from, strategy_table
from jobs.reporting.tuned import CurvePoint, read_strategies
from tests.reports import sample_report, with_parts
from tests.strategies import CURVE_TEXTS, GAIN, OPTIMISM, choice_rows, with_strategies


@pytest.fixture(scope="module")
def report() -> Report:
    return with_strategies(sample_report())


def test_strategies_stand_against_each_other_and_the_best_retriever(report: Report) -> None:
    for group in report.datasets[0].strategies:
        assert [strategy.cell for strategy in group.strategies] == list(GAIN)
        rows = {row.cell: row.values[group.aspects[0]].mean for row in report.datasets[0].rows if row.single}
        assert group.single == max(rows, key=lambda cell: rows[cell])
        # The pair stands in the table the other way round: its sign is turned, and its interval with it.
        test = group.test(LOGISTIC, CELL)
        assert test is not None and test.comparison.difference == pytest.approx(GAIN[LOGISTIC])
        assert test.comparison.low < test.comparison.difference < test.comparison.high
        assert test.verdict.outcome == "better"
        near = group.test(WEIGHTS, CELL)
        assert near is not None and near.verdict.outcome == "not significantly different"
        assert group.test(LAMBDAMART, group.single) is not None
        assert len(group.tests) == 4 * 3 / 2 + 4


def test_p_values_are_corrected_over_the_group() -> None:
    aspect, single = Aspect("tail", "ndcg", 10), Cell(SINGLE, "dense")
    dataset = sample_report().datasets[0]
    base = next(row for row in dataset.rows if row.cell == Cell("zmuv", "combmnz")).values[aspect]
    values = {aspect: dict.fromkeys((CELL, WEIGHTS, single), base)}
    compared = Comparison(0.01, 0.0, 0.02, 0.1, 0.01, 0.02, 0.02, 100)
    same = replace(compared, difference=0.0, p_folds=float("nan"), p_queries=float("nan"), p_randomization=float("nan"))
    pairs = {aspect: {(CELL, WEIGHTS): same, (CELL, single): compared, (WEIGHTS, single): compared}}
    choices = [
        row for row in choice_rows((0, 1), ["tail"], {"tail": 0.5}) if row["strategy"] in (str(CELL), str(WEIGHTS))
    ]
    (group,) = read_strategies(choices, [], values, pairs, "folds", 0.05)
    assert {(test.cell, test.against): test.comparison.p_queries for test in group.tests} == {
        (WEIGHTS, CELL): 1.0,
        (CELL, single): pytest.approx(0.06),
        (WEIGHTS, single): pytest.approx(0.06),
    }
    # Equal in every text: no test tells them apart, whatever its formula gives for that.
    assert group.test(WEIGHTS, CELL).verdict.outcome == "not significantly different"


def test_what_picking_on_test_texts_promises(report: Report) -> None:
    dataset = report.datasets[0]
    for group, line in zip(dataset.strategies, optimism_lines(dataset), strict=True):
        assert group.optimism.best_value - group.optimism.chosen_value == pytest.approx(OPTIMISM)
        assert "picked on the test texts, max+combsum," in line
        assert "promises +0.30 points that nobody gets" in line
    lucky = replace(dataset.strategies[0].optimism, best_value=0.1)
    fine = with_parts(dataset, strategies=(replace(dataset.strategies[0], optimism=lucky),))
    assert "Nothing is lost" in optimism_lines(fine)[0]


def test_from_how_many_texts_on_it_pays(report: Report) -> None:
    def curve(*gains: float) -> list[CurvePoint]:
        return [CurvePoint(texts, gain, gain, gain) for texts, gain in zip(CURVE_TEXTS, gains, strict=False)]

    assert pays_from(curve(-1, 1, -1, 1, 2)) == 500
    assert pays_from(curve(1, 1)) == 50
    assert pays_from(curve(1, 0)) is None
    points = {cell: pays_from(curve) for cell, curve in report.datasets[0].strategies[0].curve.items()}
    assert points == {CELL: None, WEIGHTS: 500, LOGISTIC: 200, LAMBDAMART: 200}
    assert (
        "learned+logistic pays from 200 validation texts per fold on (+0.80 points with 1,545)"
        in curve_lines(report.datasets[0])[0]
    )


def test_the_table_tells_how_many_folds_agree(report: Report) -> None:
    table = strategy_table(report.datasets[0])
    lines = {(line[0].text, line[1].text): line for block in table.blocks for line in block}
    assert lines["tail", "tuned+cell"][2].text == "zmuv+combmnz (in 4 of 5 folds)"
    assert lines["tail", "learned+lambdamart"][2].text == "100 trees"
    assert [line[3].bold for line in table.blocks[0]] == [False, False, False, False, True]
    assert {len(line) for line in lines.values()} == {len(table.header)} == {len(table.align)}
    pairs = pair_table(report.datasets[0])
    assert pairs is not None and len(pairs.blocks) == 3
    bands = list(band_tables(report.datasets[0]))
    assert [len(table.blocks[0]) for table in bands] == [8, 2, 10]
    assert all(len(line) == 8 for table in bands for line in table.blocks[0])


def test_every_form_of_the_report_has_it(report: Report) -> None:
    text = report_markdown(report)
    assert "### Fixed, tuned, learned" in text and text.index("### Fixed") < text.index("### All cells")
    html = page(report)
    assert 'id="strategies"' in html and '<figure id="curve"' in html and 'href="#strategies"' in html
    assert "tuned+cell" in dataset_latex(report, report.datasets[0])
    without = page(sample_report())
    assert "strategies-title" not in without and '<figure id="curve"' not in without
    assert "Fixed, tuned" not in report_markdown(sample_report())


def test_strategies_are_no_cells_of_the_grid(report: Report) -> None:
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page(report), re.DOTALL)
    assert data is not None
    assert '"normalizations":["min-max","max","sum","zmuv","rank","borda"]' in data[1]


@pytest.mark.parametrize(
    ("objective", "name"), [("ndcg@10", "nDCG@10"), ("0.5*ndcg@10+0.5*precision@1", "0.5*nDCG@10+0.5*P@1")]
)
def test_objectives_are_written_as_metrics_are(objective: str, name: str) -> None:
    assert objective_name(objective) == name
