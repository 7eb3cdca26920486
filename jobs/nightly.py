"""Job `nightly`: re-evaluate every dataset, compare with the baseline, alarm if a figure fell or the data moved."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field, replace
from http.client import HTTPException
from pathlib import PurePath
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from fusion import __version__
from fusion.errors import ConfigError, InputError, XmtcError
from fusion.statistics.gate import Change, alarms
from jobs import report
from jobs.config import Config, overlaid
from jobs.monitoring.baseline import Moved, Watched, changes, drift, watched_figures
from jobs.monitoring.history import RUNS, History
from jobs.monitoring.lock import exclusive
from jobs.monitoring.night_verdict import WATCHED_SCHEMA, verdict_of, watched_rows
from jobs.monitoring.reevaluate import LABEL_COUNTS, QUERIES, Evaluated, reevaluate
from jobs.monitoring.tracking import check_installed, track, without_nan
from jobs.monitoring.trend import trend_page
from jobs.reporting import night as words
from jobs.runtime.folders import remove_folder, result_folder
from jobs.runtime.log import log, log_context, log_line, recorded
from jobs.runtime.spark_errors import SPARK_ERRORS, spark_reason, unreadable
from jobs.settings import OutputSettings
from udfs.storage import in_volume, local_folder

OK, REGRESSION, MISSING, DRIFT, FAILED = "ok", "regression", "missing dataset", "data drift", "failed"
EXIT_CODES = {OK: 0, REGRESSION: 10, MISSING: 11, DRIFT: 12, FAILED: 13}
SUMMARY, TREND = "summary.json", "trend.html"


class Absent(NamedTuple):
    """A dataset without figures tonight: it cannot be read, or something else went wrong."""

    dataset: str
    verdict: str
    reason: str


@dataclass
class Night:
    """What a nightly run found."""

    run_id: str
    started: str
    tolerance: float
    """How far a figure may fall, as a share of 1."""
    evaluated: dict[str, Evaluated] = field(default_factory=dict)
    absent: dict[str, Absent] = field(default_factory=dict)
    """By configuration file."""
    stages: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """What each stage said when it was done, by dataset."""
    baselines: dict[str, Row] = field(default_factory=dict)
    changes: dict[Watched, Change] = field(default_factory=dict)
    fallen: dict[Watched, float] = field(default_factory=dict)
    """Watched figures that fell beyond the tolerance, with their corrected p-values."""
    drift: dict[str, dict[str, Moved]] = field(default_factory=dict)
    """By dataset and quantity."""
    figures: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Tonight's watched figures by dataset, whether or not there is anything to compare them with."""

    def verdict(self, dataset: str) -> str:
        if any(watched.dataset == dataset for watched in self.fallen):
            return REGRESSION
        return DRIFT if any(moved.alarm for moved in self.drift.get(dataset, {}).values()) else OK

    @property
    def exit_code(self) -> int:
        """The smallest of the alarms' codes; 0 if there is none."""
        found = [*map(self.verdict, self.evaluated), *(absent.verdict for absent in self.absent.values())]
        return min((EXIT_CODES[verdict] for verdict in found if verdict != OK), default=0)

    def against(self, dataset: str) -> str | None:
        """The name of the baseline."""
        return self.baselines[dataset]["run_id"] if dataset in self.baselines else None

    def changed(self, dataset: str) -> list[str]:
        """What differs from the baseline: data, configuration, code."""
        marks, before = self.evaluated[dataset].fingerprints, self.baselines.get(dataset)
        return [] if before is None else [name for name, mark in marks.items() if before[name] != mark]

    def changed_inputs(self, dataset: str) -> list[str]:
        """The inputs that are not what they were, or that only one of the two nights has."""
        if "data" not in self.changed(dataset):
            return []
        was, now = json.loads(self.baselines[dataset]["data"]), json.loads(self.evaluated[dataset].fingerprints["data"])
        return sorted(name for name in {*was, *now} if was.get(name) != now.get(name))


