"""The configuration: what may be set, of which type, with which default. `conf/base.yaml` tells it to people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from fusion.errors import ConfigError
from fusion.grid import chosen_fusions, chosen_normalizations
from jobs.settings import (
    EvaluateSettings,
    FuseSettings,
    GridSettings,
    Inputs,
    OutputSettings,
    Section,
    SparkSettings,
)
from jobs.settings.dense import DenseSettings
from jobs.settings.log import LogSettings
from jobs.settings.nightly import NightlySettings
from jobs.settings.prepare import PrepareSettings, WorkSettings
from jobs.settings.report import ReportSettings
from jobs.settings.sparse import SparseSettings


class Config(Section):
    """The whole configuration."""

    dataset: str = "unnamed"
    work: WorkSettings = WorkSettings()
    prepare: PrepareSettings = PrepareSettings()
    sparse: SparseSettings = SparseSettings()
    dense: DenseSettings = DenseSettings()
    inputs: Inputs = Inputs()
    grid: GridSettings = GridSettings()
    evaluate: EvaluateSettings = EvaluateSettings()
    fuse: FuseSettings = FuseSettings()
    report: ReportSettings = ReportSettings()
    nightly: NightlySettings = NightlySettings()
    output: OutputSettings = OutputSettings()
    spark: SparkSettings = SparkSettings()
    log: LogSettings = LogSettings()

    def to_yaml(self) -> str:
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def load_config(path: str | None = None, settings: Mapping[str, Any] | None = None) -> Config:
    """`conf/base.yaml`, then the file at `path`, then `settings` (dotted keys), each over the one before."""
    values = _parse(files("conf").joinpath("base.yaml").read_text(encoding="utf-8"), "conf/base.yaml")
    if path is not None:
        values = _merged(values, _read(path))
    for key, value in (settings or {}).items():
        nested = value
        for part in reversed(key.split(".")):
            nested = {part: nested}
        values = _merged(values, nested)
    return make_config(values, path or "the settings")


def overlaid(config: Config, path: str) -> Config:
    """A configuration with the file at `path` laid over it."""
    return make_config(_merged(config.model_dump(mode="json"), _read(path)), path)


def make_config(values: Mapping[str, Any], source: str) -> Config:
    """A checked configuration, or an error that names every wrong key."""
    try:
        config = Config.model_validate(values)
    except ValidationError as error:
        lines = "".join(f"\n  {_explain(dict(item))}" for item in error.errors())
        raise ConfigError(f"{source} is not a valid configuration:{lines}") from None
    # Names of algorithms and metrics are checked now, not when Spark is running.
    chosen_normalizations(config.grid.normalizations)
    chosen_fusions(config.grid.fusions)
    _ = config.grid.grid, config.evaluate.measures, config.nightly.watch.watched, config.nightly.watch.measures
    return config


def parse_setting(text: str) -> tuple[str, Any]:
    """`a.b=c`, the value read as YAML."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConfigError(f"--set {text!r}: expected KEY=VALUE, as in --set grid.scope=joint")
    return key.strip(), _parse(value, f"--set {key}") if value else None


def _read(path: str) -> dict[str, Any]:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the configuration {path}: {error}") from None
    values = _parse(text, path)
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected a mapping of settings, found {type(values).__name__}")
    return values


def _parse(text: str, source: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{source} is not valid YAML: {error}") from None


def _merged(base: Any, over: Any) -> Any:
    """Mappings are merged, everything else is replaced; so are mappings of free keys."""
    if not (isinstance(base, dict) and isinstance(over, dict)):
        return over
    return {**base, **{key: _merged(base.get(key), value) for key, value in over.items()}}


def _explain(error: Mapping[str, Any]) -> str:
    where = [str(part) for part in error["loc"]]
    if error["type"] != "extra_forbidden":
        return f"{'.'.join(where)}: {error['msg']} (got {error['input']!r})"
    near = get_close_matches(".".join(where), list(setting_names(Config)), n=1, cutoff=0.5)
    return f"unknown setting {'.'.join(where)!r}" + (f"; did you mean {near[0]!r}?" if near else "")


def setting_names(section: type[BaseModel], prefix: str = "") -> Iterable[str]:
    """Every setting, as a dotted key."""
    for name, info in section.model_fields.items():
        yield prefix + name
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            yield from setting_names(info.annotation, f"{prefix}{name}.")
