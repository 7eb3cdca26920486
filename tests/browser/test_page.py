"""The page as a reader sees it, in headless Chromium."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.reporting.data import Column, Report, Row, Value
from jobs.reporting.page import page as html_page
from tests.reports import COLUMNS, sample_report

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")

QUIET = (
    "--headless --no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync"
)
SHOWN = [column for column in COLUMNS if column.label_group != "all" and column.ideal == "all"]
TAIL_NDCG_10 = Column("tail", "ndcg", 10)


@pytest.fixture(scope="module")
def browser() -> Iterator[playwright.Browser]:
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=[*QUIET.split(), "--no-first-run"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def report() -> Report:
    return sample_report(4)


@pytest.fixture(scope="module")
def whole(report, tmp_path_factory) -> Path:
    return written(report, tmp_path_factory.mktemp("page"))


def written(report: Report, folder: Path) -> Path:
    file = folder / "report.html"
    file.write_text(html_page(report), encoding="utf-8")
    return file


@pytest.fixture
def visit(browser):
    """Opens a page; at the end nothing may have failed and nothing may have been asked of a network."""
    contexts, wrong = [], []

    def go(file: Path, width: int = 1360, **options):
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: wrong.append(request.url) if request.url != file.as_uri() else None)
        page.goto(file.as_uri())
        return page

    yield go
    for context in contexts:
        context.close()
    assert wrong == []


@pytest.fixture
def page(visit, whole):
    return visit(whole)


def printed(value: Value) -> str:
    return f"{100 * value.mean:.1f}" + ("" if value.std is None else f"({100 * value.std:.1f})")


def names(page) -> list[tuple[str, str]]:
    return [tuple(row) for row in page.eval_on_selector_all(
        "#table tbody tr", "rows => rows.map(row => [...row.querySelectorAll('th')].map(th => th.textContent))"
    )]  # fmt: skip


def column(page, number: int) -> list[str]:
    return page.locator(f"#table tbody td:nth-child({number + 3})").all_text_contents()


def head(page, number: int):
    return page.locator("#table thead tr:last-child th").nth(number + 2)


def in_order(rows: tuple[Row, ...], column: Column, descending: bool) -> list[tuple[str, str]]:
    return [tuple(row.cell) for row in sorted(rows, key=lambda row: row.values[column].mean, reverse=descending)]


def test_table_prints_the_values(page, report):
    rows = report.datasets[0].rows
    assert names(page) == [tuple(row.cell) for row in rows]
    for i, shown in enumerate(SHOWN):
        assert column(page, i) == [printed(row.values[shown]) for row in rows]
    bold = page.locator("#table tbody td.bold").count()
    assert bold == sum(row.values[shown].bold for row in rows for shown in SHOWN)
    assert page.locator("#table tbody td.best").count() == len(SHOWN)
    assert page.locator("#table tbody tr.single").count() == 2


def test_sorts_by_clicks_and_keys(page, report):
    rows = report.datasets[0].rows
    for number in (2, 8):
        button = head(page, number).locator("button")
        button.click()
        assert head(page, number).get_attribute("aria-sort") == "descending"
        assert names(page) == in_order(rows, SHOWN[number], descending=True)
        figures = [float(text.partition("(")[0]) for text in column(page, number)]
        assert figures == sorted(figures, reverse=True)
        assert len(set(figures)) > 10
        assert page.locator("#table [aria-sort]").count() == 1
        page.keyboard.press("Enter")  # the button has kept the focus
        assert head(page, number).get_attribute("aria-sort") == "ascending"
        assert names(page) == in_order(rows, SHOWN[number], descending=False)
        button.click()
        assert head(page, number).get_attribute("aria-sort") is None
        assert names(page) == [tuple(row.cell) for row in rows]
    page.get_by_role("button", name="fusion").click()
    assert [fusion for _, fusion in names(page)] == sorted(row.cell.fusion for row in rows)


def test_filters_by_words_and_choices(page):
    find = page.get_by_label("Find rows")
    find.type("ZMUV comb")
    assert {normalization for normalization, _ in names(page)} == {"zmuv"}
    assert len(names(page)) == 6
    assert page.get_by_role("status").text_content() == "Eurlex-4K: 6 of 62 rows"
    find.fill("nothing like it")
    assert "No row fits" in page.locator("#table tbody").text_content()
    find.fill("")
    results = page.locator("#table-controls")
    results.get_by_label("Normalisation").select_option("borda")
    assert len(names(page)) == 10
    results.get_by_label("Fusion").select_option("isr")
    assert names(page) == [("borda", "isr")]
    results.get_by_label("Fusion").select_option("")
    results.get_by_label("Normalisation").select_option(label="single retrievers")
    assert names(page) == [("single", "bm25"), ("single", "dense")]


def test_columns_follow_groups_and_ideal(page, report):
    row = report.datasets[0].rows[5]
    groups = page.locator("#table-controls")
    groups.get_by_label("all", exact=True).check()
    groups.get_by_label("head").uncheck()
    assert page.locator("#table thead tr:first-child th").all_text_contents()[1:] == ["tail labels", "all labels"]
    assert column(page, 8)[5] == printed(row.values[Column("all", "ndcg", 10)])
    page.get_by_label("the group's labels").check()
    assert column(page, 2)[5] == printed(row.values[Column("tail", "ndcg", 10, "group")])
    assert column(page, 8)[5] == printed(row.values[Column("all", "ndcg", 10)])
    assert "of the ranked group alone" in page.locator("#results").text_content()


def test_switches_datasets(page, report):
    before = page.locator("#grid .plot").text_content()
    page.get_by_label("Amazon-670K").check()
    assert column(page, 2) == [printed(row.values[TAIL_NDCG_10]) for row in report.datasets[2].rows]
    assert page.locator("#grid .plot").text_content() != before


def test_values_tell_more_on_hover_and_focus(page, report):
    row = report.datasets[0].rows[4]
    value = row.values[TAIL_NDCG_10]
    cell = page.locator("#table tbody tr").nth(4).locator("td").nth(2)
    cell.hover()
    tip = page.get_by_role("tooltip")
    text = tip.text_content().replace("\N{MINUS SIGN}", "-").replace("\N{NO-BREAK SPACE}", " ")
    for fold, share in value.folds.items():
        assert f"{fold}: {100 * share:.1f}" in text
    against = value.against_best
    for share in (against.difference, against.low, against.high):
        assert f"{100 * share:.2f}" in text
    assert f"{against.effect:.3f}" in text
    for test in ("folds <", "texts <", "randomisation 0.0001"):
        assert test in text
    page.mouse.move(5, 5)
    assert tip.is_hidden()

    head(page, 11).locator("button").focus()
    page.keyboard.press("Tab")
    assert tip.text_content().startswith("bm25 · tail nDCG@1")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert tip.text_content().startswith("dense · tail nDCG@5")
    for _ in range(40):  # to where the box has to scroll
        page.keyboard.press("ArrowDown")
    page.wait_for_timeout(100)
    normalization, fusion = report.datasets[0].rows[41].cell
    assert tip.text_content().startswith(f"{normalization} + {fusion} · tail nDCG@5")
    page.keyboard.press("Escape")
    assert tip.is_hidden()


FIGURES = [
    ("grid", 0, ["min-max + combmin · tail nDCG@10", "to the best", "randomisation"]),
    ("gain", 2, ["tail nDCG@10: better", "zmuv + combmnz", "bm25", "95%", "effect size", "folds"]),
    ("ceiling", 2, ["tail nDCG@10", "best cell", "ceiling", "33.7"]),
    ("bands", 7, ["tail labels of 13\N{EN DASH}27 texts", "bm25", "dense", "zmuv + combmnz", "pairs15,451"]),
    ("agreement", 0, ["tail labels: bm25", "73.0%", "11.0% are in no other list", "23.0% of their candidates"]),
    ("agreement", 2, ["together", "81.0%"]),
]


def test_figures_tell_values_on_hover_and_focus(page):
    tip = page.get_by_role("tooltip")
    for figure, number, words in FIGURES:
        mark = page.locator(f"#{figure} .mark").nth(number)
        mark.hover()
        hovered = tip.text_content()
        assert [word for word in words if word not in hovered] == []
        page.mouse.move(5, 5)
        mark.focus()
        assert tip.text_content() == hovered
        assert mark.get_attribute("aria-label").startswith(tip.locator("strong").text_content())
        assert page.locator(f'#{figure} .mark[tabindex="0"]').count() == 1
        page.keyboard.press("ArrowRight" if figure == "bands" else "ArrowDown")
        assert tip.text_content() != hovered


def test_figures_follow_their_controls(page, report):
    grid, bands = (page.locator(f"#{figure} .controls") for figure in ("grid", "bands"))
    grid.get_by_label("Labels").select_option("head")
    grid.get_by_label("Measure").select_option("P@5")
    shown = page.locator("#grid .mark text").all_text_contents()
    fused = [row for row in report.datasets[0].rows if not row.single]
    assert shown == [f"{100 * row.values[Column('head', 'precision', 5)].mean:.1f}" for row in fused]
    bands.get_by_label("Labels").select_option("all")
    assert page.locator("#bands .mark").count() == 10
    bands.get_by_label("Among the first").select_option("1")
    page.locator("#bands .mark").first.hover()
    band = report.datasets[0].bands["all"][0]
    share = band.found[report.datasets[0].rows[0].cell][1]
    assert f"bm25{100 * share:.1f}%" in page.get_by_role("tooltip").text_content()


def test_paper_beside_ours(page, report):
    assert page.locator("#table .theirs").count() == 0
    page.get_by_label("the paper's numbers").check()
    dataset = report.datasets[0]
    row = dataset.rows[2]
    theirs, _ = dataset.paper.values[row.cell, TAIL_NDCG_10]
    ours = row.values[TAIL_NDCG_10]
    difference = f"{100 * (ours.mean - theirs):+.1f}".replace("-", "\N{MINUS SIGN}")
    assert column(page, 2)[2] == f"{printed(ours)}{100 * theirs:.1f} {difference}"
    correlations = page.locator("#table tfoot td").all_text_contents()
    assert correlations == [f"{dataset.paper.rank_correlation[shown]:.2f}" for shown in SHOWN]
    assert "Left out: borda" in page.locator("#paper-note").text_content()


def test_downloads_what_is_shown(page, report):
    page.get_by_label("Find rows").fill("combmnz")
    head(page, 2).locator("button").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download CSV").click()
    assert download.value.suggested_filename == "eurlex-4k.csv"
    with Path(download.value.path()).open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert [(line["normalization"], line["fusion"]) for line in lines] == names(page)
    row = next(row for row in report.datasets[0].rows if tuple(row.cell) == names(page)[0])
    value = row.values[TAIL_NDCG_10]
    assert float(lines[0]["tail ndcg@10 ideal all mean"]) == pytest.approx(100 * value.mean, abs=1e-3)
    assert float(lines[0]["tail ndcg@10 ideal all std"]) == pytest.approx(100 * value.std, abs=1e-3)


def lightness(page) -> float:
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return sum(map(int, colour.removeprefix("rgb(").removesuffix(")").split(","))) / (3 * 255)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(visit, whole, scheme):
    page = visit(whole, color_scheme=scheme)
    other = "dark" if scheme == "light" else "light"
    bright = {"light": lambda share: share > 0.9, "dark": lambda share: share < 0.15}
    assert bright[scheme](lightness(page))
    page.get_by_role("button", name=other, exact=False).click()
    assert bright[other](lightness(page))
    page.get_by_role("button", name=scheme, exact=False).click()
    assert bright[scheme](lightness(page))


def test_fits_a_phone(visit, whole):
    page = visit(whole, width=390)
    page.locator("#table-controls").get_by_label("all", exact=True).check()
    page.get_by_label("the paper's numbers").check()
    page.locator("details").first.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("[...document.querySelectorAll('.plot svg')].every(svg => svg.clientWidth <= 360)")
    box = page.locator("#table-box")
    assert box.evaluate("box => box.scrollWidth > box.clientWidth")
    box.evaluate("box => box.scrollTo(400, 300)")
    left = [page.locator(f"#table tbody tr:nth-child(20) th >> nth={i}").bounding_box()["x"] for i in (0, 1)]
    assert left[0] < left[1] < 130  # the names stay


def test_says_what_is_missing(visit, tmp_path):
    lacking = sample_report(missing=(1, 3), paper=False, bands=False, agreement=False)
    page = visit(written(lacking, tmp_path))
    for section in ("#overview", "#results", "#run"):
        assert "folds 1, 3 missing" in page.locator(section).text_content()
    assert page.locator("#bands .plot").text_content() == "These results hold no counts by label frequency."
    for figure in ("#agreement", "#ceiling"):
        assert "hold no counts" in page.locator(f"{figure} .plot").text_content()
    assert page.get_by_label("the paper's numbers").count() == 0


def test_one_fold_has_no_deviation_and_no_test(visit, tmp_path):
    single = sample_report(folds=1)
    page = visit(written(single, tmp_path))
    assert "one fold only: no standard deviation, no test" in page.locator("#overview").text_content()
    assert page.locator(".verdict").all_text_contents() == ["not tested", "not tested"]
    assert column(page, 2)[3] == printed(single.datasets[0].rows[3].values[TAIL_NDCG_10])
    assert "(" not in page.locator("#table tbody").text_content()


def test_sorts_without_lag(page):
    """Four datasets of 62 rows and 30 columns, all groups shown. The fastest of five: others use this machine too."""
    page.locator("#table-controls").get_by_label("all", exact=True).check()
    timed = """button => {
        const start = performance.now();
        button.click();
        document.body.offsetHeight;
        return performance.now() - start;
    }"""
    times = [head(page, number).locator("button").evaluate(timed) for number in (0, 3, 7, 11, 16)]
    assert min(times) < 200
