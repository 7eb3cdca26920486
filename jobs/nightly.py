"""Job `nightly`: re-evaluate every dataset, compare with the baseline, alarm if a figure fell or the data moved."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from http.client import HTTPException
from pathlib import PurePath
from typing import Any
from urllib.request import Request, urlopen

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from fusion import __version__
from fusion.errors import ConfigError, InputError, XmtcError
from fusion.statistics.gate import alarms
from jobs import report
from jobs.config import Config, overlaid
from jobs.monitoring.baseline import changes, drift, drift_rows, watched_figures
from jobs.monitoring.history import RUNS, History
from jobs.monitoring.lock import exclusive
from jobs.monitoring.night import FAILED, MISSING, OK, Absent, Night, summary
from jobs.monitoring.night_verdict import WATCHED_SCHEMA, message, verdict_of, watched_rows
from jobs.monitoring.reevaluate import LABEL_COUNTS, QUERIES, Evaluated, reevaluate
from jobs.monitoring.tracking import check_installed, track
from jobs.monitoring.trend import trend_page
from jobs.runtime.folders import remove_folder, result_folder
from jobs.runtime.log import log, log_context, log_fields, recorded
from jobs.runtime.spark_errors import SPARK_ERRORS, spark_reason, unreadable
from jobs.runtime.workspace import Workspace
from jobs.settings import OutputSettings

__all__ = ["Night", "message", "run"]
SUMMARY, TREND = "summary.json", "trend.html"


def run(spark: SparkSession, config: Config) -> Night:
    """Evaluate what changed, compare, alarm; the history then holds one more run."""
    settings = config.nightly
    if not settings.datasets:
        raise ConfigError("no datasets: set nightly.datasets to a list of configuration files")
    if settings.mlflow is not None:
        check_installed()
    run_id = settings.run_id or time.strftime("%Y-%m-%d", time.gmtime())
    lock = Workspace.of(config).nightly_lock
    if lock is None:
        log("no lock on this storage: see that only one nightly run is scheduled at a time")
        return _night(spark, config, run_id)
    with exclusive(lock, run_id, settings.wait):
        return _night(spark, config, run_id)


def _night(spark: SparkSession, config: Config, run_id: str) -> Night:
    settings = config.nightly
    history = History(spark, settings.history or Workspace.of(config).history)
    earlier = [row for row in history.runs() if row["run_id"] != run_id]
    night = Night(run_id, _now(), settings.tolerance / 100)
    pinned = settings.baseline if settings.baseline != run_id else None
    if pinned is not None and pinned not in {row["run_id"] for row in earlier}:
        raise ConfigError(f"nightly.baseline: there is no complete run {pinned!r} in the history")
    for path in settings.datasets:
        name = PurePath(path).stem
        try:
            dataset = overlaid(config, path)
            if dataset.dataset in night.evaluated:
                raise ConfigError(f"another dataset is called {dataset.dataset!r}, too; set `dataset` in {path}")
            name = dataset.dataset
            with log_context(run=run_id, dataset=name), recorded() as lines:
                night.evaluated[name], night.stages[name] = reevaluate(spark, dataset), lines
        except (XmtcError, *SPARK_ERRORS) as error:
            night.absent[path] = _absent(name, error)
            log(f"{path}: {night.absent[path].reason}")
    # Nothing is in the history under this name while its parts are replaced; what stopped runs have left goes, too.
    for done, name in [(row["run_id"], row["dataset"]) for row in history.runs() if row["run_id"] == run_id]:
        history.remove(done, name)
    for stopped, name in history.leftovers():
        history.remove(stopped, name)
    for name, evaluated in night.evaluated.items():
        night.figures[name] = _record(spark, history, night.run_id, evaluated)
        compared = _compared(earlier, name, pinned)
        if compared:
            night.baselines[name] = compared[0]
        for row in compared:
            night.changes |= changes(spark, history, evaluated, row["run_id"], night.tolerance)
        night.drift[name] = drift(spark, history, evaluated, night.against(name), settings.drift)
    night.fallen = alarms(night.changes, settings.alpha)
    for evaluated in night.evaluated.values():
        _complete(spark, history, night, evaluated)
    for absent in night.absent.values():
        if absent.dataset not in night.evaluated:
            _enter(spark, history, night, absent.dataset, {"verdict": absent.verdict, "reason": absent.reason})
    _retain(history, config, night)
    _publish(history, config, night)
    return night


def _absent(dataset: str, error: BaseException) -> Absent:
    """A dataset that cannot be read is missing; any other error, such as a full disk, is a failure."""
    if isinstance(error, XmtcError):
        return Absent(dataset, MISSING if isinstance(error, ConfigError | InputError) else FAILED, str(error))
    reason = spark_reason(error)
    return Absent(dataset, MISSING if unreadable(reason) else FAILED, reason)


def _compared(earlier: list[Row], dataset: str, pinned: str | None) -> list[Row]:
    """The runs to compare with: the pinned one, which is the baseline then, and the last one without an alarm."""
    runs = [row for row in earlier if row["dataset"] == dataset and row["verdict"] not in (MISSING, FAILED)]
    wanted = [row for row in runs if row["run_id"] == pinned] + [row for row in runs if row["verdict"] == OK][-1:]
    return list({row["run_id"]: row for row in wanted}.values())


def _record(spark: SparkSession, history: History, run_id: str, evaluated: Evaluated) -> list[dict[str, Any]]:
    """Tonight's tables, which count once the run is complete; the watched figures."""
    for name in ("metrics", LABEL_COUNTS):
        history.write(name, spark.read.parquet(f"{evaluated.path}/{name}.parquet"), run_id, evaluated.dataset)
    figures = watched_figures(spark, evaluated)
    queries = spark.read.parquet(f"{evaluated.path}/{QUERIES}")
    history.write(
        "query_figures", queries.withColumn("text_id", F.col("text_id").cast("string")), run_id, evaluated.dataset
    )
    return [row.asDict() for row in figures.collect()]


