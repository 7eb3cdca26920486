"""The section of single texts, in Markdown and on the page."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import xmtc_fusion as xf
from jobs.evaluation.schemas import EXAMPLES_SCHEMA
from jobs.reporting.dataset import Report
from jobs.reporting.findings import read_examples
from jobs.reporting.losses import SHOWN_TEXTS, SIGN, example_lists
from jobs.reporting.page import page
from jobs.reporting.renderers import report_markdown
from tests.reports import sample_report, with_parts

ROW = {
    "label_group": "tail",
    "fold": 0,
    "excerpt": "A text about <script>alert(1)</script> | wine",
    "metric": "ndcg",
    "k": 10,
    "normalization": "zmuv",
    "fusion": "combmnz",
    "retriever": "bm25",
    "value": 1.0,
    "retriever_value": 0.25,
    "label_ids": ["7", "3"],
    "label_names": ["wine", "<b>beer</b>"],
    "scores": [2.5, -0.25],
    "relevant": [True, False],
}
MISSED = {"label_ids": ["7", "9"], "label_names": ["wine", ""], "scores": [2.5, None], "relevant": [True, True]}


def rows(places: int) -> list[dict[str, object]]:
    """Examples with a retriever that is called as the fused list is."""
    return [
        {**ROW, "outcome": "helped", "place": place, "text_id": f"t{place}", "list": name, **lists}
        for place in range(1, places + 1)
        for name, lists in (("fused", {}), ("bm25", {}), ("fused", {}), ("relevant", MISSED))
    ]


@pytest.fixture(scope="module")
def report() -> Report:
    made = sample_report()
    examples = read_examples(pa.Table.from_pylist(rows(7), EXAMPLES_SCHEMA).to_pylist())
    return replace(made, datasets=(with_parts(made.datasets[0], examples=examples),))


def test_lists_side_by_side(report: Report) -> None:
    table = example_lists(report.datasets[0].examples[0])
    assert [names[0] for names in table.header] == ["rank", "fused by zmuv+combmnz", "bm25", "fused", "relevant labels"]
    first, second = table.blocks[0]
    assert [entry.text for entry in first] == ["1", *[f"{SIGN} wine (7), 2.5"] * 4]
    assert second[1].text == "<b>beer</b> (3), \N{MINUS SIGN}0.25" and not second[1].bold
    assert second[4].text == f"{SIGN} 9, in no list" and second[4].bold


def test_page_shows_them_without_a_script(report: Report) -> None:
    html = page(report)
    section = re.search(r'<section id="examples".*?</section>', html, re.DOTALL)
    assert section is not None and html.count('href="#examples"') == 1
    assert section[0].count("<details>") == SHOWN_TEXTS == 5
    assert (
        "Text t1: +75.0 (100.0 against 25.0). A text about &lt;script&gt;alert(1)" in section[0]
        and "Text t6" not in section[0]
    )
    assert "&lt;script&gt;alert(1)" in section[0] and "<script>" not in section[0] and "<b>beer" not in section[0]
    assert f"<b>{SIGN} wine (7), 2.5</b>" in section[0]
    assert section[0].count("Most helped") == 1 and "No text." in section[0]
    assert 'class="scripted"' not in section[0]


def test_nothing_is_shown_without_examples() -> None:
    html = page(sample_report())
    assert 'id="examples"' not in html and "#examples" not in re.sub(r"<style>.*?</style>", "", html, flags=re.DOTALL)
    assert "most helped" not in report_markdown(sample_report())


def test_markdown(report: Report) -> None:
    text = report_markdown(report)
    assert "### Texts most helped and most hurt" in text
    assert "#### tail labels: zmuv+combmnz against bm25 alone, by nDCG@10 of the text" in text
    assert text.count("<details><summary>Text t") == SHOWN_TEXTS
    assert "> A text about \\<script\\>alert(1)\\</script\\> \\| wine" in text
    assert f"| 1 | **{SIGN} wine (7), 2.5** |" in text and "##### Most hurt\n\nNo text." in text


def test_too_large_a_page_leaves_them_out(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.reporting.page.LARGEST", 1000)
    html = page(report)
    assert "examples.parquet of the results has them" in html and "Text t1:" not in html


def test_results_on_disk_are_shown(tmp_path: Path) -> None:
    judgements = {"a": ["x"], "b": ["y"]}
    runs = {"bm25": {"a": {"y": 2.0, "x": 1.0}, "b": {"y": 1.0}}, "dense": {"a": {"x": 2.0}, "b": {"x": 2.0, "y": 1.0}}}
    xf.evaluate(judgements, runs, metrics="ndcg@2").save(str(tmp_path / "out"))
    xf.report(str(tmp_path / "out"), str(tmp_path / "report"))
    html = (tmp_path / "report" / "index.html").read_text()
    assert '<section id="examples"' in html and f"{SIGN} x" in html
    assert "Texts most helped" in (tmp_path / "report" / "report.md").read_text()
