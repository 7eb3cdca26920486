"""Job `nightly`: re-evaluate every dataset, compare with the baseline, alarm if a figure fell or the data moved.

The verdict is decided, recorded and sent first. What goes wrong afterwards is reported with it and changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING

import pyarrow as pa

from fusion.errors import ConfigError, InputError, XmtcError, unknown_name
from jobs.engines.credentials import configure_storage, job
from jobs.engines.errors import spark_errors, spark_reason, unreadable
from jobs.nights.alerts import check_alerts, send_alerts
from jobs.nights.baseline import compare, watched_figures
from jobs.nights.changes import WATCHED_OTHERWISE, ComparedFigure, UncomparedFigure
from jobs.nights.checks import (
    Check,
    InputCounts,
    checks,
    cost_checks,
    count_inputs,
    counted_before,
    idle_bounds,
    measured,
)
from jobs.nights.datasets import DatasetResults, OtherChoice, other_choices, prepare_inputs, reevaluate
from jobs.nights.drift import Movement, assigned_drift, drift, idle_drift, label_new_texts
from jobs.nights.history import ACCEPT, PIN, History, Row, attempt_of
from jobs.nights.lease import Lease, held_lease
from jobs.nights.next_steps import next_steps
from jobs.nights.night import CHECK, FAILED, MISSING, OK, Absent, DatasetNight, Night, differing_inputs, with_alarms
from jobs.nights.record import check_installed, now, publish, record, retain
from jobs.nights.tables import FencedError
from jobs.runtime.log import log, log_context, recorded
from jobs.settings.config import Config, make_config, overlaid
from jobs.storage.folders import one_line
from jobs.storage.workspace import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@job
def run(spark: SparkSession | None, config: Config) -> Night:
    """Evaluate what changed, compare, alarm; the history then holds one more night.

    Without a session one is made if a dataset or the history needs it.
    """
    settings = config.nightly
    if not settings.datasets:
        raise ConfigError(
            "no datasets: give --datasets FILE,FILE,..., or set nightly.datasets to a list of configuration files"
        )
    if settings.mlflow is not None:
        check_installed()
    check_alerts(settings.alerts)
    run_id = settings.run_id or time.strftime("%Y-%m-%d", time.gmtime())
    history = history_of(spark, config)
    asked = {path: partial(overlaid, config, path) for path in settings.datasets}
    with held_lease(history.storage, run_id, settings.lease, settings.wait, settings.break_lock) as lease:
        return _night(spark, config, Request(history, lease, run_id, asked))


@job
def rerun(spark: SparkSession | None, config: Config, run_id: str, dataset: str | None) -> Night:
    """Make a night again, or one dataset of it, from the settings that were recorded. It is a further attempt: what
    the night had before stays, and counts until the new attempt has figures."""
    check_alerts(config.nightly.alerts)
    settings = config.nightly
    history = history_of(spark, config)
    rows = [row for row in history.runs() if row["run_id"] == run_id and dataset in (None, row["dataset"])]
    if not rows:
        raise ConfigError(f"there is no night {run_id!r} of {dataset or 'any dataset'} in {history.place}")
    asked = {row["file"]: partial(_recorded_config, config, row) for row in rows}
    # The baseline and what pages show are those of the night, too.
    config = next((_recorded_config(config, row) for row in rows if row["settings"] is not None), config)
    with held_lease(history.storage, run_id, settings.lease, settings.wait, settings.break_lock) as lease:
        night = _night(spark, config, Request(history, lease, run_id, asked))
    recorded_data = {row["dataset"]: row["data"] for row in rows if row["data"]}
    problems = list(night.problems)
    for one in night.datasets:
        was, now_is = recorded_data.get(one.name), one.results.inputs.fingerprints["data"]
        if was is not None and was != now_is:
            inputs = ", ".join(differing_inputs(was, now_is))
            problems.append(f"{one.name}: the inputs are not those that the night had: {inputs}")
    return replace(night, problems=tuple(problems))


def _recorded_config(config: Config, row: Row) -> Config:
    """The configuration of a dataset as a night had it. Who is sent alerts, where things are and how they are reached
    is as it is now: secrets are not recorded."""
    if row["settings"] is None:
        # It could not be read then, so its settings may not have been known.
        return overlaid(config, row["file"])
    recorded = make_config(row["settings"], f"the history of {row['run_id']}")
    kept = {name: getattr(config.nightly, name) for name in ("alerts", "mlflow", "history", "keep", "wait", "lease")}
    here = {name: getattr(config, name) for name in ("work", "storage", "spark")}
    return recorded.model_copy(update={"nightly": recorded.nightly.model_copy(update=kept), **here})


def history_of(spark: SparkSession | None, config: Config) -> History:
    """The history that a configuration names."""
    configure_storage(config)
    return History(config.nightly.history or Workspace.of(config).history, spark)


@dataclass(frozen=True)
class Request:
    """The night that is to be made."""

    history: History
    lease: Lease
    run_id: str
    datasets: Mapping[str, Callable[[], Config]]
    """By configuration file."""


@dataclass
class Past:
    """The nights that a dataset is compared with, the baseline first, and what the history still has of them."""

    history: History
    runs: list[Row]
    idle_guards: list[str] = field(default_factory=list)
    """What had nothing to look at or to compare with: every night leaves rows in the tables that are asked for."""

    @property
    def baseline(self) -> Row | None:
        return self.runs[0] if self.runs else None

    def table(self, name: str, run: Row | None) -> pa.Table | None:
        """The rows of a night in a table, or None. That there are none of a night is noted."""
        rows = None if run is None else self.history.read_attempts(name, {attempt_of(run)})
        if rows is None and run is not None:
            self.idle_guards.append(f"not compared: the history has no rows of {run['run_id']} in its table {name}")
        return rows

    def table_if_any(self, name: str, run: Row | None) -> pa.Table | None:
        """The same of a table that a night may have left empty."""
        return None if run is None else self.history.read_attempts(name, {attempt_of(run)})


def _night(spark: SparkSession | None, config: Config, request: Request) -> Night:
    history, run_id = request.history, request.run_id
    started = now()
    compared = partial(_compared, _earlier(history, run_id), _pinned(history), run_id)
    compared(config)
    made: list[DatasetNight | Absent] = []
    for path, resolved in request.datasets.items():
        request.lease.check()
        names = {one.name for one in made if isinstance(one, DatasetNight)}
        made.append(_dataset_night(spark, request, path, resolved, compared, names))
    problems: list[str] = []
    datasets = [
        _labelled(spark, history, dataset, problems)
        for dataset in with_alarms([one for one in made if isinstance(one, DatasetNight)])
    ]
    night = Night(
        run_id,
        started,
        attempt=request.lease.number,
        finished=now(),
        datasets=tuple(_explained(history, config, run_id, dataset, problems) for dataset in datasets),
        absent=tuple(one for one in made if isinstance(one, Absent)),
    )
    try:
        record(history, night, request.lease)
    except FencedError:
        raise
    except Exception as error:
        night = replace(night, unrecorded=_reason(error))
    _send(history, config, replace(night, problems=tuple(problems)), problems)
    for what, work in (
        ("old nights are not removed", partial(retain, history, config, night)),
        ("not published", partial(publish, history, config, night, problems)),
    ):
        try:
            work()
        except Exception as error:
            problems.append(f"{what}: {_reason(error)}")
            log(problems[-1])
    return replace(night, problems=tuple(problems))


def _earlier(history: History, run_id: str) -> list[Row]:
    """The attempts that count of the nights before this one. A night that is made again keeps its place."""
    runs = history.runs()
    own = next((n for n, row in enumerate(runs) if row["run_id"] == run_id), len(runs))
    accepted = {attempt_of(row) for row in history.decisions() if row["kind"] == ACCEPT}
    return [{**row, "accepted": attempt_of(row) in accepted} for row in runs[:own] if row["run_id"] != run_id]


def _pinned(history: History) -> str | None:
    """The night that a person has pinned, if any."""
    pinned = next((row["run_id"] for row in reversed(history.decisions()) if row["kind"] == PIN), None)
    if pinned and all(row["run_id"] != pinned for row in history.runs()):
        raise ConfigError(
            f"night {pinned!r} is pinned, and the history {history.place} does not have it any more: pin another one, "
            "or none, with xmtc-fusion nightly pin"
        )
    return pinned


def _compared(earlier: list[Row], pinned: str | None, run_id: str, config: Config) -> list[Row]:
    """The nights to compare a dataset with: the one that its settings name or that is pinned, which is the baseline
    then, and the last one without an alarm, or with one that a person has accepted."""
    named = config.nightly.baseline
    if named is not None and named not in {run_id, *(row["run_id"] for row in earlier)}:
        raise ConfigError(f"nightly.baseline: there is no complete night {named!r} in the history before this one")
    pinned = named or pinned
    runs = [row for row in earlier if row["dataset"] == config.dataset and row["figures"]]
    good = [row for row in runs if row["verdict"] == OK or row["accepted"]][-1:]
    return list({row["run_id"]: row for row in [row for row in runs if row["run_id"] == pinned] + good}.values())


def _dataset_night(
    spark: SparkSession | None,
    request: Request,
    path: str,
    resolved: Callable[[], Config],
    compared: Callable[[Config], list[Row]],
    names: Collection[str],
) -> DatasetNight | Absent:
    """Check the data of a dataset, evaluate it and compare it. A failure of one dataset leaves the others alone."""
    name, checks = PurePath(path).stem, []
    try:
        config = resolved()
        if config.dataset in names:
            raise ConfigError(f"another dataset is also called {config.dataset!r}; set `dataset` in {path}")
        name = config.dataset
        with log_context(run=request.run_id, dataset=name), recorded() as lines, measured(lines):
            inputs = prepare_inputs(spark, config, path)
            counts = count_inputs(spark, inputs.config)
            past = Past(request.history, compared(config))
            checks = _checks(past, config, counts)
            results = reevaluate(spark, inputs)
    except Exception as error:
        absent = _absent(name, path, error, [check for check in checks if check.alarm])
        log(one_line(f"{path}: {absent.reason}"))
        return absent
    try:
        return _compare(past, DatasetNight(results, counts, tuple(lines), checks=tuple(checks)))
    except Exception as error:
        return Absent(name, path, FAILED, _reason(error))


def _checks(past: Past, config: Config, counts: InputCounts) -> list[Check]:
    name, settings = config.dataset, config.nightly.checks
    before = counted_before(past.table("checks", past.baseline))
    made = checks(counts, before, past.table("judged", past.baseline), settings)
    past.idle_guards += idle_bounds(counts, settings)
    for check in (check for check in made if check.alarm):
        log(f"{name}: data check: {check}")
    return made


def _absent(dataset: str, path: str, error: BaseException, breaches: list[Check]) -> Absent:
    """A dataset that cannot be read is missing; any other error, such as a full disk, is a failure. Data that broke a
    bound were known to be wrong before they could not be evaluated."""
    missing = isinstance(error, ConfigError | InputError)
    if isinstance(error, spark_errors()):
        missing = unreadable(spark_reason(error))
    if breaches:
        return Absent(dataset, path, CHECK, f"{'; '.join(map(str, breaches))}; then: {_reason(error)}")
    return Absent(dataset, path, MISSING if missing else FAILED, _reason(error))


def _reason(error: BaseException) -> str:
    if isinstance(error, spark_errors()):
        return spark_reason(error)
    return str(error) if isinstance(error, XmtcError | OSError) else f"{type(error).__name__}: {error}"


def _compare(past: Past, dataset: DatasetNight) -> DatasetNight:
    """The same with tonight's watched figures, how they changed or why that is not known, and what moved."""
    results, settings, baseline = dataset.results, dataset.config.nightly, past.baseline
    queries, metrics = results.queries(), settings.watch.parsed_metrics
    compared: list[ComparedFigure] = []
    uncompared: list[UncomparedFigure] = []
    for run in past.runs:
        before, recorded = past.table_if_any("query_figures", run), past.table("watched", run)
        figures, gaps = compare(before, recorded, queries, metrics, run["run_id"], settings.tolerance / 100)
        # The last night that was good or accepted says what is watched; one that was pinned earlier may differ.
        acknowledged = WATCHED_OTHERWISE if run is not past.runs[-1] else ()
        uncompared += [gap for gap in gaps if gap.reason not in acknowledged]
        compared += figures
    movements = drift(past.table("drift", baseline), past.table("label_counts", baseline), results, settings.drift)
    costs: list[Check] = []
    if settings.cost.seconds is not None or settings.cost.memory is not None:
        costs = cost_checks(dataset.stages, past.table("run_log", baseline), settings.cost)
    choices: list[OtherChoice] = []
    if baseline is not None:
        choices = other_choices(past.table_if_any("choices", baseline), results.choices(), baseline["run_id"])
    return replace(
        dataset,
        baseline=baseline,
        figures=tuple(watched_figures(queries, metrics)),
        compared=tuple(compared),
        uncompared=tuple(uncompared),
        idle_guards=(*past.idle_guards, *_idle_guards(results, movements)),
        costs=tuple(costs),
        movements=tuple(movements),
        other_choices=tuple(choices),
    )


