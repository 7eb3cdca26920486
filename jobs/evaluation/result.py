"""The result of an evaluation, just made or read back from its folder after checks, and what made it.

The latter explains that two results of the same settings differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fusion import __version__
from fusion.cells import Cell
from fusion.errors import ConfigError, InputError
from fusion.metrics import Aspect
from jobs.engines.engine import Engine
from jobs.evaluation.schemas import DETAILS, METRICS_SCHEMA, RUN_FILE
from jobs.runtime.machine import code_origin, package_versions, processor
from jobs.settings.config import Config, make_config
from jobs.storage.folders import CONFIG_FILE, check_whole, modified, read_object, read_parquet, read_text
from jobs.storage.stages import STAGE_NOTES, input_fingerprint, stage_fingerprint
from jobs.storage.versions import Versions, one_view, resolve, version_of
from jobs.storage.workspace import Workspace, ancestors
from udfs.plan import UNSEEN_PAIRS
from udfs.stores.objects import children, files_below

TABLE = "table:"
MOST_HASHED = 256e6
"""Bytes of an input that are read only to know them again; a larger one is known by its size."""
UNSTEADY = ("stages", "seconds")
"""What may differ between two runs of the same thing."""
AUTO = ("precision",)
"""Settings that a stage resolves, and notes in its marker."""

Provenance = Mapping[str, Any]


def provenance(engine: Engine[Any], config: Config, inputs: Mapping[str, str], seconds: float) -> Provenance:
    """What made a result, from inputs that are paths or catalog tables."""
    stages = list(_stages(list(inputs.values())))
    resolved = {
        f"{stage['stage']}: {name}": stage[name] for stage in stages for name in AUTO if stage.get(name) is not None
    }
    return {
        "code": code_origin(),
        "packages": package_versions(),
        "processor": processor(),
        "engine": engine.about,
        "resolved": resolved,
        "seeds": _seeds(config),
        "inputs": {name: _known_by(path) for name, path in inputs.items()},
        "stages": stages,
        "seconds": round(seconds, 1),
    }


def _seeds(config: Config) -> dict[str, int]:
    """Every setting called seed."""

    def below(name: str, value: Any) -> Iterator[tuple[str, int]]:
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from below(f"{name}.{key}" if name else key, inner)
        elif name.rpartition(".")[2] == "seed" and isinstance(value, int):
            yield name, value

    return dict(below("", config.model_dump(mode="json")))


def _known_by(path: str) -> str:
    """The fingerprint of an input's stage or of its bytes; of a catalog table, its name is all that is known."""
    if path.startswith(TABLE):
        return path
    place = version_of(path)
    if place is not None and (fingerprint := stage_fingerprint(place[0])) is not None:
        return fingerprint
    size = sum(listed.size for listed in files_below(resolve(path)))
    return input_fingerprint(path) if size <= MOST_HASHED else f"{size:,} bytes"


