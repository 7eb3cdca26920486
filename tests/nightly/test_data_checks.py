"""Data are checked before they are evaluated: what is cut, gone, empty or old is an alarm, and never a baseline."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from jobs.nights import commands
from jobs.nights.checks import in_words
from jobs.nights.night import Night
from tests.nights import Site, Texts


@pytest.fixture
def site(tmp_path: Path, texts: Texts) -> Site:
    """After a good night."""
    site = Site(tmp_path, texts)
    assert site.run("good").exit_code == 0
    return site


def breaches(night: Night) -> set[tuple[str, str]]:
    return {(check.quantity, check.rule) for check in night["sample"].breaches}


def test_judgements_that_are_cut_are_an_alarm_and_no_baseline(site: Site) -> None:
    site.change("judgements", lambda rows: rows[:160])
    night = site.run("cut")
    assert (night.exit_code, night["sample"].verdict) == (14, "data check")
    assert {("texts", "baseline"), ("pairs", "baseline"), ("gone_texts", "baseline")} <= breaches(night)
    assert "judged texts: 160, 400 in the baseline; allowed: at least 360 and at most 440" in str(night)
    # The next night is compared with the good one again, and alarms again.
    again = site.run("still-cut")
    assert (again.exit_code, again["sample"].against) == (14, "good")


def test_a_person_can_accept_it(site: Site) -> None:
    site.change("judgements", lambda rows: rows[:160])
    assert site.run("cut").exit_code == 14
    told = commands.accept(site.history(), "cut", None, "the texts of last year are out")
    assert told == "cut is accepted for sample: later nights are compared with it"
    after = site.run("after")
    assert (after.exit_code, after["sample"].against) == (0, "cut")
    assert "(accepted by " in commands.status(site.history())
    assert "the texts of last year are out" in commands.show(site.history(), "cut")


def test_a_figure_that_fell_is_a_regression_on_cut_data_too(site: Site) -> None:
    site.degrade(0.3)
    site.change("judgements", lambda rows: rows[:160])
    night = site.run("both")
    assert (night.exit_code, night["sample"].verdict) == (10, "regression")
    assert ("texts", "baseline") in breaches(night)


def without(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["retriever"] == "bm25" or row["text_id"] % 2]


def emptied(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "label_ids": []} if row["text_id"] % 20 == 0 else row for row in rows]


def exchanged(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A third of the texts have other names: as many as before, but not the same."""
    return [{**row, "text_id": row["text_id"] + 10_000} if row["text_id"] % 3 == 0 else row for row in rows]


def relabelled(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "label_ids": [label % 25 for label in row["label_ids"]]} for row in rows]


@pytest.mark.parametrize(
    ("table", "change", "quantity"),
    [
        ("candidates", without, "lists:dense"),
        ("candidates", lambda rows: [row for row in rows if row["retriever"] == "bm25"], "lists:dense"),
        ("judgements", emptied, "texts_without_labels"),
        ("judgements", exchanged, "gone_texts"),
        ("judgements", relabelled, "labels"),
        ("judgements", lambda rows: [{**row, "label_ids": row["label_ids"][:1]} for row in rows], "pairs"),
    ],
    ids=["half of a retriever's lists", "a retriever", "labels", "texts", "distinct labels", "pairs"],
)
def test_what_is_gone_is_noticed(site: Site, table: str, change: Any, quantity: str) -> None:
    site.change(table, change)
    night = site.run("changed", nightly__tolerance=100)
    # One of the changes leaves nothing to evaluate; the reason is the same.
    assert f"{in_words(quantity)}: " in str(night)
    assert night.exit_code in (11, 14)


def test_the_checks_come_first(site: Site) -> None:
    """Data that cannot be evaluated any more are still a data alarm, with the reason."""
    site.change("judgements", lambda rows: [{**row, "text_id": row["text_id"] + 10_000} for row in rows])
    night = site.run("others")
    assert night.exit_code == 14
    (absent,) = night.absent
    assert absent.verdict == "data check"
    assert "share of the baseline's texts that are gone: 1" in absent.reason


def test_stated_bounds_hold_from_the_first_night_on(tmp_path: Path, texts: Texts) -> None:
    site = Site(tmp_path, texts)
    bounds = {"texts": [1000, None], "lists:bm25": [None, 10], "labels": [1, 1000]}
    night = site.run("first", nightly__checks__bounds=bounds)
    assert night.exit_code == 14
    assert breaches(night) == {("texts", "stated bounds"), ("lists:bm25", "stated bounds")}
    # A night with an alarm is no baseline, not even the first.
    assert site.run("second")["sample"].against is None


def test_old_inputs(tmp_path: Path, texts: Texts) -> None:
    site = Site(tmp_path, texts)
    long_ago = time.time() - 50 * 3600
    os.utime(tmp_path / "candidates.parquet", (long_ago, long_ago))
    assert site.run("fresh enough", nightly__checks__oldest=51).exit_code == 0
    night = site.run("stale", nightly__checks__oldest=48)
    assert breaches(night) == {("age:candidates", "stated bounds")}
    assert "hours since candidates was written: 50" in str(night)


def test_checks_can_be_left_out(site: Site) -> None:
    site.change("judgements", lambda rows: rows[:160])
    names = ("texts", "labels", "pairs", "lists", "gone_texts", "new_texts", "nulls")
    night = site.run("cut", **{f"nightly__checks__{name}": None for name in names})
    assert (night.exit_code, night["sample"].checks) == (0, ())


def test_a_night_that_costs_too_much(site: Site) -> None:
    site.change("judgements", lambda rows: rows[:395])
    night = site.run("slow", nightly__cost__seconds=1e-6, nightly__cost__memory=1000)
    assert (night.exit_code, night["sample"].verdict) == (15, "cost")
    assert breaches(night) == {("seconds", "baseline")}
    # Nothing to do takes no time; that is no answer to whether it has become slower.
    assert site.run("unchanged", nightly__cost__seconds=1e-6).exit_code == 0
