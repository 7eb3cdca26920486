"""Ranked lists of items, as all retrievers return them."""

from __future__ import annotations

from typing import NamedTuple

from fusion.types import Array, Int32s, Ints, Singles


class Ranked(NamedTuple):
    """Ranked lists one after another: list i holds `item[offset[i] : offset[i + 1]]`, best first, and their scores.

    With g groups, the list of query q and group j is number q * g + j.
    """

    offset: Ints
    item: Int32s
    score: Singles


def frozen(array: Array) -> Array:
    """The same array, not to be written: one compiled version then serves mapped files and arrays in memory."""
    view = array.view()
    view.flags.writeable = False
    return view
