"""The learning curve: what strategies gain over the chosen cell, by the number of validation texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fusion.errors import visible
from jobs.reporting.chart_style import COLOURS, DASHES, MARKS, ONE_COLUMN, TWO_COLUMNS, new_chart
from jobs.reporting.data import Dataset
from jobs.reporting.formats import count, objective_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_curve(dataset: Dataset) -> Figure:
    """A panel per label group; every strategy is a line with its colour, mark and dashes."""
    groups = [group for group in dataset.strategies if group.curve]
    cells = list(dict.fromkeys(cell for group in groups for cell in group.curve))
    chart, axes = new_chart(
        ONE_COLUMN if len(groups) == 1 else TWO_COLUMNS, 2.5, ncols=len(groups), sharey=True, sharex=True
    )
    for ax, group in zip(axes, groups, strict=True):
        for number, cell in enumerate(cells):
            points = group.curve.get(cell, ())
            gains = [100 * point.mean for point in points]
            ends = [
                [100 * (point.mean - point.low) for point in points],
                [100 * (point.high - point.mean) for point in points],
            ]
            # Lines that meet at one number of texts stand a little aside of each other.
            aside = 1.025 ** (number - (len(cells) - 1) / 2)
            ax.errorbar(
                [point.texts * aside for point in points],
                gains,
                yerr=ends,
                label=str(cell),
                marker=MARKS[number % len(MARKS)],
                color=COLOURS[number % len(COLOURS)],
                linestyle=DASHES[number % len(DASHES)],
                elinewidth=0.7,
                markersize=3.5,
            )
        ax.axhline(0, color="black", linewidth=0.6)
        ax.set_xscale("log")
        ticks = sorted({point.texts for points in group.curve.values() for point in points})
        ax.set_xticks(ticks, [count(tick) for tick in ticks], rotation=45, ha="right", rotation_mode="anchor")
        ax.minorticks_off()
        ax.set_title(visible(f"{group.label_group} labels"))
        ax.grid(axis="y", color="0.9", linewidth=0.4)
    axes[0].set_ylabel(f"gain in {objective_name(groups[0].objective)}, in points")
    chart.supxlabel("validation texts per fold", size=7)
    handles, labels = axes[0].get_legend_handles_labels()
    place: dict[str, Any] = {"loc": "outside upper center", "ncols": 2 if len(groups) == 1 else 5}
    over = "gain over the cell chosen on all validation texts;"
    title = f"{dataset.name}: {over}{chr(10) if len(groups) == 1 else ' '}bars: from the lowest to the highest fold"
    chart.legend(handles, labels, title=title, title_fontsize=7, **place)
    return chart
