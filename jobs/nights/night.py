"""A night: what happened to every dataset, and the verdict."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fusion.cells import Cell
from fusion.metrics import Aspect
from fusion.statistics.gate import Change
from jobs.nights.baseline import DROPPED, EMPTY, LOST, NEW_CELL, NEW_GROUP, NEW_METRIC, UNTESTED, Watched
from jobs.nights.checks import Check, Counted
from jobs.nights.datasets import Evaluated, OtherChoice
from jobs.nights.drift import Moved, Quantity, drift_rows
from jobs.nights.history import Row
from jobs.reporting import night as words
from jobs.reporting.formats import count, percent
from jobs.reporting.model import Comparison
from jobs.reporting.night_data import AbsentDataset, DataMove, DatasetNight, NightVerdict, WatchedChange

OK, REGRESSION, MISSING, DRIFT = "ok", "regression", "missing dataset", "data drift"
FAILED, CHECK, COST, UNCOMPARED = "failed", "data check", "cost", "not compared"
EXIT_CODES = {OK: 0, REGRESSION: 10, MISSING: 11, DRIFT: 12, FAILED: 13, CHECK: 14, COST: 15, UNCOMPARED: 16}


class Absent(NamedTuple):
    """A dataset without figures tonight: it cannot be read, or something else went wrong."""

    dataset: str
    verdict: str
    reason: str


@dataclass
class Night:
    """The outcome of a night."""

    run_id: str
    started: str
    attempt: int = 0
    finished: str = ""
    evaluated: dict[str, Evaluated] = field(default_factory=dict)
    absent: dict[str, Absent] = field(default_factory=dict)
    """By configuration file."""
    stages: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """What each stage said when it was done, by dataset."""
    counted: dict[str, Counted] = field(default_factory=dict)
    checks: dict[str, list[Check]] = field(default_factory=dict)
    """What was counted about the data before they were evaluated, and the bounds it was held against, by dataset."""
    costs: dict[str, list[Check]] = field(default_factory=dict)
    baselines: dict[str, Row] = field(default_factory=dict)
    changes: dict[Watched, Change] = field(default_factory=dict)
    fallen: dict[Watched, float] = field(default_factory=dict)
    """Watched figures that fell beyond the tolerance, with their corrected p-values."""
    uncompared: dict[Watched, str] = field(default_factory=dict)
    """Watched figures that could not be compared with a night, each with the reason."""
    unguarded: dict[str, list[str]] = field(default_factory=dict)
    """Guards that had nothing to look at or to compare with, by dataset; a sentence each."""
    drift: dict[str, dict[Quantity, Moved]] = field(default_factory=dict)
    """By dataset and quantity."""
    other_choices: dict[str, list[OtherChoice]] = field(default_factory=dict)
    """Where tonight's data would choose another fusion than the baseline's did, by dataset; no alarm."""
    figures: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Tonight's watched figures by dataset, whether or not there is anything to compare them with."""
    next_steps: dict[str, list[str]] = field(default_factory=dict)
    unrecorded: str | None = None
    """Why the night is not part of the history."""
    problems: list[str] = field(default_factory=list)
    """What went wrong beside the verdict: alerts that did not leave, pages that could not be written."""

    def __str__(self) -> str:
        """The outcome in a few lines, for people."""

        return message(self)

    def verdict(self, dataset: str) -> str:
        """The gravest of what was found: a figure that fell is a fall on whatever data."""
        if any(watched.dataset == dataset for watched in self.fallen):
            return REGRESSION
        if any(check.alarm for check in self.checks.get(dataset, [])):
            return CHECK
        if any(watched.dataset == dataset for watched in self.uncompared) or self.unguarded.get(dataset):
            return UNCOMPARED
        if any(moved.alarm for moved in self.drift.get(dataset, {}).values()):
            return DRIFT
        return COST if any(check.alarm for check in self.costs.get(dataset, [])) else OK

    def breaches(self, dataset: str) -> list[Check]:
        """The bounds that were not kept."""
        return [check for check in (*self.checks.get(dataset, []), *self.costs.get(dataset, [])) if check.alarm]

    @property
    def exit_code(self) -> int:
        """The smallest of the alarms' codes; 0 if there is none. A night that is not recorded has failed."""
        verdicts = [*map(self.verdict, self.evaluated), *(absent.verdict for absent in self.absent.values())]
        verdicts += [FAILED] if self.unrecorded is not None else []
        return min((EXIT_CODES[verdict] for verdict in verdicts if verdict != OK), default=0)

    def against(self, dataset: str) -> str | None:
        """The name of the baseline."""
        return self.baselines[dataset]["run_id"] if dataset in self.baselines else None

    def changed(self, dataset: str) -> list[str]:
        """What differs from the baseline: data, configuration, code."""
        tonight, before = self.evaluated[dataset].fingerprints, self.baselines.get(dataset)
        return [] if before is None else [name for name in tonight if before[name] != tonight[name]]

    def changed_inputs(self, dataset: str) -> list[str]:
        """The inputs that are not what they were, or that only one of the two nights has."""
        if "data" not in self.changed(dataset):
            return []
        return differing_inputs(self.baselines[dataset]["data"], self.evaluated[dataset].fingerprints["data"])


