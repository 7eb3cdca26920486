"""A model that labels texts: applied, kept and loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from os import PathLike
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, overload

import numpy as np
import pyarrow as pa

from fusion.errors import ConfigError, InputError
from fusion.labels import ALL
from jobs.engines.local import LocalEngine
from jobs.prediction.explain import ExplainedLabels, explain_labels
from jobs.prediction.model import KeptModel, copy_model, load
from jobs.prediction.predict import assigning_of, is_text
from udfs.prediction.model import Assigning, Labelled, predict_rows, prediction_rows
from udfs.prediction.texts import PLACE, TEXT, TEXT_ID


class Label(NamedTuple):
    """A label that a text is given."""

    label: str
    name: str
    probability: float
    score: float
    """The fused score, by which labels are ordered."""
    found_by: tuple[str, ...]
    """The retrievers whose lists hold the label."""


class LabelExplanation:
    """The labels that a text is given, with what every retriever had to do with it. Printed, it is a table."""

    def __init__(self, explained: ExplainedLabels) -> None:
        self._explained = explained

    @property
    def table(self) -> pa.Table:
        """One row per label, best first: rank, label, name, score, probability, and per retriever NAME_rank, NAME_score
        and NAME_normalized. A normalised score without a rank was imputed. Under a learned fusion, NAME_normalized is
        what the retriever adds to the score."""
        return self._explained.table

    @property
    def neighbours(self) -> pa.Table:
        """For retrievers that compare with training texts, the nearest of those that carry a label: label, retriever,
        text_id and score (BM25, or the cosine of two vectors)."""
        return self._explained.neighbours

    def __repr__(self) -> str:
        from jobs.reporting.terminal import labels_on_terminal

        return labels_on_terminal(self._explained)

    def _repr_html_(self) -> str:
        from jobs.reporting.terminal import labels_in_notebook

        return labels_in_notebook(self._explained)


class Model:
    """Labels texts. `fit` and `load_model` make one."""

    def __init__(self, kept: KeptModel, scratch: TemporaryDirectory[str] | None = None) -> None:
        self._kept = kept
        # The folder of a model that was fitted in memory goes with it.
        self._scratch = scratch

    @property
    def labels(self) -> pa.Table:
        """label_id, label, name, label_group, and frequency: how many training texts carry the label."""
        return self._kept.labels

    @property
    def validation(self) -> Mapping[str, Any]:
        """How the model did on validation texts: the calibration error, and precision, recall and F1 of what it
        assigns."""
        return dict(self._kept.manifest["validation"])

    @overload
    def predict(self, texts: str, *, top: int | None = None, threshold: float | None = None) -> list[Label]: ...
    @overload
    def predict(self, texts: Any, *, top: int | None = None, threshold: float | None = None) -> pa.Table: ...
    def predict(self, texts: Any, *, top: int | None = None, threshold: float | None = None) -> list[Label] | pa.Table:
        """The labels of one text, or of many.

        Args:
            texts: a string, or a list of strings, or a table (Arrow, pandas or polars) with the columns text_id and
                text.
            top: labels per text, at most; there are never more than 64.
            threshold: the smallest probability of a label. Without `top` and `threshold`, those that the model chose on
                validation texts.

        Returns:
            For a string, its labels, best first. Otherwise an Arrow table with one row per text and label: text_id (the
            place in the list, from 0, if there are no ids), rank, label, name, score, probability. A text without a
            label has no row.
        """
        assigning = self._assigning(top, threshold)
        if isinstance(texts, str):
            return self._one(strings([texts])[0].as_py(), assigning)
        rows = _texts(texts)
        engine = LocalEngine()
        step = predict_rows(self._kept.model, self._kept.names, assigning, rows.schema.field(TEXT_ID).type)
        return engine.collect(engine.map(engine.read(rows), step)).drop_columns([PLACE])

    def explain(self, text: str, *, top: int | None = None, threshold: float | None = None) -> LabelExplanation:
        """Why a text gets its labels: which retriever ranks each where, with which score, and the nearest training
        texts that carry it. `top` and `threshold` as for `predict`."""
        if not isinstance(text, str):
            raise InputError(f"explain takes one text, a string; found {type(text).__name__}")
        return LabelExplanation(explain_labels(self._kept, text, self._assigning(top, threshold)))

    def _assigning(self, top: int | None, threshold: float | None) -> Assigning:
        if top is not None and not (isinstance(top, Integral) and top >= 1):
            raise ConfigError(f"top is {top!r}; expected a whole number of labels, at least 1")
        if threshold is not None and not (isinstance(threshold, Real) and 0 <= threshold <= 1):
            raise ConfigError(f"threshold is {threshold!r}; expected a probability, from 0 to 1")
        return assigning_of(self._kept, top, threshold)

    def _one(self, text: str, assigning: Assigning) -> list[Label]:
        model = self._kept.model
        lists = model.lists([text])
        labelled: Labelled = model.assigned(model.fuser(lists, 1), assigning)
        rows = prediction_rows(labelled, pa.array([0]), self._kept.names).to_pylist()
        found = [
            tuple(it.name for it, ranked in zip(model.retrievers, lists, strict=True) if number in ranked.item)
            for number in labelled.label
        ]
        return [
            Label(row["label"], row["name"], row["probability"], row["score"], by)
            for row, by in zip(rows, found, strict=True)
        ]

    def save(self, path: str | PathLike[str], overwrite: bool = False) -> None:
        """Write the model to a folder or a store, where `load_model` reads it."""
        copy_model(self._kept, _folder(path), overwrite)

    def log_to_mlflow(self, name: str = "model", *, registered: str | None = None) -> str:
        """Log the model in the active MLflow run, or in a new one. Needs the extra [mlflow].

        Args:
            name: what the run calls it.
            registered: the registered model of which it becomes a version.

        Returns:
            The address for `mlflow.pyfunc.load_model` and `mlflow.pyfunc.spark_udf`, which take a column `text` and
            give lists of labels, names and probabilities per text.
        """
        from jobs.prediction.tracking import log_model

        return log_model(self._kept, name, registered)

    def __repr__(self) -> str:
        names = ", ".join(retriever.name for retriever in self._kept.retrievers)
        return f"Model({len(self.labels):,} labels, {names}, {self._kept.fusion.models[ALL]})"


def load_model(path: str | PathLike[str]) -> Model:
    """A model from its folder, every file of which is compared with the manifest."""
    return Model(load(_folder(path)))


def _folder(path: Any) -> str:
    if not isinstance(path, str | PathLike) or not str(path):
        raise ConfigError(f"expected the folder of a model, found {path!r}")
    return str(path)


def _texts(given: Any) -> pa.Table:
    """What `predict` takes as rows of text_id, text and place."""
    if isinstance(given, list | tuple) or (hasattr(given, "tolist") and np.ndim(given)):
        given = pa.table({TEXT: strings(list(given))})
    table = as_table(given, (TEXT,))
    places = pa.array(np.arange(len(table)))
    ids = table[TEXT_ID] if TEXT_ID in table.column_names else places
    if ids.null_count:
        raise InputError(f"{ids.null_count:,} texts of the table have no text_id; give each text one")
    if len(ids.unique()) < len(ids):
        raise InputError("a text_id occurs more than once in the table of texts: ids must be unique")
    return pa.table({TEXT_ID: ids, TEXT: table[TEXT], PLACE: places})


def as_table(given: Any, columns: Sequence[str]) -> pa.Table:
    """A table of texts (Arrow, pandas or polars) as Arrow holds it, with some columns that it must have."""
    if not hasattr(given, "__arrow_c_stream__"):
        raise InputError(f"expected a string, a list of strings or a table, found {type(given).__name__}")
    try:
        table = pa.table(given)
    except (pa.ArrowException, UnicodeError, TypeError) as error:
        raise InputError(f"the table cannot be read: {error}") from None
    for name in columns:
        if name not in table.column_names:
            raise InputError(f"the table has no column {name!r}; it has {', '.join(table.column_names)}")
    if not is_text(table[TEXT].type):
        raise InputError(f"the column 'text' holds {table[TEXT].type}, and texts are strings")
    return table


def strings(texts: list[Any]) -> pa.Array:
    """Texts as Arrow holds them."""
    try:
        return pa.array(texts, pa.string())
    except (pa.ArrowException, UnicodeError, TypeError) as error:
        raise InputError(f"texts are strings, and None for an empty one: {error}") from None
