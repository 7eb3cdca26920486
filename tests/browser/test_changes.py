"""Two results side by side, in a browser: without a script, on a phone, light and dark, without barriers."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.reporting.compare_words import change_page
from tests.unit.test_changes import WORSE, compared, saved

AXE = Path(__file__).parent / "vendor" / "axe.min.js"


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    home = tmp_path_factory.mktemp("compared")
    page = home / "index.html"
    page.write_text(change_page(compared(saved(home / "monday"), saved(home / "tuesday", WORSE))), encoding="utf-8")
    return page


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_the_comparison_can_be_read_by_everybody(visit, file, scheme, width):
    page = visit(file, width, color_scheme=scheme, bypass_csp=True)
    assert "fell from" in page.locator("h2.lead").text_content()
    rows = page.locator("#changes tbody tr")
    assert rows.count() == 5 and rows.filter(has_text="dense alone").locator("td b").text_content() == "fell"
    page.locator("#metrics summary").first.click()
    assert page.locator("#metrics table").first.is_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.add_script_tag(path=AXE)
    result = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    assert [(rule["id"], rule["nodes"][0]["html"]) for rule in result["violations"]] == []
