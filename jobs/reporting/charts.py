"""The charts of a report."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fusion.cells import SINGLE, Cell
from fusion.errors import SetupError, visible
from fusion.labels import ALL
from fusion.metrics import Aspect, decisive_aspect
from jobs.reporting.dataset import DatasetReport, Report
from jobs.reporting.findings import Contribution
from jobs.reporting.formats import ANY, cell_name, count, full_metric_name, objective_name, percent, span
from jobs.reporting.model import Agreement, Ranking, Row, Share, Value
from jobs.reporting.tables import aspects_by_group, distinct_rows, file_names

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
        raise SetupError("the charts need the package matplotlib: pip install '.[report]'") from None
    return styles.context(["default", STYLE])


def new_chart(width: float, height: float, **subplots: Any) -> tuple[Figure, Sequence[Axes]]:
    """A chart with its axes."""
    from matplotlib.figure import Figure

    chart = Figure((width, height), layout="constrained")
    return chart, chart.subplots(squeeze=False, **subplots).ravel()


def draw_curve(dataset: DatasetReport) -> Figure:
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


RANKS_SHOWN = 16
"""Cells of a chart of mean ranks; the page has all."""


def charts(report: Report) -> Iterator[tuple[str, Figure]]:
    """Every chart with its name, DATASET_KIND or DATASET_KIND-GROUP; those without data are left out."""
    names = file_names(dataset.name for dataset in report.datasets)
    for dataset in report.datasets:
        for kind, draw in _drawings(dataset):
            with style():
                chart = draw()
            yield f"{names[dataset.name]}_{kind}", chart


def save(chart: Figure, suffix: Literal["svg", "png"]) -> bytes:
    """The file's bytes: the same for the same chart and version of matplotlib."""
    written = io.BytesIO()
    unsaid = {"svg": ("Date", "Creator"), "png": ("Software",)}[suffix]
    with style():
        chart.savefig(written, format=suffix, metadata=dict.fromkeys(unsaid))
    return written.getvalue()


def _drawings(dataset: DatasetReport) -> Iterator[tuple[str, Callable[[], Figure]]]:
    aspects = aspects_by_group(dataset)
    files = file_names(aspects)
    if any(in_grid(row) for row in dataset.rows):
        for group in aspects:
            yield f"grid-{files[group]}", partial(_grid, dataset, group, aspects[group])
    if any(gain.aspect.ideal == ALL for gain in dataset.gains):
        yield "gain", partial(_gain, dataset, aspects)
    if any(dataset.bands.get(group) for group in aspects):
        yield "frequency", partial(_frequency, dataset, aspects)
    if any(group.curve for group in dataset.strategies):
        yield "curve", partial(draw_curve, dataset)
    for ranking in dataset.rankings:
        if ranking.label_group in aspects:
            yield f"ranks-{files[ranking.label_group]}", partial(_ranks, dataset, ranking)
    for group in dict.fromkeys(one.to_most.aspect.label_group for one in dataset.additions):
        mine = [one for one in dataset.additions if one.to_most.aspect.label_group == group]
        yield f"additions-{files[group]}", partial(_additions, dataset, group, mine)
    for agreement in dataset.agreement:
        if agreement.label_group in aspects:
            group = agreement.label_group
            yield f"agreement-{files[group]}", partial(_agreement, dataset, agreement, aspects[group])


def _best(dataset: DatasetReport, aspect: Aspect) -> tuple[Cell, Value] | None:
    of_aspect = ((row.cell, row.values[aspect]) for row in dataset.rows if aspect in row.values)
    return next(((cell, value) for cell, value in of_aspect if value.best), None)


def in_grid(row: Row) -> bool:
    """Whether a row is a normalisation with a fusion of all retrievers."""
    return not row.single and not row.cell.subset and not row.cell.is_strategy


def _grid(dataset: DatasetReport, group: str, aspects: list[Aspect]) -> Figure:
    """A heat map of the decisive metric, and one of the first place, each with the bar of its colours."""
    precisions = [aspect for aspect in aspects if aspect.metric == "precision"]
    shown = list(dict.fromkeys([decisive_aspect(aspects), *precisions[:1]]))
    whole = [row.cell for row in dataset.rows if in_grid(row)]
    normalizations = list(dict.fromkeys(cell.normalization for cell in whole))
    width = TWO_COLUMNS if len(shown) > 1 else ONE_COLUMN
    chart, axes = new_chart(width, 1.35 + 0.21 * len(normalizations), ncols=len(shown), sharey=True)
    for ax, aspect in zip(axes, shown, strict=True):
        _heat_map(chart, ax, dataset, aspect, normalizations)
        ax.set_title(visible(f"{dataset.name}, {group} labels"))
        ax.set_xlabel("fusion")
    axes[0].set_ylabel("normalisation")
    axes[0].invert_yaxis()
    return chart


