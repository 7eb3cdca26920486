"""The pages of a real night with a planted drop: the first screen says what happened."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.reporting.formats import MINUS
from tests.nights import Site, good_texts

SCREEN = {1360: 900, 390: 844}
"""Widths and heights of screens."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> list[Path]:
    """The report and the trend page of the third night, on which one retriever's lists are upside down."""
    site = Site(tmp_path_factory.mktemp("site"), good_texts())
    assert [site.run(f"2026-03-0{day}").exit_code for day in (1, 2)] == [0, 0]
    site.degrade(0.6)
    assert site.run("2026-03-03").exit_code == 10
    night = site.work / "nightly" / "2026-03-03"
    return [night / "index.html", night / "trend.html"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", SCREEN)
def test_the_first_screen_says_what_fell(visit, pages, width, scheme):
    """What, from where to where, over how many texts, since when, and what changed."""
    for file in pages:
        page = visit(file, width=width, color_scheme=scheme)
        night = page.locator("#night")
        headline = night.get_by_role("heading", name="Regression: 4 watched figures fell since 2026-03-02.")
        first = night.locator("tbody tr").first
        changed = night.get_by_text("since 2026-03-02 changed: data (candidates); unchanged: configuration and code.")
        for element in (headline, first, changed):
            box = element.bounding_box()
            assert box is not None and box["y"] + box["height"] < SCREEN[width]
        cells = first.locator("th, td").all_inner_texts()
        assert cells[:4] == ["sample", "head nDCG@10 of dense alone", "32.99 (2026-03-02)", "14.28"]
        assert cells[4:] == [f"{MINUS}18.71 [{MINUS}21.60, {MINUS}15.83]", "332 unchanged", "<0.001"]
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_without_a_script_and_on_paper(visit, pages):
    for file in pages:
        for how in ({"java_script_enabled": False}, {}):
            page = visit(file, **how)
            page.emulate_media(media="screen" if how else "print")
            row = page.locator("#night tbody tr").first
            box, table = row.bounding_box(), page.locator("#night .scroll").bounding_box()
            assert box["x"] + box["width"] <= table["x"] + table["width"] + 1


def test_the_trend_marks_only_what_fell(visit, pages):
    trend = visit(pages[1])
    assert trend.locator("rect.alarm").count() == 4
    charts = trend.locator("figure")
    assert charts.count() == 6
    marked = [bool(charts.nth(n).locator("rect.alarm").count()) for n in range(6)]
    assert marked == [True] * 4 + [False] * 2
