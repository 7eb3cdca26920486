"""A night: what it found about every dataset, its verdicts and its exit code, and the message for people."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from fusion.statistics.gate import alarms
from jobs.nights.changes import ComparedFigure, Figure, UncomparedFigure, uncompared_lines
from jobs.nights.checks import Check, InputCounts
from jobs.nights.datasets import DatasetResults, OtherChoice
from jobs.nights.drift import LabelledTexts, Movement
from jobs.nights.history import Row
from jobs.reporting.formats import count, joined, plain
from jobs.settings.config import Config
from jobs.storage.folders import one_line

OK, REGRESSION, MISSING, DRIFT = "ok", "regression", "missing dataset", "data drift"
FAILED, CHECK, COST, UNCOMPARED = "failed", "data check", "cost", "not compared"
EXIT_CODES = {OK: 0, REGRESSION: 10, MISSING: 11, DRIFT: 12, FAILED: 13, CHECK: 14, COST: 15, UNCOMPARED: 16}
CAUSES = ("data", "configuration", "code")


@dataclass(frozen=True)
class Absent:
    """A dataset without figures tonight: it cannot be read, or something else went wrong."""

    dataset: str
    file: str
    """The configuration file that names the dataset."""
    verdict: str
    reason: str

    def __str__(self) -> str:
        return one_line(f"{self.dataset}: {self.verdict}: {self.file}: {self.reason}")


@dataclass(frozen=True)
class DatasetNight:
    """What a night found about one dataset."""

    results: DatasetResults
    counts: InputCounts
    """Of the data, before they were evaluated."""
    stages: tuple[dict[str, Any], ...] = ()
    """What each stage said when it was done."""
    baseline: Row | None = None
    """The night that it is compared with, as the history has it in `runs`."""
    figures: tuple[dict[str, Any], ...] = ()
    """Tonight's watched figures, whether or not there is anything to compare them with."""
    compared: tuple[ComparedFigure, ...] = ()
    uncompared: tuple[UncomparedFigure, ...] = ()
    """Watched figures that were compared with earlier nights, and those that could not be."""
    idle_guards: tuple[str, ...] = ()
    """Guards that had nothing to look at or to compare with; a sentence each."""
    checks: tuple[Check, ...] = ()
    costs: tuple[Check, ...] = ()
    movements: tuple[Movement, ...] = ()
    labelled: LabelledTexts | None = None
    """New texts with their labels, if the night had any to label and raised no alarm before."""
    other_choices: tuple[OtherChoice, ...] = ()
    """Where tonight's data would choose another fusion than the baseline's did; no alarm."""
    next_steps: tuple[str, ...] = ()
    """Where to look first, and how to make the night again."""

    @property
    def name(self) -> str:
        return self.config.dataset

    @property
    def config(self) -> Config:
        return self.results.inputs.config

    @property
    def against(self) -> str | None:
        """The name of the baseline."""
        return self.baseline["run_id"] if self.baseline is not None else None

    @property
    def fallen(self) -> list[ComparedFigure]:
        return [figure for figure in self.compared if figure.fell]

    @property
    def worst_first(self) -> list[ComparedFigure]:
        """The figures that fell, the largest drop first."""
        return sorted(self.fallen, key=lambda figure: figure.change.difference)

    @property
    def breaches(self) -> list[Check]:
        """The bounds of the data and of the cost that were not kept."""
        return [check for check in (*self.checks, *self.costs) if check.alarm]

    @property
    def moved(self) -> list[Movement]:
        """What moved in the data by more than is allowed."""
        return [movement for movement in self.movements if movement.alarm]

    @property
    def not_compared(self) -> list[str]:
        """What should have been compared and could not be, a sentence each."""
        return [*uncompared_lines(self.uncompared), *self.idle_guards]

    @property
    def verdict(self) -> str:
        """The gravest of what was found: a figure that fell is a fall on whatever data."""
        raised = {
            REGRESSION: self.fallen,
            CHECK: any(check.alarm for check in self.checks),
            UNCOMPARED: self.not_compared,
            DRIFT: self.moved,
            COST: any(check.alarm for check in self.costs),
        }
        return next((verdict for verdict, alarm in raised.items() if alarm), OK)

    @property
    def reasons(self) -> list[str]:
        """Of every alarm but a fall, as the summary has them."""
        return [*map(str, self.breaches), *self.not_compared, *(str(movement.quantity) for movement in self.moved)]

    @property
    def changed(self) -> list[str]:
        """What differs from the baseline: data, configuration, code."""
        before = self.baseline
        tonight = self.results.inputs.fingerprints
        return [] if before is None else [name for name in tonight if before[name] != tonight[name]]

    @property
    def changed_inputs(self) -> list[str]:
        """The inputs that are not what they were, or that only one of the two nights has."""
        if self.baseline is None or "data" not in self.changed:
            return []
        return differing_inputs(self.baseline["data"], self.results.inputs.fingerprints["data"])

    @property
    def changed_words(self) -> list[str]:
        """What differs from the baseline, with the names of the inputs."""
        inputs = f"data ({', '.join(self.changed_inputs)})"
        return [inputs if what == "data" else what for what in self.changed]

    @property
    def causes(self) -> str:
        """What changed since the baseline, and what did not."""
        if self.baseline is None:
            return f"{self.name}: no baseline yet, nothing to compare with."
        same = [what for what in CAUSES if what not in self.changed]
        changed = f"changed: {joined(self.changed_words)}" if self.changed else "nothing changed"
        unchanged = f"; unchanged: {joined(same)}" if self.changed and same else ""
        return f"{self.name}: since {self.against} {changed}{unchanged}."

    @property
    def lower_without_alarm(self) -> list[str]:
        """Figures that are lower by more than the tolerance and gave no alarm, with the reason."""
        return [line for figure in self.compared if (line := figure.lower_without_alarm) is not None]

    @property
    def message(self) -> Iterator[str]:
        compared = "no baseline yet"
        if self.baseline is not None:
            compared = f"against {self.against}, changed since: {', '.join(self.changed_words) or 'nothing'}"
        work = "evaluated" if self.results.built else "nothing to do, figures kept"
        yield f"{self.name}: {self.verdict}; {compared}; {work}"
        if self.labelled is not None:
            yield f"  {count(self.labelled.texts, 'new text')} labelled: {count(len(self.labelled.rows), 'label')}"
        alarms = [*self.not_compared, *self.breaches, *self.fallen, *self.moved]
        for line in (*alarms, *self.lower_without_alarm, *self.other_choices, *self.next_steps):
            yield f"  {line}"