def _heat_map(chart: Figure, ax: Axes, dataset: DatasetReport, aspect: Aspect, normalizations: list[str]) -> None:
    """What is the same under every normalisation fills its whole column, once."""
    from matplotlib import cm, colormaps, colors
    from matplotlib.patches import Rectangle

    shown = [row for row in distinct_rows(dataset) if in_grid(row)]
    fusions = list(dict.fromkeys(row.cell.fusion for row in shown))
    values = {row.cell: row.values[aspect] for row in shown if aspect in row.values}
    means = np.array([value.mean for value in values.values()])
    # The median has the middle colour: a few bad cells do not use up the scale.
    scale = cm.ScalarMappable(colors.Normalize(2 * np.median(means) - means.max(), means.max()), colormaps["cividis"])
    for cell, value in values.items():
        whole = cell.normalization == ANY
        x, y = fusions.index(cell.fusion), 0 if whole else normalizations.index(cell.normalization)
        height = len(normalizations) if whole else 1
        colour = scale.to_rgba(np.array([value.mean]))[0]
        light = 0.2126 * colour[0] + 0.7152 * colour[1] + 0.0722 * colour[2] > 0.45
        ax.add_patch(Rectangle((x, y), 1, height, facecolor=colour, edgecolor="white", linewidth=0.5))
        if value.best:
            ax.add_patch(
                Rectangle((x, y), 1, height, fill=False, edgecolor="black", linewidth=1.6, clip_on=False, zorder=3)
            )
        ax.text(
            x + 0.5, y + height / 2, percent(value.mean), ha="center", va="center", size=5.5,
            color="black" if light else "white", weight="bold" if value.bold else "normal", in_layout=False,
        )  # fmt: skip
    ax.set_xlim(0, len(fusions))
    ax.set_ylim(0, len(normalizations))
    ax.set_xticks(
        np.arange(len(fusions)) + 0.5, [*map(visible, fusions)], rotation=45, ha="right", rotation_mode="anchor"
    )
    ax.set_yticks(np.arange(len(normalizations)) + 0.5, normalizations)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    bar = chart.colorbar(scale, ax=ax, orientation="horizontal", shrink=0.6, aspect=40, pad=0.02)
    bar.ax.xaxis.set_major_formatter(lambda share, _: percent(share))
    bar.set_label(f"{full_metric_name(aspect)} (%); all that is lower has the darkest colour")
    bar.outline.set_visible(False)


def _ranks(dataset: DatasetReport, ranking: Ranking) -> Figure:
    """The cells by their mean rank; a bar on the right joins those that are not significantly different."""
    shown = ranking.cells[:RANKS_SHOWN]
    names = [cell_name(ranked.cell) for ranked in shown]
    chart, (ax,) = new_chart(ONE_COLUMN, 0.7 + 0.14 * len(shown))
    for y, ranked in enumerate(shown):
        alone = ranked.cell.normalization == SINGLE
        ax.plot([0, ranked.rank], [y, y], color="0.85", linewidth=0.4, zorder=0)
        ax.plot(ranked.rank, y, MARKS[int(alone)], color=COLOURS[int(alone)])
    right = max(ranked.rank for ranked in shown) + 1
    places = {ranked.cell: y for y, ranked in enumerate(shown)}
    ties = [[places[cell] for cell in tie if cell in places] for tie in ranking.ties]
    for i, tie in enumerate(tie for tie in ties if len(tie) > 1):
        x = right + 0.03 * right * (i + 1)
        ax.plot([x, x], [min(tie) - 0.2, max(tie) + 0.2], color="black", linewidth=1.6, solid_capstyle="round")
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlim(left=0)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("mean rank; bars join cells\nthat are not significantly different")
    ax.set_title(visible(f"{dataset.name}, {ranking.label_group} labels"))
    return chart


