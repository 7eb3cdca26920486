"""The inputs of an evaluation in every form that they come in: the same figures."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import xmtc_fusion as xf
from jobs.engines.local import LocalEngine
from jobs.inputs.labels import label_texts_of
from jobs.inputs.sources import Sources
from jobs.inputs.tables import InputTables
from tests.lists import Text, random_relevant, random_texts
from udfs import splits

TEXTS, TAIL = 40, 30
GROUPS = {label: "tail" if label < TAIL else "head" for label in range(TAIL + 20)}
SETTINGS: dict[str, Any] = {"cells": ["zmuv+combmnz", "min-max+combsum"], "metrics": "ndcg@5,precision@1"}


@pytest.fixture(scope="module")
def texts() -> list[Text]:
    return random_texts(np.random.default_rng(5), TEXTS)


@pytest.fixture(scope="module")
def judgements() -> dict[int, list[int]]:
    return {q: sorted(labels) for q, labels in enumerate(random_relevant(np.random.default_rng(5), TEXTS))}


def by_group(texts: list[Text], name: str) -> pa.Table:
    rows = [
        {"text_id": q, "label_group": group, "label_ids": list(scores), "scores": list(scores.values())}
        for q, text in enumerate(texts)
        for group, scores in text[name].items()
    ]
    return pa.Table.from_pylist(rows)


def of_all_labels(texts: list[Text], name: str) -> pa.Table:
    joined = [{label: score for scores in text[name].values() for label, score in scores.items()} for text in texts]
    rows = [
        {"text_id": q, "label_ids": list(scores), "scores": list(scores.values())} for q, scores in enumerate(joined)
    ]
    return pa.Table.from_pylist(rows)


def one_by_one(texts: list[Text], name: str) -> pa.Table:
    rows = [
        {"text_id": q, "label_id": label, "score": score}
        for q, text in enumerate(texts)
        for scores in text[name].values()
        for label, score in scores.items()
    ]
    return pa.Table.from_pylist([rows[n] for n in np.random.default_rng(1).permutation(len(rows))])


FORMS = [by_group, of_all_labels, one_by_one]


def test_lists_in_every_form(texts: list[Text], judgements: dict[int, list[int]]) -> None:
    """Each retriever may have a form of its own."""
    metrics = []
    for forms in product(FORMS, FORMS):
        runs = {name: form(texts, name) for name, form in zip(texts[0], forms, strict=True)}
        metrics.append(xf.evaluate(judgements, runs, label_groups=GROUPS, **SETTINGS).metrics)
    assert all(table.equals(metrics[0]) for table in metrics)
    assert set(metrics[0]["label_group"].to_pylist()) == {"tail", "head", "all"}


def test_ids_are_strings_or_whole_numbers(texts: list[Text], judgements: dict[int, list[int]]) -> None:
    runs = {name: of_all_labels(texts, name) for name in texts[0]}
    folds = {text: text % 2 for text in judgements}
    as_strings = {str(text): list(map(str, labels)) for text, labels in judgements.items()}
    metrics = [
        xf.evaluate(given, runs, label_groups=groups, folds=of_folds, **SETTINGS).metrics.to_pylist()
        for given in (judgements, as_strings)
        for groups in (GROUPS, {str(label): group for label, group in GROUPS.items()})
        for of_folds in (folds, {str(text): fold for text, fold in folds.items()})
    ]
    assert all(rows == metrics[0] for rows in metrics)


def test_files_in_many_splits(
    texts: list[Text], judgements: dict[int, list[int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text whose lines are in two splits has one list."""
    runs = {}
    for name in texts[0]:
        rows = one_by_one(texts, name).sort_by("text_id").to_pylist()
        lines = [f"{row['text_id']} Q0 {row['label_id']} 1 {row['score']!r} tag\n" for row in rows]
        (tmp_path / f"{name}.trec").write_text("".join(lines))
        runs[name] = str(tmp_path / f"{name}.trec")
    lines = [f"{text} 0 {label} 1\n" for text, labels in judgements.items() for label in labels]
    (tmp_path / "qrels.txt").write_text("".join(lines))
    whole = xf.evaluate(str(tmp_path / "qrels.txt"), runs, **SETTINGS)
    monkeypatch.setattr(splits, "SMALLEST", 100)
    divided = xf.evaluate(str(tmp_path / "qrels.txt"), runs, **SETTINGS)
    assert len(splits.line_splits(splits.files_of([str(tmp_path / "qrels.txt")]), 2)) > 5
    assert divided.metrics == whole.metrics and divided.input_counts == whole.input_counts
    tables = {name: of_all_labels(texts, name) for name in texts[0]}
    assert [row["value"] for row in xf.evaluate(judgements, tables, **SETTINGS).metrics.to_pylist()] == [
        row["value"] for row in whole.metrics.to_pylist()
    ]


def test_labels_are_counted_by_fold_and_role(judgements: dict[int, list[int]]) -> None:
    """As a look at every text counts them, whether a text has its judgements in one row or in several."""
    roles = [(fold, text, "test" if text % 2 == fold else "train") for fold in (0, 1) for text in judgements]
    folds = pa.table(dict(zip(("fold", "text_id", "role"), zip(*roles, strict=True), strict=True)))
    pairs = [(text, label, 1 + label % 3) for text, labels in judgements.items() for label in labels]
    grades = pa.table(dict(zip(("text_id", "label_id", "grade"), zip(*pairs, strict=True), strict=True)))
    tables = InputTables(LocalEngine(), Sources({}, grades, folds=folds))
    given = tables.judgements
    assert given is not None
    counted = label_texts_of(tables, given, 2, ("test", "train"))
    for fold, role in [(None, None), *product((0, 1), ("test", "train"))]:
        inside = [text for text in judgements if role is None or (text % 2 == fold) == (role == "test")]
        expected = {label: sum(label in judgements[text] for text in inside) for label in GROUPS if 1 + label % 3 >= 2}
        found = {row["label_id"]: row["texts"] for row in counted.of(fold, role).to_pylist()}
        assert found.pop(None) == len(inside)
        assert found == {label: texts for label, texts in expected.items() if texts}


def test_a_text_twice_in_a_fold_is_refused(texts: list[Text], judgements: dict[int, list[int]]) -> None:
    runs = {name: of_all_labels(texts, name) for name in texts[0]}
    folds = pa.table({"text_id": [*judgements, 3], "fold": [0] * (TEXTS + 1)})
    with pytest.raises(xf.InputError, match=r"folds: .*a test text of a fold more than once(.|\n)*text_id 3, fold 0"):
        xf.evaluate(judgements, runs, folds=folds, **SETTINGS)
