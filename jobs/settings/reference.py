"""What is generated from the models of the settings: conf/base.yaml, docs/settings.md, and the words of the options.

python -m jobs.settings.reference      # writes the two files
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from textwrap import wrap
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeGuard, Union, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from fusion.errors import visible
from jobs.settings.base import Place, Secret
from jobs.settings.config import Config
from jobs.settings.retrievers import BUILT_IN, RETRIEVERS, Retrievers

WIDTH = 120
HEAD = "# All settings. Change them in a file (--config FILE) or on the command line (--set a.b=c).\n"
PAGE = """# Settings

All settings with their defaults. Set them in a file (`--config FILE`), one by one (`--set grid.scope=joint`), or by the
options that `xmtc-fusion JOB --help` lists; `xmtc-fusion config` prints the result. Relative paths in a file start at
that file, those on the command line at the working folder, and those in the `config.yaml` of a result at the folder in
which the job was started. This page and [conf/base.yaml](../conf/base.yaml) are generated from the models in
`jobs/settings`.
"""


class Setting(NamedTuple):
    """One setting, as pages and options show it."""

    name: str
    """By its dotted name."""
    about: str
    """Its documentation, in one line."""
    field: FieldInfo

    @property
    def summary(self) -> str:
        """The first sentence, without its full stop."""
        return re.split(r"(?<=\.)\s+(?=[A-Z`]|[\w+]+:)", self.about)[0].removesuffix(".")

    @property
    def default(self) -> Any:
        return self.field.get_default(call_default_factory=True)

    @property
    def plain_default(self) -> Any:
        return _plain(self.default)

    @property
    def metavar(self) -> str:
        """What an option calls its value."""
        return _metavar(self.field.annotation, self.field.metadata) or self.name.rpartition(".")[2].upper()


def settings(section: type[BaseModel], prefix: str = "") -> Iterator[Setting]:
    """The settings of a section and of those below it."""
    for name, field in section.model_fields.items():
        if is_section(field.annotation):
            yield from settings(field.annotation, f"{prefix}{name}.")
        else:
            yield Setting(prefix + name, one_line(field.description), field)


def is_section(annotation: Any) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def one_line(text: str | None) -> str:
    return " ".join((text or "").split())


def commented_yaml(config: Config) -> str:
    """A configuration as YAML, each setting with its documentation."""
    values = config.model_dump(mode="json")
    return HEAD + "".join(_written(type(config), values, 0, apart=True))


def _written(section: type[BaseModel], values: Mapping[str, Any], depth: int, apart: bool = False) -> Iterator[str]:
    indent = "  " * depth
    for name, field in section.model_fields.items():
        value, annotation = values[name], field.annotation
        about = (annotation.__doc__ if is_section(annotation) else field.description) or ""
        yield "\n" if apart else ""
        yield from (f"{line}\n" for line in _comment(about, indent))
        if is_section(annotation):
            yield f"{indent}{name}:\n"
            yield from _written(annotation, value, depth + 1)
        elif annotation is Retrievers:
            yield f"{indent}{name}:\n"
            yield from _written_retrievers(value, depth + 1)
        else:
            yield f"{indent}{name}: {yaml_value(value)}\n"


def _written_retrievers(values: Mapping[str, Any], depth: int) -> Iterator[str]:
    indent = "  " * depth
    for name, of_retriever in values.items():
        if name in BUILT_IN:
            model = RETRIEVERS[name].settings
            yield from (f"{line}\n" for line in _comment(model.__doc__ or "", indent))
            yield f"{indent}{yaml_value(name)}:\n"
            yield from _written(model, of_retriever, depth + 1)
        else:
            yield f"{indent}{yaml_value(name)}: {yaml_value(of_retriever)}\n"


def _comment(text: str, indent: str) -> list[str]:
    """The lines of a comment; paragraphs have an empty one between them."""
    paragraphs = [one_line(paragraph) for paragraph in text.split("\n\n")]
    lines: list[str] = []
    for paragraph in paragraphs:
        lines += [f"{indent}#"] if lines else []
        lines += wrap(paragraph, WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")
    return lines


def yaml_value(value: Any) -> str:
    """A value on one line, its control characters as escapes."""
    # In a list, since a bare scalar would be a document of its own, with an end mark.
    text = yaml.safe_dump([value], default_flow_style=True, width=float("inf"), allow_unicode=True, sort_keys=False)
    bare = text.strip()[1:-1]
    # JSON, which YAML includes, has strings with escapes only.
    return bare if visible(bare) == bare else visible(json.dumps(value, ensure_ascii=False))


def reference_page() -> str:
    """docs/settings.md."""
    top = [setting for setting in settings(Config) if "." not in setting.name]
    parts = [PAGE, _table("All jobs", "", top)]
    for name, field in Config.model_fields.items():
        if field.annotation is Retrievers:
            models = dict.fromkeys(RETRIEVERS[retriever].settings for retriever in BUILT_IN)
            for model in models:
                names = [entry for entry in BUILT_IN if RETRIEVERS[entry].settings is model]
                title = " and ".join(f"retrievers.{entry}" for entry in names)
                parts.append(_table(title, model.__doc__ or "", list(settings(model))))
        elif is_section(field.annotation):
            parts.append(_table(name, field.annotation.__doc__ or "", list(settings(field.annotation))))
    return "\n".join(parts)


def _table(title: str, about: str, rows: Sequence[Setting]) -> str:
    lines = [f"## {title}", "", *([about_line for about_line in (_paragraphs(about), "") if about] or [])]
    lines += ["| setting | default | values | meaning |", "|---|---|---|---|"]
    for row in rows:
        values = _values(row.field.annotation, row.field.metadata)
        default = "" if row.default is None else f"`{yaml_value(row.plain_default)}`"
        lines.append(f"| `{row.name}` | {_cell(default)} | {_cell(values)} | {_cell(row.about)} |")
    return "\n".join(lines) + "\n"


def _paragraphs(text: str) -> str:
    return "\n\n".join(one_line(paragraph) for paragraph in text.split("\n\n"))


def _cell(text: str) -> str:
    plain = [part.replace("*", "\\*").replace("<", "&lt;") for part in text.split("`")[::2]]
    code = text.split("`")[1::2]
    return "`".join(part for pair in zip_longest(plain, code) for part in pair if part is not None).replace("|", "\\|")


def _plain(value: Any) -> Any:
    if isinstance(value, Retrievers):
        return list(value)
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


NOUNS = {bool: "true, false", int: "whole number", float: "number", str: "text", Secret: "secret", NoneType: ""}


def _values(annotation: Any, metadata: Sequence[Any] = ()) -> str:
    """The values that a setting may have, in words."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _values(inner[0], inner[1:])
    places = [mark.metavar.lower() for mark in metadata if isinstance(mark, Place)]
    if places:
        return places[0]
    if origin is Literal:
        return ", ".join(yaml_value(value) for value in inner)
    if origin in (Union, UnionType):
        return ", ".join(dict.fromkeys(filter(None, (_values(each, metadata) for each in inner))))
    if origin is dict:
        return f"{{{_values(inner[0]) or 'text'}: {_values(inner[1])}}}"
    if origin is tuple:
        return f"[{'; '.join(map(_values, inner))}]"
    if origin is list:
        return f"list ({_values(inner[0])})"
    bounds = "".join(
        f" {sign} {getattr(mark, name):g}"
        for mark in metadata
        for name, sign in (("ge", "from"), ("gt", "above"), ("le", "to"), ("lt", "below"))
        if getattr(mark, name, None) is not None
    )
    if is_section(annotation):
        return "mapping"
    return NOUNS.get(annotation, "") + (bounds if annotation in (int, float) else "")


