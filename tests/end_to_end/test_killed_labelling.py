"""`fit` and `predict` that are killed: what is left is no model and no predictions, and the same command goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import xmtc_fusion as xf
from jobs.engines.local import LocalEngine
from jobs.retrievers import driver
from tests.models import RETRIEVERS, fitted, made_config, new_texts
from tests.processes import kill, start, wait_for
from tests.retrieval_data import make_data, write_prepared


def command(job: str, *options: str) -> list[str]:
    return [sys.executable, "-m", "jobs.cli", job, "--log-format", "keyvalue", *options]


def finished(again: list[str]) -> str:
    done = subprocess.run(again, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stderr


def killed_at(process_command: list[str], words: str) -> None:
    process = start(process_command)
    wait_for(process, words)
    kill(process)


@pytest.mark.drill
def test_a_killed_fit(tmp_path: Path) -> None:
    expected = xf.load_model(str(fitted(tmp_path / "whole"))).predict(new_texts()[:20]).to_pylist()
    write_prepared(tmp_path / "work", make_data())
    driver.run(LocalEngine(), made_config(tmp_path / "work"))
    (tmp_path / "made.yaml").write_text(json.dumps({"dataset": "made", "retrievers": dict(RETRIEVERS)}))
    place = tmp_path / "model"
    fit = command("fit", "--config", f"{tmp_path}/made.yaml", "--work", f"{tmp_path}/work", "--output", str(place))
    # While the first retriever learns from all texts, and while the second one does.
    for stage in ('stage="bm25 model" event=started', 'stage="static model" event=started'):
        killed_at(fit, stage)
        assert not (place / "model.json").exists()
        with pytest.raises(xf.InputError, match="holds no model"):
            xf.load_model(str(place))
    assert 'stage="bm25 model" skipped=True' in finished(fit)
    assert xf.load_model(str(place)).predict(new_texts()[:20]).to_pylist() == expected


@pytest.mark.drill
def test_a_killed_predict(tmp_path: Path) -> None:
    model = fitted(tmp_path / "fitted")
    lines = [json.dumps({"text": text}) for _ in range(40) for text in new_texts()[:-1]]
    (tmp_path / "new.jsonl").write_text("\n".join(lines) + "\n")
    place = tmp_path / "out"
    asked = ["--model", str(model), "--texts", f"{tmp_path}/new.jsonl", "--top", "5", "--output", str(place)]
    killed_at(command("predict", *asked), "stage=predict event=started")
    assert not (place / "predictions.jsonl").exists()
    finished(command("predict", *asked))
    written = [json.loads(line) for line in (place / "predictions.jsonl").read_text().splitlines()]
    kept = xf.load_model(str(model))
    assert [row["text_id"] for row in written] == sorted(row["text_id"] for row in written)
    labels = [label["label"] for label in written[0]["labels"]]
    assert labels == [label.label for label in kept.predict(new_texts()[written[0]["text_id"]], top=5)]
