"""What can be asked about past nights, and decided about them: status, show, compare, accept, pin."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from fusion.errors import ConfigError
from jobs.nights.changes import Figure
from jobs.nights.history import ACCEPT, PIN, History, Row
from jobs.nights.night import OK
from jobs.reporting.formats import percent, plain

NIGHTS = 14
"""Nights that `status` shows."""


def status(history: History, nights: int = NIGHTS) -> str:
    """The last nights: verdicts, what they were compared with, and what fell."""
    rows = history.runs()
    ids = list(dict.fromkeys(row["run_id"] for row in rows))[-nights:]
    if not ids:
        return f"no nights in {history.place}"
    watched = history.read("watched", ids)
    fallen: dict[tuple[str, str], list[str]] = {}
    for row in watched.to_pylist() if watched is not None else []:
        if row["fell"]:
            fallen.setdefault((row["run_id"], row["dataset"]), []).append(_figure_name(row))
    decided = {(row["run_id"], row["dataset"]): row for row in history.decisions() if row["kind"] == ACCEPT}
    lines = [("night", "dataset", "verdict", "compared with", "what")]
    for row in (row for row in rows if row["run_id"] in ids):
        key = row["run_id"], row["dataset"]
        what = f"fell: {', '.join(fallen[key])}" if key in fallen else row["reason"] or row["uncompared"] or ""
        if key in decided:
            what += f" (accepted by {decided[key]['who']}: {decided[key]['words']})"
        lines.append((*key, row["verdict"], row["baseline"] or "-", _short(what.strip())))
    pinned = [row for row in history.decisions() if row["kind"] == PIN][-1:]
    notes = [f"pinned baseline: {row['run_id']} ({row['who']}: {row['words']})" for row in pinned if row["run_id"]]
    return "\n".join([_aligned(lines), *map(plain, notes)])


def show(history: History, run_id: str) -> str:
    """One night: its attempts, what was checked and watched, what it cost, who was sent an alert."""
    attempts = [row for row in history.attempts() if row["run_id"] == run_id]
    if not attempts:
        raise _unknown(history, run_id)
    counting = {(row["dataset"], row["attempt"]) for row in history.runs() if row["run_id"] == run_id}
    lines = [("dataset", "attempt", "verdict", "compared with", "finished", "counts", "reason")]
    for row in attempts:
        counts = "yes" if (row["dataset"], row["attempt"]) in counting else "superseded"
        key = row["dataset"], str(row["attempt"]), row["verdict"], row["baseline"] or "-", row["finished"]
        lines.append((*key, counts, _short(row["reason"] or "")))
    parts = [f"night {run_id}", _aligned(lines)]
    uncompared = [f"  {row['dataset']}: {line}" for row in attempts for line in (row["uncompared"] or "").splitlines()]
    parts += ["what could not be compared", *uncompared] if uncompared else []
    parts += _section(history, "watched", run_id, "watched figures", _watched_line)
    parts += _section(history, "checks", run_id, "bounds of the data that were not kept", _check_line)
    parts += _section(history, "drift", run_id, "what moved in the data", _drift_line)
    parts += _section(history, "run_log", run_id, "cost", _log_line)
    deliveries = [plain(f"  {row['time']} {row['channel']}: {row['detail']}") for row in history.deliveries(run_id)]
    decided = [
        plain(f"  {row['time']} {row['kind']} by {row['who']}: {row['words']}")
        for row in history.decisions()
        if row["run_id"] == run_id
    ]
    parts += ["alerts", *deliveries] if deliveries else []
    parts += ["decisions", *decided] if decided else []
    return "\n".join(parts)


def compare(history: History, first: str, second: str) -> str:
    """The watched figures of two nights side by side."""
    nights = []
    for run_id in (first, second):
        rows = history.read("watched", [run_id])
        if rows is None:
            raise _unknown(history, run_id)
        nights.append({(row["dataset"], _figure_name(row)): row for row in rows.to_pylist()})
    lines = [("dataset", "figure", first, second, "change")]
    for key in sorted({*nights[0], *nights[1]}):
        was, now = (night[key]["mean"] if key in night else math.nan for night in nights)
        change = "-" if math.isnan(now - was) else f"{100 * (now - was):+.2f}"
        lines.append((*key, percent(was, 2), percent(now, 2), change))
    runs = {(row["run_id"], row["dataset"]): row for row in history.runs()}
    notes = []
    for dataset in sorted({key[0] for key in {*nights[0], *nights[1]}}):
        rows = [runs[run_id, dataset] for run_id in (first, second) if (run_id, dataset) in runs]
        if len(rows) == 2:
            differing = [name for name in ("data", "configuration", "code") if rows[0][name] != rows[1][name]]
            notes.append(f"{dataset}: {', '.join(differing) or 'nothing'} changed between them")
    return "\n".join([_aligned(lines), *map(plain, notes)])


def accept(history: History, run_id: str, dataset: str | None, because: str) -> str:
    """Take a night with an alarm for a baseline, with the words of the person who looked at it. What that night watches
    is what later ones are held to."""
    if not because.strip():
        raise ConfigError("give the reason, as in --because 'new labels since Monday'")
    rows = [row for row in history.runs() if row["run_id"] == run_id and dataset in (None, row["dataset"])]
    if not rows:
        raise _unknown(history, run_id, dataset)
    acceptable = [row for row in rows if row["figures"] and row["verdict"] != OK]
    if not acceptable:
        verdicts = ", ".join(f"{row['dataset']}: {row['verdict']}" for row in rows)
        raise ConfigError(f"there is nothing to accept in {run_id}: {verdicts}")
    for row in acceptable:
        history.decide(ACCEPT, run_id, row["dataset"], row["attempt"], because)
    names = ", ".join(row["dataset"] for row in acceptable)
    return f"{run_id} is accepted for {names}: later nights are compared with it"


def pin(history: History, run_id: str | None, because: str) -> str:
    """Compare all later nights with one, until another one is pinned, or none."""
    if run_id is None:
        history.decide(PIN, "", None, None, because)
        return "no night is pinned any more"
    if not any(row["run_id"] == run_id and row["figures"] for row in history.runs()):
        raise _unknown(history, run_id)
    history.decide(PIN, run_id, None, None, because)
    return f"{run_id} is pinned: later nights are compared with it, and with the last one without an alarm"


def _unknown(history: History, run_id: str, dataset: str | None = None) -> ConfigError:
    last = list(dict.fromkeys(row["run_id"] for row in history.runs()))[-5:]
    of = f" of {dataset}" if dataset is not None else ""
    others = f"the last ones: {', '.join(last)}" if last else "there is none at all; is --work that of the nights?"
    return ConfigError(f"there is no night {run_id!r}{of} with figures in {history.place}; {others}")


def _section(history: History, name: str, run_id: str, title: str, line: Any) -> list[str]:
    rows = history.read(name, [run_id])
    lines = [described for row in (rows.to_pylist() if rows is not None else []) if (described := line(row))]
    return [title, *(plain(f"  {described}") for described in lines)] if lines else []


def _watched_line(row: Row) -> str:
    fell = ", fell" if row["fell"] else ""
    return f"{row['dataset']}: {_figure_name(row)}: {percent(row['mean'], 2)} over {row['queries']:,} texts{fell}"


def _check_line(row: Row) -> str | None:
    if not row["alarm"]:
        return None
    bounds = " to ".join("any" if row[end] is None else f"{row[end]:g}" for end in ("low", "high"))
    return f"{row['dataset']}: {row['quantity']}: {row['value']:g}; allowed: {bounds} ({row['rule']})"


def _drift_line(row: Row) -> str | None:
    return f"{row['dataset']}: {row['quantity']} moved by {row['change']:.3f}" if row["alarm"] else None


def _log_line(row: Row) -> str:
    seconds = "skipped" if row["skipped"] else f"{row['seconds'] or 0:g} s"
    memory = f", at most {row['peak_memory'] / 1e6:,.0f} MB of memory" if row["peak_memory"] else ""
    size = f", {row['bytes'] / 1e6:,.1f} MB written" if row["bytes"] else ""
    return f"{row['dataset']}: {row['stage']}: {seconds}{size}{memory}"


def _figure_name(row: Row) -> str:
    return str(Figure.of(row))


MOST_SHOWN = 160
"""Characters of a reason."""


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."


def _aligned(lines: Sequence[Iterable[str]]) -> str:
    rows = [[plain(text) for text in line] for line in lines]
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
