"""Strategies that are watched: what they choose on tonight's validation texts, and whether that is another choice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from fusion.cells import TUNED, Cell
from fusion.learning import ANY_FOLD
from fusion.tuning.strategies import CELL
from jobs.config import Config
from jobs.evaluate import evaluated
from jobs.inputs.sources import Sources
from jobs.reporting.formats import objective_name, percent
from jobs.results.result import Result
from jobs.runtime.engines import choose_engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class OtherChoice(NamedTuple):
    """A strategy that chose otherwise in the baseline."""

    label_group: str
    strategy: str
    before: str
    against: str
    """The night that chose it."""
    now: str
    objective: str
    value: float
    """The objective of tonight's choice on tonight's validation texts."""

    def __str__(self) -> str:
        return (
            f"{self.label_group} labels: tonight's data would choose {self.now} ({objective_name(self.objective)} "
            f"{percent(self.value, 2)} on validation texts), not {self.before} ({self.against}), by {self.strategy}"
        )


def tuned_figures(
    spark: SparkSession | None, config: Config, watched_config: Callable[[set[str]], Config]
) -> tuple[Result, Result]:
    """The figures of all cells and of the watched strategies, and every text's figures of what is watched.

    `watched_config` gives the configuration of the latter for the label groups that there are.
    """
    from jobs.tuning.tuner import Tuner

    sources = Sources.of(config.inputs)
    engine = choose_engine(config, sources, spark)
    wanted = list(dict.fromkeys([CELL, *config.nightly.watch.strategies]))
    # A night needs no learning curve, and no strategy that nobody watches but the one that tells another choice.
    chosen = config.tune.model_copy(update={"strategies": [str(cell) for cell in wanted], "curve": []})
    tuner = Tuner.of(engine, config.model_copy(update={"tune": chosen}), sources)
    tuned = tuner.tune()
    if tuner.validation.test_parting is not None:
        # Examples are looked up by fold, and the input has none.
        config = config.model_copy(update={"evaluate": config.evaluate.model_copy(update={"examples": 0})})
    result = evaluated(engine, config, sources, tuned.tuning)
    result.details["choices"], result.notes = tuned.choices, [tuner.validation.words]
    groups = set(result.metrics["label_group"].to_pylist())
    strategies = {cell: tuned.tuning.strategies[cell] for cell in config.nightly.watch.strategies}
    watched = evaluated(engine, watched_config(groups), sources, replace(tuned.tuning, strategies=strategies))
    return result, watched


def overall_choices(choices: pa.Table | None) -> list[dict[str, Any]]:
    """The choices over all folds, as the history keeps them."""
    names = ("label_group", "strategy", "choice", "objective", "validation_value")
    rows = [] if choices is None else choices.to_pylist()
    return [{name: row[name] for name in names} for row in rows if row["fold"] == ANY_FOLD]


def other_choices(before: pa.Table | None, tonight: list[dict[str, Any]], against: str) -> list[OtherChoice]:
    """Where tonight's choice is not that of the baseline. Learned fusions differ every night and say nothing here."""
    rows = [] if before is None else before.to_pylist()
    known = {(row["label_group"], row["strategy"]): row["choice"] for row in rows}
    return [
        OtherChoice(row["label_group"], row["strategy"], was, against, row["choice"], row["objective"], value)
        for row in tonight
        if _is_tuned(row["strategy"])
        and (was := known.get((row["label_group"], row["strategy"]))) not in (None, row["choice"])
        and (value := row["validation_value"]) is not None
    ]


def _is_tuned(strategy: str) -> bool:
    return Cell(*strategy.split("+", 1)).normalization == TUNED
