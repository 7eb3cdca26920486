"""What a night leaves: rows in the history, published pages, and a run in MLflow."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import pyarrow as pa

from fusion import __version__
from fusion.errors import SetupError
from jobs.nights.checks import check_rows, log_rows
from jobs.nights.history import ACCEPT, PIN, History, Row
from jobs.nights.lease import Lease
from jobs.nights.night import OK, DatasetNight, Night, watched_rows
from jobs.nights.summary import night_report, summary
from jobs.nights.tables import typed
from jobs.nights.trend import trend_page
from jobs.prediction.model import load
from jobs.prediction.tracking import is_registered, log_model
from jobs.reporting import report
from jobs.runtime.log import log, log_context, log_fields
from jobs.runtime.machine import commit
from jobs.settings.base import OutputSettings, checked_name
from jobs.settings.config import Config
from jobs.storage.folders import ResultFolder, remove_folder, result_folder
from jobs.storage.workspace import Workspace


def record(history: History, night: Night, lease: Lease) -> None:
    """Write the night's tables under its number, then commit it."""
    for dataset in night.datasets:
        for table, content in _tables(dataset).items():
            lease.check()
            history.append(table, content, night.run_id, dataset.name, night.attempt)
    rows = [{**_about(night, dataset.name), **_outcome(dataset)} for dataset in night.datasets]
    committed = {row["dataset"] for row in rows}
    for absent in night.absent:
        if absent.dataset not in committed:
            about = {"verdict": absent.verdict, "reason": absent.reason, "file": absent.file}
            rows.append({**_about(night, absent.dataset), **about, "figures": False, "evaluated": False})
            committed.add(absent.dataset)
    lease.check()
    history.commit(rows)
    for row in rows:
        _say(row)


def _tables(dataset: DatasetNight) -> dict[str, pa.Table]:
    results, checks = dataset.results, [*dataset.checks, *dataset.costs]
    return {
        # First, so that it names every attempt that has left something.
        "run_log": typed("run_log", log_rows(dataset.stages)),
        "metrics": results.metrics(),
        "label_counts": results.label_counts(),
        "query_figures": results.queries(),
        "judged": dataset.counts.judged,
        "watched": typed("watched", watched_rows(dataset)),
        "drift": typed("drift", [movement.as_row() for movement in dataset.movements]),
        "choices": typed("choices", results.choices()),
        "checks": typed("checks", check_rows(checks, dataset.counts)),
        "predictions": typed("predictions", []) if dataset.labelled is None else dataset.labelled.rows,
    }


def _about(night: Night, dataset: str) -> Row:
    key = {"run_id": night.run_id, "dataset": dataset, "attempt": night.attempt}
    return {**key, "started": night.started, "finished": night.finished, "version": __version__, "commit": commit()}


def _outcome(dataset: DatasetNight) -> Row:
    inputs = dataset.results.inputs
    return {
        "verdict": dataset.verdict,
        "uncompared": "\n".join(dataset.not_compared) or None,
        "baseline": dataset.against,
        **inputs.fingerprints,
        "settings": inputs.given.to_yaml(),
        "file": inputs.file,
        "figures": True,
        "evaluated": dataset.results.built,
    }


def _say(row: Row) -> None:
    with log_context(run=row["run_id"], dataset=row["dataset"]):
        compared = f", compared with {row['baseline']}" if row.get("baseline") else ""
        fields = {"verdict": row["verdict"], "baseline": row.get("baseline") or "none", "evaluated": row["evaluated"]}
        log_fields(f"{row['dataset']}: {row['verdict']}{compared}", stage="gate", **fields)


def retain(history: History, config: Config, night: Night) -> None:
    """Forget the oldest nights beyond the number to keep, but never a baseline."""
    if not config.nightly.keep or night.unrecorded is not None:
        return
    kept = {night.run_id, config.nightly.baseline, *(dataset.against for dataset in night.datasets)}
    rows = history.runs()
    # A dataset that is missing tonight will be compared with its last good night when it is back.
    kept.update({row["dataset"]: row["run_id"] for row in rows if row["verdict"] == OK}.values())
    kept.update(row["run_id"] for row in history.decisions() if row["kind"] in (ACCEPT, PIN))
    ids = list(dict.fromkeys(row["run_id"] for row in rows))
    old = [run_id for run_id in ids[: -config.nightly.keep] if run_id not in kept]
    if not old:
        return
    for run_id in old:
        # Before the history forgets it: of a night that is not there any more nobody would look for the pages.
        _remove_pages(config, run_id)
    history.forget(old, night.attempt)
    for run_id in old:
        log(f"night {run_id} is removed: {config.nightly.keep} are kept")