def _stages(paths: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The stages that the inputs were made by, each once, in the order of their names."""
    places = {place for path in paths if not path.startswith(TABLE) and (place := version_of(path))}
    for root, version in sorted({*places, *(older for place in places for older in ancestors(*place))}):
        about = Versions.of_stage(root).about(version)
        if about is not None:
            notes = {name: about[name] for name in STAGE_NOTES if name in about}
            yield {"stage": about["stage"], "fingerprint": about["fingerprint"], **notes}


def differences(one: Provenance, other: Provenance) -> list[tuple[str, Any, Any]]:
    """What differs, with both values; nothing where one of the two is not known."""
    if not one or not other:
        return []
    first, second = (dict(_flat("", {**made, **dict.fromkeys(UNSTEADY)})) for made in (one, other))
    names = dict.fromkeys([*first, *second])
    return [(name, first.get(name), second.get(name)) for name in names if first.get(name) != second.get(name)]


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(f"{name}: {key}" if name else key, inner)
    elif value is not None:
        yield name, value


NOT_COMPARED = ("log", "output", "spark", "work")
"""Sections of the configuration that do not change figures."""
FIGURE = ["fold", "normalization", "fusion", "label_group", "metric", "k", "ideal"]
"""What identifies a row of the metrics."""

Folds = dict[int, float]
Figures = dict[Aspect, dict[Cell, Folds]]


def figures_of(metrics: pa.Table) -> Figures:
    """The metrics by aspect, cell and fold, without what is not known: aspects and cells in the order of the table."""
    figures: Figures = {}
    names = ("label_group", "metric", "k", "ideal", "normalization", "fusion", "fold", "value")
    for *aspect, normalization, fusion, fold, value in zip(*(metrics[name].to_pylist() for name in names), strict=True):
        if value is not None:
            cells = figures.setdefault(Aspect(*aspect), {})
            cells.setdefault(Cell(normalization, fusion), {})[fold] = value
    return figures


@dataclass
class Result:
    """The figures of one dataset: just evaluated, or read from one folder or several."""

    config: Config
    metrics: pa.Table
    """One row per figure."""
    input_counts: dict[str, int]
    """Counts about the input, by the keys of `udfs.plan`."""
    details: dict[str, pa.Table] = field(default_factory=dict)
    """The tables for the report, by name; empty if not asked for."""
    notes: Sequence[str] = ()
    """What readers of the figures should know."""
    queries: Any = None
    """Every text's figures, if asked for: a table of the engine's kind."""
    engine: str = ""
    model: str | None = None
    """The text of the model file, where fusions were tuned."""
    sources: tuple[str, ...] = ()
    """The folders that it was read from."""
    version: str = __version__
    evaluated: str = "now"
    """When the metrics were written (UTC)."""
    made: Provenance = field(default_factory=dict)
    """What made the figures; nothing where that is not known."""

    @cached_property
    def figures(self) -> Figures:
        return figures_of(self.metrics)

    @property
    def folds(self) -> tuple[int, ...]:
        return tuple(sorted(self.metrics["fold"].unique().to_pylist()))

    @property
    def texts(self) -> dict[str, int]:
        """The texts that count, by label group."""
        counted = self.metrics.group_by(["fold", "label_group"]).aggregate([("queries", "max")])
        texts: dict[str, int] = dict.fromkeys(self.metrics["label_group"].unique().to_pylist(), 0)
        for row in counted.to_pylist():
            texts[row["label_group"]] += row["queries_max"]
        return texts

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Of a table next to the metrics; none where the result does not hold it."""
        return self.details[table].to_pylist() if table in self.details else []

    @property
    def knows_training(self) -> bool:
        """Whether it is known which labels no training text carries."""
        return UNSEEN_PAIRS in self.input_counts

    @property
    def is_prepared(self) -> bool:
        """Whether the folds are those that `prepare` made."""
        folds = self.config.inputs.folds
        return folds is not None and folds.startswith(f"{Workspace.of(self.config).prepared}/")

    @property
    def missing_folds(self) -> tuple[int, ...]:
        """Folds that the configuration or their numbering lets one expect, and that are not there."""
        if self.config.inputs.folds is None:
            return ()
        known = self.config.prepare.fold_count if self.is_prepared else 0
        expected = range(max(known, max(self.folds) + 1))
        return tuple(fold for fold in expected if fold not in self.folds)


def read_results(paths: Sequence[str]) -> list[Result]:
    """One item per dataset, in the order given. Folders of one dataset hold different folds of the same thing."""
    if not paths:
        raise ConfigError("no results: give --results FOLDER, or set report.results")
    by_dataset: dict[str, list[Result]] = {}
    for path in paths:
        # One version of each folder, whatever is written meanwhile.
        with one_view():
            results = _read(path)
        by_dataset.setdefault(results.config.dataset, []).append(results)
    first = next(iter(by_dataset.values()))[0]
    for parts in by_dataset.values():
        _check_same(first, parts[0], ["grid.normalizations", "grid.fusions", "grid.cells", "grid.scope"])
        _check_same(first, parts[0], ["evaluate.metrics", "evaluate.label_groups"])
    return [_joined(parts) for parts in by_dataset.values()]


def _read(path: str) -> Result:
    path = path.rstrip("/")
    check_whole(path)
    text = read_text(f"{path}/{CONFIG_FILE}")
    if text is None:
        gone = "" if children(path) else "; there is no such folder, or it is empty"
        raise InputError(f"{path} holds no results of 'evaluate': {CONFIG_FILE} is missing{gone}")
    config = make_config(text, f"{path}/{CONFIG_FILE}")
    metrics = _table(f"{path}/metrics.parquet", METRICS_SCHEMA)
    if metrics is None:
        raise InputError(f"{path} holds no results of 'evaluate': metrics.parquet is missing")
    _check_metrics(metrics, f"{path}/metrics.parquet")
    details = {name: _table(f"{path}/{name}.parquet", schema) for name, schema in DETAILS.items()}
    about = read_object(f"{path}/{RUN_FILE}")
    return Result(
        config,
        metrics,
        about.get("input_counts", {}),
        {name: table for name, table in details.items() if table is not None},
        about.get("notes", ()),
        sources=(path,),
        version=about.get("version", "unknown"),
        evaluated=modified(f"{path}/metrics.parquet"),
        made=about.get("made", {}),
    )


def _table(path: str, schema: pa.Schema) -> pa.Table | None:
    table = read_parquet(path)
    if table is None:
        return None
    missing = [name for name in schema.names if name not in table.column_names]
    if missing:
        raise InputError(
            f"{path} lacks the column {missing[0]!r}; it has {', '.join(table.column_names)}. Result of another "
            "version have to be evaluated again"
        )
    return table.select(schema.names).cast(schema)


def _check_metrics(metrics: pa.Table, path: str) -> None:
    if not len(metrics):
        raise InputError(f"{path} holds no figures")
    value = metrics["value"]
    bad = pc.or_kleene(pc.is_nan(value), pc.or_kleene(pc.less(value, 0), pc.greater(value, 1))).fill_null(False)
    if pc.any(bad).as_py():
        row = metrics.filter(bad).slice(0, 1).to_pylist()[0]
        where = ", ".join(f"{name} {row[name]}" for name in FIGURE)
        raise InputError(f"{path}: column 'value' holds {row['value']}, not a share of 1, first at {where}")
    counted = metrics.group_by(FIGURE).aggregate([([], "count_all")])
    twice = counted.filter(pc.greater(counted["count_all"], 1))
    if len(twice):
        where = ", ".join(
            f"{name} {value}" for name, value in twice.slice(0, 1).to_pylist()[0].items() if name in FIGURE
        )
        raise InputError(f"{len(twice):,} figures occur twice in {path}, first: {where}")


def _joined(parts: list[Result]) -> Result:
    """Folders of one dataset as one."""
    first = parts[0]
    if len(parts) == 1:
        return first
    for part in parts[1:]:
        _check_same(first, part, [name for name in Config.model_fields if name not in NOT_COMPARED])
    metrics = pa.concat_tables([part.metrics for part in parts])
    _check_metrics(metrics, " and ".join(part.sources[0] for part in parts))
    input_counts = {key: sum(part.input_counts.get(key, 0) for part in parts) for key in first.input_counts}
    sources = tuple(source for part in parts for source in part.sources)
    # Comparisons text by text were made within each folder; they do not add up.
    last = max(part.evaluated for part in parts)
    return Result(first.config, metrics, input_counts, sources=sources, version=first.version, evaluated=last)


def _check_same(one: Result, other: Result, settings: Iterable[str]) -> None:
    for name in settings:
        a, b = _setting(one.config, name), _setting(other.config, name)
        if a != b:
            key, x, y = next(_differences(name, a, b))
            raise InputError(
                f"{one.sources[0]} and {other.sources[0]} come from different configurations: "
                f"{key} is {x!r} in the first and {y!r} in the second"
            )


def setting_differences(one: Result, other: Result, left_out: Iterable[str]) -> list[tuple[str, Any, Any]]:
    """The settings that differ, with both values, but for some sections."""
    sections = [name for name in Config.model_fields if name not in set(left_out)]
    return [
        difference
        for name in sections
        for difference in _differences(name, _setting(one.config, name), _setting(other.config, name))
    ]


def _differences(name: str, one: Any, other: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys([*one, *other]):
            yield from _differences(f"{name}.{key}", one.get(key), other.get(key))
    elif one != other:
        yield name, one, other


def _setting(config: Config, name: str) -> Any:
    value: Any = config.model_dump(mode="json")
    for part in name.split("."):
        value = value[part]
    return value
