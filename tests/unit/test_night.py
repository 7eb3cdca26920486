"""Every page of a night begins with its verdict, and alarms stand only at the figures that fell."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from typing import Any

from jobs.nights.drift import Movement, Quantity
from jobs.nights.night import Absent
from jobs.nights.summary import banner, night_report, notes
from jobs.nights.trend import drawn, trends
from jobs.reporting.page import page
from jobs.reporting.renderers import report_markdown
from tests.nights import quiet_night, sample_night
from tests.reports import sample_report

NIGHTS = ("2026-03-02", "2026-03-03", "2026-03-04")


def text_of(html: str) -> str:
    """What a reader sees, in its order."""
    plain = re.sub(r"<(script|style|title).*?</\1>", "", html, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", plain)).split())


def test_what_fell_from_where_to_where_over_which_texts_since_when() -> None:
    night = sample_night()
    assert night.headline == "Regression: 2 watched figures fell since 2026-03-03."
    assert str(night.datasets[0].fallen[0]) == (
        "tail nDCG@10 of zmuv+combmnz fell from 28.40 (2026-03-03) to 22.30: \N{MINUS SIGN}6.10 [\N{MINUS SIGN}7.20, "
        "\N{MINUS SIGN}5.00] over 10,043 unchanged texts (12 are new or judged otherwise, 3 gone), p <0.001"
    )
    assert "Eurlex-4K: since 2026-03-03 changed: data (candidates); unchanged: configuration and code." in notes(night)
    assert str(night).splitlines()[1] == (
        "Eurlex-4K: regression; against 2026-03-03, changed since: data (candidates); evaluated"
    )
    assert "dense alone fell from 26.00" in str(night) and "-6.10" in str(night)


def test_means_over_other_texts_are_explained() -> None:
    """74.4 to 68.9 beside "no figure fell"."""
    night = sample_night()
    (line,) = night.datasets[0].lower_without_alarm
    assert line.startswith(
        "head nDCG@10 of zmuv+combmnz went from 74.4 (2026-03-03) to 68.9, which is no alarm: the two means are over "
        "different texts, and the difference can be theirs"
    )
    assert "(500 are new or judged otherwise, 400 gone)" in line
    assert line in " ".join(notes(night))


def test_a_red_night_recommends_nothing_but_what_to_look_at() -> None:
    """A figure fell, or the data moved in another dataset: no page of the night says what to deploy."""
    whole = sample_report(2)
    names = [dataset.name for dataset in whole.datasets]
    red = sample_night(names[0])
    drift = replace(red.datasets[0], compared=(), movements=(Movement(Quantity("labels"), 5.0, 0.2, 0.1),))
    moved = replace(red, datasets=(drift,))
    assert (red.exit_code, moved.exit_code) == (10, 12)
    for night, first in ((red, "dense alone, from 26.0 to 19.0"), (moved, "labels moved by 0.200")):
        report = night_report(whole, night)
        shown = text_of(page(report))
        for text in (shown, report_markdown(report)):
            assert "Deploy" not in text and "Recommended" not in text and "Where it loses" not in text
        assert "Nothing is recommended on a night with an alarm. Look first at: " in shown
        assert first in shown.partition("Nothing is recommended")[2]
        assert f"{names[1]} raised none: look at the others first." in shown
    calm = text_of(page(night_report(whole, quiet_night())))
    assert "Deploy" in calm and "Nothing is recommended" not in calm


def test_other_kinds_of_nights() -> None:
    night = quiet_night()
    assert night.headline == "No figure fell since 2026-03-03."
    first = replace(night, datasets=(replace(night.datasets[0], baseline=None, compared=()),))
    assert first.headline == "First night: nothing to compare with."
    assert "no baseline yet" in str(first)
    overlap = Quantity("overlap", "bm25", "dense", "tail")
    moved = replace(night.datasets[0], movements=(Movement(overlap, 0.5, 0.31, 0.05),))
    absent = Absent("wiki", "conf/wiki.yaml", "missing dataset", "it does not exist")
    both = replace(night, datasets=(moved,), absent=(absent,))
    assert both.exit_code == 11
    assert both.headline == "wiki has no figures (missing dataset); 1 quantity of the data moved."
    assert "  overlap of bm25 and dense (tail labels) moved by 0.310, more than 0.05" in str(both)
    assert "wiki: missing dataset: conf/wiki.yaml: it does not exist" in notes(both)


def test_every_page_of_a_night_begins_with_its_verdict() -> None:
    night = sample_night()
    report = replace(sample_report(), night=banner(night))
    verdict = "Regression: 2 watched figures fell since 2026-03-03."
    html = text_of(page(report))
    assert html.index(verdict) < html.index("Deploy zmuv+combmnz")
    assert "28.40 (2026-03-03) 22.30" in html
    markdown = report_markdown(report)
    assert markdown.splitlines()[2] == f"## Night 2026-03-04: {verdict}"
    assert markdown.index("28.40 (2026-03-03)") < markdown.index("Deploy zmuv")
    assert text_of(drawn([], [], 0.005, night)).startswith(
        f"Watched figures, night by night Night 2026-03-04, exit code 10 {verdict}"
    )
    assert 'class="night alarm"' in page(report) and 'class="night quiet"' in page(
        replace(report, night=banner(quiet_night()))
    )
    assert 'id="night"' not in page(sample_report())


def watched(run_id: str, group: str, mean: float, fell: bool, **more: Any) -> dict[str, Any]:
    figure = {"normalization": "zmuv", "fusion": "combmnz", "label_group": group, "metric": "ndcg", "k": 10}
    level = {"mean": mean, "low": mean - 0.01, "high": mean + 0.01, "queries": 400, "fell": fell}
    level |= {"new_texts": None, "gone_texts": None}
    return {"dataset": "sample", "run_id": run_id, **figure, **level, **more}


def runs(*verdicts: str) -> list[dict[str, Any]]:
    about = {"dataset": "sample", "reason": None, "baseline": NIGHTS[1]}
    return [{**about, "run_id": run_id, "verdict": word} for run_id, word in zip(NIGHTS, verdicts, strict=True)]


def test_alarms_stand_at_what_fell_and_come_first() -> None:
    rows = [watched(run_id, group, 0.5, False) for run_id in NIGHTS[:2] for group in ("all", "tail")]
    rows += [watched(NIGHTS[2], "all", 0.5, False, new_texts=7, gone_texts=2), watched(NIGHTS[2], "tail", 0.4, True)]
    found = trends(rows, runs("ok", "ok", "regression"), NIGHTS)
    html = drawn(found, [("sample", "2026-03-01: no figures, failed: disk")], 0.005, sample_night())
    assert html.count('class="alarm"') == 1
    assert html.count("<svg") == 2
    fell, other = html.index("tail nDCG@10 of zmuv+combmnz"), html.index("all nDCG@10 of zmuv+combmnz")
    assert html.index("Fell in 2026-03-04") < html.index("sample: tail nDCG@10") < html.index("did not fall") < other
    assert fell < other
    assert "7 are new or judged otherwise, 2 gone. Means over different texts do not compare by themselves." in html
    assert "2026-03-01: no figures, failed: disk" in html
    assert html.count(">night</text>") == html.count("nDCG@10 (%)</text>") == 2


def test_a_night_that_is_not_complete_is_no_point() -> None:
    """It has no row in `runs`."""
    rows = [watched(run_id, "all", 0.5, False) for run_id in NIGHTS]
    (trend,) = trends(rows, runs("ok", "ok", "ok")[:1], NIGHTS)
    assert trend.points.keys() == {NIGHTS[0]}
    assert "Fell in" not in drawn([trend], [], 0.005, quiet_night())
