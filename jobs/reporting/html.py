"""Documents as HTML. The templates escape all text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fusion.errors import visible
from fusion.statistics.coverage import FEWEST_PAIRS
from jobs.reporting.document import night_section
from jobs.reporting.model import NightBanner
from jobs.reporting.parts import BEST, Section

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
