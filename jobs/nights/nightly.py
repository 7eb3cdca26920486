"""Job `nightly`: re-evaluate every dataset, compare with the baseline, alarm if a figure fell or the data moved.

The verdict is decided, recorded and sent first. What goes wrong afterwards is told beside it and changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING

import pyarrow as pa

from fusion.errors import ConfigError, InputError, XmtcError, unknown_name
from fusion.statistics.gate import Change, alarms
from jobs.engines.credentials import configure_storage, job
from jobs.engines.errors import SPARK_ERRORS, spark_reason, unreadable
from jobs.nights.alerts import check_alerts, send_alerts
from jobs.nights.baseline import WATCHED_OTHERWISE, Watched, compare, watched_figures
from jobs.nights.checks import Check, checks, cost_checks, count_inputs, counted_before, idle_bounds, measured
from jobs.nights.datasets import Evaluated, other_choices, prepare_inputs, reevaluate
from jobs.nights.drift import Moved, Quantity, drift, idle_drift
from jobs.nights.history import ACCEPT, PIN, History, Row
from jobs.nights.lease import Lease, held_lease
from jobs.nights.night import CHECK, FAILED, MISSING, OK, Absent, Night, differing_inputs, message, summary_of
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
        return _night(spark, config, Asked(history, lease, run_id, asked))


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
    asked = {row["file"] or row["dataset"]: partial(_recorded_config, config, row) for row in rows}
    # The baseline and what pages show are those of the night, too.
    config = next((_recorded_config(config, row) for row in rows if row["settings"] is not None), config)
    with held_lease(history.storage, run_id, settings.lease, settings.wait, settings.break_lock) as lease:
        night = _night(spark, config, Asked(history, lease, run_id, asked))
    recorded_data = {row["dataset"]: row["data"] for row in rows if row["data"]}
    for name, evaluated in night.evaluated.items():
        was, now_is = recorded_data.get(name), evaluated.fingerprints["data"]
        if was is not None and was != now_is:
            inputs = ", ".join(differing_inputs(was, now_is))
            night.problems.append(f"{name}: the inputs are not those that the night had: {inputs}")
    return night


def _recorded_config(config: Config, row: Row) -> Config:
    """The configuration of a dataset as a night had it. Who is told, where things lie and how they are reached is as it
    is now: secrets are not recorded."""
    if row["settings"] is None:
        if row["file"] is None:
            raise ConfigError(f"{row['dataset']}: an earlier version did not record its settings: run the night again")
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
class Asked:
    """What a night works with."""

    history: History
    lease: Lease
    run_id: str
    datasets: Mapping[str, Callable[[], Config]]
    """By configuration file."""


def _night(spark: SparkSession | None, config: Config, asked: Asked) -> Night:
    history, run_id = asked.history, asked.run_id
    night = Night(run_id, now(), asked.lease.number)
    compared = partial(_compared, _earlier(history, run_id), _pinned(history), run_id)
    compared(config)
    for path, resolved in asked.datasets.items():
        asked.lease.check()
        _evaluate(spark, history, night, path, resolved, compared)
    for name, evaluated in list(night.evaluated.items()):
        try:
            _compare(history, night, evaluated, compared(evaluated.config))
        except Exception as error:
            del night.evaluated[name]
            night.absent[evaluated.file] = Absent(name, FAILED, _reason(error))
    night.fallen = alarms(night.changes, lambda watched: night.evaluated[watched.dataset].config.nightly.alpha)
    night.finished = now()
    _explain(history, config, night)
    try:
        record(history, night, asked.lease)
    except FencedError:
        raise
    except Exception as error:
        night.unrecorded = _reason(error)
    _send(history, config, night)
    for what, work in (("old nights are not removed", retain), ("not published", publish)):
        try:
            work(history, config, night)
        except Exception as error:
            night.problems.append(f"{what}: {_reason(error)}")
            log(night.problems[-1])
    return night


def _earlier(history: History, run_id: str) -> list[Row]:
    """The attempts that count of the nights before this one. A night that is made again keeps its place."""
    runs = history.runs()
    own = next((n for n, row in enumerate(runs) if row["run_id"] == run_id), len(runs))
    accepted = {(row["run_id"], row["dataset"], row["attempt"]) for row in history.decisions() if row["kind"] == ACCEPT}
    rows = [row for row in runs[:own] if row["run_id"] != run_id]
    return [{**row, "accepted": (row["run_id"], row["dataset"], row["attempt"]) in accepted} for row in rows]


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


def _evaluate(
    spark: SparkSession | None,
    history: History,
    night: Night,
    path: str,
    resolved: Callable[[], Config],
    compared: Callable[[Config], list[Row]],
) -> None:
    """Check the data of a dataset, then evaluate it. Whatever goes wrong is that dataset's own trouble."""
    name = PurePath(path).stem
    try:
        config = resolved()
        if config.dataset in night.evaluated:
            raise ConfigError(f"another dataset is also called {config.dataset!r}; set `dataset` in {path}")
        name = config.dataset
        with log_context(run=night.run_id, dataset=name), recorded() as lines, measured(lines):
            prepared = prepare_inputs(spark, config, path)
            night.counted[name] = count_inputs(spark, prepared.config)
            night.checks[name] = _checked(history, night, config, compared(config))
            night.evaluated[name] = reevaluate(spark, prepared)
            night.stages[name] = lines
    except Exception as error:
        absent = _absent(name, error)
        if breaches := [check for check in night.checks.get(name, []) if check.alarm]:
            # The data were known to be wrong before they could not be evaluated.
            reasons = "; ".join(map(str, breaches))
            absent = Absent(name, CHECK, f"{reasons}; then: {absent.reason}")
        night.absent[path] = absent
        log(one_line(f"{path}: {absent.reason}"))


