"""The trend page: the watched figures of all nights, with their intervals, as one self-contained file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import Template
from typing import Any

from jobs.nights.changes import Figure
from jobs.nights.history import History
from jobs.nights.night import Night
from jobs.nights.summary import banner
from jobs.reporting.formats import aspect_name, count, interval, percent
from jobs.reporting.renderers import asset, night_html
from jobs.settings.nightly import NightlySettings
from jobs.storage.folders import escape

WIDTH, HEIGHT, LEFT, RIGHT, BOTTOM, TOP = 720, 230, 64, 16, 52, 12
SHOWN = 60
"""Nights on a chart."""


@dataclass(frozen=True)
class Point:
    """A watched figure of one night, as shares of 1."""

    mean: float
    low: float
    high: float
    texts: int
    fell: bool
    new: int | None = None
    gone: int | None = None
    """Texts that the baseline of that night had not, or had and the night had not."""


@dataclass
class Trend:
    """A watched figure of a dataset, by night in the order of the nights."""

    dataset: str
    figure: Figure
    baseline: str | None
    points: dict[str, Point] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.figure)

    def fell(self, run_id: str) -> bool:
        return run_id in self.points and self.points[run_id].fell


def trend_page(history: History, settings: NightlySettings, night: Night) -> str:
    """The night's verdict, then one chart per dataset and watched figure."""
    runs = history.runs()
    ids = list(dict.fromkeys(row["run_id"] for row in runs))[-SHOWN:]
    rows = history.read("watched", ids)
    watched = rows.to_pylist() if rows is not None else []
    absent = [
        (row["dataset"], f"{row['run_id']}: no figures, {row['verdict']}: {row['reason']}")
        for row in runs
        if row["reason"] is not None and row["run_id"] in ids
    ]
    return drawn(trends(watched, runs, ids), absent, settings.tolerance / 100, night)


def trends(watched: Sequence[Mapping[str, Any]], runs: Sequence[Mapping[str, Any]], ids: Sequence[str]) -> list[Trend]:
    """The history's rows as series; figures of nights that are not complete are left out."""
    complete = {(row["dataset"], row["run_id"]) for row in runs}
    baselines = {row["dataset"]: row["baseline"] for row in runs if row["reason"] is None}
    series: dict[tuple[Any, ...], Trend] = {}
    place = {run_id: n for n, run_id in enumerate(ids)}
    for row in sorted(watched, key=lambda row: place[row["run_id"]]):
        dataset, run_id = row["dataset"], row["run_id"]
        if (dataset, run_id) not in complete:
            continue
        figure = Figure.of(row)
        trend = series.setdefault((dataset, figure), Trend(dataset, figure, baselines.get(dataset)))
        trend.points[run_id] = Point(
            mean=row["mean"],
            low=row["low"],
            high=row["high"],
            texts=row["queries"],
            fell=row["fell"],
            new=row["new_texts"],
            gone=row["gone_texts"],
        )
    return sorted(series.values(), key=lambda trend: (trend.dataset, trend.name))


def drawn(series: Sequence[Trend], absent: Sequence[tuple[str, str]], tolerance: float, night: Night) -> str:
    """The page. Figures that fell tonight come first. `tolerance` is for datasets that have no figures tonight."""
    own = {dataset.name: dataset.config.nightly.tolerance / 100 for dataset in night.datasets}
    fallen = [trend for trend in series if trend.fell(night.run_id)]
    parts = []
    if fallen:
        parts.append(f"<h2>Fell in {escape(night.run_id)}</h2>")
        parts += [_figure(trend, own.get(trend.dataset, tolerance), f"{trend.dataset}: ") for trend in fallen]
    others: dict[str, list[str]] = defaultdict(list)
    for dataset, reason in absent:
        others[dataset].append(f'<p class="absent">{escape(reason)}</p>')
    for trend in series:
        if trend not in fallen:
            others[trend.dataset].append(_figure(trend, own.get(trend.dataset, tolerance)))
    for dataset in sorted(others):
        parts += [f"<h2>{escape(dataset)}{': did not fall' * bool(fallen)}</h2>", *others[dataset]]
    charts = "\n".join(parts) or "<p>No complete night yet.</p>"
    page = {"style": asset("base.css"), "night": night_html(banner(night)), "charts": charts}
    return Template(asset("trend.html")).substitute(page)


