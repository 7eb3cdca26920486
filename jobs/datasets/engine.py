"""Which engine prepares a dataset and retrieves from it: this process, or Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobs.datasets.formats import check_settings
from jobs.datasets.readers import REMEDY
from jobs.datasets.records import TABLE
from jobs.engines.choose import choose_engine
from jobs.engines.engine import Engine
from jobs.settings.config import Config
from jobs.settings.prepare import PrepareSettings, paths_of
from jobs.storage.workspace import Workspace, check_prepared
from udfs.splits import files_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _sources(settings: PrepareSettings) -> list[str]:
    """The files and tables of a dataset."""
    given = [path for part in settings.parts for path in paths_of(settings, part.texts)]
    given += [path for part in settings.parts for path in paths_of(settings, part.labels or [])]
    given += paths_of(settings, settings.label_file or [])
    tables = [path for path in given if path.startswith(TABLE)]
    files = [path for path in given if not path.startswith(TABLE)]
    return [*tables, *(file.name for file in (files_of(files, REMEDY) if files else ()))]


def dataset_engine(config: Config, spark: SparkSession | None = None) -> Engine[Any]:
    """The engine that `grid.engine` names; `auto` takes this process where nothing asks for Spark."""
    check_settings(config.prepare)
    return choose_engine(config, _sources(config.prepare), spark)


def prepared_engine(config: Config, spark: SparkSession | None = None) -> Engine[Any]:
    """The same for what reads the prepared tables, which must be there."""
    place = Workspace.of(config)
    check_prepared(place.prepared)
    return choose_engine(config, [place.samples, place.labels, place.folds], spark)
