"""Job `tune`: the best fusion for the data, chosen and learned on validation texts and applied once to test texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fusion.errors import ConfigError
from jobs.engines.choose import choose_engine
from jobs.engines.credentials import job
from jobs.evaluation.evaluate import evaluated, written
from jobs.evaluation.result import Result
from jobs.inputs.sources import Sources
from jobs.inputs.tables import InputTables
from jobs.runtime.log import log
from jobs.settings.config import Config, with_settings
from jobs.tuning.tuner import Tuner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@job
def run(spark: SparkSession | None, config: Config, sources: Sources | None = None) -> Result:
    """Tune, evaluate, and write the results with the model file if the configuration says where."""
    return written("tune", config, lambda: compute(spark, config, sources))


def compute(spark: SparkSession | None, config: Config, sources: Sources | None = None) -> Result:
    """The figures of fixed cells, single retrievers and strategies, what was chosen, and the model."""
    sources = sources or Sources.of(config.inputs)
    sources.require(judged=True)
    if config.grid.train_share:
        raise ConfigError("tune sets texts apart by folds or parts: leave grid.train_share at 0")
    tables = InputTables(choose_engine(config, sources.addresses(), spark), sources)
    tuner = Tuner.of(tables, config)
    tuned = tuner.tune()
    if tuner.validation.kind == "parts":
        # Examples are looked up by fold, and the input has none.
        config = with_settings(config, {"evaluate.examples": 0})
    result = evaluated(tables, config, tuned.tuning)
    result.details["choices"] = tuned.choices
    if len(tuned.curve):
        result.details["learning_curve"] = tuned.curve
    result.model, result.notes = tuned.model, [tuner.validation.words]
    log(f"the model file holds {', '.join(f'{view}: {name}' for view, name in tuned.deployed.items())}")
    return result