def _figure(trend: Trend, tolerance: float, prefix: str = "") -> str:
    last = list(trend.points)[-1]
    new, gone = trend.points[last].new, trend.points[last].gone
    note = ""
    if new or gone:
        note = (
            f"<small>The texts of {escape(last)} are not those of its baseline: {count(new or 0)} are new or judged "
            f"otherwise, {count(gone or 0)} gone. Means over different texts do not compare by themselves.</small>"
        )
    return f"<figure><figcaption>{escape(prefix + trend.name)}{note}</figcaption>{_chart(trend, tolerance)}</figure>"


class _Scale:
    """From nights and percents to places on a chart."""

    def __init__(self, nights: int, low: float, high: float) -> None:
        pad = max(high - low, 1.0) * 0.1
        self.nights, self.low, self.high = nights, low - pad, high + pad
        self.ticks = (low, (low + high) / 2, high)

    def x(self, n: int) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (n / max(self.nights - 1, 1))

    def y(self, value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (self.high - value) / (self.high - self.low)

    def level(self, kind: str, value: float) -> str:
        """A line across the chart."""
        y = self.y(value)
        return f'<line class="{kind}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'

    def path(self, values: Sequence[float], order: Sequence[int]) -> str:
        return " ".join(f"{self.x(n):.1f},{self.y(values[n]):.1f}" for n in order)


def _chart(trend: Trend, tolerance: float) -> str:
    """Means as a line, intervals as a band, the baseline less the tolerance as a dashed line, falls as diamonds."""
    ids, points = list(trend.points), list(trend.points.values())
    means, lows, highs = ([100 * getattr(point, end) for point in points] for end in ("mean", "low", "high"))
    floor = 100 * (trend.points[trend.baseline].mean - tolerance) if trend.baseline in trend.points else None
    scale = _Scale(len(ids), min([*lows, *([floor] if floor is not None else [])]), max(highs))
    forward = list(range(len(ids)))
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="group" aria-label="{escape(trend.name)}">']
    for tick in scale.ticks:
        parts.append(scale.level("rule", tick))
        parts.append(f'<text class="number" x="{LEFT - 6}" y="{scale.y(tick) + 4:.1f}">{tick:.1f}</text>')
    parts.append(f'<polygon class="band" points="{scale.path(highs, forward)} {scale.path(lows, forward[::-1])}"/>')
    if floor is not None:
        parts.append(scale.level("floor", floor))
    parts.append(f'<polyline class="mean" points="{scale.path(means, forward)}"/>')
    parts += [_dot(trend, run_id, scale.x(n), scale.y(means[n])) for n, run_id in enumerate(ids)]
    for n in {0, len(ids) - 1}:
        side = "end" if n else "start"
        parts.append(
            f'<text class="day" x="{scale.x(n):.1f}" y="{HEIGHT - 32}" text-anchor="{side}">{escape(ids[n])}</text>'
        )
    middle = (TOP + HEIGHT - BOTTOM) / 2
    title = f"{aspect_name(trend.figure.aspect)} (%)"
    parts.append(f'<text class="axis" x="{(LEFT + WIDTH) / 2}" y="{HEIGHT - 8}">night</text>')
    parts.append(f'<text class="axis" transform="translate(14 {middle}) rotate(-90)">{escape(title)}</text>')
    return "".join([*parts, "</svg>"])


def _dot(trend: Trend, run_id: str, x: float, y: float) -> str:
    """A night: a dot; an open square for the baseline; a diamond where the figure fell."""
    point = trend.points[run_id]
    label_text = f"{run_id}: {percent(point.mean, 2)} {interval(point.low, point.high, 2).replace('+', '')}"
    label_text += f", {count(point.texts, 'text')}"
    label_text += ", the baseline" if run_id == trend.baseline else ""
    label_text += ", fell" if point.fell else ""
    if point.new or point.gone:
        label_text += f", {count(point.new or 0)} texts new or judged otherwise, {count(point.gone or 0)} gone"
    kind = "alarm" if point.fell else "baseline" if run_id == trend.baseline else "night"
    turn = f' transform="rotate(45 {x:.1f} {y:.1f})"' if kind == "alarm" else ""
    square = f'x="{x - 5:.1f}" y="{y - 5:.1f}" width="10" height="10"'
    corner = ' rx="5"' if kind == "night" else ""
    label = f'role="img" tabindex="0" aria-label="{escape(label_text)}"'
    return f'<rect class="{kind}" {square}{corner}{turn} {label}><title>{escape(label_text)}</title></rect>'