def _complete(spark: SparkSession, history: History, night: Night, evaluated: Evaluated) -> None:
    """The watched figures with what became of them, the drift, and last of all the row that makes the run part of the
    history."""
    name = evaluated.dataset
    history.write("watched", spark.createDataFrame(watched_rows(night, name), WATCHED_SCHEMA), night.run_id, name)
    history.write("drift", drift_rows(spark, night.drift[name]), night.run_id, name)
    about = {"verdict": night.verdict(name), "baseline": night.against(name), **evaluated.fingerprints}
    _enter(spark, history, night, name, about, evaluated.built)


def _enter(
    spark: SparkSession, history: History, night: Night, dataset: str, about: dict[str, Any], built: bool = False
) -> None:
    """A row in the table of runs."""
    times = {"started": night.started, "finished": _now(), "version": __version__}
    row = {**dict.fromkeys(("verdict", "reason", "baseline", "data", "configuration", "code")), **times, **about}
    schema = ", ".join(f"{key} string" for key in row) + ", evaluated boolean"
    history.write(RUNS, spark.createDataFrame([(*row.values(), built)], schema), night.run_id, dataset)
    with log_context(run=night.run_id, dataset=dataset):
        sentence = f"{dataset}: {row['verdict']}" + (f", compared with {row['baseline']}" if row["baseline"] else "")
        fields = {"verdict": row["verdict"], "baseline": row["baseline"] or "none", "evaluated": built}
        log_fields(sentence, stage="gate", **fields)


def _retain(history: History, config: Config, night: Night) -> None:
    """Forget the oldest runs beyond the number to keep, but never a baseline."""
    if not config.nightly.keep:
        return
    pinned = {night.run_id, config.nightly.baseline, *(row["run_id"] for row in night.baselines.values())}
    rows = history.runs()
    # A dataset that is missing tonight will be compared with its last good run when it is back.
    pinned.update({row["dataset"]: row["run_id"] for row in rows if row["verdict"] == OK}.values())
    ids = list(dict.fromkeys(row["run_id"] for row in rows))
    for run_id in [name for name in ids[: -config.nightly.keep] if name not in pinned]:
        for row in rows:
            if row["run_id"] == run_id:
                history.remove(run_id, row["dataset"])
        remove_folder(Workspace.of(config).night(run_id))
        log(f"run {run_id} is removed: {config.nightly.keep} are kept")


def _publish(history: History, config: Config, night: Night) -> None:
    """Write the report, the trend and the summary, and pass the summary to MLflow and the webhook."""
    text = json.dumps(summary(night), indent=2, allow_nan=False) + "\n"
    place = Workspace.of(config).night(night.run_id)
    settings = config.report.model_copy(update={"results": [evaluated.path for evaluated in night.evaluated.values()]})
    shown = config.model_copy(update={"report": settings})
    with result_folder(OutputSettings(path=place, mode="overwrite"), shown) as folder:
        folder.write_text(SUMMARY, text)
        verdict = verdict_of(night)
        folder.write_text(TREND, trend_page(history, config.nightly, verdict))
        try:
            if night.evaluated:
                of_night = replace(report.assembled(shown), night=verdict)
                report.write(of_night, folder, report.can_draw(settings), [("Night by night", TREND)])
        except XmtcError as error:
            # Datasets with grids of their own have no report in common; the night has its verdict all the same.
            log(f"no report: {error}")
    if config.nightly.mlflow is not None:
        try:
            track(config.nightly.mlflow, night.run_id, summary(night), config.to_yaml())
        # MLflow raises whatever its many kinds of stores raise; that must not hide how the night went.
        except Exception as error:
            log(f"MLflow did not take the summary: {error}")
    if config.nightly.webhook is not None and night.exit_code:
        try:
            request = Request(config.nightly.webhook, text.encode(), {"Content-Type": "application/json"})
            with urlopen(request, timeout=10) as answer:
                log(f"the webhook answered {answer.status}")
        except (OSError, HTTPException, ValueError) as error:
            log(f"the webhook did not take the summary: {error}")


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


if __name__ == "__main__":
    from jobs.cli import job_main

    job_main("nightly")
