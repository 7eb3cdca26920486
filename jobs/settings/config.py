"""The configuration: layers of files and options, checked as a whole."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from importlib.resources import files
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import BaseModel, ValidationError, field_validator

from fusion.errors import ConfigError, SetupError, unknown_name
from fusion.grid.grid import Grid
from fusion.labels import ALL, HEAD, TAIL
from fusion.registry import FUSIONS, NORMALIZATIONS
from jobs.settings.base import (
    EvaluateSettings,
    FuseSettings,
    GridSettings,
    Inputs,
    OutputSettings,
    Section,
    SparkSettings,
    checked_dataset,
)
from jobs.settings.layers import (
    Layer,
    is_set,
    layer_of,
    layer_of_one,
    left_out,
    merged,
    origin_of,
    parse_yaml,
    starting_at,
)
from jobs.settings.nightly import NightlySettings
from jobs.settings.prepare import PrepareSettings, WorkSettings
from jobs.settings.retrievers import BUILT_IN, DEFAULT, RETRIEVERS, Retrievers, is_file
from jobs.settings.sections import (
    ExplainSettings,
    FitSettings,
    LogSettings,
    PredictSettings,
    ReportSettings,
    StorageSettings,
    TuneSettings,
)
from udfs.stores.addresses import has_scheme
from udfs.stores.objects import read_bytes

if TYPE_CHECKING:
    from importlib.abc import Traversable


def conf_file(name: str) -> Traversable:
    """A file of `conf`, by its name below that folder; also from a zip."""
    # A path in the file system or in a zip: both have a parent.
    packages = files("jobs").parent  # type: ignore[attr-defined]
    # Installed, the folder is inside the public package; in a checkout it is next to the packages.
    for folder in ("xmtc_fusion/conf", "conf"):
        file: Traversable = packages.joinpath(f"{folder}/{name}")
        if file.is_file():
            return file
    raise SetupError(f"xmtc-fusion is not installed completely: it has no file conf/{name}; install it again")


class Config(Section):
    """The whole configuration."""

    dataset: str = "unnamed"
    """A name for the results."""
    work: WorkSettings = WorkSettings()
    prepare: PrepareSettings = PrepareSettings()
    retrievers: Retrievers = DEFAULT
    """The retrievers that rank labels: names separated by commas, or your own files, which end in .py. Names with
    settings are written {bm25: {k1: 0.9}, static: {epochs: 5}, tree.py: {}}. bm25-labels, dense-texts and static-texts
    inherit settings that they do not give from bm25, dense and static. docs/retrievers.md explains each."""
    validation_candidates: bool = True
    """Whether retrievers also rank labels for each fold's validation texts, on which fusions are tuned and learned.
    With 5 folds and a validation_share of 0.1, these are two more lists for every five. They have the role `validation`
    in the candidates; only lists of test texts are evaluated."""
    inputs: Inputs = Inputs()
    grid: GridSettings = GridSettings()
    evaluate: EvaluateSettings = EvaluateSettings()
    tune: TuneSettings = TuneSettings()
    fit: FitSettings = FitSettings()
    predict: PredictSettings = PredictSettings()
    fuse: FuseSettings = FuseSettings()
    explain: ExplainSettings = ExplainSettings()
    report: ReportSettings = ReportSettings()
    nightly: NightlySettings = NightlySettings()
    output: OutputSettings = OutputSettings()
    spark: SparkSettings = SparkSettings()
    storage: StorageSettings = StorageSettings()
    log: LogSettings = LogSettings()

    @field_validator("dataset")
    @classmethod
    def _name(cls, name: str) -> str:
        return checked_dataset(name)

    def to_yaml(self) -> str:
        """For people and files: secrets are hidden."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def load_config(
    path: str | PathLike[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    options: Mapping[str, str] | None = None,
) -> Config:
    """The defaults, then the file at `path`, then `settings` (dotted keys), each over the one before.

    `options` says which option of the command line gave a setting, for messages.
    """
    if path is None and not settings:
        return Config()
    layers = [layer_of({"retrievers": list(DEFAULT)}, "")]
    if path is not None:
        if not isinstance(path, str | PathLike):
            raise ConfigError(
                f"a configuration is the path of a file, and {type(path).__name__} is none; settings come after it: "
                "load_config(None, {'prepare.limit': 1000})"
            )
        layers.append(layer_of(read_settings(str(path)), str(path)))
    for setting, value in checked_settings(settings).items():
        layers.append(layer_of_one(setting, value, (options or {}).get(setting, "")))
    return _checked(layers)


