"""For notebooks: widgets, tables and pages, on Databricks and on any other machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from jobs.runtime.session import get_session
from jobs.settings import SparkSettings


def widget(name: str, default: str, label: str) -> str:
    """The value of a text field above the notebook; elsewhere of the variable XMTC_<NAME>, or the default."""
    dbutils = _given("dbutils")
    if dbutils is None:
        return os.environ.get(f"XMTC_{name.upper()}", default)
    dbutils.widgets.text(name, default, label)
    return str(dbutils.widgets.get(name))


def session() -> SparkSession:
    """The notebook's session, or one on this machine."""
    return get_session(SparkSettings())


def beside(path: str) -> str:
    """A path of the repository, found from its folder and from that of the notebooks, where notebooks run."""
    above = Path("..", path)
    return str(above.resolve()) if above.exists() and not Path(path).exists() else path


def show(table: DataFrame | pd.DataFrame | pa.Table, rows: int = 20) -> None:
    """The first rows of a table: with Databricks' own display, or printed."""
    if isinstance(table, pa.Table):
        table = table.to_pandas()
    frame = table.limit(rows) if isinstance(table, DataFrame) else table.head(rows)
    if _given("dbutils") is not None:
        _given("display")(frame)
        return
    if isinstance(frame, DataFrame):
        frame = frame.toPandas()
    print(frame.to_string(index=False, max_colwidth=60))


def show_page(path: str) -> None:
    """A page of the report inside the notebook, or where to find it."""
    display_html = _given("displayHTML")
    if display_html is None:
        print(f"open {Path(path).absolute()}")
    else:
        display_html(Path(path).read_text(encoding="utf-8"))


def _given(name: str) -> Any:
    """What Databricks puts among the names of a notebook; None elsewhere."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return None if shell is None else shell.user_ns.get(name)
