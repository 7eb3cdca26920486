"""Helpers for notebooks: widgets, tables, charts and pages, on Databricks, in Jupyter and in a terminal."""

from __future__ import annotations

import io
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jobs.inputs.sources import kind_of
from udfs.stores.addresses import absolute

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import SparkSession


VOLUME = "/Volumes/main/xmtc_fusion_dev/files/work/notebooks"
"""A folder of the volume that the bundle makes in its target dev."""
LONG_NAME = 12
"""Names of more characters are written at an angle below a chart."""


def widget(name: str, default: str, label: str) -> str:
    """The value of a text field above the notebook; elsewhere of the variable `XMTC_<NAME>`, or the default."""
    dbutils = _given("dbutils")
    if dbutils is None:
        return os.environ.get(f"XMTC_{name.upper()}", default)
    dbutils.widgets.text(name, default, label)
    return str(dbutils.widgets.get(name))


def session() -> SparkSession:
    """The notebook's session, or one on this machine. From here on, jobs say below the cell what they do."""
    from jobs.engines.session import get_session
    from jobs.runtime.log import configure_log
    from jobs.settings.base import SparkSettings
    from jobs.settings.sections import LogSettings

    configure_log(LogSettings())
    return get_session(SparkSettings())


def work_folder() -> str:
    """The folder for results, from the field `work`. By default it is in the bundle's volume on Databricks, and in the
    working folder elsewhere."""
    default = "work/notebooks" if _given("dbutils") is None else VOLUME
    return absolute(widget("work", default, "Folder for results"))


def files_folder(dataset: str, work: str) -> str:
    """Where the files of a dataset are: the field `folder`, or what its configuration says. Files that come with the
    package are copied below `work`, since Spark's machines may not see the folder of the package."""
    from jobs.settings.config import load_config

    given = widget("folder", "", "Folder of the dataset's files")
    folder = given or load_config(dataset).prepare.folder or ""
    if not Path(folder).is_relative_to(Path(__file__).parent):
        return absolute(folder)
    return shutil.copytree(folder, f"{work}/data/{Path(folder).name}", dirs_exist_ok=True)


def show(table: Any, rows: int = 20) -> None:
    """The first rows of a table (Spark, pandas or Arrow), displayed in a notebook and printed elsewhere."""
    kind = kind_of(table)
    if kind == "arrow":
        table = table.to_pandas()
    frame = table.limit(rows) if kind == "spark" else table.head(rows)
    # Databricks displays Spark's tables itself; Jupyter would only name their columns.
    if kind == "spark" and _given("dbutils") is None:
        frame = frame.toPandas()
    if not _displayed(frame):
        print(frame.to_string(index=False, max_colwidth=60))


def chart(
    table: Any,
    x: str,
    y: str | list[str],
    title: str,
    kind: Literal["bar", "line"] = "bar",
    *,
    x_title: str | None = None,
    y_title: str | None = None,
) -> Figure | None:
    """Columns of a table over another one as bars or lines. None, and a hint, without the extra [report].

    Axes are called after their columns unless they are given titles; several columns over one axis have a legend.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print(f"no chart of {title!r}: install matplotlib, or xmtc-fusion with the extra [report]")
        return None
    frame = {"spark": "toPandas", "arrow": "to_pandas"}.get(kind_of(table))
    table = getattr(table, frame)() if frame else table
    figure = Figure(figsize=(8, 3), layout="constrained")
    axes = figure.subplots()
    columns = [y] if isinstance(y, str) else y
    long_names = table[x].astype(str).str.len().max() > LONG_NAME
    look = {"marker": "o"} if kind == "line" else {"width": 0.8}
    table.plot(x=x, y=columns, kind=kind, ax=axes, title=title, rot=20 if long_names else 0, legend=False, **look)
    axes.set_xlabel(x_title or x.replace("_", " "))
    axes.set_ylabel(y_title or (columns[0].replace("_", " ") if len(columns) == 1 else ""))
    axes.spines[["top", "right"]].set_visible(False)
    if len(columns) > 1:
        figure.legend(loc="outside right upper", frameon=False)
    show_figure(figure)
    return figure


def show_figure(figure: Figure) -> None:
    """A chart inside the notebook. In a terminal, nothing."""
    if _given("display") is not None:
        # Databricks draws charts itself; Jupyter draws only those of pyplot, which is not used here.
        _displayed(figure if _given("dbutils") is not None else _picture(figure))


def show_page(path: str) -> None:
    """A page of the report inside the notebook, or where to find it."""
    display_html = _given("displayHTML")
    if display_html is None:
        print(f"open {Path(path).absolute()}")
    else:
        display_html(Path(path).read_text(encoding="utf-8"))


def _displayed(thing: Any) -> bool:
    """Display something the way notebooks do; False where there is no notebook. Both kinds of them define `display`."""
    display = _given("display")
    if display is None:
        return False
    display(thing)
    return True


def _picture(figure: Figure) -> Any:
    """A chart as Jupyter shows it: a PNG."""
    from IPython.display import Image  # type: ignore[import-not-found,unused-ignore]

    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=110, bbox_inches="tight")
    return Image(data=drawn.getvalue())


def _given(name: str) -> Any:
    """What a notebook has among its names from the beginning; None elsewhere."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None:
        return None
    return shell.user_ns.get(name) or (_jupyter_display(shell) if name == "display" else None)


def _jupyter_display(shell: Any) -> Any:
    """Jupyter's `display`, which is a builtin there; None in IPython's terminal, which can show text only."""
    if type(shell).__name__ != "ZMQInteractiveShell":
        return None
    from IPython.display import display  # type: ignore[import-not-found,unused-ignore]

    return display
