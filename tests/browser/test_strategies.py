"""The section about strategies, in headless Chromium: the learning curve is drawn, and strategies are no cells."""

from __future__ import annotations

from pathlib import Path

from tests.browser.conftest import written
from tests.reports import sample_report
from tests.strategies import CURVE_TEXTS, STRATEGIES, with_strategies


def test_the_learning_curve_has_a_panel_per_label_group(visit, tmp_path: Path) -> None:
    page = visit(written(with_strategies(sample_report()), tmp_path))
    assert page.locator("#curve .plot polyline").count() == 3 * len(STRATEGIES)
    assert page.locator("#curve .mark").count() == 3 * len(CURVE_TEXTS)
    assert page.locator("#curve .legend span").all_text_contents() == [str(cell) for cell in STRATEGIES]
    last = page.locator("#curve .mark").nth(len(CURVE_TEXTS) - 1)
    assert last.get_attribute("aria-label").startswith("tail labels, 1,545 validation texts per fold, tuned+cell +0.00")
    assert page.locator("#strategies button.take").count() >= 2
    fusions = page.locator("#grid .plot text").all_text_contents()
    assert "combmnz" in fusions and "logistic" not in fusions


def test_on_a_narrow_page_panels_stand_below_each_other(visit, tmp_path: Path) -> None:
    page = visit(written(with_strategies(sample_report()), tmp_path), width=420)
    boxes = [page.locator("#curve .plot svg > g").nth(n).bounding_box() for n in range(3)]
    assert boxes[0]["y"] < boxes[1]["y"] < boxes[2]["y"]
    assert page.evaluate("document.documentElement.scrollWidth") <= 420
