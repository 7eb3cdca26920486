"""The trend page: the watched figures of all nights, with their intervals, as one self-contained file."""

from __future__ import annotations

from collections import defaultdict
from html import escape
from importlib.resources import files
from typing import Any

from fusion.grid import Cell
from jobs.monitoring.history import History
from jobs.reporting.formats import cell_name
from jobs.settings.nightly import NightlySettings

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 720, 200, 48, 34, 10
SHOWN = 60
"""Nights on a chart."""


def trend_page(history: History, settings: NightlySettings) -> str:
    """One chart a dataset and watched figure."""
    runs = history.runs()
    ids = list(dict.fromkeys(row["run_id"] for row in runs))[-SHOWN:]
    absent = [row for row in runs if row["reason"] is not None and row["run_id"] in ids]
    verdicts = {(row["dataset"], row["run_id"]): row["verdict"] for row in runs}
    baselines = {row["dataset"]: row["baseline"] for row in runs if row["reason"] is None}
    series: dict[tuple[str, str], dict[str, Any]] = defaultdict(dict)
    rows = history.read("watched", ids)
    for row in rows.collect() if rows is not None else []:
        if (row["dataset"], row["run_id"]) in verdicts:
            cell = cell_name(Cell(row["normalization"], row["fusion"]))
            what = f"{row['label_group']} labels, {row['metric']}@{row['k']} of {cell}"
            series[row["dataset"], what][row["run_id"]] = row
    parts = []
    for dataset in sorted({name for name, _ in series} | {row["dataset"] for row in absent}):
        parts.append(f"<h2>{escape(dataset)}</h2>")
        for row in absent:
            if row["dataset"] == dataset:
                told = f"{row['run_id']}: no figures, {row['verdict']}: {row['reason']}"
                parts.append(f'<p class="absent">{escape(told)}</p>')
        for (name, what), nights in sorted(series.items()):
            if name == dataset:
                alarms = {run_id for run_id in nights if verdicts[dataset, run_id] != "ok"}
                chart = _chart(
                    nights, [run_id for run_id in ids if run_id in nights], baselines[dataset], alarms, settings
                )
                parts.append(f"<figure><figcaption>{escape(what)}</figcaption>{chart}</figure>")
    template = files("jobs.reporting").joinpath("assets/trend.html").read_text(encoding="utf-8")
    return template.replace("{{charts}}", "\n".join(parts) or "<p>No complete run yet.</p>")


def _chart(
    nights: dict[str, Any], ids: list[str], baseline: str | None, alarms: set[str], settings: NightlySettings
) -> str:
    """Means as a line, intervals as a band, the baseline less the tolerance as a dashed line, alarms as diamonds."""
    lows, highs = ([100 * nights[run_id][end] for run_id in ids] for end in ("low", "high"))
    means = [100 * nights[run_id]["mean"] for run_id in ids]
    floor = 100 * nights[baseline]["mean"] - settings.tolerance if baseline in nights else None
    bottom = min([*lows, *([floor] if floor is not None else [])])
    top = max(highs)
    pad = max(top - bottom, 1.0) * 0.1
    bottom, top = bottom - pad, top + pad

    def x(n: int) -> float:
        return LEFT + (WIDTH - LEFT - 16) * (n / max(len(ids) - 1, 1))

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (top - value) / (top - bottom)

    def points(values: list[float], order: list[int]) -> str:
        return " ".join(f"{x(n):.1f},{y(values[n]):.1f}" for n in order)

    forward = list(range(len(ids)))
    marks = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">']
    for value in (bottom + pad, (bottom + top) / 2, top - pad):
        marks.append(f'<line class="rule" x1="{LEFT}" x2="{WIDTH - 16}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>')
        marks.append(f'<text class="number" x="{LEFT - 6}" y="{y(value) + 4:.1f}">{value:.1f}</text>')
    marks.append(f'<polygon class="band" points="{points(highs, forward)} {points(lows, forward[::-1])}"/>')
    if floor is not None:
        marks.append(f'<line class="floor" x1="{LEFT}" x2="{WIDTH - 16}" y1="{y(floor):.1f}" y2="{y(floor):.1f}"/>')
    marks.append(f'<polyline class="mean" points="{points(means, forward)}"/>')
    for n, run_id in enumerate(ids):
        told = f"{run_id}: {means[n]:.2f} [{lows[n]:.2f}, {highs[n]:.2f}], {nights[run_id]['queries']:,} texts"
        told += ", the baseline" if run_id == baseline else ""
        told += ", alarm" if run_id in alarms else ""
        kind = "alarm" if run_id in alarms else "baseline" if run_id == baseline else "night"
        turn = f' transform="rotate(45 {x(n):.1f} {y(means[n]):.1f})"' if kind == "alarm" else ""
        square = f'x="{x(n) - 4:.1f}" y="{y(means[n]) - 4:.1f}" width="8" height="8"'
        round_ = "" if kind != "night" else ' rx="4"'
        marks.append(f'<rect class="{kind}" {square}{round_}{turn} tabindex="0"><title>{escape(told)}</title></rect>')
    for n in {0, len(ids) - 1}:
        side = "start" if n == 0 and len(ids) > 1 else "end" if len(ids) > 1 else "start"
        marks.append(f'<text class="day" x="{x(n):.1f}" y="{HEIGHT - 10}" text-anchor="{side}">{escape(ids[n])}</text>')
    return "".join([*marks, "</svg>"])
