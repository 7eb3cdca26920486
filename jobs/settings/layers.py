"""Layers of settings, each from one place: how they are laid over each other, and where a value is from."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jobs.settings.retrievers import given_choice


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