def _gain(dataset: DatasetReport, aspects: dict[str, list[Aspect]]) -> Figure:
    """The best fusion against the best single retriever, by metric and label group."""
    gains = {gain.aspect: gain for gain in dataset.gains}
    metrics = list(dict.fromkeys(full_metric_name(aspect) for of_group in aspects.values() for aspect in of_group))
    chart, (ax,) = new_chart(ONE_COLUMN, 0.9 + 0.13 * len(metrics) * len(aspects))
    for i, (group, of_group) in enumerate(aspects.items()):
        shift = 0.7 * ((i + 0.5) / len(aspects) - 0.5)
        colour, mark = COLOURS[i % len(COLOURS)], MARKS[i % len(MARKS)]
        for aspect in of_group:
            if aspect not in gains:
                continue
            against, verdict = gains[aspect].comparison, gains[aspect].verdict
            y = metrics.index(full_metric_name(aspect)) + shift
            if against.low is not None and against.high is not None:
                ax.plot([100 * against.low, 100 * against.high], [y, y], color=colour, solid_capstyle="butt")
            face = colour if verdict.significant else "white"
            ax.plot(100 * against.difference, y, mark, color=colour, markerfacecolor=face)
        ax.plot([], [], mark, color=colour, label=visible(f"{group} labels"))
    ax.axvline(0, color="black", linewidth=0.6)
    ax.set_yticks(range(len(metrics)), metrics)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(metrics) - 0.5, -0.5)
    for edge in range(1, len(metrics)):
        ax.axhline(edge - 0.5, color="0.85", linewidth=0.4, zorder=0)
    ax.set_xlabel(
        "gain over the best single retriever, in points, with\n95% interval; hollow: not significantly different"
    )
    ax.set_title(dataset.name)
    chart.legend(loc="outside upper center", ncols=3, handletextpad=0.2, columnspacing=1)
    return chart


def _frequency(dataset: DatasetReport, aspects: dict[str, list[Aspect]]) -> Figure:
    """Single retrievers and the recommended cell, from the rarest labels to the most frequent, with intervals."""
    groups = [group for group in aspects if dataset.bands.get(group)]
    k = max(k for group in groups for band in dataset.bands[group] for of in band.found.values() for k in of)
    singles = [row.cell for row in dataset.rows if row.single]
    ratios = [max(len(dataset.bands[group]), 4) for group in groups]
    width = ONE_COLUMN if len(groups) == 1 else TWO_COLUMNS
    chart, axes = new_chart(width, 2.5, ncols=len(groups), sharey=True, width_ratios=ratios)
    for ax, group in zip(axes, groups, strict=True):
        bands = dataset.bands[group]
        recommended = dataset.recommendation.of(group) if dataset.recommendation else None
        lines = [*singles, *([recommended] if recommended else [])]
        for i, cell in enumerate(lines):
            _band_line(ax, i, cell, [band.found[cell][k] for band in bands], (i - (len(lines) - 1) / 2) * 0.12)
        ticks = [span(band.rarest, band.commonest) for band in bands]
        ax.set_xticks(range(len(bands)), ticks, rotation=45, ha="right", rotation_mode="anchor")
        ax.set_xlim(-0.5, len(bands) - 0.5)
        ax.set_title(visible(f"{group} labels"))
        ax.grid(axis="y", color="0.9", linewidth=0.4)
    axes[0].set_ylim(bottom=0)
    axes[0].set_ylabel(f"found in the first {k} (%)")
    chart.supxlabel("texts that carry the label", size=7)
    # The recommended cell may be another one in each group.
    named = {label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    labels, handles = list(named), list(named.values())
    place: dict[str, Any] = {"loc": "outside upper center", "ncols": 2 if len(groups) == 1 else 4}
    title = f"{dataset.name}: relevant labels found, with 95% intervals"
    chart.legend(handles, labels, title=title, title_fontsize=7, **place)
    return chart


def _band_line(ax: Axes, number: int, cell: Cell, shares: Sequence[Share], aside: float) -> None:
    fused = cell.normalization != SINGLE
    values = [100 * share.value for share in shares]
    below = [100 * (share.value - share.low) for share in shares]
    above = [100 * (share.high - share.value) for share in shares]
    ax.errorbar(
        [x + aside for x in range(len(shares))], values, yerr=(below, above), label=cell_name(cell),
        marker="*" if fused else MARKS[number % len(MARKS)], color="black" if fused else COLOURS[number % len(COLOURS)],
        linestyle="-" if fused else DASHES[number % len(DASHES)], markersize=6 if fused else 3.5, elinewidth=0.7,
    )  # fmt: skip


def _additions(dataset: DatasetReport, group: str, contributions: list[Contribution]) -> Figure:
    """What each retriever adds to the others, and to every subset of them."""
    names = [visible(one.to_most.retriever) for one in contributions]
    chart, (ax,) = new_chart(ONE_COLUMN, 0.9 + 0.2 * len(names))
    for y, one in enumerate(contributions):
        added = one.to_most.comparison
        each = [100 * other.comparison.difference for other in one.to_each]
        ax.plot(each, [y] * len(each), "|", color="0.6", markersize=7, zorder=1)
        if added.low is not None and added.high is not None:
            ax.plot([100 * added.low, 100 * added.high], [y, y], color=COLOURS[0], solid_capstyle="butt")
        face = COLOURS[0] if one.verdict.significant else "white"
        ax.plot(100 * added.difference, y, MARKS[0], color=COLOURS[0], markerfacecolor=face)
    ax.axvline(0, color="black", linewidth=0.6)
    ax.set_yticks(range(len(names)), names)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(names) - 0.5, -0.5)
    first = contributions[0].to_most
    ax.set_xlabel(
        f"{full_metric_name(first.aspect)} added to the others, in points, with\n95% interval; strokes: added to each "
        "subset of them;\nhollow: not significantly different, or not tested"
    )
    ax.set_title(visible(f"{dataset.name}, {group} labels, {cell_name(first.cell)}"))
    return chart


