"""The engines on Spark by name. Both give the same rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from pyspark.sql import DataFrame

from fusion.grid import Grid
from fusion.kernel.blocks import Scope
from udfs.arrays import over_arrays
from udfs.list_codes import Layout
from udfs.text_batches import Work
from udfs.windows import over_windows

SparkEngineName = Literal["arrays", "windows"]


def over_lists(
    engine: SparkEngineName,
    layout: Layout,
    grid: Grid,
    scope: Scope,
    views: tuple[str, ...],
    work: Work,
    schema: str,
    partitions: int | None = None,
) -> Callable[[DataFrame], DataFrame]:
    """From list rows to the rows of `work`, through an engine."""
    if engine == "windows":
        return over_windows(layout, grid, scope, views, work, schema, partitions)
    return over_arrays(layout, work, schema, partitions)