def differing_inputs(before: str, after: str) -> list[str]:
    """The inputs that differ between two fingerprints of data, or that only one of them has."""
    was, now = json.loads(before), json.loads(after)
    return sorted(name for name in {*was, *now} if was.get(name) != now.get(name))


@dataclass(frozen=True)
class Night:
    """The outcome of a night."""

    run_id: str
    started: str
    attempt: int = 0
    finished: str = ""
    datasets: tuple[DatasetNight, ...] = ()
    absent: tuple[Absent, ...] = ()
    unrecorded: str | None = None
    """Why the night is not part of the history."""
    problems: tuple[str, ...] = ()
    """What went wrong apart from the verdict: alerts that were not sent, pages that could not be written."""

    def __getitem__(self, name: str) -> DatasetNight:
        """What the night found about a dataset that has figures."""
        return {dataset.name: dataset for dataset in self.datasets}[name]

    @property
    def exit_code(self) -> int:
        """The smallest of the alarms' codes; 0 if there is none. A night that is not recorded has failed."""
        verdicts = [*(dataset.verdict for dataset in self.datasets), *(absent.verdict for absent in self.absent)]
        verdicts += [FAILED] if self.unrecorded is not None else []
        return min((EXIT_CODES[verdict] for verdict in verdicts if verdict != OK), default=0)

    @property
    def all_problems(self) -> list[str]:
        unrecorded = [] if self.unrecorded is None else [f"the night is not in the history: {self.unrecorded}"]
        return [*unrecorded, *self.problems]

    @property
    def headline(self) -> str:
        """The night in one line."""
        fallen = [figure for dataset in self.datasets for figure in dataset.fallen]
        breaches = sum(len(dataset.breaches) for dataset in self.datasets)
        moved = sum(len(dataset.moved) for dataset in self.datasets)
        parts = []
        if fallen:
            since = joined(list(dict.fromkeys(figure.against for figure in fallen)))
            parts.append(f"Regression: {count(len(fallen), 'watched figure')} fell since {since}")
        parts += [f"{absent.dataset} has no figures ({absent.verdict})" for absent in self.absent]
        parts += [
            f"not everything that is watched of {dataset.name} could be compared"
            for dataset in self.datasets
            if dataset.not_compared
        ]
        if breaches:
            parts.append(f"{count(breaches, 'bound')} of the data or the cost not kept")
        if moved:
            parts.append(f"{count(moved)} {'quantity' if moved == 1 else 'quantities'} of the data moved")
        return "; ".join(parts or self._quiet()) + "."

    def _quiet(self) -> list[str]:
        """The headline of a night without an alarm."""
        against = list(dict.fromkeys(dataset.against for dataset in self.datasets if dataset.against))
        if not against:
            return ["First night: nothing to compare with"]
        first = [dataset.name for dataset in self.datasets if not dataset.against]
        new = [f"{joined(first)}: no baseline yet, nothing to compare with"] if first else []
        return [f"No figure fell since {joined(against)}", *new]

    def __str__(self) -> str:
        """The outcome in a few lines, for people."""
        lines = [f"night {self.run_id}: exit code {self.exit_code}", *map(str, self.absent)]
        lines += [line for dataset in self.datasets for line in dataset.message]
        return "\n".join(map(plain, [*lines, *map(one_line, self.all_problems)]))


def with_alarms(datasets: list[DatasetNight]) -> tuple[DatasetNight, ...]:
    """The same with the figures that fell marked: the correction is over all figures of a night."""
    changes = {(dataset.name, n): one.change for dataset in datasets for n, one in enumerate(dataset.compared)}
    levels = {dataset.name: dataset.config.nightly.alpha for dataset in datasets}
    p = alarms(changes, lambda key: levels[key[0]])

    def marked(dataset: DatasetNight) -> DatasetNight:
        figures = enumerate(dataset.compared)
        return replace(
            dataset, compared=tuple(replace(one, corrected_p=p.get((dataset.name, n))) for n, one in figures)
        )

    return tuple(map(marked, datasets))


def watched_rows(dataset: DatasetNight) -> list[dict[str, Any]]:
    """The history's rows of tonight's watched figures: which fell, and how many texts are not the baseline's."""
    rows = []
    for row in dataset.figures:
        compared = [one for one in dataset.compared if one.figure == Figure.of(row)]
        changes = [one.change for one in compared if one.against == dataset.against]
        others = {"new_texts": changes[0].new, "gone_texts": changes[0].gone} if changes else {}
        rows.append({**row, "fell": any(one.fell for one in compared), **others})
    return rows