def _agreement(dataset: DatasetReport, agreement: Agreement, aspects: list[Aspect]) -> Figure:
    """What each retriever finds, with others and alone; and the best fusions with what any could reach."""
    ceilings = [aspect for aspect in aspects if aspect in agreement.ceiling and _best(dataset, aspect)]
    retrievers = list(agreement.found)
    names = [*map(visible, retrievers)]
    bars = max(len(retrievers) + 1, len(ceilings))
    panels = 2 if ceilings else 1
    chart, axes = new_chart(ONE_COLUMN * panels, 0.85 + 0.2 * bars, ncols=panels)
    listed = [100 * agreement.found[name] for name in retrievers]
    alone = [100 * agreement.alone.get(name, 0) for name in retrievers]
    shared = [a - b for a, b in zip(listed, alone, strict=True)]
    bar: dict[str, Any] = {"height": 0.65, "edgecolor": "black", "linewidth": 0.5}
    axes[0].barh(names, shared, color=COLOURS[4], label="found by others too", **bar)
    axes[0].barh(names, alone, left=shared, color="white", hatch="/////", label="found by it alone", **bar)
    axes[0].barh(["any of them"], [100 * agreement.union], color="0.88", label="found by any", **bar)
    words = [f"{a:.1f}, alone {b:.1f}" for a, b in zip(listed, alone, strict=True)]
    _say(axes[0], [*listed, 100 * agreement.union], [*words, f"{100 * agreement.union:.1f}"])
    # More pairs than one do not fit on a line; the table has them.
    common = [f"\ncandidates in common: {100 * share:.1f}%" for share in agreement.overlap.values()]
    axes[0].set_xlabel("relevant labels found (%)" + (common[0] if len(common) == 1 else ""))
    axes[0].set_title(visible(f"{dataset.name}, {agreement.label_group} labels"))
    if ceilings:
        metrics = [full_metric_name(aspect) for aspect in ceilings]
        tops = [100 * agreement.ceiling[aspect] for aspect in ceilings]
        bests = [100 * best[1].mean for aspect in ceilings if (best := _best(dataset, aspect))]
        axes[1].barh(metrics, tops, color="white", hatch="/////", label="ceiling of any fusion", **bar)
        axes[1].barh(metrics, bests, color=COLOURS[0], label="best fusion", **{**bar, "height": 0.4})
        _say(axes[1], tops, [f"{best:.1f} of {top:.1f}" for best, top in zip(bests, tops, strict=True)])
        axes[1].set_xlabel("best fusion and ceiling (%)")
    for ax in axes:
        ax.invert_yaxis()
        ax.tick_params(axis="y", length=0)
    chart.legend(loc="outside upper center", ncols=5 if ceilings else 2, columnspacing=1)
    return chart


def _say(ax: Axes, ends: list[float], words: list[str]) -> None:
    """Words behind the ends of bars, and room for them."""
    for y, (end, text) in enumerate(zip(ends, words, strict=True)):
        ax.text(end, y, f" {text}", va="center", size=6)
    limit = 1.4 * max(*ends, 1)
    ax.set_xlim(0, limit)
    ax.set_xticks([tick for tick in ax.get_xticks() if tick <= min(limit, 100)])
