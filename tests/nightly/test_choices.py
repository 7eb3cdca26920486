"""A night that watches what is chosen every night: the gate sees its figures, and other choices are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fusion.errors import ConfigError
from jobs.nights.datasets import OtherChoice
from jobs.nights.night import Night
from jobs.settings.config import load_config
from tests.nights import Site, good_texts

CELLS = ["max+combsum", "zmuv+combmin"]
WATCHED: dict[str, Any] = {"nightly__watch__cells": ["tuned+cell", "zmuv+combmin"], "grid__cells": CELLS}


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> tuple[Site, Night, Night]:
    """Two nights; before the second, `dense` lists what is not relevant first, so that another cell is chosen."""
    site = Site(tmp_path_factory.mktemp("site"), good_texts())
    first = site.run("night-1", **WATCHED)
    site.degrade(1.0)
    return site, first, site.run("night-2", **WATCHED, nightly__tolerance=100.0)


def test_strategies_are_watched_beside_cells(nights: tuple[Site, Night, Night]) -> None:
    site, first, second = nights
    assert (first.exit_code, first.problems, first.absent) == (0, (), ())
    figures = {(row["normalization"], row["fusion"]): row["mean"] for row in first["sample"].figures}
    assert set(figures) == {("tuned", "cell"), ("zmuv", "combmin"), ("single", "bm25"), ("single", "dense")}
    watched = {one.figure.cell for one in second["sample"].compared}
    assert ("tuned", "cell") in watched and ("zmuv", "combmin") in watched
    stored = site.history().read("choices", ["night-1"])
    assert stored is not None and set(stored["strategy"].to_pylist()) == {"tuned+cell"}
    page = (site.work / "nightly" / "night-1" / "index.html").read_text(encoding="utf-8")
    assert "Fixed, tuned, learned" in page


def test_another_choice_is_told_and_no_alarm(nights: tuple[Site, Night, Night]) -> None:
    site, first, second = nights
    assert first["sample"].other_choices == ()
    found = second["sample"].other_choices
    assert found and all(isinstance(choice, OtherChoice) and choice.before != choice.now for choice in found)
    assert {choice.against for choice in found} == {"night-1"} and {choice.now for choice in found} <= set(CELLS)
    assert second.exit_code == 0
    assert f"tonight's data would choose {found[0].now}" in str(second)
    summary = json.loads((site.work / "nightly" / "night-2" / "summary.json").read_text(encoding="utf-8"))
    assert [row["now"] for row in summary["datasets"]["sample"]["other_choices"]] == [choice.now for choice in found]


def test_a_fall_of_what_is_tuned_is_a_regression(nights: tuple[Site, Night, Night]) -> None:
    site, *_ = nights
    again = site.run("night-3", **WATCHED, nightly__baseline="night-1")
    assert ("tuned", "cell") in {one.figure.cell for one in again["sample"].fallen}
    assert again.exit_code == 10


def test_names_that_are_no_strategy_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nightly.watch.cells.*tuned"):
        load_config(None, {"nightly.watch.cells": ["tuned+cel"]})
