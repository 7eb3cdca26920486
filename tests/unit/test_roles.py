"""Rows of validation texts beside those of test texts: only the latter are fused and evaluated, in whatever form runs
come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xmtc_fusion as xf
from jobs.engines.local import LocalEngine
from jobs.inputs.lists import load_lists
from jobs.inputs.sources import Sources
from jobs.inputs.tables import InputTables
from jobs.nights.checks import count_inputs
from jobs.settings.config import load_config
from jobs.settings.nightly import LISTS
from udfs.texts import read_rows

TEXTS, LABELS = 12, 9
NAMES = ("one", "two")
TEST = [f"t{n}" for n in range(0, TEXTS, 2)]
VALIDATION = [f"t{n}" for n in range(1, TEXTS, 2)]
RNG = np.random.default_rng(8)
SCORES: dict[str, dict[str, dict[str, float]]] = {
    name: {
        f"t{n}": {f"l{label}": float(RNG.integers(1, 100)) for label in RNG.permutation(LABELS)[:5]}
        for n in range(TEXTS)
    }
    for name in NAMES
}
JUDGEMENTS = {f"t{n}": [f"l{n % LABELS}", f"l{(n + 3) % LABELS}"] for n in range(TEXTS)}
CELL = "zmuv+combmnz"


def role_of(text: str) -> str:
    return "test" if text in TEST else "validation"


def table(name: str, texts: list[str], told: bool = True, **columns: Any) -> pa.Table:
    rows = {
        "text_id": texts,
        "label_ids": [list(SCORES[name][text]) for text in texts],
        "scores": [list(SCORES[name][text].values()) for text in texts],
        **({"role": [role_of(text) for text in texts]} if told else {}),
        **columns,
    }
    return pa.table(rows)


def both() -> dict[str, pa.Table]:
    return {name: table(name, [*TEST, *VALIDATION]) for name in NAMES}


def figures(runs: Any, judgements: Any = JUDGEMENTS, **settings: Any) -> list[dict[str, Any]]:
    result = xf.evaluate(judgements, runs, cells=[CELL], metrics="ndcg@5,precision@1", **settings)
    assert result.input_counts["unjudged_texts"] == 0
    return result.metrics.to_pylist()


@pytest.fixture(scope="module")
def expected() -> list[dict[str, Any]]:
    """The figures of the test texts alone."""
    only = {name: {text: SCORES[name][text] for text in TEST} for name in NAMES}
    return figures(only, {text: JUDGEMENTS[text] for text in TEST})


def test_a_column_tells_the_roles(expected, tmp_path: Path) -> None:
    runs = both()
    assert figures(runs) == expected
    assert figures({name: run.to_pandas() for name, run in runs.items()}) == expected
    for name, run in runs.items():
        pq.write_to_dataset(run, tmp_path / name, partition_cols=["role"])
    assert figures({name: str(tmp_path / name) for name in NAMES}) == expected
    together = pa.concat_tables(
        [run.append_column("retriever", pa.array([name] * TEXTS)) for name, run in runs.items()]
    )
    assert figures(together) == expected


def test_rows_without_a_role_are_those_of_test_texts(expected) -> None:
    runs = both()
    for name, run in runs.items():
        roles = [None if role == "test" else role for role in run["role"].to_pylist()]
        runs[name] = run.set_column(run.schema.get_field_index("role"), "role", pa.array(roles))
    assert figures(runs) == expected


def test_one_run_tells_for_the_others(expected) -> None:
    assert figures({"one": both()["one"], "two": SCORES["two"]}) == expected


def test_the_folds_tell_where_runs_do_not(expected) -> None:
    texts = [*TEST, *VALIDATION]
    folds = pa.table({"text_id": texts, "fold": [0] * TEXTS, "role": [role_of(text) for text in texts]})
    assert figures(SCORES, folds=folds) == expected
    assert figures(both(), folds=folds) == expected


def test_a_judged_text_without_any_row_counts() -> None:
    """It is a test text, unlike one of which there are only rows as a validation text."""
    runs = {name: run.filter(pa.compute.not_equal(run["text_id"], "t0")) for name, run in both().items()}
    counts = xf.evaluate(JUDGEMENTS, runs, cells=[CELL]).input_counts
    assert counts["judged_texts"] == len(TEST)
    assert counts["judged_texts_without_candidates"] == 1


def test_fused_lists_are_those_of_test_texts() -> None:
    fused = xf.fuse(both(), CELL)
    assert sorted(set(fused["text_id"].to_pylist())) == sorted(TEST)


def test_trained_fusions_learn_from_the_validation_rows() -> None:
    """The same scores as with folds that name these texts, and no others."""
    folds = pa.table({"text_id": list(JUDGEMENTS), "fold": [0] * TEXTS, "role": [role_of(text) for text in JUDGEMENTS]})
    told, by_folds = (
        xf.explain(runs, "t0", "posfuse", JUDGEMENTS, folds=known).table
        for runs, known in ((both(), None), (SCORES, folds))
    )
    assert told == by_folds
    others = {text: JUDGEMENTS[text] if text in TEST else ["l0"] for text in JUDGEMENTS}
    assert xf.explain(both(), "t0", "posfuse", others).table["fused"] != told["fused"]


def test_folds_have_validation_rows_of_their_own() -> None:
    """A text is validated in one fold and tested in another, by lists of its own in each."""
    rows = []
    for fold in (0, 1):
        for number, text in enumerate(JUDGEMENTS):
            role = "test" if number % 2 == fold else "validation"
            scores = [score + fold for score in SCORES["one"][text].values()]
            rows.append(
                {"fold": fold, "text_id": text, "role": role, "label_ids": list(SCORES["one"][text]), "scores": scores}
            )
    run = pa.Table.from_pylist(rows)
    folds = run.select(["fold", "text_id", "role"])
    sources = Sources({"one": run, "two": run}, judgement_table(), folds=folds)
    for role, remainder in (("test", 0), ("validation", 1)):
        read = load_lists(InputTables(LocalEngine(), sources), judged=True, role=role)
        lists = read_rows(read.collect(), read.layout).to_pylist()
        assert {(row["fold"], row["text_id"]) for row in lists} == {
            (fold, f"t{n}") for fold in (0, 1) for n in range(TEXTS) if (n + fold) % 2 == remainder
        }
        first = next(row for row in lists if row["fold"] == 1 and row["list"] == 0)
        assert first["scores"] == sorted(
            (1 + score for score in SCORES["one"][first["text_id"]].values()), reverse=True
        )


def judgement_table() -> pa.Table:
    return pa.table({"text_id": list(JUDGEMENTS), "label_ids": list(JUDGEMENTS.values())})


def test_runs_without_test_rows_are_refused() -> None:
    runs = {name: table(name, VALIDATION) for name in NAMES}
    with pytest.raises(xf.InputError, match=r"run 'one' holds no candidates of test texts \(column 'role'\)"):
        figures(runs)
    with pytest.raises(xf.InputError, match="column 'role' is"):
        figures({name: table(name, TEST, False, role=list(range(len(TEST)))) for name in NAMES})


def test_nightly_counts_the_lists_of_test_texts(tmp_path: Path) -> None:
    for name, run in both().items():
        pq.write_table(run, tmp_path / f"{name}.parquet")
    pq.write_table(judgement_table(), tmp_path / "judgements.parquet")
    inputs = {
        "inputs.candidates": {name: str(tmp_path / f"{name}.parquet") for name in NAMES},
        "inputs.judgements": str(tmp_path / "judgements.parquet"),
    }
    quantities = count_inputs(None, load_config(None, inputs)).quantities
    assert [quantities[f"{LISTS}:{name}"] for name in NAMES] == [len(TEST)] * 2
