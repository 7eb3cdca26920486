"""The role of a text in each fold, from a hash of what it must stay together with: no other text is looked at.

XXH64 over the seed, the purpose and the values, each hash being the seed of the next: the function that Spark calls
xxhash64, so that folds are the same wherever they are made.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from xxhash import xxh64_intdigest

from fusion.types import Array

TRAIN, VALIDATION, TEST = range(3)
"""The places of the roles in `ROLES`."""
ROLES = ("train", "validation", "test")
SHARES = 1_000_000
"""How finely a share of the texts can be set."""
SEED = 42
Split = Literal["folds", "hash", "published"]


def hashed(seed: int, purpose: str, *values: str | int) -> int:
    """A number of 64 bits with a sign that looks random, from the seed, what it is for, and some values: strings as
    UTF-8, whole numbers as 8 bytes."""
    return _signed(_chained(_start(seed, purpose), *values))


def _start(seed: int, purpose: str) -> int:
    return xxh64_intdigest(purpose.encode(), xxh64_intdigest(struct.pack("<q", seed), SEED))


def _chained(state: int, *values: str | int) -> int:
    for value in values:
        state = xxh64_intdigest(struct.pack("<q", value) if isinstance(value, int) else value.encode(), state)
    return state


def _signed(state: int) -> int:
    return state - (1 << 64) if state >> 63 else state


def unit_of(text_id: str | int, key: str | None) -> str:
    """What stays together: the texts of a key, or a single text. Prefixed, so that a key is never another's id."""
    return f"text {text_id}" if key is None else f"key {key}"


@dataclass(frozen=True)
class Division:
    """How texts are divided into folds, and these into training, validation and test texts."""

    split: Split
    folds: int
    seed: int
    validation_share: float
    test_share: float
    hold_out: bool = True
    """Whether validation texts are drawn from the training part; not if the data says which they are."""
    together: Mapping[str, str] = field(default_factory=dict)
    """The unit that stands for some others, since they share a text."""

    def roles(self, units: Sequence[str], published: Sequence[str | None]) -> Array:
        """The role of each text in each fold: texts by folds, as places in `ROLES`."""
        units = [self.together.get(unit, unit) for unit in units]
        roles: Array = np.full((len(units), self.folds), TRAIN, np.int8)
        if self.split == "published":
            roles[:, 0] = [ROLES.index(role or "") for role in published]
        elif self.split == "hash":
            roles[_drawn(_start(self.seed, "test"), units, self.test_share), 0] = TEST
        else:
            tested = [hashed(self.seed, "fold", unit) % self.folds for unit in units]
            roles[np.arange(len(units)), tested] = TEST
        for fold in range(self.folds) if self.hold_out and self.validation_share else ():
            # Drawn for each fold again, and in whole units: a validation text that is nearly a training text would stop
            # training too late. The number of the fold has 4 bytes in the hash.
            start = xxh64_intdigest(struct.pack("<i", fold), _start(self.seed, "validation"))
            drawn = _drawn(start, units, self.validation_share)
            roles[drawn & (roles[:, fold] == TRAIN), fold] = VALIDATION
        return roles


def _drawn(start: int, units: Sequence[str], share: float) -> Array:
    """Which units belong to a share of them."""
    share = round(share * SHARES)
    return np.array([_signed(_chained(start, unit)) % SHARES < share for unit in units], np.bool_)
