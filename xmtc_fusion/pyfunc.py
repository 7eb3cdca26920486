"""What MLflow opens a logged model with: `mlflow.pyfunc.load_model(address).predict(frame)`, also as `spark_udf`."""

from __future__ import annotations

from typing import Any

from fusion.errors import InputError
from xmtc_fusion.model import Model, load_model

COLUMNS = {"labels": "label", "names": "name", "probabilities": "probability"}
"""Columns of the answer, with the columns of predictions that their lists hold."""


class Labeller:
    """A model as MLflow calls it."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def predict(self, frame: Any, params: dict[str, Any] | None = None) -> Any:
        """A row per text: lists of its labels, of their names and of their probabilities, best first.

        Args:
            frame: a pandas table with the column `text`.
            params: not used; a text gets as many labels as the model chose on validation texts.
        """
        import pandas as pd

        if "text" not in frame:
            raise InputError(f"the table has no column 'text'; it has {', '.join(map(str, frame.columns))}")
        predictions = self.model.predict([text or "" for text in frame["text"]])
        lists: dict[str, list[list[Any]]] = {name: [[] for _ in range(len(frame))] for name in COLUMNS}
        for row in predictions.to_pylist():
            for name, column in COLUMNS.items():
                lists[name][row["text_id"]].append(row[column])
        return pd.DataFrame(lists, index=frame.index)


def _load_pyfunc(path: str) -> Labeller:
    """What MLflow calls, with the place where it has put the folder of the model."""
    return Labeller(load_model(path))
