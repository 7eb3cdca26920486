"""What each retriever adds to the others, in headless Chromium: readable without a script, on a phone and on paper."""

from __future__ import annotations

from pathlib import Path

import pytest

import xmtc_fusion as xf
from jobs.reporting.dataset import DatasetReport
from jobs.reporting.formats import gain
from tests.browser.conftest import written
from tests.unit.test_additions import LABELS, made

AXE = Path(__file__).parent / "vendor" / "axe.min.js"
GROUPS = ("all", "tail", "head")
LONG = "static-texts-with-neighbours"
OUTSIDE = """svgs => svgs.filter(svg => {
    const box = svg.closest("figure").getBoundingClientRect();
    return [...svg.children].some(mark => {
        const at = mark.getBoundingClientRect();
        return at.left < box.left || at.right > box.right;
    });
}).length"""


@pytest.fixture(scope="module")
def result() -> xf.Evaluation:
    runs, relevant = made()
    runs[LONG] = runs.pop("noise")
    groups = {f"l{label}": "head" if label < 10 else "tail" for label in range(LABELS)}
    settings = {"grid.subsets": "all", "evaluate.randomizations": 1000}
    cells = ["zmuv+combsum", "rrf"]
    return xf.evaluate(relevant, runs, label_groups=groups, cells=cells, metrics="ndcg@5", settings=settings)


@pytest.fixture(scope="module")
def dataset(result: xf.Evaluation) -> DatasetReport:
    return result._dataset


@pytest.fixture(scope="module")
def file(result: xf.Evaluation, tmp_path_factory) -> Path:
    return written(result._report, tmp_path_factory.mktemp("additions"))


@pytest.mark.parametrize(("width", "script"), [(1360, True), (390, False)])
def test_a_line_says_what_a_retriever_adds(visit, file, dataset, width, script):
    page = visit(file, width, java_script_enabled=script)
    lists = page.locator("#additions ul.added")
    assert lists.count() == len(GROUPS)
    for number, group in enumerate(GROUPS):
        mine = [one for one in dataset.additions if one.to_most.aspect.label_group == group]
        lines = lists.nth(number).locator("li:not([aria-hidden])")
        assert lines.locator("b").all_inner_texts() == [one.to_most.retriever for one in mine]
        said = [f"{gain(one.to_most.comparison)}, {one.verdict.outcome}" for one in mine]
        assert lines.locator("span").all_inner_texts() == said
        # Filled where it is told apart; a stroke per subset beside the line of zero and the interval.
        filled = lines.locator("circle").evaluate_all("all => all.map(one => one.getAttribute('fill'))")
        assert [fill == "currentColor" for fill in filled] == [one.verdict.significant for one in mine]
        assert lines.first.locator("line").count() == len(mine[0].to_each) + 2


@pytest.mark.parametrize("script", [True, False])
def test_the_table_unfolds(visit, file, dataset, script):
    page = visit(file, java_script_enabled=script)
    page.get_by_role("link", name="What each adds").click()
    assert page.get_by_role("heading", name="What each retriever adds to the others").bounding_box()["y"] < 200
    table = page.locator("#additions table")
    assert not table.is_visible()
    page.locator("#additions summary").click()
    assert table.is_visible() and table.locator("tbody tr").count() == len(dataset.additions)


def test_a_mark_stands_where_its_figure_is(visit, file, dataset):
    """The middle of a circle, between the ticks."""
    page = visit(file)
    lines = page.locator("#additions ul.added").first
    middle = "all => all.map(one => { const box = one.getBoundingClientRect(); return box.x + box.width / 2; })"
    ticks = lines.locator("text").evaluate_all(middle)
    numbers = [float(text.replace("\N{MINUS SIGN}", "-")) for text in lines.locator("text").all_text_contents()]
    assert len(ticks) > 2
    per_point = (ticks[-1] - ticks[0]) / (numbers[-1] - numbers[0])
    mine = [one.to_most.comparison for one in dataset.additions if one.to_most.aspect.label_group == "all"]
    for at, added in zip(lines.locator("circle").evaluate_all(middle), mine, strict=True):
        assert at == pytest.approx(ticks[0] + per_point * (100 * added.difference - numbers[0]), abs=2)


def test_fits_a_phone(visit, file):
    page = visit(file, width=390)
    page.locator("#additions summary").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator("#additions .added svg").evaluate_all(OUTSIDE) == 0
    for text in page.locator("#additions .added :is(b, span)").all():
        box = text.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 390
    # The interval has the whole width below its words.
    line = page.locator("#additions .added li").first
    words, drawing = line.locator("span").bounding_box(), line.locator("svg").bounding_box()
    assert drawing["y"] >= words["y"] + words["height"] - 1 and drawing["width"] > 300


def test_printed_whole(visit, file):
    """On the width of A4 less its margins."""
    page = visit(file, width=718)
    page.emulate_media(media="print")
    assert page.locator("#additions .added svg").evaluate_all(OUTSIDE) == 0
    table = page.locator("#additions table")
    assert table.bounding_box()["height"] > 100
    for box in (table.bounding_box(), *(span.bounding_box() for span in page.locator("#additions .added span").all())):
        assert box["x"] + box["width"] <= 718


@pytest.mark.parametrize(("scheme", "width"), [("light", 1360), ("dark", 1360), ("light", 390), ("dark", 390)])
def test_has_no_barriers(visit, file, scheme, width):
    page = visit(file, width, color_scheme=scheme, bypass_csp=True)
    page.locator("#additions summary").click()
    page.add_script_tag(path=AXE)
    result = page.evaluate("axe.run('#additions', { resultTypes: ['violations'] })")
    assert "color-contrast" in {rule["id"] for rule in result["passes"]}
    assert [(rule["id"], rule["nodes"][0]["html"]) for rule in result["violations"]] == []
    # Marks are drawn in the colour of the text, which differs from the ground in both schemes.
    ground, mark = page.evaluate(
        """() => [["figure", "backgroundColor"], ["svg line", "stroke"]].map(([place, what]) =>
            getComputedStyle(document.querySelector(`#additions ${place}`))[what])"""
    )
    assert abs(_light(ground) - _light(mark)) > 0.6


def _light(colour: str) -> float:
    return sum(map(int, colour.removeprefix("rgb(").removesuffix(")").split(","))) / (3 * 255)