def checked_settings(settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """Settings that are given in Python, by their dotted names."""
    if settings is None:
        return {}
    if not isinstance(settings, Mapping) or not all(isinstance(name, str) for name in settings):
        # Without the values, which may be secrets.
        raise ConfigError("settings are a dictionary with dotted names, such as {'evaluate.seed': 1}")
    return {name: fspath(value) if isinstance(value, PathLike) else value for name, value in settings.items()}


def overlaid(config: Config, path: str) -> Config:
    """A configuration with the file at `path` laid over it."""
    return _checked([layer_of(config.model_dump(), ""), layer_of(read_settings(path), path)])


def with_settings(config: Config, settings: Mapping[str, Any]) -> Config:
    """A configuration with settings (dotted keys) laid over it."""
    changes = [layer_of_one(setting, value, "") for setting, value in checked_settings(settings).items()]
    return _checked([layer_of(config.model_dump(), ""), *changes])


def make_config(content: str | bytes, source: str) -> Config:
    """A checked configuration from YAML, or an error that names every wrong key."""
    return _checked([layer_of(_settings(content, source), source)])


def _run_names(config: Config) -> list[str]:
    """What the runs of a dataset are called; none if only its data say so."""
    runs = list(config.inputs.candidates) if isinstance(config.inputs.candidates, dict) else []
    made = config.retrievers.entries() if config.prepare.format is not None else []
    return [*runs, *(entry.name for entry in made)]


def _check_bounds(config: Config) -> None:
    runs = _run_names(config)
    config.nightly.checks.check_bounds([*runs, "judgements"] if runs else None)


def _check_watched_groups(config: Config) -> None:
    """Refuse label groups that a dataset cannot have; those of a table are known when it is read."""
    groups: tuple[str, ...] | None = None
    if config.prepare.format is not None:
        groups = (TAIL, HEAD, ALL)
    elif config.inputs.candidates is not None:
        groups = {"auto": (TAIL, HEAD, ALL), "pareto": (TAIL, HEAD, ALL), "none": (ALL,)}.get(
            config.inputs.label_groups
        )
    if config.evaluate.label_groups != "auto":
        evaluated = config.evaluate.label_groups
        groups = tuple(evaluated.split(",") if isinstance(evaluated, str) else evaluated)
    for name in config.nightly.watch.unknown_groups(groups) if groups is not None else ():
        raise unknown_name("label group", name, groups or ())


NAMES: dict[str, Callable[[Config], object]] = {
    "retrievers": lambda config: config.retrievers.entries(),
    "grid.normalizations": lambda config: NORMALIZATIONS.chosen(config.grid.normalizations),
    "grid.fusions": lambda config: FUSIONS.chosen(config.grid.fusions),
    "grid.cells": lambda config: config.grid.cells and config.grid.chosen,
    "explain.cell": lambda config: config.explain.chosen,
    "evaluate.metrics": lambda config: config.evaluate.parsed_metrics,
    "fit.objective": lambda config: config.fit.aim,
    "tune.objective": lambda config: config.tune.goal,
    "tune.strategies": lambda config: config.tune.chosen,
    "tune.deploy": lambda config: config.tune.deployed,
    "nightly.watch.cells": lambda config: Grid(config.nightly.watch.watched, _run_names(config)),
    "nightly.watch.metrics": lambda config: config.nightly.watch.parsed_metrics,
    "nightly.watch.label_groups": _check_watched_groups,
    "nightly.checks.bounds": _check_bounds,
}
"""Settings that name retrievers, algorithms and metrics. The names that a layer gives are looked up at once, not when
Spark is running."""


def _checked(layers: Sequence[Layer]) -> Config:
    """The configuration of all layers, or an error that names every wrong setting and where it is from."""
    problems = [_line(origin, _not_chosen(name, layers)) for name, origin in left_out(layers).items()]
    if problems:
        raise _invalid(problems)
    try:
        config = Config.model_validate(merged(layers))
    except ValidationError as error:
        raise _invalid(_explain(dict(item), layers) for item in error.errors()) from None
    unknown, wrong = [], ""
    for setting, look_up in NAMES.items():
        path = setting.split(".")
        try:
            if is_set(layers, path):
                look_up(config)
        except ConfigError as error:
            if setting == "retrievers":
                wrong = str(error)
            elif str(error) == wrong:
                # What nights watch names retrievers, too.
                continue
            unknown.append(_line(origin_of(layers, path), f"{setting}: {error}"))
    if unknown:
        raise _invalid(unknown)
    return config


def _not_chosen(name: str, layers: Sequence[Layer]) -> str:
    names = [other for other in merged(layers)["retrievers"] if other not in left_out(layers)]
    if is_file(name) or RETRIEVERS.find(name):
        return f"retrievers.{name}: {name} is not among the chosen retrievers, {', '.join(names)}; choose it as well"
    return f"retrievers.{name}: {unknown_name('retriever', name, RETRIEVERS.names())}"


def _invalid(lines: Iterable[str]) -> ConfigError:
    return ConfigError("the configuration is not valid:" + "".join(f"\n  {line}" for line in lines))


def parse_setting(text: str) -> tuple[str, Any]:
    """`a.b=c`, the value read as YAML."""
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not key:
        # Only what can be a name is repeated: the rest may be a password.
        name = re.match(r"[\w.]*", text)
        raise ConfigError(f"--set {name[0] if name else ''}: expected KEY=VALUE, as in --set grid.scope=joint")
    return key, parse_yaml(value, f"--set {key}") if value else None


def read_settings(path: str) -> dict[str, Any]:
    """The settings of a file. Relative places in it start at the file, except in the record of a run."""
    file = shipped(path)
    values = _settings(_read(file), path)
    return values if Path(file).with_name(RUN_FILE).exists() else starting_at(file, values, Config)


RUN_FILE = "run.json"
"""What a folder of results has next to the configuration of its run, whose places are those that the run has used."""


def shipped(path: str) -> str:
    """A configuration file: the one that is there, or else the one of this name that is installed."""
    if not path.startswith("conf/") or Path(path).exists():
        return path
    try:
        file = conf_file(path.removeprefix("conf/"))
    except SetupError:
        return path
    # In a zip it has no folder that places could start at.
    return str(file) if isinstance(file, Path) else path


def _read(path: str) -> bytes:
    try:
        content = read_bytes(path) if has_scheme(path) else Path(path).read_bytes()
        if content is None:
            raise FileNotFoundError
    except FileNotFoundError:
        start = "" if has_scheme(path) or Path(path).is_absolute() else f" (relative paths start at {Path.cwd()})"
        raise ConfigError(f"cannot read the configuration {path}: there is no such file{start}") from None
    except IsADirectoryError:
        raise ConfigError(f"cannot read the configuration {path}: it is a folder; give a file in it") from None
    except OSError as error:
        raise ConfigError(f"cannot read the configuration {path}: {error}") from None
    return content


def _settings(content: str | bytes, source: str) -> dict[str, Any]:
    values = parse_yaml(content, source)
    if not isinstance(values, dict):
        found = "nothing" if values is None else "a list" if isinstance(values, list) else "a single value"
        raise ConfigError(f"{source}: expected settings in YAML (NAME: VALUE on every line), found {found}")
    return values


def _explain(error: Mapping[str, Any], layers: Sequence[Layer]) -> str:
    kind = error["type"]
    path = _own_path(error["loc"], merged(layers), kind == "missing")
    # A key that is missing was brought by whatever brought its neighbours.
    origin = origin_of(layers, path[:-1] if kind == "missing" else path)
    name = ".".join(map(str, path))
    if kind != "extra_forbidden":
        # A wrong password must not end in a log.
        given = "" if is_secret(name) else f" (got {error['input']!r})"
        plain = {"model_type": "expected settings below it", "tuple_type": "expected a list"}
        return _line(origin, f"{name}: {plain.get(kind) or error['msg'].removeprefix('Value error, ')}{given}")
    near = get_close_matches(name, list(setting_names(Config)), n=1, cutoff=0.5)
    return _line(origin, f"unknown setting {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))


def _own_path(path: Sequence[str | int], values: Any, missing: bool) -> list[str | int]:
    """The path of a wrong setting, without what pydantic calls the types of which a value must have one."""
    kept: list[str | int] = []
    for step in path:
        inside = step in values if isinstance(values, Mapping) else isinstance(values, list) and isinstance(step, int)
        if inside:
            values = values[step]
        if inside or (missing and step == path[-1]):
            kept.append(step)
    return kept


SECRETS = ("nightly.alerts", "nightly.mlflow", "spark.conf", "storage")
"""Sections that hold secrets. The settings of retrievers of your own may hold some, too."""


def is_secret(setting: str) -> bool:
    """Whether what is given for a setting, by its dotted name, may be or hold a secret: also where it is given for a
    whole section, or for the whole configuration."""
    section, _, name = setting.partition(".")
    if section == "retrievers":
        return not any(name == entry or name.startswith(f"{entry}.") for entry in BUILT_IN)
    around = f"{setting}." if setting else ""
    return any(f"{setting}.".startswith(f"{name}.") or name.startswith(around) for name in SECRETS)


def _line(origin: str, message: str) -> str:
    return f"{origin}: {message}" if origin else message


def setting_names(section: type[BaseModel], prefix: str = "") -> Iterable[str]:
    """Every setting, as a dotted key."""
    for name, info in section.model_fields.items():
        yield prefix + name
        if info.annotation is Retrievers:
            for entry in RETRIEVERS:
                yield from setting_names(entry.settings, f"{prefix}{name}.{entry.name}.")
        elif isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            yield from setting_names(info.annotation, f"{prefix}{name}.")
