"""Layers of settings, each from one place: read as YAML, laid over each other, and where a value is from.

Relative places in a configuration file start at that file, wherever a job is started.
"""

from __future__ import annotations

import codecs
import posixpath
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

import yaml
from pydantic import BaseModel

from fusion.errors import ConfigError
from jobs.settings.base import Place
from jobs.settings.retrievers import RETRIEVERS, OwnSettings, Retrievers, given_choice, is_file
from udfs.stores.addresses import has_scheme

OTHER_ENCODINGS = {
    # UTF-32 in little endian begins with the mark of UTF-16.
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


class _Loader(yaml.SafeLoader):
    """YAML's safe types. A key that is given twice is refused; plain YAML lets the last one win."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        lines: dict[tuple[str, str], int] = {}
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if (key.tag, key.value) in lines:
                first = lines[key.tag, key.value]
                problem = f"the key {key.value!r} is given twice, first in line {first}"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            lines[key.tag, key.value] = key.start_mark.line + 1
        return node

    def compose_scalar_node(self, anchor: Any) -> yaml.ScalarNode:
        node: yaml.ScalarNode = super().compose_scalar_node(anchor)
        if re.search("[\ud800-\udfff]", node.value):
            # Half of a character, which an escape can write and no file can hold.
            raise yaml.MarkedYAMLError(problem="a lone surrogate is no character", problem_mark=node.start_mark)
        return node


def parse_yaml(content: str | bytes, source: str) -> Any:
    """What a text in YAML says; `source` names it in errors."""
    try:
        value = yaml.load(decoded(content, source) if isinstance(content, bytes) else content, _Loader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{source} is not valid YAML{_place_of_error(error)}") from None
    except (ValueError, OverflowError) as error:
        # A date, a number or a character that YAML takes for one, and Python does not.
        raise ConfigError(f"{source} is not valid YAML: {error}") from None
    except RecursionError:
        raise ConfigError(f"{source} is not valid YAML: it is nested too deeply") from None
    if _holds_itself(value, frozenset(), set()):
        raise ConfigError(f"{source}: an anchor holds itself (a value that begins with *, & or ! needs quotes)")
    return value


def _holds_itself(value: Any, around: frozenset[int], seen: set[int]) -> bool:
    """Whether a list or mapping is inside itself, which YAML can write and settings cannot be."""
    if not isinstance(value, dict | list) or id(value) in seen - around:
        return False
    # What many anchors share is looked at once.
    seen.add(id(value))
    within = around | {id(value)}
    inside = value.values() if isinstance(value, dict) else value
    return id(value) in around or any(_holds_itself(entry, within, seen) for entry in inside)


def decoded(content: bytes, source: str) -> str:
    """UTF-8 without the byte order mark that some editors put at its head."""
    for mark, name in OTHER_ENCODINGS.items():
        if content.startswith(mark):
            raise ConfigError(f"{source} is in {name}: save it as UTF-8")
    if b"\0" in content[:4]:
        raise ConfigError(f"{source} looks like UTF-16 or UTF-32, or is no text: save it as UTF-8")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ConfigError(f"{source}, line {line}: byte 0x{content[error.start]:02x} is not UTF-8") from None


def _place_of_error(error: yaml.YAMLError) -> str:
    """Where YAML stopped making sense, and why."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return f": {error}"
    reason = ": ".join(filter(None, (error.context, error.problem)))
    # A password that begins with * or ! is read as an alias or a tag, and must not end in a log.
    reason = re.sub(r"\b(alias|anchor|tag|handle) '.*", r"\1; a value that begins with *, & or ! needs quotes", reason)
    return f", line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}: {reason}"


ELSEWHERE = ("/", "~", "table:", "dbfs:", "file:", "bundled:")
"""What begins like this is absolute, or is not a path."""
TABLE_FILE = re.compile(r"\.(parquet|pq|trec|run|txt|qrels?|tsv|res|csv|jsonl?|gz)$", re.IGNORECASE)
"""Sources that end like this are files; other names without a slash may be catalog tables."""


def starting_at(file: str, values: Mapping[str, Any], section: type[BaseModel]) -> dict[str, Any]:
    """The settings of a file with relative places as they are seen from the working folder."""
    folder = posixpath.dirname(file)
    placed = _section(section, values, folder)
    prepare = placed.get("prepare")
    if isinstance(prepare, dict) and "parts" in prepare and "folder" not in prepare:
        # The files of the parts are in this file, and start there.
        placed["prepare"] = {**prepare, "folder": folder or "."}
    return placed


def _section(section: type[BaseModel], values: Mapping[str, Any], folder: str) -> dict[str, Any]:
    fields = section.model_fields
    return {
        name: _placed(fields[name].annotation, value, folder, fields[name].metadata) if name in fields else value
        for name, value in values.items()
    }


def _placed(annotation: Any, value: Any, folder: str, marks: Sequence[Any] = ()) -> Any:
    """A value with the places in it; `marks` are those on its type."""
    origin, inner = get_origin(annotation), get_args(annotation)
    for mark in marks:
        if isinstance(mark, Place):
            return joined(value, folder, mark)
    if origin is Annotated:
        return _placed(inner[0], value, folder, inner[1:])
    if origin in (Union, UnionType):
        for each in inner:
            value = _placed(each, value, folder)
        return value
    if origin in (list, tuple):
        holds_places = any(isinstance(mark, Place) for mark in get_args(inner[0])[1:])
        items = _items(value) if holds_places else value
        return [_placed(inner[0], item, folder) for item in items] if isinstance(items, list) else value
    if annotation is Retrievers:
        return _retrievers(value, folder)
    if isinstance(value, Mapping) and origin is dict:
        return {name: _placed(inner[1], below, folder) for name, below in value.items()}
    if isinstance(value, Mapping) and isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _section(annotation, value, folder)
    return value


def _items(value: Any) -> Any:
    """Names separated by commas stand for a list."""
    return [name.strip() for name in value.split(",")] if isinstance(value, str) else value


def _retrievers(value: Any, folder: str) -> Any:
    """The retrievers of a file, whose own ones are files as well."""
    if isinstance(value, Mapping):
        return {_own_file(name, folder): _placed(_model_of(name), below, folder) for name, below in value.items()}
    names = _items(value)
    return [_own_file(name, folder) for name in names] if isinstance(names, list) else value


def _model_of(retriever: Any) -> type[BaseModel]:
    entry = RETRIEVERS.find(retriever)
    return entry.settings if entry else OwnSettings


def _own_file(name: Any, folder: str) -> Any:
    return joined(name, folder, Place("FILE")) if isinstance(name, str) and is_file(name) else name


def joined(value: Any, folder: str, place: Place) -> Any:
    """A place as it is seen from the working folder, if it is a relative one."""
    if not isinstance(value, str) or not value or has_scheme(value) or value.startswith(ELSEWHERE):
        return value
    if value.startswith("trec:"):
        return f"trec:{joined(value.removeprefix('trec:'), folder, Place('FILE'))}"
    scheme, _, start = folder.rpartition("://")
    path = posixpath.normpath(posixpath.join(start, value))
    in_file = not place.word or (place.metavar == "SOURCE" and ("/" in value or TABLE_FILE.search(value)))
    if scheme:
        return f"{scheme}://{path}" if in_file else value
    # A word may be the name of a folder, or of something else.
    return path if in_file or Path(path).exists() else value


class Choice(dict[str, Any]):
    """The retrievers that a layer chooses, with settings: the others of earlier layers are left out."""


class Layer(NamedTuple):
    """Settings from one place, and what that place is called in messages; the defaults have no name there."""

    origin: str
    values: Mapping[str, Any]


def layer_of(values: Mapping[str, Any], origin: str) -> Layer:
    """A layer of settings in sections, as in a file."""
    given = values.get("retrievers")
    choice = given_choice(given)
    # What makes no sense is left as it is, to be refused with the rest.
    chooses = bool(choice) or isinstance(given, Mapping)
    return Layer(origin, {**values, "retrievers": Choice(choice)} if chooses else values)


def layer_of_one(setting: str, value: Any, origin: str) -> Layer:
    """A layer with one setting, by its dotted name. A setting of one retriever does not choose it."""
    first, *others = split_setting(setting)
    for name in reversed(others):
        value = {name: value}
    return Layer(origin, {first: value}) if others else layer_of({first: value}, origin)


def split_setting(setting: str) -> list[str]:
    """The parts of a dotted name; that of a retriever's file is one part."""
    own = re.fullmatch(r"retrievers\.(.+?\.py)(?:\.(.+))?", setting)
    return ["retrievers", own[1], *(own[2] or "").split(".")] if own and own[2] else setting.split(".")


def merged(layers: Sequence[Layer]) -> Any:
    """The settings of all layers; later ones win."""
    values: Any = {}
    for layer in layers:
        values = _merged(values, layer.values)
    return values


def _merged(base: Any, over: Any) -> Any:
    """Mappings are merged, mappings of free keys too; everything else is replaced."""
    if not isinstance(over, dict):
        return over
    before = base if isinstance(base, dict) else {}
    values = {key: _merged(before.get(key), value) for key, value in over.items()}
    return Choice(values) if isinstance(over, Choice) else {**before, **values}


def origin_of(layers: Sequence[Layer], path: Sequence[str | int]) -> str:
    """Where the value at a path is from: the last layer that sets it, or several that each set something below it."""
    origins: list[str] = []
    before: Any = None
    for layer in layers:
        value = _at(layer.values, path)
        if value is ABSENT:
            continue
        # A mapping is merged with a mapping, anything else replaces what was there.
        both = isinstance(before, Mapping) and isinstance(value, Mapping) and not isinstance(value, Choice)
        origins, before = [*(origins if both else []), layer.origin], value
    return ", ".join(dict.fromkeys(filter(None, origins)))


def is_set(layers: Sequence[Layer], path: Sequence[str | int]) -> bool:
    """Whether some layer says something about a path; otherwise its value is the default."""
    return any(_at(layer.values, path) is not ABSENT for layer in layers)


def left_out(layers: Sequence[Layer]) -> dict[str, str]:
    """Retrievers that have settings of their own and are not chosen, with the place of these."""
    chosen: set[str] = set()
    given: dict[str, str] = {}
    for layer in layers:
        retrievers = layer.values.get("retrievers")
        if isinstance(retrievers, Choice):
            chosen, given = set(retrievers), {}
        elif isinstance(retrievers, Mapping):
            given |= dict.fromkeys(retrievers, layer.origin)
    return {name: origin for name, origin in given.items() if name not in chosen}


ABSENT = object()


def _at(values: Any, path: Sequence[str | int]) -> Any:
    """What a layer says about a path: the value there, or the one above it that is no mapping."""
    for step in path:
        if not isinstance(values, Mapping):
            break
        if step not in values:
            return ABSENT
        values = values[step]
    return values