def differing_inputs(before: str, after: str) -> list[str]:
    """The inputs that differ between two fingerprints of data, or that only one of them has."""
    was, now = json.loads(before), json.loads(after)
    return sorted(name for name in {*was, *now} if was.get(name) != now.get(name))


WORDS = {
    LOST: "the history has lost rows of {against} in its table query_figures",
    NEW_METRIC: "{against} did not watch this metric",
    NEW_GROUP: "{against} has no figures of this label group",
    NEW_CELL: "{against} has no figures of this cell or retriever",
    DROPPED: "{against} watched it, and tonight has no such figure",
    EMPTY: "no text has such a figure, tonight or in {against}",
}
SHOWN = 5
"""Figures that one line names."""


def uncompared_lines(night: Night, dataset: str) -> list[str]:
    """What could not be compared, and why; one line per reason and night."""
    alike: dict[tuple[str, str], list[Watched]] = {}
    for watched, reason in night.uncompared.items():
        if watched.dataset == dataset:
            alike.setdefault((reason, watched.against), []).append(watched)
    lines = []
    for (reason, against), figures in alike.items():
        if reason == UNTESTED:
            lines += [_untested(figure, night.changes[figure]) for figure in figures]
            continue
        names = ", ".join(map(str, figures[:SHOWN]))
        rest = f" and {len(figures) - SHOWN} more" if len(figures) > SHOWN else ""
        lines.append(f"not compared: {WORDS[reason].format(against=against)} ({names}{rest})")
    return [*lines, *night.unguarded.get(dataset, [])]


def _untested(watched: Watched, change: Change) -> str:
    return (
        f"not compared: {watched} went from {percent(change.baseline, 2)} ({watched.against}) to "
        f"{percent(change.tonight, 2)}, further than the tolerance of {percent(change.tolerance, 2)} points, over "
        f"{count(change.texts, 'text')}: too few for a test"
    )


def summary(night: Night, headline: str) -> dict[str, Any]:
    """The outcome as data, for programs."""
    facts = {
        "run_id": night.run_id,
        "attempt": night.attempt,
        "exit_code": night.exit_code,
        "headline": headline,
        "started": night.started,
        "finished": night.finished,
        "recorded": night.unrecorded is None,
        "problems": list(night.problems),
        "absent": {path: absent._asdict() for path, absent in night.absent.items()},
        "datasets": {name: _dataset_facts(night, name) for name in night.evaluated},
    }
    return {key: without_nan(value) for key, value in facts.items()}


