"""Malformed tables by the thousand on their way to the kernel: a plain checker and the reference say what comes out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fusion.cells import SINGLE, Cell
from fusion.labels import ALL
from fusion.metrics import Metric
from tests import reference
from udfs.counter import HITS, count_hits, unpacked
from udfs.lists import JUDGEMENT, LabelGroups, Layout
from udfs.plan import EvaluationPlan
from udfs.problems import Problems
from udfs.steps import whole_keys
from udfs.texts import read_texts

TAIL, HEAD = range(6), range(6, 10)
RETRIEVERS, SLOTS = ("a", "b"), ("tail", "head")
CELLS = (Cell("zmuv", "combmnz"), Cell("borda", "combsum"), Cell("rank", "isr"))
MEASURE = Metric("ndcg", 3)
GROUPS = LabelGroups(SLOTS, pa.array(range(10), pa.int32()), np.array([0] * 6 + [1] * 4, np.int8), source="labels")
EVALUATION = EvaluationPlan(Layout(RETRIEVERS, SLOTS, GROUPS), CELLS, SLOTS, "group", (MEASURE,))
SCHEMA = pa.schema(
    [
        ("text_id", pa.int64()),
        ("fold", pa.int32()),
        ("list", pa.int32()),
        ("label_ids", pa.list_(pa.int32())),
        ("scores", pa.list_(pa.float32())),
    ]
)
Row = dict[str, Any]


def good_list(labels: range) -> st.SearchStrategy[dict[int, float]]:
    scores = st.sampled_from([-1.5, 0.0, 0.25, 0.5, 2.0, 7.0])
    return st.dictionaries(st.sampled_from(labels), scores, min_size=1, max_size=4)


@st.composite
def good_rows(draw: st.DrawFn) -> list[Row]:
    rows = []
    for text in range(draw(st.integers(1, 4))):
        for code in range(len(RETRIEVERS) * len(SLOTS)):
            if draw(st.integers(0, 4)):
                scores = draw(good_list(HEAD if code % 2 else TAIL))
                rows.append(_row(text, code, list(scores), list(scores.values())))
        if draw(st.integers(0, 5)):
            labels = draw(st.lists(st.integers(0, 9), unique=True, max_size=5))
            rows.append(_row(text, JUDGEMENT, labels, [0.0] * len(labels)))
    return draw(st.permutations(rows))


def _row(text: int | None, code: int, labels: list[int] | None, scores: list[float] | None) -> Row:
    return {"text_id": text, "fold": 0, "list": code, "label_ids": labels, "scores": scores}


@st.composite
def rows(draw: st.DrawFn) -> list[Row]:
    """Good rows, of which some were spoilt."""
    found = draw(good_rows())
    for _ in range(draw(st.integers(0, 2)) if found else 0):
        place = draw(st.integers(0, len(found) - 1))
        row = dict(found[place])
        labels, scores = list(row["label_ids"] or []), list(row["scores"] or [])
        spoil = draw(
            st.sampled_from(["score", "label", "no list", "no scores", "ragged", "twice", "stray", "row", "id"])
        )
        if spoil == "score" and scores:
            scores[draw(st.integers(0, len(scores) - 1))] = draw(st.sampled_from([math.nan, math.inf, -math.inf, None]))
        elif spoil == "label" and labels:
            labels[draw(st.integers(0, len(labels) - 1))] = draw(st.sampled_from([None, 10, 99, -1]))
        elif spoil == "twice" and labels:
            labels, scores = [*labels, labels[0]], [*scores, draw(st.sampled_from([0.0, 9.0]))]
        elif spoil == "stray":
            labels, scores = [*labels, draw(st.integers(0, 9))], [*scores, -9.0]
        elif spoil == "ragged":
            scores = [*scores, 1.0]
        if row["list"] == JUDGEMENT and spoil not in ("score", "ragged"):
            scores = [0.0] * len(labels)  # which is what they come with, whatever the labels are
        row["label_ids"], row["scores"] = labels, scores
        if spoil == "no list":
            row["label_ids"] = None
        elif spoil == "no scores":
            row["scores"] = None
        elif spoil == "id":
            row["text_id"] = None
        if spoil == "row":
            found.append(row)
        else:
            found[place] = row
    return found


def is_bad(found: list[Row]) -> bool:
    """Whether some row cannot be used, by the rules as the README has them."""
    seen = set()
    for row in found:
        labels, scores, code = row["label_ids"], row["scores"], row["list"]
        if row["text_id"] is None or labels is None or scores is None or len(labels) != len(scores):
            return True
        if any(score is None or not math.isfinite(score) for score in scores):
            return True
        if any(label is None or label not in range(10) for label in labels) or len(set(labels)) < len(labels):
            return True
        if code != JUDGEMENT and any((label in HEAD) != bool(code % 2) for label in labels):
            return True
        if (row["text_id"], code) in seen:
            return True
        seen.add((row["text_id"], code))
    return False


def evaluated(found: list[Row], cut: int) -> tuple[Problems, dict[tuple[Cell, str, str], tuple[float | None, int]]]:
    """The rows as the engine sends them: sorted by text, in batches of `cut` rows."""
    ordered = sorted(found, key=lambda row: (row["text_id"] is not None, row["text_id"] or 0))
    table = pa.Table.from_pylist(ordered, SCHEMA)
    problems = Problems()

    def batches() -> Iterator[Any]:
        for part in whole_keys(iter(table.to_batches(max_chunksize=cut)), ["text_id"]):
            batch = read_texts(part, EVALUATION.layout, problems)
            if batch is not None:
                yield batch

    out = pa.Table.from_batches(list(count_hits(EVALUATION)(batches(), problems)) or [])
    told = Problems.from_json(text for text in out["problems"].to_pylist() if text)
    tally = EVALUATION.new_tally()
    for part, (places, counts) in zip(out["part"].to_pylist(), unpacked(out), strict=True):
        assert part == HITS
        tally.unpack(places, counts)
    cells = {column: cell for cell, column in EVALUATION.columns.items()}
    figures = {
        (cells[column], figures.label_group, figures.ideal): (value, figures.queries)
        for figures in tally.figures([MEASURE])
        for column, value in enumerate(figures.values)
    }
    return told, figures


def expected(found: list[Row]) -> dict[tuple[Cell, str, str], tuple[float | None, int]]:
    """Every figure by the formulas."""
    lists = {(row["text_id"], row["list"]): dict(zip(row["label_ids"], row["scores"], strict=True)) for row in found}
    values: dict[tuple[Cell, str, str], list[float]] = {}
    for row in found:
        if row["list"] != JUDGEMENT:
            continue
        relevant = set(row["label_ids"])
        for s, group in enumerate(SLOTS):
            inside = {label for label in relevant if (label in HEAD) == (group == "head")}
            if not inside:
                continue
            mine = {name: lists.get((row["text_id"], r * 2 + s), {}) for r, name in enumerate(RETRIEVERS)}
            rankings = {cell: [label for label, _ in reference.fuse(mine, *cell)] for cell in CELLS}
            rankings |= {Cell(SINGLE, name): reference.ordered(mine[name]) for name in RETRIEVERS}
            for cell, ranking in rankings.items():
                for ideal, number in (("all", len(relevant)), ("group", len(inside))):
                    value = reference.evaluate(ranking, relevant, MEASURE.name, MEASURE.k, number)
                    values.setdefault((cell, group, ideal), []).append(value)
    return {key: (float(np.mean(of)), len(of)) for key, of in values.items()}


@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(rows(), st.integers(1, 7))
def test_bad_rows_are_found_and_good_ones_give_the_right_figures(found: list[Row], cut: int) -> None:
    if not found:
        return
    problems, figures = evaluated(found, cut)
    assert bool(problems) == is_bad(found)
    if problems:
        message = str(problems.error())
        assert "column" in message
        assert any(name in message for name in ("text_id", "label_ids", "scores", "label_group"))
        return
    told = {key: value for key, value in figures.items() if value[1]}
    want = expected(found)
    assert set(told) == set(want)
    for key, (value, queries) in want.items():
        assert told[key] == (pytest.approx(value, abs=1e-9), queries), key


def test_the_checker_sees_both_kinds() -> None:
    """Else the test above could pass on good rows alone, or on bad ones."""
    kinds = []

    @settings(max_examples=200, derandomize=True, deadline=None, database=None)
    @given(rows())
    def look(found: list[Row]) -> None:
        kinds.append(is_bad(found))

    look()
    assert 40 < sum(kinds) < 160
    assert ALL not in EVALUATION.views
