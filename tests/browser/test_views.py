"""What the page offers beside its table: an address per view, two cells compared, no script, no barriers."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from fusion.cells import SINGLE, Cell
from fusion.metrics import Aspect
from tests.browser.conftest import written
from tests.reports import sample_report

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
MINUS = "\N{MINUS SIGN}"


@pytest.mark.parametrize(("scheme", "width"), [("light", 1360), ("dark", 1360), ("light", 390)])
def test_has_no_barriers(visit, tmp_path, scheme, width):
    page = visit(written(sample_report(), tmp_path), width=width, color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(details => { details.open = true; })")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    result = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    assert "color-contrast" in {rule["id"] for rule in result["passes"]}
    grave = [rule for rule in result["violations"] if rule["impact"] in ("serious", "critical")]
    assert [(rule["id"], rule["nodes"][0]["html"]) for rule in grave] == []


def test_tables_need_no_script(visit, whole, report):
    page = visit(whole, java_script_enabled=False)
    assert page.locator("noscript p").is_visible()
    assert page.locator(".scripted:visible").count() == 0
    for dataset in report.datasets:
        best = next(row for row in dataset.rows if row.cell == dataset.recommendation.cell)
        value = best.values[Aspect("tail", "ndcg", 10)]
        table = page.locator(f'table[data-name="{dataset.name} grid-tail-head"]')
        assert table.is_visible()
        assert table.locator("tbody tr").count() == 42
        assert f"{100 * value.mean:.1f}({100 * value.std:.1f})" in table.text_content()


def test_static_tables_give_way_to_the_script(page):
    assert page.locator(".static:visible").count() == 0
    assert page.locator("#table").is_visible()


def test_address_restores_the_view(visit, whole):
    page = visit(whole)
    page.get_by_role("radio", name="Wiki10-31K").check()
    controls = page.locator("#table-controls")
    controls.get_by_label("head", exact=True).uncheck()
    controls.get_by_label("Normalisation").select_option("zmuv")
    page.locator("#table thead button", has_text="P@1").first.click()
    page.locator("#compare-controls").get_by_label("The other").select_option(label="dense alone")
    page.locator("#grid").get_by_label("Metric").select_option("P@5")
    places = ("#table", "#compared", "#grid .plot", "#bands .plot")
    shown = {place: page.locator(place).text_content() for place in places}
    address = page.url.partition("#")[2]
    again = visit(whole, address=f"#{address}")
    assert {place: again.locator(place).text_content() for place in places} == shown
    assert again.get_by_role("radio", name="Wiki10-31K").is_checked()
    assert not again.locator("#table-controls").get_by_label("head", exact=True).is_checked()
    assert again.locator("#table-controls").get_by_label("Normalisation").input_value() == "zmuv"


@pytest.mark.parametrize("address", ["#dataset=99", "#sort=%7B", "#groups=[1]&one=4000", "#nowhere"])
def test_broken_address_shows_the_usual_view(visit, whole, address):
    assert visit(whole, address=address).locator("#table tbody tr").count() == 42


def test_compares_two_cells(page, report):
    dataset = report.datasets[0]
    aspect = Aspect("tail", "ndcg", 10)
    one, other = Cell("min-max", "combsum"), Cell(SINGLE, "dense")
    comparison = dataset.pairs[aspect][one, other]
    controls = page.locator("#compare-controls")

    def figures(first: str, second: str) -> list[str]:
        controls.get_by_label("One cell").select_option(label=first)
        controls.get_by_label("The other").select_option(label=second)
        line = page.locator("#compared tbody tr", has=page.get_by_role("rowheader", name="tail nDCG@10", exact=True))
        return line.locator("td").all_text_contents()

    def spelt(*shares: float) -> str:
        difference, low, high = (f"{100 * share:+.1f}".replace("-", MINUS) for share in shares)
        return f"{difference} [{low}, {high}]"

    straight, turned = figures(str(one), "dense alone"), figures("dense alone", str(one))
    assert straight[2] == spelt(comparison.difference, comparison.low, comparison.high)
    assert turned[2] == spelt(-comparison.difference, -comparison.high, -comparison.low)
    assert (straight[0], straight[1]) == (turned[1], turned[0])
    assert (straight[-1], turned[-1]) == ("better", "worse")
    with page.expect_download() as download:
        controls.get_by_role("button", name="Download CSV").click()
    assert download.value.suggested_filename == "eurlex-4k-compared.csv"
    with Path(download.value.path()).open(newline="", encoding="utf-8") as file:
        assert ["tail nDCG@10", *turned] in list(csv.reader(file))
    figures("dense alone", "dense alone")
    assert page.locator("#compared").text_content() == "Choose two different cells."


def test_names_on_a_phone_do_not_cover_ranks(visit, whole):
    page = visit(whole, width=390)
    gaps = page.locator("#ranks .mark").evaluate_all(
        """marks => marks.map(mark => {
            const [label, point, note] = ["text", "path", "text:last-of-type"].map(
                kind => mark.querySelector(kind).getBoundingClientRect());
            return Math.min(point.left - label.right, note.left - point.right);
        })"""
    )
    assert len(gaps) == 16
    assert min(gaps) > 0


def test_figures_on_a_phone_have_readable_headings_and_numbers(visit, whole):
    page = visit(whole, width=390)
    sizes = page.eval_on_selector_all(
        "#grid .plot text", "nodes => nodes.map(node => parseFloat(getComputedStyle(node).fontSize))"
    )
    assert len(sizes) > 40 and min(sizes) >= 12
    headings = page.locator("#grid .plot text", has_text="min-max")
    assert headings.count() == 1 and headings.bounding_box()["x"] >= 0
    # The axis of the mean ranks has two numbers at least, below the rows.
    texts = page.locator("#ranks .plot svg > text.soft").all_text_contents()
    assert texts[-1] == "mean rank" and len([text for text in texts[:-1] if text.isdigit()]) >= 2


def test_folded_tables_are_printed(visit, whole):
    page = visit(whole)
    tables = page.locator("#losses details:not([open]) table")
    assert tables.count() > 2 and not tables.first.is_visible()
    page.emulate_media(media="print")
    assert tables.first.is_visible() and tables.first.bounding_box()["height"] > 100
