"""A calendar of nights over a simulated site: events, what the night of each must do, and what it did."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from benchmarks.simulated_site import (
    FOLDS,
    METRIC_NAMES,
    METRICS,
    TEXTS,
    Data,
    Figures,
    Row,
    SimulatedSite,
    differences,
    smallest_p,
)
from fusion.errors import XmtcError
from jobs.nights import commands

ALPHA, TOLERANCE = 0.01, 0.005
WATCHED = 3 * 2 * len(METRICS)
"""Figures: two retrievers and a fused cell, two label groups."""
GREEN, RED, STOPPED, BY_SIZE, TOO_SMALL = "no alarm", "alarm", "alarm or refusal", "by its size", "too small"
"""What a night must do. A regression by its size becomes an alarm, or is too small for one."""
REFUSED, KILLED = "refusal", "killed"
ALLOWED = {GREEN: {GREEN}, RED: {RED}, STOPPED: {RED, REFUSED}, TOO_SMALL: {RED, GREEN}, KILLED: {KILLED}}
QUIET, AFTER, REPAIRED = "quiet", "after an alarm that was accepted", "after a repair"


class Outcome(NamedTuple):
    """A night: what it had to do, and what it did."""

    run_id: str
    event: str
    expected: str
    result: str
    reason: bool = True
    """Whether an alarm gives the reason that it was planted for."""
    baseline: bool = True
    """Whether it was compared with the night that it had to be compared with."""
    drop: float = 0.0
    """The largest drop of a retriever's figure, in points."""
    message: str = ""

    @property
    def wrong(self) -> bool:
        return self.result not in ALLOWED[self.expected] or not self.baseline or not self.reason

    def __str__(self) -> str:
        notes = [", another baseline"] * (not self.baseline) + [", another reason"] * (not self.reason)
        words = f"{self.run_id}, {self.event}: {self.result}, where it had to be: {self.expected}{''.join(notes)}"
        return f"{words}. {' '.join(self.message.split())[:300]}"


