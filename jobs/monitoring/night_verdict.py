"""A night's findings as its pages and its history hold them."""

from __future__ import annotations

from typing import Any

from fusion.grid import Cell
from jobs.monitoring.baseline import Watched
from jobs.monitoring.night import Night, summary, uncompared_lines
from jobs.reporting import night as words
from jobs.reporting.data import Aspect, Comparison
from jobs.reporting.night_data import AbsentDataset, DataMove, DatasetNight, NightVerdict, WatchedChange


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
