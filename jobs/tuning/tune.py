"""Job `tune`: the best fusion for the data, chosen and learned on validation texts and applied once to test texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fusion.errors import ConfigError
from jobs.engines.credentials import job
from jobs.evaluation.evaluate import evaluated, write
from jobs.evaluation.explain import with_stages
from jobs.evaluation.result import Result
from jobs.evaluation.schemas import MODEL_FILE
from jobs.inputs.engines import choose_engine
from jobs.inputs.sources import Sources
from jobs.runtime.log import log
from jobs.settings.base import OutputSettings
from jobs.settings.config import Config, with_settings
from jobs.storage.folders import ResultFolder, check_output, result_folder, stage_line
from jobs.storage.workspace import Workspace
from jobs.tuning.tuner import Tuner
from udfs.plan import JUDGED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def with_inputs(config: Config) -> Config:
    """The configuration with what the dataset's stages left as inputs where none are named, and a place for results."""
    if config.inputs.candidates is not None or config.inputs.judgements is not None:
        return config
    staged = with_stages(config)
    place = config.output
    if staged is not config and place.path is None:
        place = OutputSettings(path=Workspace.of(config).tuned, mode="overwrite")
    return staged.model_copy(update={"output": place})


@job
def run(spark: SparkSession | None, config: Config, sources: Sources | None = None) -> Result:
    """Tune, evaluate, and write the results with the model file if the configuration says where."""
    check_output(config.output)
    with stage_line("tune", config.output.path) as counts:
        result = compute(spark, config, sources)
        if config.output.path is not None:
            with result_folder(config.output, config) as folder:
                write_all(result, folder)
        counts.update(texts=result.input_counts[JUDGED], figures=len(result.metrics))
    return result


def write_all(result: Result, folder: ResultFolder) -> None:
    """All tables, and the model file."""
    write(result, folder)
    assert result.model is not None
    folder.write_text(MODEL_FILE, result.model)


def compute(spark: SparkSession | None, config: Config, sources: Sources | None = None) -> Result:
    """The figures of fixed cells, single retrievers and strategies, what was chosen, and the model."""
    sources = sources or Sources.of(config.inputs)
    sources.require(judged=True)
    if config.grid.train_share:
        raise ConfigError("tune sets texts apart by folds or parts: leave grid.train_share at 0")
    engine = choose_engine(config, sources, spark)
    tuner = Tuner.of(engine, config, sources)
    tuned = tuner.tune()
    if tuner.validation.kind == "parts":
        # Examples are looked up by fold, and the input has none.
        config = with_settings(config, {"evaluate.examples": 0})
    result = evaluated(engine, config, sources, tuned.tuning)
    result.details["choices"] = tuned.choices
    if len(tuned.curve):
        result.details["learning_curve"] = tuned.curve
    result.model, result.notes = tuned.model, [tuner.validation.words]
    log(f"the model file holds {', '.join(f'{view}: {name}' for view, name in tuned.deployed.items())}")
    return result
