"""What to do about an alarm: which texts fell, which retriever moved, what differs, and how to make the night again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from fusion.cells import SINGLE
from jobs.nights.baseline import fallen_texts
from jobs.nights.history import History, attempt_of
from jobs.nights.night import OK, DatasetNight
from jobs.reporting.formats import percent, points
from jobs.runtime.machine import commit
from jobs.settings.config import Config
from jobs.settings.layers import parse_yaml
from jobs.storage.workspace import Workspace

SHOWN = 5
UNINTERESTING = ("nightly.run_id", "nightly.datasets", "nightly.break_lock", "log.", "output.")
"""Settings that differ from night to night and explain nothing."""


def next_steps(history: History, config: Config, run_id: str, dataset: DatasetNight) -> tuple[str, ...]:
    """Sentences for the person on call; none without an alarm."""
    if dataset.verdict == OK:
        return ()
    return (
        *_texts(history, dataset),
        *_retriever(dataset),
        *_commits(dataset),
        *_settings(dataset),
        f"to make it again: {rerun_command(config, run_id, dataset.name)}",
        f"if it is as it should be: {_command(config, 'accept', run_id, dataset.name)} --because 'WHY'",
    )


def rerun_command(config: Config, run_id: str, dataset: str) -> str:
    """The command that makes a night again from its recorded settings and inputs."""
    return _command(config, "rerun", run_id, dataset)


def _command(config: Config, action: str, run_id: str, dataset: str) -> str:
    words = ["xmtc-fusion", "nightly", action, run_id, "--dataset", dataset, "--work", Workspace.of(config).work_path]
    if config.nightly.history is not None:
        words += ["--set", f"nightly.history={config.nightly.history}"]
    return shlex.join(words)


def _texts(history: History, dataset: DatasetNight) -> Iterator[str]:
    """The texts that fell most in the figure that fell most."""
    if not dataset.fallen:
        return
    worst = dataset.worst_first[0]
    runs = [row for row in history.runs() if (row["run_id"], row["dataset"]) == (worst.against, dataset.name)]
    before = history.read_attempts("query_figures", set(map(attempt_of, runs)))
    texts = fallen_texts(before, dataset.results.queries(), worst.figure, SHOWN)
    if texts:
        falls = ", ".join(f"{text.text_id} ({percent(text.before)} to {percent(text.now)})" for text in texts)
        yield f"texts that fell most in {worst.figure}: {falls}"


def _retriever(dataset: DatasetNight) -> Iterator[str]:
    """The single retriever that moved most, if one moved by more than the tolerance."""
    singles = [
        compared
        for compared in dataset.compared
        if compared.figure.normalization == SINGLE and abs(compared.change.difference) > compared.change.tolerance
    ]
    if singles:
        most = max(singles, key=lambda single: abs(single.change.difference))
        moved = points(most.change.difference, 2)
        yield f"the retriever that moved most is {most.figure.fusion}: {moved} in {most.figure}"


def _commits(dataset: DatasetNight) -> Iterator[str]:
    if dataset.baseline is None or "code" not in dataset.changed:
        return
    was, now = dataset.baseline["commit"], commit()
    if was and now and was != now:
        yield f"commits since the baseline: git log {was[:12]}..{now[:12]}"


def _settings(dataset: DatasetNight) -> Iterator[str]:
    """The settings that differ from the baseline's."""
    if dataset.baseline is None:
        return
    tonight = dataset.results.inputs.given.to_yaml()
    texts = {"the baseline's settings": dataset.baseline["settings"], "tonight's settings": tonight}
    was, now = (dict(_flat(parse_yaml(text, source))) for source, text in texts.items())
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
