"""Work on all folds at once, one Spark task per fold."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from fusion.errors import ConfigError, InputError, SetupError, XmtcError
from fusion.retrieval.contrastive import CollapseError
from jobs.runtime.folders import ResultFolder
from jobs.runtime.log import log
from udfs.fold_data import REPORT_SCHEMA, FoldSource, over_folds


def run_folds(spark: SparkSession, sources: Sequence[FoldSource], work: Callable[[FoldSource], Any]) -> dict[int, Any]:
    """The reports of the work on all folds, one task each; the first error of a fold is raised here."""
    # As many partitions as rows: range puts one into each.
    tasks = spark.range(0, len(sources), 1, len(sources))
    rows = sorted(tasks.mapInArrow(over_folds(sources, work), REPORT_SCHEMA).collect())
    known: dict[str, type[XmtcError]] = {
        kind.__name__: kind for kind in (CollapseError, ConfigError, InputError, SetupError)
    }
    for row in rows:
        if row["problem"]:
            kind, message = json.loads(row["problem"])
            raise known.get(kind, XmtcError)(message)
    return {row["fold"]: json.loads(row["report"]) for row in rows}


def keep_reports(folder: ResultFolder, reports: Mapping[int, Any]) -> Mapping[str, Any]:
    """Tell how training went, and keep it beside the models."""
    for fold, report in reports.items():
        mrr, best = report["mrr"], report["best"]
        gain = f"{mrr[best]:.3f} after epoch {best} of {len(mrr) - 1}" if best else "which no epoch improved"
        log(f"train: fold {fold}, validation MRR {mrr[0]:.3f} before training, {gain}")
    folder.write_text("report.json", json.dumps(reports, indent=2) + "\n")
    return {"folds": len(reports)}
