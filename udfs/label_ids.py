"""Label ids and their order: whole numbers by value, then other strings by code point."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from fusion.types import Int32s


def number_labels(labels: pa.Array) -> tuple[Int32s, Callable[[Int32s], pa.Array]]:
    """Label ids as numbers in the order of the ids, and the way back.

    Ids that are 32-bit numbers stand for themselves. Others are numbered within the batch, in ascending order:
    whole numbers by value, then other strings by their code points.
    """
    if pa.types.is_int32(labels.type):
        values = labels.to_numpy()
        if not len(values) or values.min() >= 0:
            return values, lambda numbers: pa.array(numbers, pa.int32())
    encoded = labels.dictionary_encode()
    names = encoded.dictionary
    if pa.types.is_integer(names.type):
        order = np.argsort(names.to_numpy())
    else:
        words = names.to_pylist()
        order = np.array(sorted(range(len(words)), key=lambda i: id_order(words[i])), np.int64)
    number = np.empty(len(order), np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    ordered = names.take(pa.array(order))
    return number[encoded.indices.to_numpy()], lambda numbers: ordered.take(pa.array(numbers))


def id_order(name: str) -> tuple[bool, int, str]:
    """The place of a label id that is a string: whole numbers by value come first."""
    whole = name.isascii() and name.isdecimal() and (name == "0" or name[0] != "0")
    # Without leading zeros, the shorter number is the lower one, and of two of one length the lower string.
    return (not whole, len(name) if whole else 0, name)


def in_two_forms(names: Iterable[str]) -> list[list[str]]:
    """Names that look the same and are not: an accent may be part of its letter (NFC) or a character of its own (NFD).
    Both count as labels, so what lists one of them misses the other."""
    by_form: dict[str, list[str]] = defaultdict(list)
    for name in names:
        if not name.isascii():
            by_form[unicodedata.normalize("NFC", name)].append(name)
    return sorted(sorted(same) for same in by_form.values() if len(same) > 1)


def forms_warning(same: Sequence[str], where: Mapping[str, str]) -> str:
    """The words about a label in two forms; `where`: the source of each."""
    shown = " and ".join(f"{name!a} in {where[name]}" for name in same)
    return (
        f"warning: the label {same[0]!r} is written in several Unicode forms, which count as different labels: "
        f"{shown}; write all labels in one form (NFC)"
    )
