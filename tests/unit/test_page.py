"""The page as text: whole, safe to open, and the same every time."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from html import unescape
from importlib.resources import files

import pytest

from fusion.cells import SINGLE, Cell
from fusion.metrics import Aspect
from jobs.reporting.answer import facts, headline
from jobs.reporting.dataset import Report
from jobs.reporting.document import scale
from jobs.reporting.formats import cell_name, figure, shown_cell
from jobs.reporting.losses import loss_lines
from jobs.reporting.model import NightBanner
from jobs.reporting.page import page
from jobs.reporting.tables import distinct_rows
from tests.reports import ASPECTS, sample_report, with_parts

HOSTILE = '</script><script>alert(1)</script><!-- & "quoted" ü'


@pytest.fixture(scope="module")
def report() -> Report:
    return sample_report(2, missing=(3,))


def data(html: str) -> dict:
    text = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert text is not None
    return json.loads(text[1])


def close(shown: float | None, value: float | None, tolerance: float = 1e-5) -> bool:
    return shown is value is None or math.isclose(shown, value, rel_tol=tolerance)


def test_holds_every_value(report):
    shown = data(page(report))
    assert [dataset["name"] for dataset in shown["datasets"]] == [dataset.name for dataset in report.datasets]
    for dataset, found in zip(report.datasets, shown["datasets"], strict=True):
        assert [tuple(aspect) for aspect in found["aspects"]] == list(dataset.aspects)
        rows = distinct_rows(dataset)
        assert len(found["rows"]) == len(rows) == 42
        for row, cells in zip(rows, found["rows"], strict=True):
            assert (cells["normalization"], cells["fusion"], cells["single"]) == (*row.cell, row.single)
            assert cells["name"] == cell_name(row.cell)
            for value, (mean, std, folds, best, bold, against) in zip(
                row.values.values(), cells["values"], strict=True
            ):
                assert close(mean, value.mean) and close(std, value.std)
                assert all(close(*pair, 1e-3) for pair in zip(folds, value.folds.values(), strict=True))
                assert (best, bold) == (value.best, value.bold)
                assert (against is None) == (value.against_best is None)
                if against is not None:
                    compared = value.against_best
                    assert close(against[0], compared.difference, 1e-3)
                    assert close(against[5], compared.p_queries, 0.1)


def test_each_distinct_result_is_one_row(report):
    """Fusions that read only ranks stand once; the best of the most important aspect stands first."""
    dataset = report.datasets[0]
    rows = distinct_rows(dataset)
    assert sum(row.cell.normalization == "(any)" for row in rows) == 4
    means = [row.values[Aspect("all", "ndcg", 10)].mean for row in rows]
    assert means == sorted(means, reverse=True)


def test_holds_gains_bands_pairs_and_the_paper(report):
    dataset = report.datasets[1]
    found = data(page(report))["datasets"][1]
    cells = [row.cell for row in distinct_rows(dataset)]
    for gain, shown in zip(dataset.gains, found["gains"], strict=True):
        assert dataset.aspects[shown["aspect"]] == gain.aspect
        assert cells[shown["best"]] == shown_cell(gain.best)
        assert cells[shown["better_single"]] == (SINGLE, gain.better_single)
        assert shown["told"] == gain.verdict.significant
    assert {group: len(bands) for group, bands in found["bands"].items()} == {"tail": 8, "head": 2, "all": 10}
    band = dataset.bands["head"][1]
    for cell, shares in band.found.items():
        shown = found["bands"]["head"][1]["found"][str(cells.index(shown_cell(cell)))]
        assert all(close(shown[str(k)][0], share.value, 1e-3) for k, share in shares.items())
    pairs = {(cells[a], cells[b]): rest for a, b, *rest in found["pairs"][0]["list"]}
    aspect = dataset.aspects[found["pairs"][0]["aspect"]]
    assert len(pairs) == 42 * 41 / 2
    for (one, other), compared in dataset.pairs[aspect].items():
        assert close(pairs[shown_cell(one), shown_cell(other)][0], compared.difference, 1e-3)
    assert [len(ranking["cells"]) for ranking in found["rankings"]] == [42] * 3
    for agreement, shown in zip(dataset.agreement, found["agreement"], strict=True):
        assert (shown["found"], shown["alone"]) == (pytest.approx(agreement.found), pytest.approx(agreement.alone))
        assert [share is not None for share in shown["ceiling"]] == [aspect in agreement.ceiling for aspect in ASPECTS]
    assert found["paper"]["rank_correlation"][0] == pytest.approx(dataset.paper.rank_correlation[ASPECTS[0]], rel=1e-5)
    first = Cell("min-max", "isr")
    shown = found["paper"]["rows"][cells.index(shown_cell(first))][0]
    assert shown == pytest.approx(dataset.paper.values[first, ASPECTS[0]], rel=1e-5)


def test_names_cannot_break_out(report):
    dataset = with_parts(
        report.datasets[0], name=HOSTILE, config=HOSTILE, result=replace(report.datasets[0].result, sources=(HOSTILE,))
    )
    night = NightBanner(HOSTILE, 10, HOSTILE, ((HOSTILE,) * 7,), (HOSTILE,))
    html = page(replace(report, title=HOSTILE, datasets=(dataset,), night=night), [(HOSTILE, HOSTILE)])
    plain = page(report)
    assert html.count("<script") == plain.count("<script")
    assert html.count("</script") == plain.count("</script")
    assert "<!-- &" not in html
    shown = data(html)
    assert shown["title"] == shown["datasets"][0]["name"] == HOSTILE


def test_what_is_not_a_number_is_null(report):
    dataset = report.datasets[0]
    row = dataset.rows[2]
    values = {aspect: replace(value, mean=math.nan, std=math.inf) for aspect, value in row.values.items()}
    changed = with_parts(dataset, rows=(*dataset.rows[:2], replace(row, values=values), *dataset.rows[3:]))
    shown = data(page(replace(report, datasets=(changed,))))["datasets"][0]["rows"]
    mean, std, *_ = next(found for found in shown if found["name"] == "min-max+combmin")["values"][0]
    assert mean is std is None


def test_answers_without_a_script(report):
    """The sentence, the cards, where it loses and every distinct figure stand in the page as Python wrote them."""
    html = re.sub(r"<script.*?</script>", "", page(report), flags=re.DOTALL)
    text = unescape(re.sub(r"<[^>]+>", " ", html))
    dataset = report.datasets[0]
    assert headline(dataset) in text
    assert facts(dataset) in text
    for line in loss_lines(dataset):
        assert line in text
    for row in distinct_rows(dataset):
        for aspect in (Aspect("tail", "ndcg", 10), Aspect("all", "precision", 1)):
            assert figure(row.values[aspect]) in text


@pytest.mark.parametrize(
    ("means", "start", "end"),
    [
        ([0.70, 0.77], 0.65, 0.80),
        ([0.2, 0.9], 0.0, 0.9),
        ([0.655, 0.658], 0.65, 0.66),
        ([0.0, 0.0], 0.0, 0.01),
        ([1.0, 1.0], 0.99, 1.0),
    ],
)
def test_bars_start_where_their_difference_shows(means, start, end):
    assert scale(means) == pytest.approx((start, end))


def test_a_scale_that_does_not_start_at_zero_says_so(report):
    assert "bars start at" in page(report)


def test_a_page_stays_below_three_megabytes():
    """Many datasets, metrics and texts: details go, figures stay."""
    metrics = [(metric, k) for metric in ("ndcg", "precision") for k in (1, 3, 5, 10, 20, 50)]
    aspects = [Aspect(group, *metric) for group in ("tail", "head", "all") for metric in metrics]
    sample = sample_report(4)
    dataset = sample.datasets[3]
    rows = tuple(
        replace(row, values={aspect: row.values[ASPECTS[i % len(ASPECTS)]] for i, aspect in enumerate(aspects)})
        for row in dataset.rows
    )
    wide = with_parts(dataset, aspects=tuple(aspects), rows=rows, gains=(), paper=None, agreement=(), pairs={})
    wide = with_parts(wide, recommendation=None)
    many = tuple(with_parts(wide, name=f"set {i}") for i in range(8))
    html = page(replace(sample, datasets=(*sample.datasets, *many)))
    assert len(html.encode()) < 3_000_000
    found = data(html)
    assert found["left_out"] > 0 and found["datasets"][0]["pairs"] == []
    assert len(found["datasets"][11]["rows"][0]["values"]) == 36
    assert data(page(sample_report(1)))["left_out"] == 0


def test_same_bytes_twice():
    assert page(sample_report()) == page(sample_report())


def test_refers_to_nothing_outside(report):
    html = page(report)
    assert "://" not in html
    links = re.findall(r"""(?:src|href)=["']?([^"'\s>]+)|url\(([^)]*)\)|(@import)""", html)
    assert all(link[0].startswith(("#", "data:,")) or link[1].startswith("#") for link in links)
    assert "default-src 'none'" in html


def test_script_writes_data_as_text_only():
    for asset in (files("jobs.reporting") / "assets").iterdir():
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", asset.read_text("utf-8"))


def test_empty_parts_are_shown_too():
    shown = data(page(sample_report(folds=1, paper=False, bands=False, agreement=False)))["datasets"][0]
    assert (shown["paper"], shown["bands"], shown["agreement"]) == (None, {}, [])
    assert shown["rows"][0]["values"][0][1] is None