def _checked(history: History, night: Night, config: Config, compared: list[Row]) -> list[Check]:
    name, settings = config.dataset, config.nightly.checks
    before = counted_before(_rows_of(history, night, "checks", compared[:1]))
    judged = _rows_of(history, night, "judged", compared[:1])
    made = checks(night.counted[name], before, judged, settings)
    night.unguarded.setdefault(name, []).extend(idle_bounds(night.counted[name], settings))
    for check in (check for check in made if check.alarm):
        log(f"{name}: data check: {check}")
    return made


def _rows_of(history: History, night: Night, table: str, rows: list[Row]) -> pa.Table | None:
    """What the history holds of a night to compare with, if there is one. That it holds nothing is noted: every night
    leaves rows in these tables."""
    found = None
    for row in rows:
        found = history.read_attempts(table, {(row["run_id"], row["dataset"], row["attempt"])})
        if found is None:
            lost = f"not compared: the history has no rows of {row['run_id']} in its table {table}"
            night.unguarded.setdefault(row["dataset"], []).append(lost)
    return found


def _absent(dataset: str, error: BaseException) -> Absent:
    """A dataset that cannot be read is missing; any other error, such as a full disk, is a failure."""
    missing = isinstance(error, ConfigError | InputError)
    if isinstance(error, SPARK_ERRORS):
        missing = unreadable(spark_reason(error))
    return Absent(dataset, MISSING if missing else FAILED, _reason(error))


def _reason(error: BaseException) -> str:
    if isinstance(error, SPARK_ERRORS):
        return spark_reason(error)
    return str(error) if isinstance(error, XmtcError | OSError) else f"{type(error).__name__}: {error}"


def _compare(history: History, night: Night, evaluated: Evaluated, compared: list[Row]) -> None:
    """Tonight's watched figures, how they changed or why that is not known, and what moved in the data."""
    name, settings, queries = evaluated.dataset, evaluated.config.nightly, evaluated.queries()
    measures = settings.watch.measures
    changed: dict[Watched, Change] = {}
    reasons: dict[Watched, str] = {}
    for row in compared:
        before = history.read_attempts("query_figures", {(row["run_id"], name, row["attempt"])})
        recorded = _rows_of(history, night, "watched", [row])
        found, gaps = compare(before, recorded, queries, measures, name, row["run_id"], settings.tolerance / 100)
        # The last night that was good or accepted says what is watched; one that was pinned earlier may differ.
        acknowledged = WATCHED_OTHERWISE if row is not compared[-1] else ()
        reasons |= {figure: reason for figure, reason in gaps.items() if reason not in acknowledged}
        changed |= found
    drifted, counts = (_rows_of(history, night, table, compared[:1]) for table in ("drift", "label_counts"))
    moved = drift(drifted, counts, evaluated, settings.drift)
    costs: list[Check] = []
    if settings.cost.seconds is not None or settings.cost.memory is not None:
        costs = cost_checks(night.stages[name], _rows_of(history, night, "run_log", compared[:1]), settings.cost)
    night.unguarded[name] += _idle_guards(evaluated, moved)
    night.figures[name], night.drift[name], night.costs[name] = watched_figures(queries, measures), moved, costs
    for row in compared[:1]:
        night.baselines[name] = row
        chosen = history.read_attempts("choices", {(row["run_id"], name, row["attempt"])})
        night.other_choices[name] = other_choices(chosen, evaluated.choices(), row["run_id"])
    night.changes |= changed
    night.uncompared |= reasons


def _idle_guards(evaluated: Evaluated, moved: Mapping[Quantity, Moved]) -> list[str]:
    """Guards whose names stand for nothing in the results, a sentence each."""
    settings, groups = evaluated.config.nightly, sorted(evaluated.label_groups())
    unknown = [unknown_name("label group", name, groups) for name in settings.watch.unknown_groups(groups)]
    lines = [f"nightly.watch.label_groups: {error}" for error in unknown]
    return [*lines, *idle_drift(moved, evaluated, settings.drift)]


def _explain(history: History, config: Config, night: Night) -> None:
    """Say where to look first. An alarm without advice is an alarm all the same."""
    from jobs.nights.next_steps import next_steps

    for name in night.evaluated:
        try:
            night.next_steps[name] = next_steps(history, config, night, name)
        except Exception as error:
            night.problems.append(f"{name}: no advice: {_reason(error)}")


def _send(history: History, config: Config, night: Night) -> None:
    """Tell whoever should know, and keep what became of it."""
    alerts = config.nightly.alerts
    deliveries = send_alerts(
        alerts, summary_of(night), message(night), f"{history.place}/{night.run_id}/{night.attempt}"
    )
    night.problems += [f"alert: {delivery}" for delivery in deliveries if not delivery.delivered]
    for delivery in deliveries:
        try:
            history.delivered(run_id=night.run_id, attempt=night.attempt, **delivery._asdict())
        except Exception as error:
            log(f"that {delivery.channel} was told is not in the history: {_reason(error)}")
