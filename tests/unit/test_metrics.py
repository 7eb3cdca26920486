"""Every metric against its plain formula: groups, ideals, grades, ties, propensities and labels."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xmtc_fusion as xf
from fusion.cells import Cell
from fusion.grid.grid import Grid, cross, parse_cells
from fusion.grid.hits import count_listed
from fusion.kernel.texts import pool_views
from fusion.metrics import LARGEST_K, Metric, metric_names, parse_metrics
from fusion.models.models import ChosenCell
from fusion.models.strategies import Strategy
from fusion.registry import METRICS, LabelMetric
from jobs.help import make_parser
from tests import plain_metrics as plain
from tests import reference
from tests.lists import RETRIEVERS, random_relevant, random_texts, to_texts, whole

CELLS = ["zmuv+combmnz", "rank+isr"]
BINARY = ["precision@5", "recall@3", "recall@100", "hit-rate@1", "hit-rate@4", "mrr@2", "mrr", "map@4", "map"]
BINARY += ["r-precision", "f1@3", "bpref", "ndcg@5", f"ndcg@{LARGEST_K}", f"precision@{LARGEST_K}"]
BINARY += ["rp@1", "rp@5", "rp@200", "sample-precision@5", "sample-precision@50", "sample-f1@4", "sample-f1@50"]
MEANS = ["recall@2:20:6", "ndcg@1:10:3", "ndcg@100:200:50", "rp@2:4:1", "map@2:8:2", "sample-f1@5:25:10", "mrr@2:4:2"]
MICRO = ["micro-precision@3", "micro-precision@50", "micro-recall@3", "micro-f1@3", "micro-f1@50", "micro-f1@5:30:5"]
QUIET = {"evaluate.details": False}
Rankings = dict[str, list[dict[int, float]]]


class Sample:
    """Texts with lists of several retrievers, relevant labels and grades; a third of them in fold 1."""

    def __init__(self, seed: int, texts: int = 40, retrievers: int = 2, longest: int = 20) -> None:
        rng = np.random.default_rng(seed)
        self.texts = random_texts(rng, texts, retrievers, longest)
        self.relevant = random_relevant(rng, texts)
        self.grades: list[dict[int, int]] = [
            {label: int(rng.integers(1, 4)) for label in labels}
            | {
                int(label): int(rng.integers(-1, 1))
                for label in range(50)
                if label not in labels and label % 5 == q % 5
            }
            for q, labels in enumerate(self.relevant)
        ]
        self.folds = {q: int(q % 3 == 0) for q in range(texts)}
        self.groups = {label: "tail" if label < 30 else "head" for label in range(50)}

    @property
    def runs(self) -> dict[str, dict[int, dict[int, float]]]:
        return {
            name: {q: whole(text)[name] for q, text in enumerate(self.texts) if whole(text)[name]}
            for name in self.texts[0]
        }

    def evaluate(self, judgements: Any = None, **options: Any) -> xf.Evaluation:
        """With groups, in this process."""
        judged = dict(enumerate(map(sorted, self.relevant))) if judgements is None else judgements
        options = {"label_groups": self.groups, "folds": self.folds, "cells": CELLS, **options}
        settings = {**QUIET, **options.pop("settings", {})}
        return xf.evaluate(judged, self.runs, engine="local", settings=settings, **options)

    def rankings(self, group: str) -> Rankings:
        """The scores of every cell and retriever within a group, text by text."""
        lists = [
            whole(text) if group == "all" else {name: of_name[group] for name, of_name in text.items()}
            for text in self.texts
        ]
        made: Rankings = {f"single+{name}": [text[name] for text in lists] for name in self.texts[0]}
        for cell in CELLS:
            made[cell] = [dict(reference.fuse(text, *cell.split("+"))) for text in lists]
        return made

    def within(self, labels: Any, group: str) -> Any:
        """The labels of a group, of a set or of a dictionary."""
        if isinstance(labels, dict):
            return {label: value for label, value in labels.items() if group in ("all", self.groups[label])}
        return {label for label in labels if group in ("all", self.groups[label])}


@pytest.fixture(scope="module")
def sample() -> Sample:
    return Sample(1)


def figures(evaluation: xf.Evaluation) -> dict[tuple[str, str, str, str, int], float]:
    """By cell, label group, metric, ideal and fold."""
    return {
        (
            f"{row['normalization']}+{row['fusion']}",
            row["label_group"],
            f"{row['metric']}@{row['k']}" if row["k"] else row["metric"],
            row["ideal"],
            row["fold"],
        ): row["value"]
        for row in evaluation.metrics.to_pylist()
    }


@pytest.mark.parametrize("retrievers", [2, 3, 4])
def test_binary_metrics_by_group_ideal_and_fold(retrievers: int) -> None:
    """A mean over cut-offs is the mean of the figures at each of them."""
    sample = Sample(retrievers, retrievers=retrievers)
    values = figures(sample.evaluate(metrics=[*BINARY, *MEANS]))
    seen = set()
    for group in ("tail", "head", "all"):
        counted = [q for q, labels in enumerate(sample.relevant) if sample.within(labels, group)]
        for cell, lists in sample.rankings(group).items():
            for metric in parse_metrics([*BINARY, *MEANS]):
                for ideal in ("all", "group") if group != "all" and METRICS[metric.name].ideal else ("all",):
                    expected = defaultdict(list)
                    for q in counted:
                        inside = sample.within(sample.relevant[q], group)
                        number = len(inside if ideal == "group" else sample.relevant[q])
                        ranking = plain.ranked(lists[q])
                        of_parts = [plain.figure(*part, ranking, inside, number) for part in metric.parts]
                        expected[sample.folds[q]].append(np.mean(of_parts))
                    for fold, of_texts in expected.items():
                        key = (cell, group, str(metric), ideal, fold)
                        assert values[key] == pytest.approx(np.mean(of_texts), abs=1e-11), key
                        seen.add(key)
    # What does not depend on the ideal is there once.
    assert seen == set(values)


@pytest.mark.parametrize("scope", ["group", "joint"])
def test_micro_averages(sample: Sample, scope: str) -> None:
    """Printed is the ratio of sums over texts; the figure of a text is its own ratio."""
    found = sample.evaluate(metrics=MICRO, per_query=True, settings={"grid.scope": scope})
    values = figures(found)
    texts = {
        (f"{row['normalization']}+{row['fusion']}", row["label_group"], row["text_id"]): row
        for row in found.queries.to_pylist()
    }
    for (cell, group, name, ideal, fold), value in values.items():
        if scope == "joint" and group != "all":
            ranked = [
                [label for label in plain.ranked(scores) if sample.groups[label] == group]
                for scores in sample.rankings("all")[cell]
            ]
        else:
            ranked = [plain.ranked(scores) for scores in sample.rankings(group)[cell]]
        (metric,) = parse_metrics(name)
        sums = {part: [0.0, 0.0] for part in metric.parts}
        for q, labels in enumerate(sample.relevant):
            inside = sample.within(labels, group)
            if not inside or sample.folds[q] != fold:
                continue
            number = len(inside if ideal == "group" else labels)
            own = []
            for part in metric.parts:
                hits, most = plain.summed(*part, ranked[q], inside, number)
                sums[part][0] += hits
                sums[part][1] += most
                own.append(hits / most if most else 0)
            of_text = texts[cell, group, q][name + ("" if ideal == "all" else "_group")]
            assert of_text == pytest.approx(np.mean(own), abs=1e-12), (cell, group, name)
        expected = np.mean([hits / most for hits, most in sums.values()])
        assert value == pytest.approx(expected, abs=1e-12), (cell, group, name, ideal)


@pytest.mark.parametrize("largest", [20, 1_000_000])
def test_listed_labels_are_those_that_are_ranked(largest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """For any cell of any subset of the retrievers, chosen by fold or not: as many as get a score."""
    monkeypatch.setattr("fusion.kernel.texts.LARGEST_LABEL", largest)
    rng = np.random.default_rng(6)
    texts = to_texts(random_texts(rng, 30, retrievers=3), random_relevant(rng, 30))
    texts.fold = np.arange(30) % 2
    chosen = parse_cells("bm25+splade: zmuv+combsum")[0], parse_cells("zmuv+isr")[0]
    strategy = Strategy({view: dict(enumerate(map(ChosenCell, chosen))) for view in ("tail", "head", "all")})
    cells = [*cross("everything", "everything"), *chosen, *parse_cells("dense+splade: rank+rrf")]
    grid = Grid(cells, RETRIEVERS[:3], strategies={Cell("tuned", "cell"): strategy})
    for scope, view in product(("group", "joint"), ("tail", "head", "all")):
        listed = count_listed(texts, grid, view, ("tail", "head"), scope)
        scored = np.zeros_like(listed)
        for first, block in texts.blocks():
            for pool_view in chain(*pool_views(block, (view,), ("tail", "head"), scope, keep_all=True)):
                source = np.repeat(pool_view.pools.source + first, np.diff(pool_view.offset))
                for column, scores in grid.fused(pool_view.pools):
                    np.add.at(scored[:, column], source, ~np.isnan(pool_view.take(scores)))
                for r, position in enumerate(pool_view.pools.position):
                    np.add.at(scored[:, len(grid.columns) + r], source, pool_view.take(position) >= 0)
        assert (listed == scored).all() and scored.max() >= 20
        assert view == "all" or not scored.min()


def test_figures_of_texts_are_those_whose_mean_is_printed(sample: Sample) -> None:
    metrics = [*BINARY, *MEANS, "psp@3"]
    training = {"training": {n: [n % 50, n % 7] for n in range(60)}}
    found = sample.evaluate(metrics=metrics, per_query=True, **training)
    rows = found.queries.to_pylist()
    for (cell, group, metric, ideal, fold), value in figures(found).items():
        if metric.startswith("psp"):
            continue
        name = metric if ideal == "all" else f"{metric}_group"
        mine = [
            row[name]
            for row in rows
            if (f"{row['normalization']}+{row['fusion']}", row["label_group"], row["fold"]) == (cell, group, fold)
        ]
        assert value == pytest.approx(np.mean(mine), abs=1e-11)


def test_comparisons_are_over_the_figures_of_texts(sample: Sample) -> None:
    metrics = ["map", "mrr@10", "ndcg@5", "recall@10", "micro-f1@5", "recall@5:15:5", "rp@2:6:2"]
    settings = {"evaluate.details": True, "evaluate.randomizations": 1000}
    found = sample.evaluate(metrics=metrics, per_query=True, settings=settings)
    rows = found.queries.to_pylist()
    compared = [row for row in found.details["comparisons"].to_pylist() if row["ideal"] == "all"]
    names = {"map", "mrr", "ndcg", "recall", "micro-f1", "recall@5:15:5", "rp@2:6:2"}
    assert {row["metric"] for row in compared} == names
    for row in compared:
        name = f"{row['metric']}@{row['k']}" if row["k"] else row["metric"]
        one, other = (
            {
                line["text_id"]: line[name]
                for line in rows
                if (line["normalization"], line["fusion"], line["label_group"]) == (*cell, row["label_group"])
            }
            for cell in (
                (row["normalization"], row["fusion"]),
                (row["against_normalization"], row["against_fusion"]),
            )
        )
        assert row["difference"] == pytest.approx(np.mean([one[q] - other[q] for q in one]), abs=1e-5)


@pytest.mark.parametrize("gain", ["linear", "exponential"])
@pytest.mark.parametrize("threshold", [1, 2])
def test_grades(sample: Sample, gain: str, threshold: int) -> None:
    """nDCG by grades; binary metrics from a grade on; negative grades count 0 and are no judgements to bpref."""
    metrics = ["ndcg@5", "precision@5", "map", "bpref", "recall@7"]
    settings = {"evaluate.gain": gain, "evaluate.relevant_from": threshold}
    values = figures(sample.evaluate(dict(enumerate(sample.grades)), metrics=metrics, settings=settings))
    for group in ("tail", "head", "all"):
        for cell, lists in sample.rankings(group).items():
            expected = defaultdict(list)
            for q, grades in enumerate(sample.grades):
                inside = sample.within(grades, group)
                relevant = {label for label, grade in inside.items() if grade >= threshold}
                if not relevant and group != "all":
                    continue
                every = sum(grade >= threshold for grade in grades.values())
                ranking = plain.ranked(lists[q])
                bad = {label for label, grade in inside.items() if 0 <= grade < threshold}
                for ideal, number in (("all", every), ("group", len(relevant))):
                    gains = {
                        label: max(grade, 0) if gain == "linear" else 2 ** max(grade, 0) - 1
                        for label, grade in grades.items()
                    }
                    best = gains if ideal == "all" else sample.within(gains, group)
                    total, most = plain.gained(5, ranking, gains, best, plain.logarithmic)
                    expected["ndcg@5", ideal, sample.folds[q]].append(total / most if most else 0)
                    for metric in parse_metrics(metrics[1:]):
                        figure = plain.figure(*metric, ranking, relevant, number, bad)
                        expected[str(metric), ideal, sample.folds[q]].append(figure)
            for (metric, ideal, fold), of_texts in expected.items():
                if (cell, group, metric, ideal, fold) in values:
                    value = values[cell, group, metric, ideal, fold]
                    assert value == pytest.approx(np.mean(of_texts), abs=1e-11), (cell, group, metric, ideal)
    assert len(values) == 4 * 2 * (3 * 5 + 2 * 4)


def test_grades_of_0_and_1_give_the_bytes_of_lists(sample: Sample) -> None:
    graded = {q: {label: int(grade > 0) for label, grade in grades.items()} for q, grades in enumerate(sample.grades)}
    listed = {q: [label for label, grade in grades.items() if grade > 0] for q, grades in enumerate(sample.grades)}
    assert sample.evaluate(graded, metrics=["ndcg@5", "map"]).metrics.equals(
        sample.evaluate(listed, metrics=["ndcg@5", "map"]).metrics
    )


def test_the_expected_value_over_tied_orders() -> None:
    """Against the mean over all orders, counted out one by one; four candidates in six share their score."""
    rng = np.random.default_rng(3)
    labels = range(6)
    runs = {
        name: {q: {label: float(rng.integers(0, 3)) for label in labels if rng.random() < 0.9} for q in range(12)}
        for name in ("a", "b")
    }
    grades = {q: {label: int(rng.integers(0, 4)) for label in labels if rng.random() < 0.8} for q in range(12)}
    metrics = ["precision@2", "ndcg@3", "recall@3", "hit-rate@2", "mrr@3", "mrr", "map", "map@3", "r-precision"]
    metrics += ["f1@2", "bpref", "rp@2", "rp@6", "sample-precision@3", "sample-f1@3", "rp@1:5:2"]
    found = xf.evaluate(
        grades,
        runs,
        metrics=metrics,
        cells=["min-max+combmax"],
        settings={**QUIET, "evaluate.ties": "expected", "evaluate.relevant_from": 2},
    )
    for row in found.metrics.to_pylist():
        if row["normalization"] == "single":
            lists = [runs[row["fusion"]][q] for q in grades]
        else:
            lists = [
                dict(reference.fuse({name: run[q] for name, run in runs.items()}, "min-max", "combmax")) for q in grades
            ]
        expected = []
        for scores, judged in zip(lists, grades.values(), strict=True):
            relevant = {label for label, grade in judged.items() if grade >= 2}
            bad = set(judged) - relevant
            orders = []
            for order in plain.tied_orders(scores):
                if row["metric"] == "ndcg":
                    total, most = plain.gained(row["k"], order, judged, judged, plain.logarithmic)
                    orders.append(total / most if most else 0)
                else:
                    parts = Metric(row["metric"], row["k"]).parts
                    orders.append(np.mean([plain.figure(*part, order, relevant, len(relevant), bad) for part in parts]))
            expected.append(np.mean(orders))
        assert row["value"] == pytest.approx(np.mean(expected), abs=1e-11), row


def test_propensity_scored_metrics(sample: Sample) -> None:
    """Printed is the ratio of sums; the figure of a text is its own ratio."""
    rng = np.random.default_rng(5)
    training = {n: rng.choice(45, rng.integers(1, 5), replace=False).tolist() for n in range(200)}
    frequency = defaultdict(int, {x: sum(x in labels for labels in training.values()) for x in range(50)})
    metrics = ["psp@1", "psp@3", "psndcg@5"]
    found = sample.evaluate(
        metrics=metrics, training=training, per_query=True, settings={"evaluate.propensity": "amazon"}
    )
    inverse = {x: plain.inverse_propensity(frequency[x], 200, 0.6, 2.6) for x in range(50)}
    values, texts = figures(found), {}
    for row in found.queries.to_pylist():
        texts[f"{row['normalization']}+{row['fusion']}", row["label_group"], row["text_id"]] = row
    for group in ("tail", "head", "all"):
        for cell, lists in sample.rankings(group).items():
            for metric in parse_metrics(metrics):
                for ideal in ("all", "group") if group != "all" else ("all",):
                    sums = {0: [0.0, 0.0], 1: [0.0, 0.0]}
                    for q, labels in enumerate(sample.relevant):
                        inside = sample.within(labels, group)
                        if not inside:
                            continue
                        gains = {label: inverse[label] for label in inside}
                        best = {label: inverse[label] for label in (inside if ideal == "group" else labels)}
                        discount = plain.logarithmic if metric.name == "psndcg" else (lambda place: 1.0)
                        total, most = plain.gained(metric.k, plain.ranked(lists[q]), gains, best, discount)
                        sums[sample.folds[q]][0] += total
                        sums[sample.folds[q]][1] += most
                        name = str(metric) + ("" if ideal == "all" else "_group")
                        assert texts[cell, group, q][name] == pytest.approx(total / most, abs=1e-11)
                    for fold, (total, most) in sums.items():
                        assert values[cell, group, str(metric), ideal, fold] == pytest.approx(total / most, abs=1e-9)


def test_propensities_come_from_the_training_texts_of_the_fold(sample: Sample) -> None:
    """A table of folds with roles says which texts these are; a table of labels with a column `fold` says the same."""
    import pyarrow as pa

    rows = [
        (fold, q, "test" if q % 3 == fold else "train")
        for fold in range(2)
        for q in range(len(sample.texts))
        if q % 3 in (fold, 2)
    ]
    folds = pa.table(dict(zip(("fold", "text_id", "role"), zip(*rows, strict=True), strict=True)))
    training = pa.table(
        {
            "fold": [fold for fold, _, role in rows if role == "train"],
            "text_id": [q for _, q, role in rows if role == "train"],
            "label_ids": [sorted(sample.relevant[q]) for _, q, role in rows if role == "train"],
        }
    )
    judged = {q: sorted(labels) for q, labels in enumerate(sample.relevant)}
    by_role = sample.evaluate(judged, metrics=["psp@3"], folds=folds)
    assert by_role.metrics.equals(sample.evaluate(judged, metrics=["psp@3"], folds=folds, training=training).metrics)
    same_for_all = sample.evaluate(judged, metrics=["psp@3"], folds=folds, training=judged)
    assert not by_role.metrics.equals(same_for_all.metrics)


def test_propensities_need_training_texts(sample: Sample) -> None:
    with pytest.raises(xf.ConfigError, match=r"psp weighs labels by how many training texts.*inputs\.training"):
        sample.evaluate(metrics=["psp@3"])
    with pytest.raises(xf.InputError, match="2 training texts"):
        sample.evaluate(metrics=["psp@3"], training={1: [1], 2: [2]})


@pytest.mark.parametrize("cells", ["auto", pytest.param(["rank+isr", "zmuv+combmnz"], marks=pytest.mark.drill)])
def test_metrics_of_labels(sample: Sample, cells: Any) -> None:
    names = [entry.name for entry in METRICS if isinstance(entry, LabelMetric)]
    metrics = [f"{name}@{k}" for name in names for k in (1, 5)]
    means = {f"{name}@1:5:4": metrics[2 * n : 2 * n + 2] for n, name in enumerate(names)}
    found = sample.evaluate(metrics=["ndcg@5", *metrics, *means], settings={"evaluate.label_cells": cells})
    every = figures(found)
    values = {key: value for key, value in every.items() if key[2] in metrics}
    chosen = ["zmuv+combmnz"] if cells == "auto" else cells
    assert {cell for cell, *_ in values} == {*chosen, *(f"single+{name}" for name in RETRIEVERS[:2])}
    for (cell, group, metric, _, fold), value in values.items():
        name, k = metric.split("@")
        carried, listed, hits = (defaultdict(int) for _ in range(3))
        for q, labels in enumerate(sample.relevant):
            inside = sample.within(labels, group)
            if sample.folds[q] != fold or not inside:
                continue
            for label in inside:
                carried[label] += 1
            for label in plain.ranked(sample.rankings(group)[cell][q])[: int(k)]:
                listed[label] += 1
                hits[label] += label in inside
        of_label = {
            "coverage": [hits[x] > 0 for x in carried],
            "macro-precision": [hits[x] / listed[x] if listed[x] else 0 for x in carried],
            "macro-recall": [hits[x] / carried[x] for x in carried],
            "macro-f1": [2 * hits[x] / (listed[x] + carried[x]) for x in carried],
        }[name]
        assert value == pytest.approx(np.mean(of_label), abs=1e-12), (cell, group, metric, fold)
    for (cell, group, metric, ideal, fold), value in every.items():
        if metric in means:
            parts = [values[cell, group, part, ideal, fold] for part in means[metric]]
            assert value == pytest.approx(np.mean(parts), abs=1e-12)


def test_too_many_cells_for_labels_are_refused(sample: Sample) -> None:
    with pytest.raises(xf.ConfigError, match="unknown cell in evaluate\\.label_cells 'zmuv'"):
        sample.evaluate(metrics=["coverage@5"], settings={"evaluate.label_cells": "zmuv"})
    many = [f"{norm}+combsum" for norm in ("min-max", "max", "sum", "zmuv", "rank", "borda")]
    many += [f"{norm}+combmnz" for norm in ("min-max", "max", "sum")]
    with pytest.raises(xf.ConfigError, match="9 cells"):
        sample.evaluate(metrics=["coverage@5"], cells=many, settings={"evaluate.label_cells": many})


def test_grades_that_are_no_numbers_are_refused(sample: Sample) -> None:
    judged = dict(enumerate(sample.grades))
    for grade, message in [(float("nan"), "NaN, infinite or null grade"), ("high", "grades must be numbers")]:
        with pytest.raises(xf.InputError, match=message):
            sample.evaluate({**judged, 3: {5: grade}}, metrics=["ndcg@5"])


def test_names_that_people_type() -> None:
    typed = "MAP, mrr@10,Recall@100,hit_rate@5,P@5,R-Prec,recip_rank,success@1,F1@3,ap@7,Micro_P@5,sample-recall@5"
    assert [str(metric) for metric in parse_metrics(typed)] == [
        *("map", "mrr@10", "recall@100", "hit-rate@5", "precision@5", "r-precision", "mrr", "hit-rate@1", "f1@3"),
        *("map@7", "micro-precision@5", "recall@5"),
    ]
    assert parse_metrics("R@5:50:5, Micro_F@1:3:1") == [("recall@5:50:5", 0), ("micro-f1@1:3:1", 0)]
    assert set(metric_names().values()) == set(METRICS.names())
    for word, message in {
        "hitrate@5": "Did you mean 'hit-rate'",
        "map@0": "or none at all, as in 'map'",
        "bpref@5": "has no cut-off: it is written 'bpref'",
        f"recall@{LARGEST_K + 1}": "from 1 to 1,000",
        "recall": "from 1 to 1,000",
        "recall@5:50": "is written FIRST:LAST:STEP, as in 'recall@5:50:5'",
        "recall@5:x:5": "is written FIRST:LAST:STEP",
        "recall@5:5:5": "from 1 to 1,000 and ascending",
        "recall@0:10:5": "from 1 to 1,000 and ascending",
        "recall@5:50:0": "from 1 to 1,000 and ascending",
        "recall@5:52:5": "no step from 5 ends at 52, the last one before is at 50",
        "recall@1:1000:1": "at most 100 cut-offs",
        "bpref@5:50:5": "has no cut-off",
    }.items():
        with pytest.raises(xf.ConfigError, match=message):
            parse_metrics(word)


def test_every_metric_says_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        make_parser().parse_args(["evaluate", "--help"])
    words = capsys.readouterr().out.replace(",", " ").split()
    for entry in METRICS:
        assert entry.formula and entry.citation
        assert entry.name in words


def test_what_contradicts_a_preset_is_refused() -> None:
    for settings, message in [
        ({"evaluate.compat": "ranx", "evaluate.ties": "expected"}, "leave ties at auto"),
        ({"evaluate.propensity": [0.5, 0]}, "must be above 0"),
        ({"evaluate.relevant_from": 0}, "greater than 0"),
    ]:
        with pytest.raises(xf.ConfigError, match=message):
            xf.load_config(None, settings)


def test_the_report_takes_every_metric(sample: Sample, tmp_path: Path) -> None:
    """Also those that only some cells have, that have no cut-off, and no figure per text."""
    metrics = [f"{entry.name}@5" if entry.cutoff == "needed" else entry.name for entry in METRICS]
    metrics += ["recall@2:8:2", "macro-f1@1:5:2"]
    settings = {"evaluate.details": True, "evaluate.randomizations": 100}
    training = {n: [n % 50, n % 7] for n in range(60)}
    found = sample.evaluate(metrics=metrics, training=training, settings=settings)
    page = Path(found.report(str(tmp_path / "report"))).read_text()
    assert "PSnDCG" in page and "coverage" in page
    report = (tmp_path / "report" / "report.md").read_text()
    for name in ("MAP", "MRR", "bpref", "macro F1", "R-precision", "RP", "micro P", "sample F1", "R@2:8:2"):
        assert name in report
    assert "MAP@0" not in report and "map@0" not in page
    assert "MAP" in found.table() or "map" in found.table()
    assert found.best("map").cell in {tuple(cell.split("+")) for cell in CELLS}
    assert "<td>" in found._repr_html_()


def test_metrics_of_labels_alone_have_a_report_too(sample: Sample, tmp_path: Path) -> None:
    settings = {"evaluate.details": True, "evaluate.randomizations": 100}
    found = sample.evaluate(metrics=["coverage@5"], settings=settings)
    assert Path(found.report(str(tmp_path / "report"))).exists()
    assert found.best("coverage@5").cell == ("zmuv", "combmnz")
    assert not len(found.details["comparisons"])
