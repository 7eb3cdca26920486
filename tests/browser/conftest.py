"""A headless Chromium and the pages it opens."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.reporting.dataset import Report
from jobs.reporting.page import page as html_page
from tests.reports import sample_report

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = (
    "--headless --no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync"
)


@pytest.fixture(scope="session")
def browser() -> Iterator:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=[*QUIET.split(), "--no-first-run"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def report() -> Report:
    return sample_report(4)


@pytest.fixture(scope="session")
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

    def go(file: Path, width: int = 1360, address: str = "", **options):
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: wrong.append(request.url) if not is_page(request.url, file) else None)
        page.goto(file.as_uri() + address)
        return page

    yield go
    for context in contexts:
        context.close()
    assert wrong == []


def is_page(url: str, file: Path) -> bool:
    return url.partition("#")[0] == file.as_uri()


@pytest.fixture
def page(visit, whole):
    return visit(whole)