def _metavar(annotation: Any, metadata: Sequence[Any] = ()) -> str:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _metavar(inner[0], inner[1:])
    for mark in metadata:
        if isinstance(mark, Place):
            return mark.metavar
    if origin in (Union, UnionType):
        return next(filter(None, map(_metavar, inner)), "")
    if origin is list:
        below = _metavar(inner[0])
        return f"{below}S" if below else "NAMES"
    if origin is tuple:
        return " ".join(map(_metavar, inner))
    return {int: "N", float: "X"}.get(annotation, "")


def files() -> dict[Path, str]:
    """The generated files of a checkout, with what they should hold."""
    root = Path(__file__).parents[2]
    return {
        root / "conf" / "base.yaml": commented_yaml(Config()),
        root / "docs" / "settings.md": reference_page(),
    }


def undocumented() -> list[str]:
    """Settings without a docstring; those of retrievers from files of the user's own do not count."""
    rows = [(setting.name, setting.about) for setting in settings(Config)]
    for name in BUILT_IN:
        rows += [(f"retrievers.{name}.{row.name}", row.about) for row in settings(RETRIEVERS[name].settings)]
    return [name for name, about in rows if not about]


if __name__ == "__main__":
    for path, content in files().items():
        path.write_text(content, encoding="utf-8")
        print(f"written: {path}")
