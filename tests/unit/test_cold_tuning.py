"""Where most rare labels have no training text: every fixed fusion loses to the retriever that can see them; a fusion
that knows how frequent labels are in training, and which retriever lists the others, does not."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

import xmtc_fusion as xf
from fusion.cells import SINGLE, Cell
from tests.cold_data import ColdData, cold_data

TREES = ["learned+lambdamart"] if find_spec("lightgbm") else []
LEARNED = ["learned+logistic", "learned+bands", "learned+logodds", *TREES]
SETTINGS = {"tune.curve": [], "evaluate.details": False}


@pytest.fixture(scope="module")
def data() -> ColdData:
    return cold_data()


@pytest.fixture(scope="module")
def figures(data: ColdData) -> dict[str, dict[Cell, float]]:
    """nDCG@10 by label group."""
    folds = {"folds": data.folds, "label_groups": data.label_groups}
    tuned = xf.tune(
        data.judgements, data.runs, **folds, metrics="ndcg@10", strategies=["tuned+cell", *LEARNED], settings=SETTINGS
    )
    found: dict[str, dict[Cell, float]] = {}
    for row in tuned.metrics.to_pylist():
        if row["ideal"] == "all":
            found.setdefault(row["label_group"], {})[Cell(row["normalization"], row["fusion"])] = row["value"]
    return found


def test_most_rare_labels_have_no_training_text(data: ColdData) -> None:
    role = dict(zip(data.folds["text_id"].to_pylist(), data.folds["role"].to_pylist(), strict=True))
    group = dict(zip(*(data.label_groups[name].to_pylist() for name in ("label_id", "label_group")), strict=True))
    pairs = [(role[row["text_id"]], label) for row in data.judgements.to_pylist() for label in row["label_ids"]]
    assert not {label for of, label in pairs if of == "train"} & data.cold
    tested = [label for of, label in pairs if of == "test" and group[label] == "tail"]
    assert sum(label in data.cold for label in tested) / len(tested) > 0.75
    lists = data.runs["neighbours"]["label_ids"].to_pylist()
    assert not {label for labels in lists for label in labels} & data.cold


def test_every_fixed_fusion_loses_there(figures: dict[str, dict[Cell, float]]) -> None:
    of_tail = figures["tail"]
    fixed = [value for cell, value in of_tail.items() if cell.normalization != SINGLE and not cell.is_strategy]
    assert len(fixed) == 60
    assert max(fixed) < of_tail[Cell(SINGLE, "names")]


@pytest.mark.parametrize("strategy", LEARNED)
def test_what_knows_train_frequencies_does_not(figures: dict[str, dict[Cell, float]], strategy: str) -> None:
    for group, of_group in figures.items():
        best = max(value for cell, value in of_group.items() if cell.normalization == SINGLE)
        assert of_group[Cell(*strategy.split("+"))] >= best, group
