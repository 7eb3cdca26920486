"""How the charts of a report look: sizes, colours, marks, and matplotlib's settings."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from fusion.errors import SetupError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ONE_COLUMN, TWO_COLUMNS = 3.4, 7.0
"""Widths in inches."""
# The palette of Okabe and Ito: distinct for the colour-blind; marks, dashes and hatches tell lines and bars apart in
# grey print.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
MARKS = ("o", "s", "^", "D", "v", "P")
DASHES = ((0, (4, 1.5)), (0, (1, 1)), (0, (4, 1.5, 1, 1.5)), (0, (6, 2)), (0, (2, 2)), (0, (1, 3)))
STYLE = {
    "font.size": 7,
    "axes.titlesize": 7,
    "axes.linewidth": 0.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.fontsize": 6.5,
    "legend.frameon": False,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "xtick.major.width": 0.5,
    "ytick.major.width": 0.5,
    "lines.linewidth": 1.1,
    "lines.markersize": 4,
    "hatch.linewidth": 0.6,
    "savefig.dpi": 200,
    "svg.hashsalt": "xmtc-fusion",
    "text.parse_math": False,
}


def style() -> AbstractContextManager[None]:
    """Our settings on matplotlib's own, whatever the user's are."""
    try:
        from matplotlib import style as styles
    except ImportError:
        raise SetupError("the charts need the package matplotlib: pip install 'xmtc-fusion[report]'") from None
    return styles.context(["default", STYLE])


def new_chart(width: float, height: float, **subplots: Any) -> tuple[Figure, Sequence[Axes]]:
    """A chart with its axes."""
    from matplotlib.figure import Figure

    chart = Figure((width, height), layout="constrained")
    return chart, chart.subplots(squeeze=False, **subplots).ravel()
