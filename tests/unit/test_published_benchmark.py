"""The benchmark of a dataset with one split: its figures are those of `evaluate`, its sets those of the assignment."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.committed import tables
from benchmarks.published import assigned_rows, measured
from fusion.models.calibration import Candidates
from fusion.tuning.assignment import parse_aim
from jobs.evaluation import evaluate
from jobs.inputs.stages import with_stages
from jobs.prediction.fit import Validation, calibrated
from jobs.settings.config import load_config
from tests.unit.test_leakage import records


@pytest.mark.parametrize("texts", [3, 200])
def test_labels_are_assigned_as_it_was_chosen(texts: int) -> None:
    rng = np.random.default_rng(texts)
    text = np.repeat(np.arange(texts), 12)
    score = rng.random(len(text)).astype(np.float32)
    relevant = rng.random(len(text)) < score**3
    order = rng.permutation(len(text))
    candidates = Candidates(text, np.zeros(len(text), np.int8), ("all",), score, relevant).some(order)
    curves, chosen, _ = calibrated(Validation(candidates, texts, int(relevant.sum()) + 5), parse_aim("f1"))
    rows = assigned_rows(candidates, curves, chosen)
    hits = candidates.relevant[rows].sum()
    assert len(rows) == chosen.assigned
    assert 2 * hits / (len(rows) + relevant.sum() + 5) == pytest.approx(chosen.f1)
    assert np.unique(candidates.text[rows], return_counts=True)[1].max() <= chosen.top


def test_from_files_to_a_page(tmp_path: Path) -> None:
    rows = [{**row, "kind": "ab"[n % 2]} for n, row in enumerate(records())]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = load_config(
        None,
        {
            "dataset": "eurlex57k-published",
            "work.path": str(tmp_path / "work"),
            "prepare.format": "jsonl",
            "prepare.folder": str(tmp_path),
            "prepare.parts": [{"name": "all", "texts": "texts.jsonl"}],
            "prepare.columns": {"role": "split"},
            "prepare.split": "published",
            "prepare.allow_leaks": True,
            "prepare.label_groups": {"frequent": "20..", "few": "1..19", "zero": 0},
            "retrievers": {"bm25": {}, "static": {"train_batch": 32, "epochs": 2}},
            "tune.strategies": ["tuned+cell", "learned+bands"],
            "tune.curve": [],
            "evaluate.metrics": ["ndcg@5", "rp@5"],
            "evaluate.details": False,
            "grid.engine": "local",
        },
    )
    page = "\n".join(measured(config))
    every, *groups, bands, cost = tables(page)
    assert every[0] == ["", "nDCG@5", "RP@5", "micro F1 of assigned labels"]
    assert [row[0] for row in every[1:3]] == ["bm25", "static"]
    assert sum(row[0].startswith("**") for row in every) == 1
    assert any(row[0] == "BERT-base, 2019" and row[1:] == ["82.3", "79.6", "73.2"] for row in every)
    metrics = evaluate.compute(None, with_stages(config)).metrics.to_pylist()
    for table, group in zip([every, *groups], ("all", "few", "frequent", "zero"), strict=True):
        for name, shown in ((row[0], row[1]) for row in table[1:3]):
            ideal = "all" if group == "all" else "group"
            (value,) = (
                row["value"]
                for row in metrics
                if (row["normalization"], row["fusion"], row["metric"], row["ideal"], row["label_group"])
                == ("single", name, "ndcg", ideal, group)
            )
            assert shown == f"{100 * value:.1f}", (group, name)
    assert [row[0] for row in cost[1:]] == ["prepare", "bm25", "static", "tune", "test"]
    pairs = [int(number.replace(",", "")) for number in bands[1][1:9]]
    tested = [set(row["labels"]) for row in rows if row["split"] == "test"]
    assert sum(pairs) == sum(map(len, tested))
