"""Numbers that stand for texts and their judgements, so that two results can show that they saw the same ones.

A text's fingerprint depends on its id and on its set of relevant labels. Fingerprints of many texts add up modulo 2^64,
in any order; two sets of texts with the same sum are the same set but for a chance of 2^-64.
"""

from __future__ import annotations

import numpy as np

from fusion.types import Array, Ints


def mixed(keys: Array) -> Array:
    """The finaliser of splitmix64 (Steele et al. 2014), which spreads keys that follow a pattern."""
    mixed = keys.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))


def text_fingerprints(texts: Ints, labels: Ints, start: Ints, stop: Ints) -> Ints:
    """From a key for each text and each relevant label; the labels of text n are labels[start[n]:stop[n]]."""
    # Unsigned sums wrap around, so a difference of running sums is the sum of a range.
    running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed(labels), dtype=np.uint64)])
    judged = running[stop] - running[start]
    return mixed(mixed(texts) + mixed(judged)).view(np.int64)