def run(spark: SparkSession, config: Config) -> Night:
    """Evaluate what changed, compare, alarm; the history then holds one more run."""
    settings = config.nightly
    if not settings.datasets:
        raise ConfigError("no datasets: set nightly.datasets to a list of configuration files")
    if settings.mlflow is not None:
        check_installed()
    run_id = settings.run_id or time.strftime("%Y-%m-%d", time.gmtime())
    work = local_folder(config.work.path)
    if work is None or in_volume(work):
        log("no lock on this storage: see that only one nightly run is scheduled at a time")
        return _night(spark, config, run_id)
    with exclusive(work / "nightly.lock", run_id, settings.wait):
        return _night(spark, config, run_id)


def _night(spark: SparkSession, config: Config, run_id: str) -> Night:
    settings = config.nightly
    history = History(spark, settings.history or f"{config.work.path.rstrip('/')}/history")
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
    """What cannot be read is missing; a full disk, say, is another matter."""
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
    moved = [(quantity, *found, found.alarm) for quantity, found in night.drift[name].items()]
    schema = "quantity string, value double, change double, allowed double, alarm boolean"
    history.write("drift", spark.createDataFrame(moved, schema), night.run_id, name)
    found = {"verdict": night.verdict(name), "baseline": night.against(name), **evaluated.fingerprints}
    _enter(spark, history, night, name, found, evaluated.built)


def _enter(
    spark: SparkSession, history: History, night: Night, dataset: str, found: dict[str, Any], built: bool = False
) -> None:
    """A row in the table of runs."""
    times = {"started": night.started, "finished": _now(), "version": __version__}
    row = {**dict.fromkeys(("verdict", "reason", "baseline", "data", "configuration", "code")), **times, **found}
    schema = ", ".join(f"{key} string" for key in row) + ", evaluated boolean"
    history.write(RUNS, spark.createDataFrame([(*row.values(), built)], schema), night.run_id, dataset)
    with log_context(run=night.run_id, dataset=dataset):
        log_line(stage="gate", verdict=row["verdict"], baseline=row["baseline"] or "none", evaluated=built)


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
        remove_folder(_place(config, run_id))
        log(f"run {run_id} is removed: {config.nightly.keep} are kept")


def _publish(history: History, config: Config, night: Night) -> None:
    """The report with the trend, the summary, and who else wants to know."""
    text = json.dumps(summary(night), indent=2, allow_nan=False) + "\n"
    place = _place(config, night.run_id)
    settings = config.report.model_copy(update={"results": [found.path for found in night.evaluated.values()]})
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


def summary(night: Night) -> dict[str, Any]:
    """What a program wants to know of a night."""
    found = {
        "run_id": night.run_id,
        "exit_code": night.exit_code,
        "absent": {path: absent._asdict() for path, absent in night.absent.items()},
        "datasets": {
            name: {
                "verdict": night.verdict(name),
                "evaluated": evaluated.built,
                "baseline": night.against(name),
                "changed": night.changed(name),
                "changed_inputs": night.changed_inputs(name),
                "figures": night.figures.get(name, []),
                "watched": [
                    {
                        **watched._asdict(),
                        **change._asdict(),
                        "alarm": watched in night.fallen,
                        # False: the two means are over different texts and do not compare by themselves.
                        "same_texts": change.paired or not (change.new or change.gone),
                    }
                    for watched, change in night.changes.items()
                    if watched.dataset == name
                ],
                "drift": {
                    quantity: {**moved._asdict(), "alarm": moved.alarm} for quantity, moved in night.drift[name].items()
                },
                "fingerprints": evaluated.fingerprints,
                "stages": night.stages[name],
            }
            for name, evaluated in night.evaluated.items()
        },
    }
    return {key: without_nan(value) for key, value in found.items()}


def message(night: Night) -> str:
    """The lines that matter, for people."""
    return words.message(verdict_of(night))


def _place(config: Config, run_id: str) -> str:
    return f"{config.work.path.rstrip('/')}/nightly/{run_id}"


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


if __name__ == "__main__":
    from jobs.cli import job_main

    job_main("nightly")
