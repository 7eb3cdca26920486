"""What to do about an alarm: which texts fell, which retriever moved, what differs, and how to make the night again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from fusion.cells import SINGLE
from jobs.nights.baseline import Watched, fallen_texts
from jobs.nights.history import History
from jobs.nights.night import OK, Night
from jobs.nights.record import commit
from jobs.reporting.formats import percent, points
from jobs.settings.config import Config
from jobs.settings.yaml_text import parse_yaml
from jobs.storage.workspace import Workspace

SHOWN = 5
UNINTERESTING = ("nightly.run_id", "nightly.datasets", "nightly.break_lock", "log.", "output.")
"""Settings that differ from night to night and explain nothing."""


def next_steps(history: History, config: Config, night: Night, dataset: str) -> list[str]:
    """Sentences for whoever was woken up; none without an alarm."""
    if night.verdict(dataset) == OK:
        return []
    return [
        *_texts(history, night, dataset),
        *_retriever(night, dataset),
        *_commits(night, dataset),
        *_settings(night, dataset),
        f"to make it again: {rerun_command(config, night.run_id, dataset)}",
        f"if it is as it should be: {_command(config, 'accept', night.run_id, dataset)} --because 'WHY'",
    ]


def rerun_command(config: Config, run_id: str, dataset: str) -> str:
    """The command that makes a night again from its recorded settings and inputs."""
    return _command(config, "rerun", run_id, dataset)


def _command(config: Config, action: str, run_id: str, dataset: str) -> str:
    words = ["xmtc-fusion", "nightly", action, run_id, "--dataset", dataset, "--work", Workspace.of(config).work_path]
    if config.nightly.history is not None:
        words += ["--set", f"nightly.history={config.nightly.history}"]
    return shlex.join(words)


def _texts(history: History, night: Night, dataset: str) -> Iterator[str]:
    """The texts that fell most in the figure that fell most."""
    fallen = [watched for watched in night.fallen if watched.dataset == dataset]
    if not fallen:
        return
    worst = min(fallen, key=lambda watched: night.changes[watched].difference)
    runs = [row for row in history.runs() if row["run_id"] == worst.against and row["dataset"] == dataset]
    before = history.read_attempts("query_figures", {(row["run_id"], dataset, row["attempt"]) for row in runs})
    texts = fallen_texts(before, night.evaluated[dataset].queries(), worst, SHOWN)
    if texts:
        falls = ", ".join(f"{text.text_id} ({percent(text.before)} to {percent(text.now)})" for text in texts)
        yield f"texts that fell most in {worst}: {falls}"


def _retriever(night: Night, dataset: str) -> Iterator[str]:
    """The single retriever that moved most, if one moved by more than the tolerance."""
    singles: list[tuple[float, Watched]] = [
        (change.difference, watched)
        for watched, change in night.changes.items()
        if watched.dataset == dataset and watched.normalization == SINGLE and abs(change.difference) > change.tolerance
    ]
    if singles:
        difference, watched = max(singles, key=lambda single: abs(single[0]))
        yield f"the retriever that moved most is {watched.fusion}: {points(difference, 2)} in {watched}"


def _commits(night: Night, dataset: str) -> Iterator[str]:
    if "code" not in night.changed(dataset):
        return
    was, now = night.baselines[dataset].get("commit"), commit()
    if was and now and was != now:
        yield f"commits since the baseline: git log {was[:12]}..{now[:12]}"


def _settings(night: Night, dataset: str) -> Iterator[str]:
    """The settings that differ from the baseline's."""
    recorded = night.baselines.get(dataset, {}).get("settings")
    if not recorded:
        return
    given = {"the baseline's settings": recorded, "tonight's settings": night.evaluated[dataset].given.to_yaml()}
    was, now = (dict(_flat(parse_yaml(text, source))) for source, text in given.items())
    differing = [
        f"{name} was {was.get(name)!r}, is {now.get(name)!r}"
        for name in sorted({*was, *now})
        if was.get(name) != now.get(name) and not name.startswith(UNINTERESTING)
    ]
    if differing:
        rest = f", and {len(differing) - SHOWN} more" if len(differing) > SHOWN else ""
        yield f"settings that differ: {'; '.join(differing[:SHOWN])}{rest}"


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
