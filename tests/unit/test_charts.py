"""Charts: those the data allows, the same bytes every time."""

from __future__ import annotations

import sys
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from fusion.cells import Cell
from fusion.errors import SetupError
from fusion.metrics import Aspect
from jobs.reporting.charts import charts, save
from jobs.reporting.dataset import Report
from jobs.reporting.document import CAPTIONS
from jobs.reporting.model import Verdict
from jobs.reporting.renderers import report_markdown
from jobs.reporting.tables import distinct_rows
from tests.reports import ASPECTS, sample_report, with_parts
from tests.strategies import with_strategies

matplotlib = pytest.importorskip("matplotlib", reason="the extra `report` is not installed")


@pytest.fixture(scope="module")
def report() -> Report:
    return sample_report(aspects=[aspect for aspect in ASPECTS if aspect.label_group != "head"])


def names(report: Report) -> list[str]:
    return [name for name, _ in charts(report)]


def test_every_chart_is_drawn(report: Report) -> None:
    report = with_strategies(report)
    assert names(report) == [
        "eurlex-4k_grid-tail", "eurlex-4k_grid-all", "eurlex-4k_gain", "eurlex-4k_frequency", "eurlex-4k_curve",
        "eurlex-4k_ranks-tail", "eurlex-4k_ranks-all", "eurlex-4k_agreement-tail", "eurlex-4k_agreement-all",
    ]  # fmt: skip
    text = report_markdown(report, {name: f"{name}.png" for name in names(report)})
    assert text.count("![") == 9
    # What retrievers add is drawn where subsets were evaluated: tests/unit/test_additions.py.
    assert {name.split("_")[1].split("-")[0] for name in names(report)} == set(CAPTIONS) - {"additions"}


def test_charts_without_data_are_left_out(report: Report) -> None:
    bare = sample_report(aspects=ASPECTS[-1:], bands=False, agreement=False)
    assert names(bare) == ["eurlex-4k_grid-all", "eurlex-4k_gain"]
    dataset = bare.datasets[0]
    singles = with_parts(dataset, rows=tuple(row for row in dataset.rows if row.single), gains=())
    assert names(replace(bare, datasets=(singles,))) == []
    one_fold = sample_report(2, aspects=ASPECTS[-1:], folds=1)
    assert len(names(one_fold)) == 10


def test_same_bytes_whatever_the_users_settings_are() -> None:
    report = sample_report(aspects=[Aspect("tail", "ndcg", 10), Aspect("tail", "precision", 1)])
    before = dict(matplotlib.rcParams)
    first = {name: (save(chart, "svg"), save(chart, "png")) for name, chart in charts(report)}
    assert dict(matplotlib.rcParams) == before
    for svg, png in first.values():
        assert ElementTree.fromstring(svg).tag == "{http://www.w3.org/2000/svg}svg"
        assert png.startswith(b"\x89PNG\r\n\x1a\n")
    with matplotlib.rc_context({"font.size": 20, "svg.hashsalt": None, "figure.facecolor": "red"}):
        for name, chart in charts(report):
            assert (save(chart, "svg"), save(chart, "png")) == first[name], name


def test_the_heat_map_marks_what_is_flagged(report: Report) -> None:
    """Each distinct result once, in the page's colours, with axis titles and the bar of the colours."""
    chart = dict(charts(report))["eurlex-4k_grid-tail"]
    maps, bars = chart.axes[:2], chart.axes[2:]
    for ax, aspect in zip(maps, (Aspect("tail", "ndcg", 10), Aspect("tail", "precision", 1)), strict=True):
        values = [row.values[aspect] for row in distinct_rows(report.datasets[0]) if not row.single]
        assert [text.get_text() for text in ax.texts] == [f"{100 * value.mean:.1f}" for value in values]
        assert [text.get_weight() == "bold" for text in ax.texts] == [value.bold for value in values]
        assert len(ax.patches) == len(values) + 1 == 41
        assert ax.get_xlabel() == "fusion"
    assert maps[0].get_ylabel() == "normalisation"
    assert [bar.get_xlabel().partition(";")[0] for bar in bars] == ["nDCG@10 (%)", "P@1 (%)"]


def test_every_point_by_frequency_has_its_interval(report: Report) -> None:
    chart = dict(charts(report))["eurlex-4k_frequency"]
    bands = report.datasets[0].bands["tail"]
    lines = chart.axes[0].containers
    assert [line.get_label() for line in lines] == ["bm25 alone", "dense alone", "zmuv+combmnz"]
    ends = lines[0].lines[2][0].get_segments()
    share = bands[0].found[Cell("single", "bm25")][10]
    assert len(ends) == len(bands)
    assert sorted(y for _, y in ends[0]) == pytest.approx([100 * share.low, 100 * share.high])


def test_gains_are_hollow_unless_significant(report: Report) -> None:
    dataset = report.datasets[0]
    gains = [gain for gain in dataset.gains if gain.aspect.ideal == "all"]
    doubtful = tuple(replace(gain, verdict=Verdict("not significantly different", 5)) for gain in dataset.gains)
    for verdicts, hollow in ((dataset.gains, False), (doubtful, True)):
        ax = dict(charts(replace(report, datasets=(with_parts(dataset, gains=verdicts),))))["eurlex-4k_gain"].axes[0]
        points = [line for line in ax.lines if line.get_marker() != "None" and len(line.get_xdata())]
        assert sorted(line.get_xdata()[0] for line in points) == sorted(100 * g.comparison.difference for g in gains)
        assert {line.get_markerfacecolor() == "white" for line in points} == {hollow}


def test_signs_in_names_are_no_formulas(report: Report) -> None:
    dataset = with_parts(report.datasets[0], name="a_$b_c$%", bands={}, agreement=(), rankings=())
    for _, chart in charts(replace(report, datasets=(dataset,))):
        ElementTree.fromstring(save(chart, "svg"))
        assert "a_$b_c$%" in chart.axes[0].get_title()
        assert not chart.axes[0].title.get_parse_math()


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch, report: Report) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SetupError, match=r"pip install '\.\[report\]'"):
        next(charts(report))