class Calendar:
    """The nights of a site, one after the other, and what the simulator knows about them."""

    def __init__(self, folder: Path, seed: int, repeated: bool, texts: int = TEXTS) -> None:
        self.site = SimulatedSite(folder, seed, repeated, texts)
        self.rng = self.site.rng
        self.outcomes: list[Outcome] = []
        self.known: dict[str, Figures] = {}
        """The figures of every night that has some."""
        self.baseline: str | None = None
        self.pinned: str | None = None
        self.count = 0
        self.night("the first night", GREEN)

    @property
    def data(self) -> Data:
        return self.site.data

    @data.setter
    def data(self, data: Data) -> None:
        self.site.data = data

    def some(self, share: float) -> set[int]:
        texts = self.data.texts()
        return set(self.rng.choice(texts, max(1, round(share * len(texts))), replace=False).tolist())

    def night(
        self,
        event: str,
        expected: str,
        reason: str = "",
        noise: bool = True,
        again: bool = False,
        since: str | None = None,
        **settings: Any,
    ) -> Outcome:
        """Write the data, run a night over them, and compare with what it had to do. The drop is that since the
        baselines, or since another night."""
        self.count += not again
        run_id = f"night-{self.count:03d}"
        if noise:
            self.site.write()
        tonight = self.site.figures()
        against = [differences(self.known[name], tonight) for name in {self.baseline, self.pinned} if name is not None]
        if expected == BY_SIZE:
            p = min((smallest_p(changes, TOLERANCE) for changes in against), default=1.0)
            expected = RED if p * WATCHED * len(against) < ALPHA else TOO_SMALL
        measured = against if since is None else [differences(self.known[since], tonight)]
        drop = max((-100 * float(d.mean()) for changes in measured for d in changes.values()), default=0.0)
        try:
            night = self.site.run(run_id, **settings)
        except XmtcError as error:
            outcome = Outcome(run_id, event, expected, REFUSED, drop=drop, message=str(error))
        else:
            message, result = str(night), GREEN if night.exit_code == 0 else RED
            same = not night.datasets or night["sample"].against == (self.pinned or self.baseline)
            because = result == GREEN or re.search(reason, message) is not None
            outcome = Outcome(run_id, event, expected, result, because, same, drop, message)
            if night.datasets:
                self.known[run_id] = tonight
        self.outcomes.append(outcome)
        if outcome.result == GREEN:
            self.baseline = run_id
        elif expected == GREEN:
            self.accept()
        return outcome

    def accept(self) -> None:
        """The operator has looked at the last night: its alarm, if it raised one, is as it should be."""
        run_id, result = self.outcomes[-1].run_id, self.outcomes[-1].result
        if result == RED:
            commands.accept(self.site.history(), run_id, None, "as it should be")
            self.baseline = run_id

    def answer(self, kept: Data) -> None:
        """What the operator does about the last night: accept an alarm and repair the data later, or at once."""
        if self.outcomes[-1].result == RED and self.rng.random() < 0.5:
            self.accept()
            self.night(AFTER, GREEN)
        self.data = kept
        self.night(REPAIRED, GREEN)

    def pin(self, run_id: str | None) -> None:
        commands.pin(self.site.history(), run_id, "a night to trust")
        self.pinned = run_id

    def killed(self) -> None:
        """A night that is killed while it writes figures into the history; it does not count."""
        self.count += 1
        run_id = f"night-{self.count:03d}"
        self.site.write()
        at_work = self.site.kill(run_id)
        counts = run_id in {row["run_id"] for row in self.site.history().runs()}
        self.outcomes.append(
            Outcome(run_id, "killed while it writes", KILLED, KILLED if at_work and not counts else GREEN)
        )

    def quiet(self) -> None:
        """A night on which nothing is wrong."""
        name = str(
            self.rng.choice(
                ["nothing changed", "trained again", "new texts", "fewer texts", "judged otherwise", "other scores"]
            )
        )
        few = self.some(0.02)
        if name == "new texts":
            spare = [text for text in self.site.every.folds if text not in self.data.folds][: len(few)]
            self.data = self.data.with_folds({text: self.site.every.folds[text] for text in spare})
        elif name == "fewer texts":
            self.data = self.data.without_texts(few)
        elif name == "judged otherwise":
            labels = {text: tuple(self.rng.choice(50, 4, replace=False).tolist()) for text in few}
            self.data = replace(self.data, judgements={**self.data.judgements, **labels})
        elif name == "other scores":
            # Another unit changes neither ranks nor scores in standard deviations.
            scale = 2.0 ** int(self.rng.integers(-2, 3))
            self.data = self.data.with_lists(lambda row: {**row, "scale": scale} if row["retriever"] == "bm25" else row)
        self.night(f"{QUIET}: {name}", GREEN, noise=name != "nothing changed")
        if self.rng.random() < 1 / 8 and self.outcomes[-1].result == GREEN:
            # A second attempt is compared with what the first one was compared with.
            self.baseline = self.site.history().runs()[-1]["baseline"]
            self.night(f"{QUIET}: made twice", GREEN, again=True)


Episode = Callable[[Calendar], None]


def regression(where: str, share: float, calendar: Calendar) -> None:
    """A share of the dense retriever's lists is ruined, everywhere or in a part of the data."""
    kept = calendar.data
    fold, group = int(calendar.rng.integers(FOLDS)), str(calendar.rng.choice(["tail", "head"]))
    chosen: dict[str, Callable[[Row], bool]] = {
        "one retriever": lambda row: True,
        "one fold": lambda row: kept.fold(row) == fold,
        "one label group": lambda row: bool(row["label_group"] == group),
    }
    calendar.data = kept.ruined(calendar.some(share), chosen[where])
    calendar.night(f"regression: {share:.0%} of the lists of {where}", BY_SIZE, "fell")
    calendar.answer(kept)


def slow_drift(pinned: bool, calendar: Calendar) -> None:
    """Every night one text in fifty more is ruined. No step is large enough to be noticed, but a pinned night shows
    what they come to."""
    kept, first = calendar.data, calendar.baseline
    if pinned:
        calendar.pin(first)
    order = calendar.rng.permutation(kept.texts()).tolist()
    event = f"slow drift: one text in fifty more each night, {'a' if pinned else 'no'} night pinned"
    for step in range(1, 11):
        calendar.data = kept.ruined(set(order[: round(len(order) * step / 50)]))
        if calendar.night(event, BY_SIZE, "fell", since=first).result != GREEN:
            break
    if pinned:
        calendar.pin(None)
    calendar.data = kept
    calendar.night(REPAIRED, GREEN)


