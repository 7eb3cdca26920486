"""Documents as HTML and as Markdown. The templates escape all text; so does Markdown, as GitHub shows it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fusion.errors import visible
from fusion.statistics.coverage import FEWEST_PAIRS
from jobs.reporting.dataset import Report
from jobs.reporting.document import document, night_section
from jobs.reporting.model import NightBanner
from jobs.reporting.parts import (
    BEST,
    Cards,
    Code,
    Columns,
    Entry,
    Facts,
    Fold,
    Group,
    Images,
    Intervals,
    Lines,
    Part,
    Printed,
    Script,
    Section,
    Static,
    Table,
    Text,
)
from jobs.storage.folders import escape, fenced, one_line


def report_markdown(report: Report, charts: Mapping[str, str] | None = None) -> str:
    """The whole report. `charts`: where the charts are, by their names."""
    return markdown(report.title, report.heading, document(report, charts), report.version)


def markdown(title: str, heading: str, sections: Sequence[Section], version: str) -> str:
    """What is about no dataset frames what is about each of them. The sentences that say most come first."""
    parts = [f"# {escaped(heading)}"]
    parts += _chapters([section for section in sections if not section.articles and section.name == "night"])
    parts += [escaped(title)] if title != heading else []
    for section in sections:
        leading = [part for article in section.articles for part in article.parts if _leads(part)]
        parts += [*_shown(leading), *_shown([*section.intro, *section.outro] if leading else [])]
    datasets = dict.fromkeys(article.dataset for section in sections for article in section.articles)
    for dataset in datasets:
        parts += [f"## {escaped(dataset)}", *(text for section in sections for text in _chapter(section, dataset))]
    parts += _chapters([section for section in sections if not section.articles and section.name != "night"])
    parts.append(f"Made by xmtc-fusion {version}.")
    return "\n\n".join(part.rstrip("\n") for part in parts if part) + "\n"


def _leads(part: Part) -> bool:
    return isinstance(part, Text) and part.style in ("lead", "facts")


def _chapters(sections: Iterable[Section]) -> Iterator[str]:
    """Sections that are about no dataset."""
    for section in sections:
        shown = _shown([part for part in (*section.intro, *section.outro) if not _leads(part)])
        if shown:
            yield from (f"## {escaped(section.title)}", *shown)


def _chapter(section: Section, dataset: str) -> Iterator[str]:
    """What a section says about a dataset."""
    articles = [article for article in section.articles if article.dataset == dataset]
    parts = [part for article in articles for part in article.parts]
    shown = _shown([part for part in parts if not _leads(part)])
    if shown:
        led = any(map(_leads, parts))
        title = next((article.title for article in articles if section.hidden), section.title)
        yield from (f"### {escaped(title)}", *(() if led else _shown(section.intro)), *shown)


def _shown(parts: Iterable[Part], level: int = 4) -> list[str]:
    return [text for part in parts for text in _part(part, level)]


def _part(part: Part, level: int) -> Iterator[str]:
    if isinstance(part, Table):
        yield table_markdown(part)
    elif isinstance(part, Text):
        yield {"lead": "**{}**", "quote": "> {}", "warning": "> [!WARNING]\n> {}"}.get(part.style, "{}").format(
            escaped(part.words)
        )
    elif isinstance(part, Lines):
        yield "".join(f"- {escaped(line)}\n" for line in part.items)
    elif isinstance(part, Facts):
        yield "".join(f"- **{escaped(name)}**: {escaped(words)}\n" for name, words in part.items.items())
    elif isinstance(part, Code):
        yield fenced(part.text, part.language)
    elif isinstance(part, Fold):
        shown = _shown(part.parts, level)
        yield from (f"<details><summary>{escape(one_line(part.title))}</summary>", *shown, "</details>")
    elif isinstance(part, Group):
        yield from (f"{'#' * level} {escaped(part.title)}", *_shown(part.parts, level + 1))
    elif isinstance(part, Columns):
        yield from _shown(part.groups, level)
    elif isinstance(part, Cards):
        yield "".join(
            f"- {escaped(card.title)} ({escaped(card.note)}): {'; '.join(escaped(text.words) for text in card.parts)}\n"
            for card in part.cards
        )
    elif isinstance(part, Images):
        yield "\n".join(f"![{escaped(caption)}](<{path}>)" for caption, path in part.items)
    elif isinstance(part, Static | Printed):
        yield from _shown(part.parts, level)
    else:
        assert isinstance(part, Intervals | Script), "what a page draws, others have as tables"


def table_markdown(table: Table) -> str:
    """A table as GitHub shows it, its caption above; blocks are set apart by an empty line of the table."""
    header = [escaped(" ".join(filter(None, names)).replace(" @", "@")) for names in table.header]
    lines = [header, ["---:" if side == "r" else "---" for side in table.align]]
    for block in table.blocks:
        lines += [[""] * len(header)] if block is not table.blocks[0] else []
        lines += [[_escaped_entry(entry) for entry in line] for line in block]
    caption = escaped(table.caption) + "".join(f" **Warning: {escaped(warning)}.**" for warning in table.warnings)
    return (f"{caption}\n\n" if caption else "") + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def escaped(text: str) -> str:
    """The text on one line, with no character that Markdown would read as markup."""
    return re.sub(r"([\\`*_<>|\[\]~$&])", r"\\\1", one_line(text))


def _escaped_entry(entry: Entry) -> str:
    text = f"**{escaped(entry.text)}**" if entry.bold and entry.text else escaped(entry.text)
    return text + (BEST if entry.best else "")


SIGNS = {
    "better": "\N{BLACK UP-POINTING TRIANGLE}",
    "worse": "\N{BLACK DOWN-POINTING TRIANGLE}",
    "not significantly different": "\N{ALMOST EQUAL TO}",
    "tests disagree": "\N{PLUS-MINUS SIGN}",
}


def asset(name: str) -> str:
    """A file that goes into a page as it is."""
    return (files("jobs.reporting") / "assets" / name).read_text(encoding="utf-8")


@cache
def _templates() -> Environment:
    templates = Environment(
        loader=PackageLoader("jobs.reporting", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: visible(value, lines=True) if type(value) is str else value,
    )
    templates.globals.update(BEST=BEST, SIGNS=SIGNS, FEWEST_PAIRS=FEWEST_PAIRS)
    return templates


def page_html(
    title: str,
    heading: str,
    version: str,
    sections: Sequence[Section],
    *,
    beside: Sequence[tuple[str, str]] = (),
    script: str = "",
    data: str = "",
) -> str:
    """A page that needs no network. `beside`: names and files of pages next to it; `script` and `data` for what it
    draws itself."""
    given: dict[str, Any] = {"title": title, "heading": heading, "version": version, "beside": beside}
    style = asset("base.css") + asset("style.css")
    ready = {"style": Markup(style), "script": Markup(script), "data": Markup(data)}
    return _templates().get_template("page.html").render(given, sections=sections, **ready)


def night_html(night: NightBanner) -> str:
    """What a page of a night begins with."""
    return str(_parts().section(night_section(night)))


def _parts() -> Any:
    return _templates().get_template("parts.html").module
