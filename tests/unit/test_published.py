"""Published figures next to ours."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from fusion.errors import XmtcError
from fusion.metrics import Aspect, Metric
from jobs.evaluation.result import Result
from jobs.reporting import published
from jobs.reporting.dataset import Report
from jobs.reporting.document import document
from jobs.reporting.formats import cell_name
from jobs.reporting.parts import Fold, Table, Text
from jobs.reporting.published import (
    PublishedTable,
    comparability,
    published_figures,
    published_parts,
    published_tables,
)
from jobs.settings.config import load_config
from tests.reports import sample_report, with_parts

CONF = Path(__file__).parents[2] / "conf"
FILES = sorted((CONF / "published").glob("*.csv"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_figure_is_a_figure_and_has_a_source(path: Path) -> None:
    """One file per dataset that has a configuration; no figure stands there twice."""
    figures = published_figures(path.stem)
    keys = {(figure.split, figure.label_group, figure.system, figure.metric) for figure in figures}
    assert len(keys) == len(figures) > 2
    assert {figure.dataset.casefold() for figure in figures} == {path.stem}
    assert yaml.safe_load((CONF / "datasets" / path.name).with_suffix(".yaml").read_text())["dataset"] == path.stem
    for figure in figures:
        assert 0.1 < figure.value < 1 and 2000 < figure.year < 2030
        assert figure.citation and figure.note and figure.system and figure.split == "published"


def test_ours_come_first_and_others_by_year() -> None:
    ours = {
        "zmuv+combmnz": {
            Aspect("all", "ndcg", 5): 0.8,
            Aspect("few", "rp", 5, "group"): 0.5,
            Aspect("frequent", "ndcg", 5, "group"): 0.7,
            Aspect("few", "rp", 5): 0.1,
        },
        "bm25 alone": {Aspect("all", "map", 0): 0.4},
    }
    every, *groups = published_tables("EURLEX57K-published", ours)
    assert every.label_group == "all" and {table.label_group for table in groups} == {"frequent", "few"}
    first, *others = every.rows
    assert first.is_ours and first.name == "zmuv+combmnz" and value(every, "zmuv+combmnz", "ndcg", 5) == 0.8
    assert "bm25 alone" not in {row.name for row in every.rows}, "it has none of these figures"
    assert value(every, "zmuv+combmnz", "rp", 5) is None
    assert [row.year for row in others] == sorted(row.year or 0 for row in others)
    assert value(every, "BERT-base", "ndcg", 5) == pytest.approx(0.823)
    assert value(every, "BERT-base", "micro-f1", 0) == pytest.approx(0.732)
    assert every.metrics[0] == Metric("ndcg", 5) and every.metrics[-1].k == 0
    assert all("ACL 2019" in row.source for row in others if row.name == "BERT-base")
    (few,) = (table for table in groups if table.label_group == "few")
    assert value(few, "zmuv+combmnz", "rp", 5) == 0.5, "ranked and counted within the group"
    assert [table.label_group for table in published_tables("EURLEX57K", {})] == ["all"], "ours have no other groups"


def value(table: PublishedTable, name: str, metric: str, k: int) -> float | None:
    (row,) = (row for row in table.rows if row.name == name)
    return row.values[table.metrics.index(Metric(metric, k))]


def test_datasets_without_published_figures_have_no_tables() -> None:
    for dataset in ("debtags", "eurlex", "eurlex57", "eurlex57kx", "unnamed"):
        assert published_tables(dataset, {}) == []


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        ({"split": "published"}, "published test part, as theirs: the figures compare as far as"),
        ({"split": "published", "limit": 9}, r"some texts of the published parts .* do not compare"),
        ({"split": "hash"}, "drawn by hash, .* do not compare"),
        ({}, "means over folds of all texts, .* do not compare"),
        (None, "compare only if the judgements that were given"),
    ],
)
def test_only_the_published_split_compares(prepare: dict[str, Any] | None, words: str) -> None:
    """All of it, as `prepare` read it; what is known of judgements of one's own is said."""
    assert re.search(words, comparability(result_of("eurlex-4k", prepare)))


def result_of(dataset: str, prepare: dict[str, Any] | None) -> Result:
    """What a report is made from: with the folds that `prepare` makes, or with judgements of one's own."""
    settings: dict[str, Any] = {"dataset": dataset, "work.path": "w"}
    if prepare is not None:
        settings["inputs.folds"] = f"w/{dataset}/prepared/folds.parquet"
        settings |= {f"prepare.{name}": value for name, value in prepare.items()}
    (sample,) = sample_report(1).datasets
    return replace(sample.result, config=load_config(None, settings))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("dataset,value\nx,1\n", "expected the columns dataset, split"),
        ("x,published,all,a,2019,precision@5,68x,c,n\n", r"broken\.csv, line 2: value and year must be numbers"),
        ("x,published,all,a,2019,precision@5,687,c,n\n", "line 2: 687 is not a figure in percent"),
        ("x,published,all,a,2019,precison@5,68,c,n\n", "Did you mean 'precision'"),
        ("x,published,all,a,2019,f2,68,c,n\n", "unknown metric 'f2'"),
    ],
)
def test_broken_files_are_refused(content: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    header = "" if content.startswith("dataset") else ",".join(published.COLUMNS) + "\n"
    (tmp_path / "broken.csv").write_text(header + content)
    monkeypatch.setattr(published, "_files", lambda: [tmp_path / "broken.csv"])
    with pytest.raises(XmtcError, match=message):
        published_figures("broken")


def test_a_report_has_them_next_to_ours() -> None:
    """Of a dataset that others have tested: what compares, the table, and every source; of another one, nothing."""
    (dataset,) = sample_report(1).datasets
    known = with_parts(dataset, result=result_of("eurlex-4k", {}))
    words, table, sources = published_parts(known)
    assert isinstance(words, Text) and words.words == comparability(known.result)
    assert isinstance(table, Table) and table.name == "published-all"
    ours, others = table.blocks
    precision = [names[-1] for names in table.header].index("P@1")
    row = next(row for row in known.rows if cell_name(row.cell) == ours[-1][0].text)
    assert ours[-1][precision].text == f"{100 * row.values[Aspect('all', 'precision', 1)].mean:.1f}"
    assert [row[0].text for row in others if "Parabel" in row[0].text] == ["Parabel"]
    assert isinstance(sources, Fold) and len(sources.parts[0].items) == len(others)
    unknown = with_parts(dataset, result=result_of("x", {}))
    assert not list(published_parts(unknown))
    sections = {
        name: [section.name for section in document(Report("Title", (one,), "queries", 0.05, "0"))]
        for name, one in (("known", known), ("unknown", unknown))
    }
    assert "published" in sections["known"] and "published" not in sections["unknown"]
