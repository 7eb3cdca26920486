"""What all retrievers share: work on folds side by side, lists of candidates, and models by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from fusion.errors import ConfigError, InputError, SetupError, XmtcError
from fusion.retrieval.contrastive import CollapseError
from jobs.datasets.tables import DatasetTables
from jobs.runtime.log import log
from jobs.storage.folders import ResultFolder
from jobs.storage.workspace import TEST, role_lists
from udfs.retrieval.folds import REPORT_SCHEMA, FoldSource, over_folds


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


def write_lists(prepared: DatasetTables, folder: ResultFolder, ranked: Callable[[str], DataFrame]) -> dict[str, int]:
    """Write the lists of every role that is listed, as `ranked` ranks the labels of its texts; counts for the log."""
    counts = {}
    for role in prepared.listed_roles:
        place = role_lists(folder.uri, role)
        ranked(role).write.parquet(place)
        prefix = "" if role == TEST else f"{role}_"
        counts[f"{prefix}texts"] = sum(prepared.role_sizes[role].values())
        counts[f"{prefix}lists"] = prepared.samples.sparkSession.read.parquet(place).count()
    return counts
