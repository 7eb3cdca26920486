"""The prepared dataset as retrievers read it: its tables, its folds, and what is checked before anything is built.

Also which engine prepares a dataset and retrieves from it: this process, or Spark.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from fusion.errors import InputError
from jobs.datasets.formats import check_settings
from jobs.datasets.readers import REMEDY, TABLE
from jobs.engines.choose import choose_engine
from jobs.engines.engine import Engine
from jobs.inputs.roles import check_roles
from jobs.settings.config import Config
from jobs.settings.prepare import PrepareSettings, paths_of
from jobs.storage.stages import input_fingerprint, stage_folder
from jobs.storage.workspace import FOLDS, LABELS, SAMPLES, TEST, TRAIN, VALIDATION, Workspace, check_prepared
from udfs.splits import files_of
from udfs.steps import Batches, Step
from udfs.stores.addresses import absolute

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


COLUMNS = {
    SAMPLES: ("text_id", "text", "label_ids"),
    LABELS: ("label_id", "name", "alt_names", "description", "label_group"),
    FOLDS: ("fold", "text_id", "role"),
}


@dataclass(frozen=True)
class PreparedDataset:
    """The tables that `prepare` wrote, and what jobs must know of them."""

    folder: str
    """Where workers find the version that is read."""
    fingerprint: str
    ids: pa.DataType
    """The type of text ids: whole numbers or strings."""
    groups: tuple[str, ...]
    labels: int
    role_sizes: Mapping[str, Mapping[int, int]]
    """How many texts have a role in each fold."""
    listed_roles: tuple[str, ...]
    """The roles of the texts that retrievers rank labels for."""

    @property
    def folds(self) -> list[int]:
        return sorted(self.role_sizes[TRAIN])

    @property
    def texts(self) -> int:
        """All texts: each has one role in the first fold."""
        return sum(sizes[self.folds[0]] for sizes in self.role_sizes.values())

    def table(self, name: str) -> str:
        return f"{self.folder}/{name}"


def open_prepared(engine: Engine[Any], path: str, list_validation: bool = True) -> PreparedDataset:
    """Open the tables and check what an index relies on. Labels are ranked for test texts and, if `list_validation`,
    for validation texts where there are some."""
    check_prepared(path)
    folder = absolute(stage_folder(path))
    tables = {name: engine.read(f"{folder}/{name}") for name in COLUMNS}
    schemas = {name: engine.schema(rows) for name, rows in tables.items()}
    for name, columns in COLUMNS.items():
        missing = [column for column in columns if column not in schemas[name].names]
        if missing:
            raise InputError(
                f"{path}/{name} has no column {', '.join(missing)}; it has {', '.join(schemas[name].names)}. "
                "Run 'xmtc-fusion prepare' again."
            )
    labels = engine.collect(engine.read(f"{folder}/{LABELS}", ["label_id", "label_group"]))
    _check_labels(labels["label_id"], f"{path}/{LABELS}")
    sizes = _role_sizes(engine, folder, f"{path}/{FOLDS}")
    ids = schemas[SAMPLES].field("text_id").type
    return PreparedDataset(
        folder=folder,
        fingerprint=input_fingerprint(path),
        ids=ids if pa.types.is_integer(ids) else pa.string(),
        groups=tuple(sorted(map(str, pc.unique(labels["label_group"]).to_pylist()))),
        labels=len(labels),
        role_sizes=sizes,
        listed_roles=(TEST, VALIDATION) if list_validation and any(sizes[VALIDATION].values()) else (TEST,),
    )


def _check_labels(ids: pa.ChunkedArray, source: str) -> None:
    size, distinct = len(ids), pc.count_distinct(ids).as_py()
    low, high = pc.min_max(ids).as_py().values()
    if not size or (distinct, low, high) != (size, 0, size - 1):
        raise InputError(
            f"{source}: label_id must number the labels from 0; found {size:,} rows with {distinct:,} ids from {low} "
            f"to {high}. Run 'xmtc-fusion prepare' again."
        )


ROLE_COUNTS = pa.schema([("fold", pa.int32()), ("role", pa.string()), ("texts", pa.int64())])


def _counted_roles(batches: Batches) -> Batches:
    for batch in batches:
        counts = pa.Table.from_batches([batch]).group_by(["fold", "role"]).aggregate([([], "count_all")])
        yield from counts.rename_columns(ROLE_COUNTS.names).cast(ROLE_COUNTS).to_batches()


def _role_sizes(engine: Engine[Any], folder: str, source: str) -> Mapping[str, Mapping[int, int]]:
    rows = engine.read(f"{folder}/{FOLDS}", ["fold", "role"])
    counts = engine.collect(engine.map(rows, Step(_counted_roles, ROLE_COUNTS)))
    sizes: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for fold, role, texts in zip(*(counts[name].to_pylist() for name in ROLE_COUNTS.names), strict=True):
        sizes[role][fold] += texts
    check_roles(set(sizes), source)
    folds = sorted({fold for of_role in sizes.values() for fold in of_role})
    if not folds:
        raise InputError(f"{source} is empty")
    for fold in folds:
        if not sizes[TRAIN][fold]:
            raise InputError(f"{source}: fold {fold} has no training texts, so there is nothing to index")
    return {role: {fold: sizes[role][fold] for fold in folds} for role in (TRAIN, VALIDATION, TEST)}


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
