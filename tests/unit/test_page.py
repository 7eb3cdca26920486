"""The page as text: whole, safe to open, and the same every time."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from importlib.resources import files

import pytest

from jobs.reporting.data import Report
from jobs.reporting.page import page
from tests.reports import COLUMNS, sample_report

HOSTILE = '</script><script>alert(1)</script><!-- & "quoted" ü'


@pytest.fixture(scope="module")
def report() -> Report:
    return sample_report(2, missing=(3,))


def data(html: str) -> dict:
    text = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert text is not None
    return json.loads(text[1])


def close(shown: float | None, value: float | None) -> bool:
    return shown is value is None or math.isclose(shown, value, rel_tol=1e-5)


def test_holds_every_value(report):
    shown = data(page(report))
    assert [dataset["name"] for dataset in shown["datasets"]] == [dataset.name for dataset in report.datasets]
    for dataset, found in zip(report.datasets, shown["datasets"], strict=True):
        assert [tuple(column) for column in found["columns"]] == list(dataset.columns)
        assert len(found["rows"]) == len(dataset.rows)
        for row, cells in zip(dataset.rows, found["rows"], strict=True):
            assert (cells["normalization"], cells["fusion"], cells["single"]) == (*row.cell, row.single)
            for value, (mean, std, folds, best, bold, against) in zip(
                row.values.values(), cells["values"], strict=True
            ):
                assert (mean, std) == (value.mean, value.std)
                assert all(map(close, folds, value.folds.values()))
                assert (best, bold) == (value.best, value.bold)
                if value.against_best is None:
                    assert against is None
                else:
                    assert all(map(close, against, vars(value.against_best).values()))


def test_holds_gains_bands_agreement_and_the_paper(report):
    dataset = report.datasets[1]
    found = data(page(report))["datasets"][1]
    cells = [row.cell for row in dataset.rows]
    for gain, shown in zip(dataset.gains, found["gains"], strict=True):
        assert dataset.columns[shown["column"]] == gain.column
        assert cells[shown["best"]] == gain.best
        assert (shown["better_single"], shown["outcome"]) == (gain.better_single, gain.verdict.outcome)
        assert all(map(close, shown["comparison"], vars(gain.comparison).values()))
    assert {group: len(bands) for group, bands in found["bands"].items()} == {"tail": 8, "head": 2, "all": 10}
    band = dataset.bands["head"][1]
    for cell, shares in band.found.items():
        shown = found["bands"]["head"][1]["found"][str(cells.index(cell))]
        assert all(close(shown[str(k)], share) for k, share in shares.items())
    for agreement, shown in zip(dataset.agreement, found["agreement"], strict=True):
        assert (shown["found"], shown["alone"]) == (pytest.approx(agreement.found), pytest.approx(agreement.alone))
        assert [share is not None for share in shown["ceiling"]] == [column in agreement.ceiling for column in COLUMNS]
    paper = found["paper"]
    for (cell, column), figures in dataset.paper.values.items():
        assert all(map(close, paper["rows"][cells.index(cell)][COLUMNS.index(column)], figures))
    assert paper["rank_correlation"][0] == dataset.paper.rank_correlation[COLUMNS[0]]


def test_names_cannot_break_out(report):
    dataset = replace(report.datasets[0], name=HOSTILE, config=HOSTILE, sources=(HOSTILE,))
    html = page(replace(report, title=HOSTILE, datasets=(dataset,)))
    plain = page(report)
    assert html.count("<script") == plain.count("<script")
    assert html.count("</script") == plain.count("</script")
    assert "<!-- &" not in html
    shown = data(html)
    assert shown["title"] == shown["datasets"][0]["name"] == shown["datasets"][0]["config"] == HOSTILE


def test_what_is_not_a_number_is_null(report):
    dataset = report.datasets[0]
    row = dataset.rows[2]
    values = {column: replace(value, mean=math.nan, std=math.inf) for column, value in row.values.items()}
    changed = replace(dataset, rows=(replace(row, values=values), *dataset.rows[3:]), gains=(), bands={})
    mean, std, *_ = data(page(replace(report, datasets=(changed,))))["datasets"][0]["rows"][0]["values"][0]
    assert mean is std is None


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