def _idle_guards(results: DatasetResults, movements: Sequence[Movement]) -> list[str]:
    """Guards whose names mean nothing in the results, a sentence each."""
    settings, groups = results.inputs.config.nightly, sorted(results.label_groups())
    unknown = [unknown_name("label group", name, groups) for name in settings.watch.unknown_groups(groups)]
    lines = [f"nightly.watch.label_groups: {error}" for error in unknown]
    return [*lines, *idle_drift(movements, results, settings.drift)]


def _labelled(spark: SparkSession | None, history: History, dataset: DatasetNight, problems: list[str]) -> DatasetNight:
    """The same with the labels of new texts, and what moved in them, if there is no alarm so far."""
    if dataset.verdict != OK:
        return dataset
    try:
        labelled = label_new_texts(spark, dataset.config)
        if labelled is None:
            return dataset
        before = None if dataset.baseline is None else history.read_attempts("drift", {attempt_of(dataset.baseline)})
        moved = assigned_drift(before, labelled, dataset.config.nightly.drift.assigned)
    except Exception as error:
        problems.append(f"{dataset.name}: new texts are not labelled: {_reason(error)}")
        log(one_line(problems[-1]))
        return dataset
    return replace(dataset, labelled=labelled, movements=(*dataset.movements, *moved))


def _explained(
    history: History, config: Config, run_id: str, dataset: DatasetNight, problems: list[str]
) -> DatasetNight:
    """The same with advice where to look first. An alarm without advice is an alarm all the same."""
    try:
        return replace(dataset, next_steps=next_steps(history, config, run_id, dataset))
    except Exception as error:
        problems.append(f"{dataset.name}: no advice: {_reason(error)}")
        return dataset


def _send(history: History, config: Config, night: Night, problems: list[str]) -> None:
    """Send the outcome to all who should know, and keep what became of it."""
    deliveries = send_alerts(config.nightly.alerts, night, history.place)
    problems += [f"alert: {delivery}" for delivery in deliveries if not delivery.delivered]
    for delivery in deliveries:
        try:
            history.delivered(run_id=night.run_id, attempt=night.attempt, **delivery._asdict())
        except Exception as error:
            log(f"the delivery to {delivery.channel} is not in the history: {_reason(error)}")
