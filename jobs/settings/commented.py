"""A configuration as YAML with the comments of `conf/base.yaml`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import yaml


class Replacement(NamedTuple):
    start: int
    end: int
    text: str


def commented(template: str, values: Mapping[str, Any]) -> str:
    """The template, which is YAML in block style, with its values replaced and everything else as it was."""
    root = yaml.compose(template, yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode), "the template is a mapping"
    replacements = _replacements(root, values)
    # From the end, so that the places of those before it stay right.
    for start, end, text in sorted(replacements, reverse=True):
        template = template[:start] + text + template[end:]
    return template


def _replacements(section: yaml.MappingNode, values: Mapping[str, Any]) -> Iterator[Replacement]:
    for key, node in section.value:
        value = values[key.value]
        if isinstance(node, yaml.MappingNode) and not node.flow_style:
            yield from _replacements(node, value)
        else:
            yield Replacement(node.start_mark.index, node.end_mark.index, _one_line(value))


def _one_line(value: Any) -> str:
    # In a list, since a bare scalar would be a document of its own, with an end mark.
    text = yaml.safe_dump([value], default_flow_style=True, width=float("inf"), allow_unicode=True, sort_keys=False)
    bare = text.strip()[1:-1]
    # A string with line breaks; JSON, which YAML includes, escapes them.
    return json.dumps(value, ensure_ascii=False) if "\n" in bare else bare