def _dataset_facts(night: Night, name: str) -> dict[str, Any]:
    evaluated = night.evaluated[name]
    return {
        "verdict": night.verdict(name),
        "evaluated": evaluated.built,
        "baseline": night.against(name),
        "changed": night.changed(name),
        "changed_inputs": night.changed_inputs(name),
        "reasons": [str(check) for check in night.breaches(name)]
        + uncompared_lines(night, name)
        + [str(quantity) for quantity, moved in night.drift.get(name, {}).items() if moved.alarm],
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
        "uncompared": [
            {**watched._asdict(), "reason": reason}
            for watched, reason in night.uncompared.items()
            if watched.dataset == name
        ],
        "checks": [{**check._asdict(), "alarm": check.alarm} for check in night.checks.get(name, [])],
        "cost": [{**check._asdict(), "alarm": check.alarm} for check in night.costs.get(name, [])],
        "drift": drift_rows(night.drift.get(name, {})),
        "other_choices": [choice._asdict() for choice in night.other_choices.get(name, [])],
        "next_steps": night.next_steps.get(name, []),
        "fingerprints": evaluated.fingerprints,
        "stages": night.stages.get(name, []),
    }


def without_nan(value: Any) -> Any:
    """None for what is not a number: JSON has no other word for it."""
    if isinstance(value, dict):
        return {key: without_nan(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_nan(inner) for inner in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def verdict_of(night: Night) -> NightVerdict:
    """What every page of the night begins with."""
    datasets = []
    for name, evaluated in night.evaluated.items():
        inputs = f"data ({', '.join(night.changed_inputs(name))})"
        datasets.append(
            DatasetNight(
                name,
                night.verdict(name),
                night.against(name),
                tuple(inputs if what == "data" else what for what in night.changed(name)),
                evaluated.built,
                tuple(_watched(night, watched) for watched in night.changes if watched.dataset == name),
                tuple(
                    DataMove(str(quantity), moved.change or 0.0, moved.allowed or 0.0)
                    for quantity, moved in night.drift.get(name, {}).items()
                    if moved.alarm
                ),
                tuple(map(str, night.breaches(name))),
                tuple(night.next_steps.get(name, ())),
                tuple(map(str, night.other_choices.get(name, ()))),
                tuple(uncompared_lines(night, name)),
                evaluated.config.nightly.tolerance / 100,
            )
        )
    absent = tuple(
        AbsentDataset(missing.dataset, missing.verdict, path, missing.reason) for path, missing in night.absent.items()
    )
    problems = [f"the night is not in the history: {night.unrecorded}"] if night.unrecorded is not None else []
    return NightVerdict(night.run_id, night.exit_code, tuple(datasets), absent, (*problems, *night.problems))


def summary_of(night: Night) -> dict[str, Any]:
    """The outcome as data, for programs."""
    return summary(night, words.headline(verdict_of(night)))


def message(night: Night) -> str:
    """The outcome in a few lines, for people."""
    return words.message(verdict_of(night))


def _watched(night: Night, watched: Watched) -> WatchedChange:
    change = night.changes[watched]
    p = night.fallen.get(watched, change.p)
    return WatchedChange(
        Aspect(watched.label_group, watched.metric, watched.k),
        Cell(watched.normalization, watched.fusion),
        watched.against,
        change.baseline,
        change.tonight,
        Comparison(change.difference, change.low, change.high, p_queries=p, texts=change.texts),
        change.paired,
        change.new,
        change.gone,
        watched in night.fallen,
        change.other_folds,
    )


def watched_rows(night: Night, dataset: str) -> list[dict[str, Any]]:
    """Tonight's watched figures; which of them fell, and how many texts are others than the baseline's."""
    rows = []
    for figure in night.figures[dataset]:
        key = tuple(figure[name] for name in ("label_group", "metric", "k", "normalization", "fusion"))
        compared = [watched for watched in night.changes if watched[:-1] == (dataset, *key)]
        others = [night.changes[watched] for watched in compared if watched.against == night.against(dataset)]
        rows.append(
            {
                **figure,
                "fell": any(watched in night.fallen for watched in compared),
                "new_texts": others[0].new if others else None,
                "gone_texts": others[0].gone if others else None,
            }
        )
    return rows
