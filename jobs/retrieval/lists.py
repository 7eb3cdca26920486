"""The candidates of a retriever: the ranked labels of test texts and of validation texts."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame

from jobs.datasets.roles import TEST
from jobs.datasets.tables import DatasetTables
from jobs.runtime.folders import ResultFolder
from jobs.runtime.workspace import role_lists


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
