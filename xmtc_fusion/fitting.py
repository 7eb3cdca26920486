"""`fit`: a model of texts with labels, which are in memory, in a file, or in the work folder of a configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from os import PathLike
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fusion.errors import ConfigError, InputError
from jobs.datasets import guess
from jobs.prediction import fit as fit_job
from jobs.prediction.model import load
from jobs.runtime.log import log
from jobs.settings.config import Config, checked_settings, load_config, with_settings
from udfs.prediction.texts import TEXT, TEXT_ID
from xmtc_fusion.model import Model, as_table, strings

LABELS = "labels"
SCRATCH = "texts"
"""The dataset of texts that are given in memory."""


def fit(
    texts: Any = None,
    labels: Iterable[Sequence[Any]] | None = None,
    *,
    names: Mapping[str, str] | None = None,
    retrievers: str | Iterable[str] | None = None,
    objective: str | None = None,
    config: Config | str | PathLike[str] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Model:
    """Learn to label texts from texts with labels.

    Every retriever is fitted on folds, the best fusion of their rankings is chosen on validation texts, its scores are
    calibrated there, and then every retriever is fitted once more on all texts. All of it happens in this process.

    Args:
        texts: the texts; or a table (Arrow, pandas or polars) with the columns text and labels, and perhaps text_id; or
            the path of a file (JSON lines, CSV, TSV or Parquet), whose columns are guessed as `xmtc-fusion init` does.
        labels: the labels of each text, in the same order, where texts are not a table or a file.
        names: what labels are called, where the label itself does not say it.
        retrievers: such as `["bm25", "static"]`, the default.
        objective: what the number of assigned labels is chosen for: `"f1"` (the default), `"precision=0.8"`,
            `"recall=0.9"`.
        config: instead of texts, the configuration of a dataset or its path. What is done already in its work folder is
            not done again, and a fusion that `tune` chose there is used.
        settings: dotted settings over it, such as `{"retrievers.static.epochs": 3}`.
    """
    given = checked_settings(settings)
    if texts is None and (labels is not None or (config is None and not given)):
        raise ConfigError("nothing to learn from: give texts with labels, a table, a file, or config")
    texts = str(texts) if isinstance(texts, PathLike) else texts
    if names is not None and not isinstance(names, Mapping):
        raise ConfigError(f"names are a dictionary from labels to names, and {type(names).__name__} is none")
    scratch: TemporaryDirectory[str] = TemporaryDirectory(prefix="xmtc-fusion-")
    place = scratch.name
    chosen: dict[str, Any] = {"output.path": f"{place}/model", "grid.engine": "local"}
    if retrievers is not None:
        of_names = isinstance(retrievers, str) or not isinstance(retrievers, Iterable)
        chosen["retrievers"] = retrievers if of_names else list(retrievers)
    if objective is not None:
        chosen["fit.objective"] = objective
    resolved = config if isinstance(config, Config) else load_config(config)
    if texts is not None:
        if resolved.prepare.format is not None:
            raise ConfigError("there are texts and the configuration of a dataset, and a model is of one of them")
        chosen["work.path"] = f"{place}/work"
        of_file = isinstance(texts, str) and labels is None and not names
        chosen |= _of_file(texts, given) if of_file else _in_memory(_columns(texts, labels), names or {}, place)
    resolved = with_settings(resolved, {**chosen, **given})
    fit_job.run_stages(resolved)
    return Model(load(f"{place}/model"), scratch)


def _of_file(path: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a dataset that is one file."""
    columns = {name: given[key] for name in guess.COLUMNS if (key := f"prepare.columns.{name}") in given}
    guessed = guess.guess(path, columns)
    log(f"fit: {path} has texts in {' + '.join(guessed.text)} and labels in {guessed.labels}")
    return guess.settings_of(guessed, path, None)


def _columns(texts: Any, labels: Any) -> dict[str, Any]:
    """Texts in memory with their labels."""
    if labels is None and hasattr(texts, "__arrow_c_stream__"):
        table = as_table(texts, (TEXT, LABELS))
        return {name: table[name] for name in (TEXT_ID, TEXT) if name in table.column_names} | {
            LABELS: _label_lists(table[LABELS].to_pylist())
        }
    if hasattr(texts, "columns"):
        raise ConfigError("a table holds labels in a column of its own: give the table alone, or a list of texts")
    if isinstance(texts, str):
        raise ConfigError(
            f"texts are a list of strings, and {texts[:40]!r} is one; a file is given without labels or names"
        )
    if labels is None:
        raise ConfigError("texts without labels: fit(texts, labels), or a table with the columns 'text' and 'labels'")
    for what, values in (("texts", texts), ("labels", labels)):
        if not isinstance(values, Iterable):
            raise InputError(f"{what}: expected a list, one entry per text; found {values!r}")
    of_text = labels.to_pylist() if hasattr(labels, "to_pylist") else list(labels)
    columns = {TEXT: strings(list(texts)), LABELS: _label_lists(of_text)}
    if len(columns[TEXT]) != len(of_text):
        raise InputError(f"{len(columns[TEXT]):,} texts and {len(of_text):,} lists of labels: there must be as many")
    return columns


def _label_lists(given: list[Any]) -> pa.Array:
    """The labels of each text as strings."""
    of_text = []
    for number, some in enumerate(given):
        if isinstance(some, str | bytes) or not isinstance(some, Iterable | None):
            raise InputError(f"labels[{number}] is {some!r}, and each text has a list of labels, such as ['a', 'b']")
        labels = list(() if some is None else some)
        wrong = [label for label in labels if not isinstance(label, str | Integral)]
        if wrong:
            raise InputError(f"labels[{number}] holds {wrong[0]!r}, and labels are strings or whole numbers")
        of_text.append(list(map(str, labels)))
    return pa.array(of_text, pa.list_(pa.string()))


def _in_memory(columns: dict[str, Any], names: Mapping[str, str], place: str) -> dict[str, Any]:
    """Texts in memory as files of a dataset, and the settings that say where they are."""
    table = pa.table(columns)
    if not len(table):
        raise InputError("there are no texts to learn from")
    pq.write_table(table, f"{place}/texts.parquet")
    prepared: dict[str, Any] = {
        "format": "parquet",
        "folder": place,
        "parts": [{"name": "all", "texts": "texts.parquet"}],
        "columns": {TEXT_ID: TEXT_ID} if TEXT_ID in columns else {},
        **(guess.FOR_FEW if len(table) < guess.FEW else {}),
    }
    if names:
        every = list(dict.fromkeys([*names, *columns[LABELS].flatten().to_pylist()]))
        known = pa.table({"label": every, "name": pa.array([names.get(label) for label in every], pa.string())})
        pq.write_table(known, f"{place}/labels.parquet")
        prepared["label_file"] = "labels.parquet"
    return {"dataset": SCRATCH, "prepare": prepared}
