"""YAML as every file and option of settings is read: a mistake in it is named with its place."""

from __future__ import annotations

import codecs
import re
from typing import Any

import yaml

from fusion.errors import ConfigError

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
        raise ConfigError(f"{source} is not valid YAML{_place(error)}") from None
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


def _place(error: yaml.YAMLError) -> str:
    """Where YAML stopped making sense, and why."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return f": {error}"
    reason = ": ".join(filter(None, (error.context, error.problem)))
    # A password that begins with * or ! is read as an alias or a tag, and must not end in a log.
    reason = re.sub(r"\b(alias|anchor|tag|handle) '.*", r"\1; a value that begins with *, & or ! needs quotes", reason)
    return f", line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}: {reason}"
