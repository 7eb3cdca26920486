"""With a baseline, what is watched is compared, or the night is red and says why; and every guard guards something."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from fusion.errors import ConfigError
from jobs.nights import commands
from jobs.nights.lease import held_lease
from jobs.nights.night import Night
from jobs.settings.config import load_config
from tests.nights import TEXTS, Site, Texts, good_texts

UNCHECKED: dict[str, Any] = {
    **{f"nightly__checks__{name}": None for name in ("lists", "gone_texts", "new_texts", "texts")},
    **{f"nightly__drift__{name}": None for name in ("labels", "overlap", "empty_lists")},
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory, texts: Texts) -> Path:
    """A work folder after a good night, to be copied."""
    folder = tmp_path_factory.mktemp("good") / "site"
    assert Site(folder, texts).run("good").exit_code == 0
    return folder


@pytest.fixture
def site(good: Path, texts: Texts) -> Site:
    """After a good night. The place is the same for all tests, since the inputs are known by their paths."""
    kept = good.with_name("kept")
    if not kept.exists():
        shutil.copytree(good, kept)
    shutil.rmtree(good)
    shutil.copytree(kept, good)
    return Site(good, texts)


def gaps(night: Night) -> set[str]:
    """Why figures could not be compared."""
    return {one.reason for one in night["sample"].uncompared}


@pytest.mark.parametrize("table", ["query_figures", "watched", "checks", "judged", "drift", "label_counts"])
@pytest.mark.parametrize("damage", ["table", "last entry of its log"])
def test_a_baseline_that_lost_its_rows_is_an_alarm(site: Site, table: str, damage: str) -> None:
    site.run("second")
    place = Path(site.place, table)
    shutil.rmtree(place) if damage == "table" else max((place / "_delta_log").glob("*.json")).unlink()
    night = site.run("third")
    assert (night.exit_code, night["sample"].verdict) == (16, "not compared")
    assert f"the history has {'lost' if table == 'query_figures' else 'no'} rows of second in its table {table}" in str(
        night
    )
    assert "No figure fell" not in night.headline


def test_a_night_that_compared_nothing_is_no_baseline_until_it_is_accepted(site: Site) -> None:
    shutil.rmtree(Path(site.place, "query_figures"))
    site.degrade(0.3)
    first, second = site.run("ruined"), site.run("still-ruined")
    assert [(night.exit_code, night["sample"].against) for night in (first, second)] == [(16, "good")] * 2
    assert [one.reason for one in first["sample"].uncompared] == ["lost"] * 6
    assert "not compared: the history has lost rows of good" in commands.status(site.history())
    assert "what could not be compared" in commands.show(site.history(), "ruined")
    assert f"accept ruined --dataset sample --work {site.work}" in str(first)
    commands.accept(site.history(), "still-ruined", None, "the disk was restored from a backup")
    after = site.run("after")
    assert (after.exit_code, after["sample"].against, after["sample"].uncompared) == (0, "still-ruined", ())


WATCHES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "metric": ({"nightly__watch__metrics": ["recall@5"]}, {"new metric", "dropped"}),
    "further metric": ({"nightly__watch__metrics": ["ndcg@10", "recall@5"]}, {"new metric"}),
    "metric without a cut-off": ({"nightly__watch__metrics": ["ndcg@10", "map"]}, {"new metric"}),
    "cell": ({"nightly__watch__cells": ["rank+isr"]}, {"new cell", "dropped"}),
    "label group": ({"nightly__watch__label_groups": ["tail", "all"]}, {"new label group", "dropped"}),
    "no retrievers": ({"nightly__watch__retrievers": False}, {"dropped"}),
}


@pytest.mark.parametrize(("watch", "reasons"), WATCHES.values(), ids=WATCHES)
def test_a_change_of_what_is_watched_is_acknowledged(site: Site, watch: dict[str, Any], reasons: set[str]) -> None:
    night = site.run("otherwise", **watch)
    assert (night.exit_code, gaps(night)) == (16, reasons)
    commands.accept(site.history(), "otherwise", None, "we watch something else now")
    after = site.run("after", **watch)
    assert (after.exit_code, after["sample"].against) == (0, "otherwise")
    # A night that was pinned before the change is still compared with, as far as both watch the same.
    pinned = site.run("pinned", nightly__baseline="good", **watch)
    assert (pinned.exit_code, gaps(pinned)) == (0, set())


def test_a_renamed_retriever_is_acknowledged(site: Site) -> None:
    site.change("candidates", lambda rows: [{**r, "retriever": r["retriever"].replace("dense", "new")} for r in rows])
    assert site.run("checked")["sample"].verdict == "data check"
    night = site.run("renamed", **UNCHECKED)
    names = {(one.figure.fusion, one.reason) for one in night["sample"].uncompared}
    assert (night.exit_code, names) == (16, {("new", "new cell"), ("dense", "dropped")})
    # What is gone is an alarm of that night only: once it is accepted, nobody misses the old name.
    commands.accept(site.history(), "checked", None, "it has another name now")
    assert (site.run("after").exit_code, site.run("later").exit_code) == (0, 0)


def test_a_first_night_of_one_dataset_is_no_alarm_and_says_so(site: Site) -> None:
    other = site.folder / "other.yaml"
    other.write_text(site.dataset.read_text().replace("dataset: sample", "dataset: other"))
    night = site.run("second", nightly__datasets=[str(site.dataset), str(other)])
    assert night.exit_code == 0
    assert night.headline == ("No figure fell since good; other: no baseline yet, nothing to compare with.")


def repeated(site: Site) -> None:
    """Every text is tested in two folds; in the second one, `dense` lists what is not relevant first."""

    def twice(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        turned = ({**row, "fold": 1, "scores": row["scores"][::-1]} for row in rows if row["retriever"] == "dense")
        return [
            *({**row, "fold": 0} for row in rows),
            *({**row, "fold": 1} for row in rows if row["retriever"] != "dense"),
            *turned,
        ]

    site.change("candidates", twice)
    site.change("folds", lambda rows: [{**row, "fold": fold} for row in rows for fold in (0, 1)])


def test_a_text_of_several_folds_is_compared_fold_by_fold(tmp_path: Path, texts: Texts) -> None:
    site = Site(tmp_path, texts)
    repeated(site)
    site.run("good")
    # Another order of the rows, the same data.
    site.change("candidates", lambda rows: rows[::-1])
    same = site.run("same")
    assert same.exit_code == 0
    changes = {one.change for one in same["sample"].compared}
    assert {(change.difference, change.paired, change.gone) for change in changes} == {(0.0, True, 0)}

    def worse(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        here = {"fold": 1, "retriever": "bm25"}
        return [{**r, "scores": r["scores"][::-1]} if here.items() <= r.items() else r for r in rows]

    site.change("candidates", worse)
    night = site.run("worse")
    assert night.exit_code == 10 and "bm25" in {one.figure.fusion for one in night["sample"].fallen}


def test_new_folds_compare_texts_with_themselves_and_say_so(site: Site) -> None:
    site.change(
        "folds", lambda rows: [{**row, "fold": 1 - row["fold"] if row["text_id"] % 2 else row["fold"]} for row in rows]
    )
    night = site.run("folds")
    assert night.exit_code == 0
    changes = [one.change for one in night["sample"].compared]
    assert all(change.paired and 0.4 < change.other_folds / change.texts < 0.6 for change in changes)
    site.degrade(0.25)
    night = site.run("worse", nightly__baseline="good")
    assert night.exit_code == 10 and " in another fold than then), p " in str(night)


def test_a_single_text_that_falls_is_an_alarm(tmp_path: Path) -> None:
    site = Site(tmp_path, good_texts(1), folds=1)
    site.run("good", **UNCHECKED)
    assert site.run("same", **UNCHECKED).exit_code == 0
    site.change("candidates", lambda rows: [{**row, "scores": row["scores"][::-1]} for row in rows])
    night = site.run("worse", **UNCHECKED)
    assert night.exit_code == 16 and "untested" in gaps(night)
    assert "further than the tolerance of 0.50 points, over 1 text: too few for a test" in str(night)
    assert "no alarm" not in str(night)


def with_nightly(site: Site, **settings: Any) -> None:
    site.dataset.write_text(yaml.safe_dump({**yaml.safe_load(site.dataset.read_text()), "nightly": settings}))


@pytest.mark.parametrize("own", [{"tolerance": 90}, {"alpha": 1e-300}, {"baseline": "bad"}], ids=str)
def test_settings_of_the_gate_in_a_datasets_file_count(site: Site, own: dict[str, Any]) -> None:
    site.degrade(0.25)
    with_nightly(site, tolerance=0.5, alpha=0.01)
    assert site.run("bad", nightly__tolerance=90, nightly__alpha=1e-300).exit_code == 10
    with_nightly(site, **own)
    night = site.run("own")
    assert (night.exit_code == 0) == ("baseline" not in own)
    assert night["sample"].against == own.get("baseline", "good")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"nightly.checks.bounds": {"txts": [1, None]}}, "unknown quantity 'txts'. Did you mean 'texts'"),
        ({"nightly.checks.bounds": {"lists:bm52": [1, None]}}, "Did you mean 'lists:bm25'"),
        ({"nightly.checks.bounds": {"texts:bm25": [1, None]}}, "unknown quantity 'texts:bm25'"),
        ({"nightly.watch.label_groups": ["tial", "head"]}, "unknown label group 'tial'. Did you mean 'tail'"),
        ({"nightly.watch.label_groups": ["head"], "evaluate.label_groups": ["tail"]}, "unknown label group 'head'"),
        ({"nightly.watch.label_groups": ["tail"], "inputs.label_groups": "none"}, "Known: all"),
        ({"nightly.watch.cells": ["bm52+dense: zmuv+combmnz"]}, "Did you mean 'bm25'"),
        ({"nightly.watch.metrics": ["ndgc@10"]}, "Did you mean 'ndcg'"),
        ({"nightly.drift.overlpa": 0.1}, "did you mean 'nightly.drift.overlap'"),
        *(({"nightly.tolerance": value}, "nightly.tolerance: ") for value in (float("inf"), float("nan"), -1, 101)),
        ({"nightly.alpha": float("nan")}, "nightly.alpha: "),
        ({"nightly.checks.bounds": {"texts": [float("nan"), None]}}, "nightly.checks.bounds.texts.0: "),
    ],
)
def test_names_and_numbers_that_guard_nothing_are_refused(settings: dict[str, Any], words: str) -> None:
    runs = {"inputs.candidates": {"bm25": "a.parquet", "dense": "b.parquet"}, "inputs.judgements": "c.parquet"}
    with pytest.raises(ConfigError) as refused:
        load_config(None, {**runs, **settings})
    assert words in str(refused.value)


IDLE: dict[str, tuple[dict[str, Any], str]] = {
    "bounds": ({"nightly__checks__bounds": {"lists:bm52": [1, None]}}, "Did you mean 'lists:bm25'"),
    "label group": ({"nightly__watch__label_groups": ["tail", "few"]}, "unknown label group 'few'"),
    "details": ({"evaluate__details": False}, "set evaluate.details to true"),
}


@pytest.mark.parametrize(("settings", "words"), IDLE.values(), ids=IDLE)
def test_a_guard_that_guards_nothing_is_an_alarm(
    tmp_path: Path, texts: Texts, settings: dict[str, Any], words: str
) -> None:
    """What only the data tell: one table has the lists of all retrievers, and one the label groups. From the first
    night on."""
    night = Site(tmp_path, texts).run("first", **settings)
    assert (night.exit_code, night["sample"].verdict) == (16, "not compared")
    assert words in str(night)


def test_a_pinned_night_that_is_gone_is_not_passed_over(site: Site) -> None:
    history = site.history()
    commands.pin(history, "good", "release 3")
    with held_lease(history.storage, "lost", 30):
        history.storage.forget(["good"], [])
    with pytest.raises(ConfigError, match=r"night 'good' is pinned, and the history .* does not have it any more"):
        site.run("third")


def test_fewer_texts_than_were_recorded_are_lost_rows(site: Site) -> None:
    """Files of one night that are gone without the night being gone."""
    history = site.history()
    rows = history.read("query_figures", ["good"])
    assert rows is not None
    shutil.rmtree(Path(site.place, "query_figures"))
    keys = ["run_id", "dataset", "attempt"]
    history.append(
        "query_figures", rows.drop_columns(keys).slice(0, TEXTS), "good", "sample", rows["attempt"][0].as_py()
    )
    night = site.run("next")
    assert night.exit_code == 16 and "lost" in gaps(night)
