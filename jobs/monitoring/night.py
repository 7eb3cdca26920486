"""The outcome of a nightly run: verdicts, and what programs are told of them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pyspark.sql import Row

from fusion.statistics.gate import Change
from jobs.monitoring.baseline import Moved, Quantity, Watched
from jobs.monitoring.reevaluate import Evaluated
from jobs.monitoring.tracking import without_nan

OK, REGRESSION, MISSING, DRIFT, FAILED = "ok", "regression", "missing dataset", "data drift", "failed"
EXIT_CODES = {OK: 0, REGRESSION: 10, MISSING: 11, DRIFT: 12, FAILED: 13}


class Absent(NamedTuple):
    """A dataset without figures tonight: it cannot be read, or something else went wrong."""

    dataset: str
    verdict: str
    reason: str


@dataclass
class Night:
    """The outcome of a nightly run."""

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
    drift: dict[str, dict[Quantity, Moved]] = field(default_factory=dict)
    """By dataset and quantity."""
    figures: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Tonight's watched figures by dataset, whether or not there is anything to compare them with."""

    def __str__(self) -> str:
        """The outcome in a few lines, for people."""
        from jobs.monitoring.night_verdict import message

        return message(self)

    def verdict(self, dataset: str) -> str:
        if any(watched.dataset == dataset for watched in self.fallen):
            return REGRESSION
        return DRIFT if any(moved.alarm for moved in self.drift.get(dataset, {}).values()) else OK

    @property
    def exit_code(self) -> int:
        """The smallest of the alarms' codes; 0 if there is none."""
        verdicts = [*map(self.verdict, self.evaluated), *(absent.verdict for absent in self.absent.values())]
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
        was, now = json.loads(self.baselines[dataset]["data"]), json.loads(self.evaluated[dataset].fingerprints["data"])
        return sorted(name for name in {*was, *now} if was.get(name) != now.get(name))


def summary(night: Night) -> dict[str, Any]:
    """The outcome as data, for programs."""
    facts = {
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
                "drift": [
                    {**quantity._asdict(), "quantity": str(quantity), **moved._asdict(), "alarm": moved.alarm}
                    for quantity, moved in night.drift[name].items()
                ],
                "fingerprints": evaluated.fingerprints,
                "stages": night.stages[name],
            }
            for name, evaluated in night.evaluated.items()
        },
    }
    return {key: without_nan(value) for key, value in facts.items()}
