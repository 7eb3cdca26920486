"""A comparison of two results as a page, which needs no script, and as Markdown."""

from __future__ import annotations

from string import Template

from jobs.reporting import change_words as words
from jobs.reporting.changes import SideBySide
from jobs.reporting.html import asset, table_html
from jobs.reporting.printing import escaped, folded, markdown
from jobs.runtime.safe_text import escape


def change_page(compared: SideBySide) -> str:
    """The page."""
    groups = words.groups(compared)
    tables = [words.decisive_table(compared, group) for group in groups]
    settings = words.settings_table(compared)
    measures = [words.measures_table(compared, group) for group in groups]
    return Template(asset("changes.html")).substitute(
        title=escape(compared.title),
        style=asset("base.css") + asset("style.css"),
        sides=escape(words.sides(compared)),
        headline=escape(words.headline(compared)),
        notes="".join(f"<li>{escape(note)}</li>" for note in words.notes(compared)),
        tables="".join(table_html(table) for table in tables if table),
        measures="".join(
            f"<details><summary>{escape(group)} labels</summary>{table_html(table)}</details>"
            for group, table in zip(groups, measures, strict=True)
            if table
        ),
        reading="".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in words.READING.items()),
        settings=table_html(settings) if settings else "",
        runs="".join(f"<li>{escape(words.run_lines(side))}</li>" for side in (compared.before, compared.after)),
        version=escape(compared.version),
    )


def change_markdown(compared: SideBySide) -> str:
    """The same for a pull request."""
    parts = [f"# {escaped(compared.title)}", f"**{escaped(words.headline(compared))}**", escaped(words.sides(compared))]
    parts.append("".join(f"- {escaped(note)}\n" for note in words.notes(compared)))
    for group in words.groups(compared):
        short = words.decisive_table(compared, group, words.SHOWN)
        if short is None:
            continue
        parts += [f"## {escaped(group)} labels", markdown(short)]
        every = [words.decisive_table(compared, group), words.measures_table(compared, group)]
        parts += folded("Every cell and measure", [markdown(table) for table in every if table])
    parts += [
        "## How to read this",
        "".join(f"- **{name}**: {escaped(text)}\n" for name, text in words.READING.items()),
    ]
    runs = "".join(f"- {escaped(words.run_lines(side))}\n" for side in (compared.before, compared.after))
    settings = words.settings_table(compared)
    parts += [
        "## What was compared",
        runs,
        *([markdown(settings)] if settings else []),
        f"Made by xmtc-fusion {compared.version}.",
    ]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"
