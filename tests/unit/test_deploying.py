"""Which strategy the model file holds: of those that tie on the whole, the best that loses in no frequency band."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import xmtc_fusion as xf
from fusion.cells import ANY_FOLD, Cell
from fusion.labels import ALL
from fusion.models.models import ChosenCell
from fusion.models.strategies import BANDS, CELL, LAMBDAMART, LOGISTIC
from jobs.reporting.losses import safety_line
from jobs.reporting.recommend import safety_of
from jobs.tuning.choosing import Choice, HeldOut, best_choice

TEXTS = 300
FREQUENT, RARE = range(10), range(10, 40)
FUSED = Cell("none", "combsum")


def choices(*strategies: Cell) -> list[Choice]:
    return [Choice(cell, ANY_FOLD, ALL, ChosenCell(FUSED), 0.5, 0.5) for cell in strategies]


@pytest.mark.parametrize(
    "held, expected",
    [
        # The best one loses in a band; of those that tie with it, one does not.
        ([(0.80, True, ("0",)), (0.79, True, ()), (0.70, False, ())], LOGISTIC),
        # That one is significantly worse: the best one stays.
        ([(0.80, True, ("0",)), (0.79, False, ()), (0.70, False, ())], CELL),
        # Two lose nowhere: the better one.
        ([(0.80, True, ("0", "1-2")), (0.78, True, ()), (0.79, True, ())], BANDS),
        # All lose somewhere.
        ([(0.80, True, ("0",)), (0.79, True, (">100",)), (0.79, True, ("0",))], CELL),
        # It is not known how many training texts carry a label.
        ([(0.80, True, None), (0.81, True, None), (0.79, True, None)], LOGISTIC),
    ],
)
def test_of_those_that_tie_the_best_that_loses_nowhere(held: list[Any], expected: Cell) -> None:
    strategies = (CELL, LOGISTIC, BANDS)
    known = {cell: HeldOut(*of_cell) for cell, of_cell in zip(strategies, held, strict=True)}
    assert best_choice(choices(*strategies), known).strategy == expected
    # What nothing is known about is only taken where nothing is known about any.
    assert best_choice(choices(LAMBDAMART, *strategies), known).strategy == expected
    assert best_choice(choices(LAMBDAMART, BANDS), {}).strategy == LAMBDAMART


@pytest.fixture(scope="module")
def arguments() -> dict[str, Any]:
    """Frequent labels are found by `one` alone, rare labels by `two` alone, whose scores are smaller."""
    rng = np.random.default_rng(1)
    judged: dict[str, list[str]] = {}
    runs: dict[str, dict[str, dict[str, float]]] = {"one": {}, "two": {}}
    for text in range(TEXTS):
        frequent, rare = rng.choice(FREQUENT, 3, replace=False).tolist(), int(rng.choice(RARE))
        wrong = [label for label in FREQUENT if label not in frequent]
        judged[f"t{text}"] = [f"l{label}" for label in (*frequent, rare)]
        runs["one"][f"t{text}"] = {f"l{label}": 20.0 - place for place, label in enumerate([*frequent, *wrong])}
        runs["two"][f"t{text}"] = {f"l{rare}": 0.5}
    roles = [("train", "validation", "test")[text % 3] for text in range(TEXTS)]
    folds = pa.table({"fold": [0] * TEXTS, "text_id": list(judged), "role": roles})
    return {"judgements": judged, "runs": runs, "folds": folds}


def tuned(arguments: dict[str, Any], deploy: str) -> xf.Tuned:
    settings = {
        "grid.cells": ["none+combsum"],
        "tune.strategies": ["tuned+cell", "learned+bands"],
        "tune.objective": "precision@4",
        "tune.curve": [],
        "tune.deploy": deploy,
        "evaluate.metrics": ["precision@4"],
    }
    return xf.tune(**arguments, engine="local", settings=settings)


def test_what_loses_where_is_measured_on_held_out_texts(arguments: dict[str, Any]) -> None:
    found = tuned(arguments, "auto")
    overall = {row["strategy"]: row for row in found.choices.to_pylist() if row["fold"] == ANY_FOLD}
    fixed, safe = overall["tuned+cell"], overall["learned+bands"]
    # Three of the first four labels are relevant under the fixed cell, and no rare label is among them.
    assert fixed["held_out_value"] == 0.75 < safe["held_out_value"] and (fixed["tied"], safe["tied"]) == (False, True)
    assert fixed["bands_lost"] == "1-2, 3-5" and safe["bands_lost"] == ""
    assert safe["deployed"] and not fixed["deployed"]
    assert all(row["bands_lost"] is None for row in found.choices.to_pylist() if row["fold"] != ANY_FOLD)
    evidence = {row["strategy"]: row["bands_lost"] for row in found.model["label_groups"]["all"]["evidence"]}
    assert evidence == {"tuned+cell": ["1-2", "3-5"], "learned+bands": []}
    assert "held-out validation" not in found.table()


def test_the_report_says_what_it_costs_to_lose_nowhere(arguments: dict[str, Any]) -> None:
    table = " ".join(tuned(arguments, "tuned+cell").table().split())
    assert (
        "On held-out validation texts, tuned+cell finds fewer of the labels with 1-2 and 3-5 training texts than the "
        "best single retriever does; losing nowhere costs nothing there, with learned+bands (tune.deploy)." in table
    )


def test_the_words_about_losses() -> None:
    rows = [
        {"strategy": "tuned+cell", "deployed": True, "held_out_value": 0.8, "bands_lost": "0"},
        {"strategy": "learned+logistic", "deployed": False, "held_out_value": 0.78, "bands_lost": "1-2"},
        {"strategy": "learned+bands", "deployed": False, "held_out_value": 0.7912, "bands_lost": ""},
    ]
    rows = [{"label_group": ALL, "objective": "ndcg@10", **row} for row in rows]
    safety = safety_of(rows, ALL)
    assert safety is not None and safety_line(safety, "tuned+cell").endswith(
        "losing nowhere costs 0.88 points of nDCG@10 there, with learned+bands (tune.deploy)"
    )
    safety = safety_of(rows[:2], ALL)
    assert safety is not None and safety_line(safety, "it").endswith(", and no strategy loses nowhere")
    safety = safety_of([{**rows[2], "deployed": True}], ALL)
    assert safety is not None and safety_line(safety, "it").endswith("in no band of label frequency")
    assert safety_of([{**row, "bands_lost": None} for row in rows], ALL) is None
    assert safety_of(rows, "tail") is None
