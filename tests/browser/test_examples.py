"""Single texts on the page: they open without a script, fit a phone, and have no barriers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from jobs.reporting.findings import read_examples
from jobs.reporting.losses import SIGN
from tests.browser.conftest import written
from tests.reports import sample_report, with_parts
from tests.unit.test_example_section import rows

AXE = Path(__file__).parent / "vendor" / "axe.min.js"


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    made = sample_report()
    shown = with_parts(made.datasets[0], examples=read_examples(rows(3)))
    return written(replace(made, datasets=(shown,)), tmp_path_factory.mktemp("examples"))


@pytest.mark.parametrize("script", [True, False])
def test_a_text_opens_and_shows_its_lists(visit, file, script):
    page = visit(file, java_script_enabled=script)
    texts = page.locator("#examples details")
    assert texts.count() == 3 and not texts.first.locator("table").is_visible()
    texts.first.locator("summary").click()
    table = texts.first.locator("table")
    assert table.is_visible() and table.locator("b").first.inner_text() == f"{SIGN} wine (7), 2.5"
    assert table.locator("tbody tr").count() == 2 and not texts.nth(1).locator("table").is_visible()


@pytest.mark.parametrize("width", [390, 1360])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_open_texts_have_no_barriers(visit, file, scheme, width):
    page = visit(file, width, color_scheme=scheme, bypass_csp=True)
    for summary in page.locator("#examples summary").all():
        summary.click()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.add_script_tag(path=AXE)
    result = page.evaluate("axe.run('#examples', { resultTypes: ['violations'] })")
    assert [found["id"] for found in result["violations"]] == []
