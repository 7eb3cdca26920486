"""`tune`: the best fusion for some runs, chosen and learned on other texts than those it is tested on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from jobs import tune as job
from jobs.config import Config
from jobs.runtime.folders import result_folder
from xmtc_fusion.evaluating import Names, configured, given, listed, sources_of
from xmtc_fusion.evaluation import Evaluation, output_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Tuned(Evaluation):
    """The figures of fixed cells and of strategies, what these chose, and the model to deploy."""

    @property
    def choices(self) -> pa.Table:
        """What each strategy chose by fold (-1: over all folds) and label group, with its figures."""
        return self._result.details["choices"]

    @property
    def learning_curve(self) -> pa.Table | None:
        """The objective on test texts by number of validation texts; None where there were too few for a curve."""
        return self._result.details.get("learning_curve")

    @property
    def model(self) -> dict[str, Any]:
        """The content of the model file, for `fuse`."""
        found: dict[str, Any] = json.loads(self._result.model or "{}")
        return found

    def save(self, path: str, *, overwrite: bool = False) -> str:
        """Write all tables and the model file to a folder, which `report` can read."""
        with result_folder(output_settings(path, overwrite), self.config) as folder:
            job.write_all(self._result, folder)
        return str(path)

    def save_model(self, path: str) -> str:
        """Write the model file alone."""
        Path(path).write_text(self._result.model or "", encoding="utf-8")
        return str(path)


def tune(
    judgements: Any,
    runs: Any,
    *,
    strategies: Names | None = None,
    objective: str | None = None,
    metrics: Names | None = None,
    label_groups: Any = "auto",
    folds: Any = None,
    training: Any = None,
    engine: str | None = None,
    dataset: str | None = None,
    config: Config | str | None = None,
    settings: Mapping[str, Any] | None = None,
    spark: SparkSession | None = None,
) -> Tuned:
    """Choose and learn fusions on validation texts, and evaluate them on test texts beside all fixed cells.

    Args:
        judgements: as for `evaluate`.
        runs: as for `evaluate`. A column `role` may tell validation texts from test texts.
        strategies: such as `["tuned+cell", "learned+logistic"]`; by default all that are installed.
        objective: what choices maximise, such as `"ndcg@10"` or `"0.5*ndcg@10+0.5*precision@1"`.
        metrics: as for `evaluate`.
        label_groups: as for `evaluate`.
        folds: a table (text_id, fold, role), or `{"t1": 0, ...}`. Without texts of the role validation, the choice for
            each fold, or for each part of the texts, is made on the others.
        training: as for `evaluate`; learned fusions read how frequent a label is there.
        engine: as for `evaluate`.
        dataset: what the report calls the dataset.
        config: a configuration, or the path of one.
        settings: dotted settings over it.
        spark: the session to use, if there is one.
    """
    chosen = {
        "tune.strategies": listed(strategies),
        "tune.objective": objective,
        "evaluate.metrics": listed(metrics),
        "grid.engine": engine,
        "dataset": dataset,
    }
    resolved = configured(config, {**given(chosen), **(settings or {})})
    sources = sources_of(resolved, judgements, runs, label_groups, folds, training)
    return Tuned(job.compute(spark, resolved, sources), resolved)