def renamed(ruin: bool, calendar: Calendar) -> None:
    """A retriever has another name: what was watched of it is not there."""
    kept = calendar.data
    data = kept.ruined(calendar.some(0.3)) if ruin else kept
    calendar.data = data.with_lists(lambda row: {**row, "retriever": row["retriever"].replace("dense", "denser")})
    event = f"renamed retriever{', 30% ruined' * ruin}"
    if calendar.night(event, RED, "dense").result == RED and not ruin:
        calendar.accept()
        calendar.night(AFTER, GREEN)
        calendar.data = kept
        calendar.night(event, RED, "dense")
        calendar.accept()
    calendar.data = kept
    calendar.night(REPAIRED, GREEN)


def rewatched(what: str, name: str, value: list[str], ruin: bool, calendar: Calendar) -> None:
    """Something else is watched than on the night before. The operator accepts that, or takes it back."""
    settings: dict[str, Any] = {f"nightly__watch__{name}": value}
    kept = calendar.data
    calendar.data = kept.ruined(calendar.some(0.3)) if ruin else kept
    event = f"{what} {name.replace('_', ' ')} watched{', 30% ruined' * ruin}"
    outcome = calendar.night(event, RED, "compare|fell" if ruin else "compare", **settings)
    if not ruin and outcome.result == RED:
        calendar.accept()
        calendar.night(AFTER, GREEN, **settings)
        calendar.night(event, RED, "compare")
        calendar.accept()
    calendar.data = kept
    calendar.night(REPAIRED, GREEN)


def lost(table: str, ruin: bool, calendar: Calendar, commit: bool = False) -> None:
    """A table of the history is gone, or the last entry of its log; after the night it is copied back."""
    kept, baseline, history = calendar.data, calendar.baseline, calendar.site.work / "history"
    copied = history.with_name("copied")
    shutil.copytree(history, copied)
    (calendar.site.lose_last_commit if commit else calendar.site.lose)(table)
    calendar.data = kept.ruined(calendar.some(0.3)) if ruin else kept
    event = f"lost: {'the last commit of ' * commit}{table}{', 30% ruined' * ruin}"
    # With the table of nights itself, the name of the baseline is lost.
    outcome = calendar.night(event, STOPPED, "compare|baseline|gone|cannot|history|fell")
    calendar.outcomes[-1] = outcome._replace(baseline=True)
    shutil.rmtree(history)
    copied.rename(history)
    calendar.data, calendar.baseline = kept, baseline
    calendar.night(REPAIRED, GREEN)


def new_folds(share: float, calendar: Calendar) -> None:
    """Four texts in five are dealt to another fold (one of their two, where they have two): nothing is worse, unless
    lists are ruined as well."""
    dealt = {}
    for text in calendar.some(0.8):
        folds = calendar.data.folds[text]
        other = int(calendar.rng.choice(sorted(set(range(FOLDS)) - set(folds))))
        dealt[text] = (*folds[:-1], other)
    kept = calendar.data.with_folds(dealt)
    if share:
        calendar.data = kept.ruined(calendar.some(share))
        calendar.night(f"new folds, {share:.0%} ruined", RED, "fell")
    calendar.data = kept
    calendar.night("new folds", GREEN)


def misspelt(name: str, value: Any, calendar: Calendar) -> None:
    """A guard that guards nothing."""
    words = re.findall(r"txts|bm52|tial|haed", str(value))
    setting = {f"nightly__{name.replace('.', '__')}": value}
    calendar.night(f"misspelt: {name}: {', '.join(words)}", STOPPED, "|".join(words), **setting)
    calendar.night(REPAIRED, GREEN)


