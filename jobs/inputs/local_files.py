"""Input files that are missing on this machine, noticed before Spark starts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from fusion.errors import InputError
from jobs.settings.base import Inputs, Names, SparkSettings
from jobs.settings.prepare import PrepareSettings, paths_of
from udfs.stores.addresses import AZURE, GCS, S3, locate
from udfs.stores.objects import exists

ELSEWHERE = (
    "DATABRICKS_RUNTIME_VERSION",
    "HADOOP_CONF_DIR",
    "PYSPARK_GATEWAY_PORT",
    "SPARK_CONF_DIR",
    "SPARK_HOME",
    "SPARK_REMOTE",
    "YARN_CONF_DIR",
)
"""Variables of installations where a path without an address may be one of another file system."""
FILE, TABLE = "file:", "table:"


class InputFile(NamedTuple):
    """A path or pattern, and the setting that names it."""

    setting: str
    path: str


def input_files(inputs: Inputs) -> Iterator[InputFile]:
    """The files that are fused and evaluated. Catalog tables are none."""
    from jobs.inputs.sources import source_format

    candidates = inputs.candidates or {}
    runs = candidates if isinstance(candidates, Mapping) else {"": candidates}
    sources = {
        **{f"inputs.candidates.{name}".rstrip("."): source for name, source in runs.items()},
        "inputs.judgements": inputs.judgements,
        "inputs.label_groups": None if inputs.label_groups in ("auto", "pareto", "none") else inputs.label_groups,
        "inputs.folds": inputs.folds,
        "inputs.training": inputs.training,
    }
    for setting, source in sources.items():
        if source is not None:
            kind, path = source_format(source)
            if kind != "table":
                yield InputFile(setting, path)


def dataset_files(settings: PrepareSettings) -> Iterator[InputFile]:
    """The published files of a dataset."""
    names: list[tuple[str, Names | None]] = [
        *((f"prepare.parts.{part.name}.texts", part.texts) for part in settings.parts),
        *((f"prepare.parts.{part.name}.labels", part.labels) for part in settings.parts),
        ("prepare.label_file", settings.label_file),
    ]
    for setting, files in names:
        for path in paths_of(settings, files or []):
            if not path.startswith(TABLE):
                yield InputFile(setting, path)


def check_files(spark: SparkSettings, files: Iterable[InputFile]) -> None:
    """Refuse files that are not there, if it is this machine's file system that they will be read from."""
    if not reads_this_machine(spark):
        return
    stored: list[InputFile] = []
    local: list[InputFile] = []
    for file in files:
        (stored if "://" in file.path and not file.path.startswith(FILE) else local).append(file)
    # A store is asked only where nothing else is wrong.
    missing = [file for file in local if not _exists(file.path)] or [file for file in stored if not _exists(file.path)]
    if missing:
        lines = "".join(f"\n  {setting}: {path}{_word(setting, path)}" for setting, path in missing)
        what = "an input file is" if len(missing) == 1 else f"{len(missing)} input files are"
        raise InputError(f"{what} missing (relative paths start at {Path.cwd()}):{lines}")


def _word(setting: str, path: str) -> str:
    """What else a name may be where words stand for themselves."""
    named = setting == "inputs.label_groups" and not {".", "/"} & set(path)
    return " (a file, or one of the words auto, pareto and none)" if named else ""


def reads_this_machine(spark: SparkSettings) -> bool:
    """Whether Spark will run here and nothing says that it reads another file system."""
    return (
        not any(os.environ.get(name) for name in ELSEWHERE)
        and not spark.remote
        and (spark.master or "local").startswith("local")
        and not any(name.endswith("fs.defaultFS") for name in spark.conf)
    )


def _in_store(path: str) -> bool:
    """Whether there is something at an address, as far as it can be known without Spark."""
    from jobs.storage.versions import resolve

    if locate(path).kind not in (S3, GCS, AZURE):
        return True
    try:
        return exists(resolve(path))
    except OSError as error:
        raise InputError(str(error)) from None


def _exists(path: str) -> bool:
    if path.startswith(FILE):
        path = "/" + unquote(path.removeprefix(FILE)).lstrip("/")
    # Patterns in a store, and those that only Hadoop knows ({a,b}), are left to Spark.
    if path.startswith("dbfs:") or "{" in path or ("://" in path and set(path) & set("*?[")):
        return True
    if "://" in path:
        return _in_store(path)
    file = Path(path)
    return file.exists() or any(Path(file.anchor).glob(str(file.relative_to(file.anchor))))
