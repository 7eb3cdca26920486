"""Nights in MLflow: a real store, in a folder."""

from __future__ import annotations

import json
from pathlib import Path

import mlflow
import pytest

from jobs.nights.record import EXPERIMENT, track


def test_a_night_is_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Recent versions of MLflow ask to be told that a folder is meant.
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    address = tmp_path.as_uri()
    cell = {"normalization": "zmuv", "fusion": "combmnz", "label_group": "tail", "metric": "ndcg"}
    figures = [{**cell, "k": 10, "mean": 0.5}, {**cell, "k": 1, "mean": None}]
    sample = {"verdict": "ok", "changed": ["data", "code"], "figures": figures}
    try:
        for exit_code in (10, 0):
            track(address, "2026-03-02", {"exit_code": exit_code, "datasets": {"sample": sample}}, "grid: {}\n")
        client = mlflow.MlflowClient(address)
        experiment = client.get_experiment_by_name(EXPERIMENT)
        assert experiment is not None
        (run,) = client.search_runs([experiment.experiment_id])
        assert run.info.run_name == "2026-03-02"
        assert run.info.status == "FINISHED"
        assert run.data.metrics == {"sample/tail/zmuv-combmnz/ndcg_10": 0.5}
        told = {name: run.data.tags[name] for name in ("exit_code", "sample.verdict", "sample.changed")}
        assert told == {"exit_code": "0", "sample.verdict": "ok", "sample.changed": "data, code"}
        summary = client.download_artifacts(run.info.run_id, "summary.json", str(tmp_path))
        assert json.loads(Path(summary).read_text())["exit_code"] == 0
    finally:
        mlflow.set_tracking_uri("")