def empty_lists(calendar: Calendar) -> None:
    """A retriever returns nothing for some texts."""
    kept, gone = calendar.data, calendar.some(0.05)
    calendar.data = kept.with_lists(lambda row: None if row["retriever"] == "dense" and row["text_id"] in gone else row)
    calendar.night("empty lists: one text in twenty", RED, "dense")
    calendar.data = kept
    calendar.night(REPAIRED, GREEN)


def missing(calendar: Calendar) -> None:
    """The dataset cannot be read."""
    path = calendar.site.dataset.with_name("sample2.yaml")
    calendar.night("missing dataset", RED, "missing dataset", nightly__datasets=[str(path)])
    calendar.night(REPAIRED, GREEN)


def own_tolerance(strict: bool, calendar: Calendar) -> None:
    """The dataset's own file says what is tolerated, not the settings of all."""
    kept, file = calendar.data, calendar.site.dataset
    text = file.read_text()
    own, general = (0.5, 90) if strict else (90, 0.5)
    file.write_text(yaml.safe_dump({**yaml.safe_load(text), "nightly": {"tolerance": own}}))
    calendar.data = kept.ruined(calendar.some(0.3))
    expected = RED if strict else GREEN
    calendar.night(f"the dataset tolerates {own} points, 30% ruined", expected, "fell", nightly__tolerance=general)
    file.write_text(text)
    calendar.data = kept
    calendar.night(REPAIRED, GREEN)


def killed(ruin: bool, calendar: Calendar) -> None:
    """A night is killed, and made again."""
    kept = calendar.data
    calendar.data = kept.ruined(calendar.some(0.3)) if ruin else kept
    calendar.killed()
    calendar.night(f"made again after it was killed{', 30% ruined' * ruin}", RED if ruin else GREEN, "fell", again=True)
    calendar.answer(kept)


def one_text(calendar: Calendar) -> None:
    """A dataset of a single text, in a site of its own: no test can say anything about it, but it fell."""
    other = Calendar(calendar.site.folder / f"one-text-{calendar.count}", 0, repeated=False, texts=1)
    other.night("one text: nothing changed", GREEN, noise=False)
    other.data = other.data.ruined(other.data.texts())
    other.night("one text: ruined", RED)
    calendar.outcomes += other.outcomes


REGRESSIONS = ("one retriever", "one fold", "one label group")
SHARES = (0.05, 0.15, 0.3, 0.6)
EPISODES: tuple[Episode, ...] = (
    *(partial(regression, where, share) for where in REGRESSIONS for share in SHARES),
    *(partial(slow_drift, pinned) for pinned in (False, True)),
    *(partial(renamed, ruin) for ruin in (False, True)),
    *(partial(rewatched, "other", "metrics", ["recall@10"], ruin) for ruin in (False, True)),
    partial(rewatched, "other", "cells", ["rank+isr"], False),
    partial(rewatched, "more", "metrics", [*METRIC_NAMES, "recall@10"], False),
    partial(rewatched, "fewer", "label_groups", ["tail"], False),
    *(partial(lost, "query_figures", ruin, commit=commit) for ruin in (False, True) for commit in (False, True)),
    partial(lost, "runs", True),
    *(partial(lost, name, False) for name in ("judged", "checks", "drift", "label_counts")),
    *(partial(new_folds, share) for share in (0.0, 0.5)),
    partial(misspelt, "checks.bounds", {"txts": [1, None]}),
    partial(misspelt, "checks.bounds", {"lists:bm52": [1, None]}),
    partial(misspelt, "watch.label_groups", ["tial", "haed"]),
    *(partial(own_tolerance, strict) for strict in (False, True)),
    *(partial(killed, ruin) for ruin in (False, True)),
    empty_lists,
    missing,
    one_text,
)


def simulate(
    folder: Path, seed: int, repeated: bool, episodes: tuple[Episode, ...] = EPISODES, quiet: int = 3
) -> list[Outcome]:
    """The nights of a site that goes through all episodes in random order, each after one or more quiet nights."""
    calendar = Calendar(folder, seed, repeated)
    for place in calendar.rng.permutation(len(episodes)).tolist():
        for _ in range(int(calendar.rng.integers(1, quiet + 1))):
            calendar.quiet()
        episodes[place](calendar)
    return calendar.outcomes