def _remove_pages(config: Config, run_id: str) -> None:
    try:
        safe = checked_name(run_id) == run_id
    except ValueError:
        safe = False
    if safe:
        remove_folder(Workspace.of(config).night(run_id))
    else:
        log(f"the pages of night {run_id!r} stay: this is no name of a folder")


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


EXPERIMENT = "xmtc-fusion nightly"


def check_installed() -> None:
    """Refuse before any work is done."""
    if find_spec("mlflow") is None:
        raise SetupError("nightly.mlflow needs the package mlflow: pip install '.[mlflow]'")


def track(address: str, run_id: str, facts: dict[str, Any], config: str) -> None:
    """One MLflow run per night, the same one again if the night is run again.

    Watched figures are its metrics, what changed its tags, and the summary is a file.
    """
    import mlflow

    mlflow.set_tracking_uri(address)
    experiment = mlflow.set_experiment(EXPERIMENT).experiment_id
    same = mlflow.MlflowClient().search_runs([experiment], f"attributes.run_name = '{run_id}'", max_results=1)
    with mlflow.start_run(same[0].info.run_id if same else None, run_name=run_id):
        mlflow.set_tag("exit_code", facts["exit_code"])
        for dataset, found in facts["datasets"].items():
            mlflow.set_tags({f"{dataset}.verdict": found["verdict"], f"{dataset}.changed": ", ".join(found["changed"])})
            for watched in found["figures"]:
                cell = f"{watched['normalization']}-{watched['fusion']}"
                name = f"{dataset}/{watched['label_group']}/{cell}/{watched['metric']}_{watched['k']}"
                if watched["mean"] is not None:
                    mlflow.log_metric(name, watched["mean"])
        mlflow.log_dict(facts, "summary.json")
        mlflow.log_text(config, "config.yaml")


def register(address: str, night: Night) -> None:
    """The models in use become versions of the registered models that the settings name, unless they are already. Only
    of a night without an alarm."""
    import mlflow

    chosen = [dataset.config.nightly.predict for dataset in night.datasets]
    wanted = [(one.model, one.registered) for one in chosen if one.model is not None and one.registered is not None]
    if night.exit_code or not wanted:
        return
    mlflow.set_tracking_uri(address)
    for place, name in wanted:
        kept = load(place)
        if not is_registered(kept, name):
            with mlflow.start_run(run_name=f"{night.run_id} {name}"):
                log_model(kept, "model", name)
            log(f"night {night.run_id}: the model {place} is a new version of {name} in MLflow")


SUMMARY, TREND = "summary.json", "trend.html"


def publish(history: History, config: Config, night: Night, problems: list[str]) -> None:
    """Write the pages and the summary into the night's folder, and pass the summary to MLflow. Problems are added as
    they come, since the summary has them all."""
    if config.nightly.mlflow is not None:
        address, facts = config.nightly.mlflow.reveal(), summary(replace(night, problems=tuple(problems)))
        for what, send in (
            ("the summary", partial(track, address, night.run_id, facts, config.to_yaml())),
            ("the model", partial(register, address, night)),
        ):
            try:
                send()
            # MLflow raises whatever its many kinds of stores raise, with an address that may hold a password.
            except Exception as error:
                problems.append(f"MLflow did not take {what}: {type(error).__name__}")
                log(problems[-1])
    results = [dataset.results.path for dataset in night.datasets]
    shown = config.model_copy(update={"report": config.report.model_copy(update={"results": results})})
    place = Workspace.of(config).night(night.run_id)
    with result_folder(OutputSettings(path=place, mode="overwrite"), shown) as folder:
        for what, write in (("no trend page", _trend), ("no report", _report)):
            try:
                write(history, shown, replace(night, problems=tuple(problems)), folder)
            # The summary is there all the same, and says what is missing.
            except Exception as error:
                problems.append(f"{what}: {error}")
                log(problems[-1])
        facts = summary(replace(night, problems=tuple(problems)))
        folder.write_text(SUMMARY, json.dumps(facts, indent=2, allow_nan=False) + "\n")


def _trend(history: History, config: Config, night: Night, folder: ResultFolder) -> None:
    folder.write_text(TREND, trend_page(history, config.nightly, night))


def _report(history: History, config: Config, night: Night, folder: ResultFolder) -> None:
    """Datasets with grids of their own have no report in common; the night has its verdict all the same."""
    if night.datasets:
        of_night = night_report(report.assembled(config), night)
        report.write(of_night, folder, config.report.figures, [("Night by night", TREND)])
