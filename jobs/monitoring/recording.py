"""A night enters the history: its tables, then one commit that makes them count; and old nights leave it."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from fusion import __version__
from jobs.config import Config
from jobs.monitoring.data_checks import check_rows
from jobs.monitoring.drift import drift_rows
from jobs.monitoring.history import ACCEPT, PIN, History, Row
from jobs.monitoring.history_tables import typed
from jobs.monitoring.lease import Lease
from jobs.monitoring.night import OK, Night, uncompared_lines
from jobs.monitoring.night_verdict import watched_rows
from jobs.monitoring.run_log import log_rows
from jobs.runtime.folders import remove_folder
from jobs.runtime.log import log, log_context, log_fields
from jobs.runtime.workspace import Workspace
from jobs.settings.names import checked_name


def record(history: History, night: Night, lease: Lease) -> None:
    """Write the night's tables under its number, then commit it."""
    for name in night.evaluated:
        for table, rows in _tables(night, name).items():
            lease.check()
            history.append(table, rows, night.run_id, name, night.attempt)
    rows = [_run_row(night, name) for name in night.evaluated]
    known = {row["dataset"] for row in rows}
    for path, absent in night.absent.items():
        if absent.dataset not in known:
            about = {"verdict": absent.verdict, "reason": absent.reason, "file": path, "figures": False}
            rows.append({**_about(night, absent.dataset), **about, "evaluated": False})
            known.add(absent.dataset)
    lease.check()
    history.commit(rows)
    for row in rows:
        _say(row)


def _tables(night: Night, name: str) -> dict[str, pa.Table]:
    evaluated = night.evaluated[name]
    queries = evaluated.queries()
    return {
        # First, so that it names every attempt that has left something.
        "run_log": typed("run_log", log_rows(night.stages[name])),
        "metrics": evaluated.metrics(),
        "label_counts": evaluated.label_counts(),
        "query_figures": queries,
        "judged": night.counted[name].judged,
        "watched": typed("watched", watched_rows(night, name)),
        "drift": typed("drift", drift_rows(night.drift[name])),
        "choices": typed("choices", evaluated.choices()),
        "checks": typed("checks", check_rows([*night.checks[name], *night.costs.get(name, [])], night.counted[name])),
    }


def _about(night: Night, dataset: str) -> Row:
    key = {"run_id": night.run_id, "dataset": dataset, "attempt": night.attempt}
    return {**key, "started": night.started, "finished": night.finished, "version": __version__, "commit": commit()}


def _run_row(night: Night, name: str) -> Row:
    evaluated = night.evaluated[name]
    return {
        **_about(night, name),
        "verdict": night.verdict(name),
        "uncompared": "\n".join(uncompared_lines(night, name)) or None,
        "baseline": night.against(name),
        **evaluated.fingerprints,
        "settings": evaluated.given.to_yaml(),
        "file": evaluated.file,
        "figures": True,
        "evaluated": evaluated.built,
    }


def _say(row: Row) -> None:
    with log_context(run=row["run_id"], dataset=row["dataset"]):
        compared = f", compared with {row['baseline']}" if row.get("baseline") else ""
        fields = {"verdict": row["verdict"], "baseline": row.get("baseline") or "none", "evaluated": row["evaluated"]}
        log_fields(f"{row['dataset']}: {row['verdict']}{compared}", stage="gate", **fields)


def commit() -> str | None:
    """The commit of this code, where it runs out of a checkout."""
    home = Path(__file__).resolve().parents[2]
    if not (home / ".git").exists():
        return None
    asked: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 10, "check": True, "cwd": home}
    try:
        return subprocess.run(["git", "rev-parse", "HEAD"], **asked).stdout.strip() or None
    except (OSError, subprocess.SubprocessError):
        return None


def retain(history: History, config: Config, night: Night) -> None:
    """Forget the oldest nights beyond the number to keep, but never a baseline."""
    if not config.nightly.keep or night.unrecorded is not None:
        return
    kept = {night.run_id, config.nightly.baseline, *(row["run_id"] for row in night.baselines.values())}
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
