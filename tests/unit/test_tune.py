"""Tuned and learned fusions: chosen on validation texts alone, applied as they were chosen, and the same everywhere."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import xmtc_fusion as xf
from fusion.cells import ANY_FOLD, LEARNED, Cell
from fusion.errors import ConfigError, InputError
from fusion.models.strategies import ON_REQUEST, STRATEGIES
from fusion.statistics.recommendation import recommend
from jobs.engines.local import LocalEngine
from jobs.evaluation.model_file import parsed_model
from jobs.evaluation.result import read_results
from jobs.inputs.labels import label_texts_of
from jobs.inputs.tables import InputTables
from jobs.reporting.answer import headline
from jobs.reporting.dataset import DatasetReport
from jobs.reporting.formats import joined
from jobs.reporting.renderers import escaped, report_markdown
from jobs.settings.config import load_config
from jobs.tuning import tuner as tuner_module
from jobs.tuning.choosing import Choice
from jobs.tuning.tuner import Tuner
from tests import reference
from tests.tuning_data import FOLDS, Data, tuning_data
from udfs.tuning import TrainTexts
from xmtc_fusion.api import _sources_of

DATA = tuning_data()
FAST = {
    "grid.normalizations": ["zmuv", "min-max"],
    "grid.fusions": ["combsum", "combmnz", "isr"],
    "tune.settings": 60,
    "tune.curve": [],
    "tune.trees": [[4, 8]],
    "tune.l2": [10, 1],
    "evaluate.metrics": ["ndcg@10", "precision@1"],
    "evaluate.details": False,
}
EVERY = {"tune.strategies": list(map(str, STRATEGIES))}
VIEWS = ("tail", "head", "all")
ORDER = ("all", "tail", "head")
"""In which a report names them."""


@pytest.fixture(scope="module")
def tuned() -> xf.Tuned:
    return xf.tune(**DATA.arguments(), engine="local", settings={**FAST, "tune.curve": [10, 20]})


@pytest.mark.parametrize("deploy", ["auto", "tuned+cell", "learned+logistic"])
def test_the_report_recommends_what_the_model_file_holds(deploy: str, tmp_path: Path) -> None:
    """In each label group: here another strategy than tail labels have would do better on their test texts, and so
    would another than the one that is asked for."""
    tuned = xf.tune(**DATA.arguments(), engine="local", settings={**FAST, "tune.deploy": deploy})
    held = {group: Cell(*model["strategy"].split("+", 1)) for group, model in tuned.model["label_groups"].items()}
    dataset = DatasetReport(read_results([tuned.save(str(tmp_path / "tuned"))])[0], "folds", 0.05)
    assert dataset.recommendation is not None
    assert {group: dataset.recommendation.of(group) for group in VIEWS} == held
    deployed = [row for row in tuned.choices.to_pylist() if row["deployed"]]
    assert {(row["label_group"], row["strategy"], row["fold"]) for row in deployed} == {
        (group, str(cell), ANY_FOLD) for group, cell in held.items()
    }
    # By test texts alone the answer would be another one.
    means = {aspect: {row.cell: row.values[aspect].mean for row in dataset.rows} for aspect in dataset.aspects}
    assert {recommend(means).cell} != set(held.values()) or deploy == "learned+logistic"
    sentence = headline(dataset)
    assert sentence.startswith(str(held["all"])) and sentence in tuned.table()
    assert str(held["tail"]) in sentence
    text = report_markdown(tuned._report)
    assert f"### Recommended: {escaped(joined(list(dict.fromkeys(map(str, (held[v] for v in ORDER))))))}" in text
    assert "what the model file of" in text and "loses to a single retriever in the fewest" not in text


def choices_of(data: Data, **settings: object) -> list[Choice]:
    config = load_config(None, {**FAST, **settings})
    sources = _sources_of(config, training=None, **data.arguments())
    return list(Tuner.of(InputTables(LocalEngine(), sources), config).tune().by_fold)


def of_fold(choices: list[Choice], fold: int) -> dict[str, str]:
    """Everything that was chosen or learned for a fold, to the last digit, by strategy and label group."""
    return {
        f"{choice.strategy} {choice.name}": json.dumps([choice.model.to_json(), choice.value, choice.held_out])
        for choice in choices
        if choice.fold == fold
    }


def with_permuted_test_labels(data: Data, fold: int) -> Data:
    texts = data.test_texts(fold)
    others = np.random.default_rng(5).permutation(texts).tolist()
    moved = {text: data.judgements[other] for text, other in zip(texts, others, strict=True)}
    return replace(data, judgements={**data.judgements, **moved})


def figure(
    result: xf.Evaluation, cell: tuple[str, str], fold: int, view: str, metric: str = "ndcg", k: int = 10
) -> float:
    wanted = {"normalization": cell[0], "fusion": cell[1], "fold": fold, "label_group": view, "metric": metric, "k": k}
    rows = result.metrics.filter(pc.equal(result.metrics["ideal"], "all"))
    for name, value in wanted.items():
        rows = rows.filter(pc.equal(rows[name], value))
    (row,) = rows.to_pylist()
    return float(row["value"])


@pytest.fixture(scope="module")
def choices() -> list[Choice]:
    return choices_of(DATA, **EVERY)


@pytest.mark.parametrize("fold", range(FOLDS))
def test_labels_of_test_texts_change_no_choice_and_no_model(choices: list[Choice], fold: int) -> None:
    before = of_fold(choices, fold)
    assert {name.split()[0] for name in before} == {str(cell) for cell in STRATEGIES} and len(before) == 3 * len(
        STRATEGIES
    )
    permuted = with_permuted_test_labels(DATA, fold)
    assert permuted.judgements != DATA.judgements
    assert of_fold(choices_of(permuted, **EVERY), fold) == before


def test_a_leak_of_overall_frequencies_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """With frequencies counted over all texts the learned models do change, so the test above would fail."""

    def leaking(tables, relevant_from):  # type: ignore[no-untyped-def]
        frequencies = label_texts_of(tables, tables.judgements, relevant_from).frequencies
        counts = np.append(frequencies.counts, 0)[None].astype(np.int32)
        return TrainTexts(np.array([ANY_FOLD]), frequencies.ids, counts, float(len(DATA.judgements)))

    data = DATA
    monkeypatch.setattr(tuner_module, "training_texts", leaking)
    only = {"tune.strategies": ["learned+logistic"]}
    leaked = of_fold(choices_of(data, **only), 0)
    assert leaked != of_fold(choices_of(with_other_test_labels(data, 0), **only), 0)
    monkeypatch.undo()
    honest = of_fold(choices_of(data, **only), 0)
    assert honest == of_fold(choices_of(with_other_test_labels(data, 0), **only), 0)


def with_other_test_labels(data: Data, fold: int) -> Data:
    """Labels of test texts replaced by others: permuting them leaves overall frequencies as they are."""
    changed = {text: [(label + 1) % 60 for label in data.judgements[text]] for text in data.test_texts(fold)}
    return replace(data, judgements={**data.judgements, **changed})


def test_a_tuned_cell_has_the_figures_of_what_it_chose(tuned: xf.Tuned) -> None:
    choices = [row for row in tuned.choices.to_pylist() if row["strategy"] == "tuned+cell" and row["fold"] >= 0]
    assert len(choices) == FOLDS * len(VIEWS)
    for row in choices:
        chosen = tuple(row["choice"].split("+"))
        for metric, k in (("ndcg", 10), ("precision", 1)):
            expected = figure(tuned, chosen, row["fold"], row["label_group"], metric, k)
            assert figure(tuned, ("tuned", "cell"), row["fold"], row["label_group"], metric, k) == expected
        assert row["test_value"] == figure(tuned, chosen, row["fold"], row["label_group"])


def test_choices_are_the_best_on_validation_texts(tuned: xf.Tuned) -> None:
    """Validation texts evaluated as if they were test texts."""
    arguments = DATA.arguments()
    swap = {"test": "train", "validation": "test", "train": "train"}
    roles = pa.array([swap[role] for role in DATA.folds["role"].to_pylist()])
    arguments["folds"] = DATA.folds.set_column(2, "role", roles)
    arguments["runs"] = {
        name: run.filter(pc.equal(run["role"], "validation")).drop_columns(["role"]) for name, run in DATA.runs.items()
    }
    result = xf.evaluate(**arguments, engine="local", settings=FAST)
    cells = {tuple(row.values()) for row in result.metrics.select(["normalization", "fusion"]).to_pylist()}
    for row in tuned.choices.to_pylist():
        if row["strategy"] == "tuned+cell" and row["fold"] >= 0:
            values = {
                cell: figure(result, cell, row["fold"], row["label_group"]) for cell in cells if cell[0] != "single"
            }
            assert row["validation_value"] == pytest.approx(max(values.values()))
            assert values[tuple(row["choice"].split("+"))] == max(values.values())


def test_tables_of_the_choices_and_the_curve(tuned: xf.Tuned) -> None:
    rows = tuned.choices.to_pylist()
    assert {row["fold"] for row in rows} == {ANY_FOLD, *range(FOLDS)}
    assert all((row["test_value"] is None) == (row["fold"] == ANY_FOLD) for row in rows)
    for row in rows:
        if row["strategy"] == "tuned+cell" and row["fold"] >= 0:
            assert row["best_test_value"] >= row["test_value"]
    assert tuned.learning_curve is not None
    points = tuned.learning_curve.to_pylist()
    assert {row["strategy"] for row in points} == {str(cell) for cell in STRATEGIES if cell not in ON_REQUEST}
    assert {10, 20} < {row["texts"] for row in points} and all(0 <= row["value"] <= 1 for row in points)


def test_the_order_of_the_input_does_not_matter(tuned: xf.Tuned) -> None:
    arguments = DATA.arguments()
    order = np.random.default_rng(1)
    arguments["runs"] = {name: run.take(pa.array(order.permutation(len(run)))) for name, run in DATA.runs.items()}
    again = xf.tune(**arguments, engine="local", settings={**FAST, "tune.curve": [10, 20]})
    assert again.metrics.equals(tuned.metrics) and again.choices.equals(tuned.choices)
    assert again.model == tuned.model


def test_without_folds_choices_are_made_on_other_parts_of_the_texts(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = DATA.arguments()
    fold0 = {
        name: run.filter(pc.equal(run["role"], "test")).drop_columns(["role", "fold"])
        for name, run in DATA.runs.items()
    }
    result = xf.tune(**{**arguments, "runs": fold0, "folds": None}, engine="local", settings={**FAST, "tune.parts": 4})
    assert "divided into 4 parts" in result.model["validation"]
    assert result.metrics["fold"].unique().to_pylist() == [0, 1, 2, 3]
    assert not any("train_texts" in str(group) for group in result.model["label_groups"].values())


def test_folds_without_roles_choose_on_the_other_folds() -> None:
    arguments = DATA.arguments()
    runs = {name: run.filter(pc.equal(run["role"], "test")).drop_columns(["role"]) for name, run in DATA.runs.items()}
    folds = DATA.folds.filter(pc.equal(DATA.folds["role"], "test")).drop_columns(["role"])
    strategies = ["tuned+cell", "learned+logistic"]
    result = xf.tune(
        **{**arguments, "runs": runs, "folds": folds}, strategies=strategies, engine="local", settings=FAST
    )
    texts = {row["fold"]: row["validation_texts"] for row in result.choices.to_pylist() if row["label_group"] == "all"}
    assert texts[0] == texts[ANY_FOLD] - len(DATA.test_texts(0))
    with pytest.raises(ConfigError, match=r"learned\+bands reads how many training texts carry a label.*'validation'"):
        xf.tune(
            **{**arguments, "runs": runs, "folds": folds}, strategies=["learned+bands"], engine="local", settings=FAST
        )


def test_an_objective_may_be_summed_over_texts_or_a_mean_over_cutoffs() -> None:
    """What is reported of the choice on test texts is the figure of its cell there."""
    objective = "0.5*recall@5:15:5+0.5*micro-f1@3"
    metrics = ["recall@5", "recall@10", "recall@15", "micro-f1@3"]
    settings = {**FAST, "tune.objective": objective, "tune.strategies": ["tuned+cell"], "evaluate.metrics": metrics}
    tuned = xf.tune(**DATA.arguments(), engine="local", settings=settings)
    figures = {
        (row["fold"], row["label_group"], f"{row['normalization']}+{row['fusion']}", f"{row['metric']}@{row['k']}"): row
        for row in tuned.metrics.to_pylist()
        if row["ideal"] == "all"
    }
    chosen = [row for row in tuned.choices.to_pylist() if row["fold"] != ANY_FOLD]
    assert chosen
    for row in chosen:
        assert row["objective"] == objective
        values = [figures[row["fold"], row["label_group"], "tuned+cell", metric]["value"] for metric in metrics]
        assert row["test_value"] == pytest.approx(np.mean(values[:3]) / 2 + values[3] / 2, abs=1e-12)


def test_label_groups_may_share_one_choice() -> None:
    choices = choices_of(DATA, **{"tune.shared": True, "tune.strategies": ["tuned+cell", "learned+logistic"]})
    assert {choice.name for choice in choices} == {"tail+head+all"}


@pytest.mark.parametrize("strategy", ["tuned+weights", "learned+logistic", "learned+lambdamart", "learned+bands"])
def test_a_model_file_recomputed_by_hand(tmp_path: Path, strategy: str) -> None:
    settings = {**FAST, "tune.strategies": [strategy]}
    tuned = xf.tune(**DATA.arguments(), engine="local", settings=settings)
    path = tuned.save_model(f"{tmp_path}/model.json")
    fused = fused_by(path)
    model = json.loads(Path(path).read_text())
    assert len(fused) > 200
    for row in fused[::17]:
        by_hand = scores_by_hand(model["label_groups"][row["label_group"]], row)
        expected = sorted(by_hand, key=lambda label: (-np.float32(by_hand[label]), label))
        assert row["label_ids"] == expected[: len(row["label_ids"])]
        np.testing.assert_allclose(row["scores"], [by_hand[label] for label in row["label_ids"]], rtol=2e-6, atol=1e-6)


def fused_by(path: str, **settings: object) -> list[dict[str, object]]:
    from jobs.evaluation import fuse

    config = load_config(None, {"fuse.model": path, "fuse.top": 10, "grid.engine": "local", **settings})
    fused = fuse.fused_rows(None, config, _sources_of(config, training=None, **DATA.arguments()))
    return sorted(fused.to_pylist(), key=lambda row: (row["label_group"], row["fold"], row["text_id"]))


def scores_by_hand(group: dict[str, object], row: dict[str, object]) -> dict[int, float]:
    """From the formulas of the documentation, candidate by candidate."""
    lists = {}
    for name, run in DATA.runs.items():
        mine = [
            found
            for found in run.to_pylist()
            if (found["fold"], found["text_id"], found["role"]) == (row["fold"], row["text_id"], "test")
            and row["label_group"] in (found["label_group"], "all")
        ]
        pairs = [pair for found in mine for pair in zip(found["label_ids"], found["scores"], strict=True)]
        lists[name] = sorted(pairs, key=lambda pair: (-pair[1], pair[0]))
    candidates = sorted({label for pairs in lists.values() for label, _ in pairs})
    if "cell" in group:
        named = {name: dict(pairs) for name, pairs in lists.items()}
        normalization, fusion = str(group["cell"]).split("+", 1)
        return dict(reference.fuse(named, normalization, fusion))
    if "bonus" in group:
        return bands_by_hand(group, lists, candidates, row["fold"])
    features = {label: features_by_hand(label, lists, len(candidates), row["fold"]) for label in candidates}
    if "coefficients" in group:
        return {
            label: group["intercept"] + math.fsum(c * of[name] for name, c in group["coefficients"].items())
            for label, of in features.items()
        }
    return {label: math.fsum(leaf(tree, of) for tree in group["trees"]) for label, of in features.items()}


def train_texts_by_hand(label: int, fold: int) -> int:
    trained = [row["text_id"] for row in DATA.folds.to_pylist() if (row["fold"], row["role"]) == (fold, "train")]
    return sum(label in DATA.judgements[text] for text in trained)


def bands_by_hand(group: dict, lists: dict[str, list], candidates: list[int], fold: int) -> dict[int, float]:
    """As docs/tuning.md has it."""
    bonus, plain, raised = group["bonus"], {}, {}
    for label in candidates:
        n = train_texts_by_hand(label, fold)
        ends = [0, 2, 5, 10, 25, 50, 100, math.inf]
        band = next(place for place, end in enumerate(ends) if n <= end)
        u = list(group["levels"].values())[band]
        nearest = math.inf
        for name, pairs in lists.items():
            scores = [score for _, score in pairs]
            place = next((place for place, (found, _) in enumerate(pairs) if found == label), None)
            if place is None:
                continue
            nearest = min(nearest, place)
            zmuv = min((scores[place] - np.mean(scores)) / max(np.std(scores), 1e-9), 8)
            tied = [other for other, score in enumerate(scores) if score == scores[place]]
            features = {
                "listed": 1,
                "zmuv": zmuv,
                "zmuv_above_2": max(zmuv - 2, 0),
                "log_tied_rank": math.log(1 + sum(tied) / len(tied)),
                "share_of_best": scores[place] / max(max(scores), 1e-6),
                "score": scores[place],
            }
            for feature, value in features.items():
                key = f"{name}.{feature}"
                times = group["with_frequency"].get(key, 0) * (math.log(1 + n) / math.log(101) - 1)
                u += (group["coefficients"].get(key, 0) + times) * value
        rare = max(math.log((bonus["below"] + 1.5) / (n + 1.5)), 0) if nearest < 2 * bonus["k"] else 0
        plain[label], raised[label] = u, u + bonus["strength"] * rare
    order = sorted(candidates, key=lambda label: (-np.float32(raised[label]), label))
    first, others = order[: bonus["k"]], order[bonus["k"] :]
    if not others:
        return plain
    shift = max(0, raised[others[0]] - min(plain[label] for label in first) + 2**-10)
    return {label: plain[label] if label in first else raised[label] - shift for label in candidates}


def leaf(tree: dict[str, list], features: dict[str, float]) -> float:
    node = 0 if tree["feature"] else -1
    while node >= 0:
        left = features[tree["feature"][node]] <= tree["threshold"][node]
        node = tree["left" if left else "right"][node]
    return tree["value"][-1 - node]


def features_by_hand(label: int, lists: dict[str, list], candidates: int, fold: int) -> dict[str, float]:
    made: dict[str, float] = {}
    texts = train_texts_by_hand(label, fold)
    held, mnz, total = 0, 0.0, 0.0
    for name, pairs in lists.items():
        scores = np.array([score for _, score in pairs])
        n = len(scores)
        place = next((i for i, (found, _) in enumerate(pairs) if found == label), None)
        of = dict.fromkeys(
            [
                "score",
                "min-max",
                "max",
                "sum",
                "zmuv",
                "rank",
                "borda",
                "reciprocal_rank",
                "log_rank",
                "present",
                "length",
                "best",
                "gap",
            ],
            0.0,
        )
        if n:
            of |= {"length": math.log(1 + n), "best": scores.max(), "borda": 0.5 - (n - 1) / (2 * candidates)}
        if place is not None:
            s = scores[place]
            of |= {
                "score": s,
                "min-max": (s - scores.min()) / max(np.ptp(scores), 1e-9),
                "max": s / max(scores.max(), 1e-9),
                "sum": (s - scores.min()) / max(scores.sum() - n * scores.min(), 1e-9),
                "zmuv": (s - scores.mean()) / max(scores.std(), 1e-9),
                "rank": 1 - place / n,
                "borda": 1 - place / candidates,
                "reciprocal_rank": 1 / (place + 1),
                "log_rank": math.log(place + 1),
                "present": 1.0,
                "gap": scores.max() - s,
            }
            held, mnz, total = held + 1, mnz + of["zmuv"], total + of["min-max"]
        unseen = {f"unseen_{key}": of[key] if not texts else 0.0 for key in ("min-max", "reciprocal_rank")}
        made |= {f"{name}.{key}": float(value) for key, value in {**of, **unseen}.items()}
    made |= {"lists": held, "combmnz": held * mnz, "combsum": total, "candidates": math.log(1 + candidates)}
    return {**made, "train_texts": math.log(1 + texts), "unseen": float(not texts)}


@pytest.mark.parametrize("strategy", [str(cell) for cell in STRATEGIES if cell.normalization == LEARNED])
def test_a_model_is_explained_as_it_fuses(tmp_path: Path, strategy: str) -> None:
    settings = {**FAST, "tune.strategies": [strategy], "fuse.top": 1_000}
    path = xf.tune(**DATA.arguments(), engine="local", settings=settings).save_model(f"{tmp_path}/model.json")
    fused = [row for row in fused_by(path, **{"fuse.top": 1_000}) if row["label_group"] == "all"]
    arguments = {name: value for name, value in DATA.arguments().items() if name != "training"}
    row = fused[5]
    explained = xf.explain(text=row["text_id"], model=path, engine="local", **arguments)
    table = explained.table
    assert table["label_id"].to_pylist() == row["label_ids"] and table["fused"].to_pylist() == row["scores"]
    parts = [table[name].to_numpy() for name in table.column_names if name.endswith("_normalized")]
    if "other" in table.column_names:
        np.testing.assert_allclose(sum(parts) + table["other"].to_numpy(), row["scores"], rtol=1e-4, atol=1e-4)
        assert "other" in explained.text
    elif strategy != "learned+lambdamart":
        assert all((part[~np.isnan(part)] >= 0).all() and (part[~np.isnan(part)] <= 1).all() for part in parts)
    words = " ".join(explained.text.split())
    assert "bm25 part" in words and "part: what a retriever adds" in words


def test_a_model_of_other_retrievers_is_refused(tmp_path: Path, tuned: xf.Tuned) -> None:
    path = tuned.save_model(f"{tmp_path}/model.json")
    described = json.loads(Path(path).read_text())
    described["retrievers"] = ["bm25", "splade"]
    Path(path).write_text(json.dumps(described))
    with pytest.raises(ConfigError, match=r"fuses the lists of bm25, splade; given are bm25, dense"):
        fused_by(path)
    Path(path).write_text("{}")
    with pytest.raises(InputError, match="not a model file"):
        fused_by(path)


Change = Callable[[dict[str, Any]], object]
LINEAR = {"coefficients": {"bm25.score": 1.0}, "intercept": 0.0, "l2": 1.0}
TREE = {"feature": ["bm25.score"], "threshold": [0.5], "left": [-1], "right": [-2], "value": [1.0, 2.0]}


def scored_by(**model: Any) -> Change:
    return lambda file: file.update(label_groups={"all": model})


def with_tree(**values: Any) -> Change:
    return scored_by(size=[2, 1], features=["bm25.score"], trees=[{**TREE, **values}])


def check_model(described: dict[str, Any]) -> None:
    parsed_model(json.dumps(described), "model.json").check(["bm25", "dense"], ["all"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda file: file.update(scope="al"), "scope is 'al'; known: group, joint"),
        (lambda file: file.update(missing_labels="skp"), "missing_labels is 'skp'; known: skip, zero, minimum"),
        (lambda file: file.update(tied_labels="mean"), "tied_labels is 'mean'; known: by_id, mean_rank"),
        (scored_by(**{**LINEAR, "intercept": math.nan}), "NaN or an infinite number"),
        (scored_by(**{**LINEAR, "coefficients": {"bm52.score": 1.0}}), "unknown feature 'bm52.score'"),
        (with_tree(left=[0]), "each node of a tree but the first, and each leaf, must be a child once"),
        (with_tree(left=[-9]), "each node of a tree but the first, and each leaf, must be a child once"),
        (with_tree(right=[]), "the nodes of a tree lack something"),
        (with_tree(value=[1.0, math.inf]), "NaN or an infinite number"),
    ],
)
def test_a_model_file_that_means_nothing_is_refused(tuned: xf.Tuned, change: Change, message: str) -> None:
    """By hand, say: a word that is not known would be taken for another one, and a walk down a tree might not end."""
    described = copy.deepcopy(tuned.model)
    change(described)
    with pytest.raises(InputError) as error:
        check_model(described)
    assert str(error.value).startswith("model.json") and message in str(error.value)
    for good in (scored_by(**LINEAR), with_tree()):
        good(described := copy.deepcopy(tuned.model))
        check_model(described)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"scope":', '"scope": "joint", "scope":', "the key 'scope' occurs 2 times"),
        ('"scope":', f'"more": {"[" * 100_000}, "scope":', "too many lists and objects inside each other"),
    ],
)
def test_a_model_file_says_one_thing(tuned: xf.Tuned, old: str, new: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parsed_model(json.dumps(tuned.model).replace(old, new, 1), "model.json")


def test_a_model_fuses_new_texts_from_python(tmp_path: Path, tuned: xf.Tuned) -> None:
    path = tuned.save_model(f"{tmp_path}/model.json")
    kept = tuned.model["label_groups"]["all"]
    runs = {"bm25": {"new": {1: 7.0, 2: 3.0}}, "dense": {"new": {2: 0.9, 3: 0.1}}}
    if "cell" not in kept:
        with pytest.raises(ConfigError, match=r"set inputs\.training"):
            xf.fuse(runs, model=path)
    ranking = xf.fuse(runs, model=path, training={"a": [1, 2], "b": [2]})
    assert set(ranking["new"]) == {1, 2, 3}


def test_what_is_written_can_be_read(tmp_path: Path, tuned: xf.Tuned) -> None:
    folder = Path(tuned.save(f"{tmp_path}/tuned"))
    assert {"choices.csv", "choices.parquet", "learning_curve.parquet", "model.json"} <= {
        p.name for p in folder.iterdir()
    }
    from jobs.evaluation.result import read_results

    (results,) = read_results([str(folder)])
    assert results.details["choices"].equals(tuned.choices)


def test_wrong_settings_are_told_at_once() -> None:
    with pytest.raises(ConfigError, match=r"tune\.objective"):
        load_config(None, {"tune.objective": "ndcg@10*2"})
    with pytest.raises(ConfigError, match="mean over labels"):
        load_config(None, {"tune.objective": "0.5*ndcg@10+0.5*macro-f1@5"})
    with pytest.raises(ConfigError, match="mean over labels"):
        load_config(None, {"tune.objective": "macro-f1@1:5:2"})
    with pytest.raises(ConfigError, match="no step from 5 ends at 11"):
        load_config(None, {"tune.objective": "recall@5:11:5"})
    with pytest.raises(ConfigError, match="Did you mean"):
        load_config(None, {"tune.strategies": "learned+logistik"})
