"""Which engine prepares a dataset and retrieves from it: this process, or Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobs.datasets.formats import check_settings
from jobs.datasets.readers import REMEDY
from jobs.datasets.records import TABLE
from jobs.engines.engine import Engine
from jobs.engines.local import LocalEngine
from jobs.inputs.engines import LOCAL, spark_reason
from jobs.runtime.log import log
from jobs.settings.config import Config
from jobs.settings.prepare import PrepareSettings, paths_of
from jobs.storage.workspace import Workspace, check_prepared
from udfs.splits import files_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class _Sources:
    """The files and tables of a dataset."""

    names: list[str]

    def all(self) -> list[str]:
        return self.names


def _sources(settings: PrepareSettings) -> _Sources:
    given = [path for part in settings.parts for path in paths_of(settings, part.texts)]
    given += [path for part in settings.parts for path in paths_of(settings, part.labels or [])]
    given += paths_of(settings, settings.label_file or [])
    tables = [path for path in given if path.startswith(TABLE)]
    files = [path for path in given if not path.startswith(TABLE)]
    return _Sources([*tables, *(file.name for file in (files_of(files, REMEDY) if files else ()))])


def dataset_engine(config: Config, spark: SparkSession | None = None) -> Engine[Any]:
    """The engine that `grid.engine` names; `auto` takes this process where nothing asks for Spark."""
    check_settings(config.prepare)
    return _engine(config, _sources(config.prepare), spark)


def prepared_engine(config: Config, spark: SparkSession | None = None) -> Engine[Any]:
    """The same for what reads the prepared tables, which must be there."""
    place = Workspace.of(config)
    check_prepared(place.prepared)
    return _engine(config, _Sources([place.samples, place.labels, place.folds]), spark)


def _engine(config: Config, sources: _Sources, spark: SparkSession | None) -> Engine[Any]:
    name = config.grid.engine
    reason = spark_reason(config, sources, spark) if name == "auto" else None  # type: ignore[arg-type]
    if name == LOCAL or (name == "auto" and reason is None):
        log(f"engine: local{', in this process' if name == 'auto' else ''}")
        return LocalEngine()
    from jobs.engines.session import get_session
    from jobs.engines.spark import SparkEngine

    log(f"engine: Spark, since {reason or f'grid.engine is {name}'}")
    return SparkEngine(spark or get_session(config.spark), config.spark.partitions)
