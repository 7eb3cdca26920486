"""Tables and verdicts as HTML that needs no script. All text is escaped here."""

from __future__ import annotations

from importlib.resources import files
from itertools import groupby

from jobs.reporting.night import NightBanner
from jobs.reporting.tables import BEST, Entry, Table, fall_table
from jobs.storage.folders import escape


def asset(name: str) -> str:
    """A file that goes into a page as it is."""
    return (files("jobs.reporting") / "assets" / name).read_text(encoding="utf-8")


def table_html(table: Table, of: str = "") -> str:
    """A table with its headings, in a box that scrolls where the page is narrow. `of`: what else names it."""
    text = table.caption + "".join(f" Warning: {warning}." for warning in table.warnings)
    lines = [f"<caption>{escape(text)}</caption>"] if text else []
    lines += ["<thead>", *_head(table), "</thead>"]
    for block in table.blocks:
        lines += ["<tbody>", *(_line(line, table.align) for line in block), "</tbody>"]
    name = escape(f"{of} {table.name}".strip())
    box = f'<div class="scroll" tabindex="0" role="region" aria-label="table {name}">'
    return f'{box}<table class="plain" data-name="{name}">\n' + "\n".join(lines) + "\n</table></div>"


def _head(table: Table) -> list[str]:
    rows = []
    depth = len(table.header[0])
    for level in range(depth):
        cells, at = [], 0
        for heading, columns in groupby(header[: level + 1] for header in table.header):
            width = len(list(columns))
            for first, span in [(at, width)] if level < depth - 1 else [(at + i, 1) for i in range(width)]:
                side = ' class="number"' if table.align[first] == "r" and level == depth - 1 else ""
                scope = "colgroup" if span > 1 else "col"
                tag = f'<th scope="{scope}" colspan="{span}"{side}>{escape(heading[-1])}</th>'
                cells.append(tag if heading[-1] else f'<td colspan="{span}"></td>')
            at += width
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return rows


def _line(line: list[Entry], align: str) -> str:
    cells = []
    for i, (entry, side) in enumerate(zip(line, align, strict=True)):
        text = escape(entry.text) + (f"<sup>{BEST}</sup>" if entry.best else "")
        text = f"<b>{text}</b>" if entry.bold else text
        number = ' class="number"' if side == "r" else ""
        cells.append(f'<th scope="row"{number}>{text}</th>' if i == 0 else f"<td{number}>{text}</td>")
    return f"<tr>{''.join(cells)}</tr>"


def night_html(night: NightBanner) -> str:
    """What a page of a night begins with."""
    state = "alarm" if night.exit_code else "quiet"
    table = fall_table(night)
    notes = "".join(f"<li>{escape(note)}</li>" for note in night.notes)
    code = f"exit code {night.exit_code}" if night.exit_code else "no alarm"
    return (
        f'<section class="night {state}" id="night" aria-labelledby="night-title">'
        f'<p class="eyebrow">Night {escape(night.run_id)}, {code}</p>'
        f'<h2 id="night-title">{escape(night.headline)}</h2>'
        f"{table_html(table) if table else ''}<ul>{notes}</ul></section>"
    )
