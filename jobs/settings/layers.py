"""Settings in layers: which file or option brought a value, so that an error can name it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Layer(NamedTuple):
    """Settings from one place, and what that place is called in messages; the defaults have no name there."""

    origin: str
    values: Mapping[str, Any]


def layer_of(setting: str, value: Any, origin: str) -> Layer:
    """A layer with one setting, by its dotted name."""
    nested = value
    for name in reversed(setting.split(".")):
        nested = {name: nested}
    return Layer(origin, nested)


def merged(layers: Sequence[Layer]) -> Any:
    """The settings of all layers; later ones win."""
    values: Any = {}
    for layer in layers:
        values = _merged(values, layer.values)
    return values


def origin_of(layers: Sequence[Layer], path: Sequence[str | int]) -> str:
    """What brought the value at a path: the last layer that sets it, or several that each set something below it."""
    origins: list[str] = []
    before: Any = None
    for layer in layers:
        value = _at(layer.values, path)
        if value is ABSENT:
            continue
        # A mapping is merged with a mapping, anything else replaces what was there.
        both = isinstance(before, Mapping) and isinstance(value, Mapping)
        origins, before = [*(origins if both else []), layer.origin], value
    return ", ".join(dict.fromkeys(filter(None, origins)))


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


def _merged(base: Any, over: Any) -> Any:
    """Mappings are merged, mappings of free keys too; everything else is replaced."""
    if not (isinstance(base, dict) and isinstance(over, dict)):
        return over
    return {**base, **{key: _merged(base.get(key), value) for key, value in over.items()}}
