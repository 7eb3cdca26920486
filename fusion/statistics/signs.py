"""The randomisation test by sign blocks, and the fingerprints by which two results show that they saw the same texts.

Texts are hashed by id into sign blocks, and the sum of each is kept. A sign vector gives every block one sign. Sign
changes by whole blocks are a subgroup of all sign changes, so the test is exact under the same null hypothesis as the
one that draws a sign for every text (Fisher 1935; for retrieval, Smucker, Allan and Carterette 2007): differences
are symmetric about zero. Texts that share a block only coarsen it.

The Walsh functions of B = 2^m blocks are a group of B sign vectors. Sign vectors are drawn as cosets of this group: a
random sign vector times every Walsh function. Each of them is uniformly distributed, and a fast Walsh-Hadamard
transform gives all B sums of a coset by B log2 B additions. One of the cosets is the group itself, which holds the
observed signs. Under the null hypothesis the observed vector is then as likely as any other in the sample, which makes
p exact (Hemerik and Goeman 2018, Exact testing with random permutations).

Fingerprints of texts and their judgements, so that two results can show that they saw the same ones.

A text's fingerprint depends on its id and on its set of relevant labels. Fingerprints of many texts add up modulo 2^64,
in any order; two sets of texts with the same sum are the same set but for a chance of 2^-64.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from fusion.compiled import compiled
from fusion.types import Array, Floats, Ints


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


SMALLEST_COSET = 64
"""Fewer blocks are filled up with empty ones, so that loops are worth their start."""
VECTORS_AT_A_TIME = 256
"""Sums of this many sign vectors are compared at a time: those of all columns stay in the processor's cache."""


def blocks_of(keys: Ints, blocks: int) -> Ints:
    """The sign block of each text, from a number that depends on its id alone."""
    return (mixed(keys) % np.uint64(blocks)).astype(np.int64)


def randomization_p(block_sums: Array, vectors: int, seed: int) -> Floats:
    """p[aspect, i, j] of columns i and j, from `block_sums[aspect, block, column]`, which are whole numbers.

    p = (1 + number of sign vectors whose sum of differences is at least as far from zero as the observed one) /
    (1 + number of sign vectors); their number is `vectors`, rounded up to whole cosets. All sums are whole numbers
    below 2^53, hence exact and the same on every machine.
    """
    aspects, _, columns = block_sums.shape
    used = np.flatnonzero(block_sums.any(axis=(0, 2)))
    size = max(SMALLEST_COSET, 1 << max(len(used) - 1, 0).bit_length())
    signs = _random_signs(-(-(vectors + 1) // size), size, seed)

    def shares_beyond(aspect: int) -> Floats:
        sums = np.zeros((columns, size))
        sums[:, : len(used)] = block_sums[aspect, used].T
        shares: Floats = _count_beyond(sums, sums.sum(axis=1), signs) / signs.size
        return shares

    # Compiled code runs without the interpreter's lock, hence on all cores.
    with ThreadPoolExecutor() as pool:
        return np.array(list(pool.map(shares_beyond, range(aspects)))).reshape(aspects, columns, columns)


def _random_signs(cosets: int, size: int, seed: int) -> Floats:
    """One sign vector per coset; the first is all plus, that of the group itself."""
    bits = np.unpackbits(np.random.Philox(key=seed).random_raw(cosets * size // 64).astype("<u8").view(np.uint8))
    signs = 1 - 2 * bits.reshape(cosets, size).astype(np.float64)
    signs[0] = 1
    return signs


@compiled
def _count_beyond(sums, observed, signs):  # type: ignore[no-untyped-def]
    """How many sign vectors put the sums of columns i and j at least as far apart as observed. `sums[column, block]`;
    `signs` holds one sign vector per coset."""
    columns, size = sums.shape
    beyond = np.zeros((columns, columns), np.int64)
    flipped = np.empty((columns, size))
    signed = np.empty(size)
    for coset in range(len(signs)):
        for column in range(columns):
            for block in range(size):
                signed[block] = sums[column, block] * signs[coset, block]
            _transform(signed, flipped[column])
        for begin in range(0, size, VECTORS_AT_A_TIME):
            end = min(begin + VECTORS_AT_A_TIME, size)
            for i in range(columns):
                x = flipped[i, begin:end]
                for j in range(i, columns):
                    y, limit, count = flipped[j, begin:end], abs(observed[i] - observed[j]), 0
                    for n in range(end - begin):
                        count += abs(x[n] - y[n]) >= limit
                    beyond[i, j] += count
    for i in range(columns):
        for j in range(i):
            beyond[i, j] = beyond[j, i]
    return beyond


@compiled
def _transform(values, sums):  # type: ignore[no-untyped-def]
    """The Walsh-Hadamard transform of `values`, which are lost, into `sums`, in an order that depends on their number
    alone. Between two halves of its steps the values, as a square or nearly so, are transposed: then all steps add up
    long rows, which is quick."""
    size, width = values.size, 1
    while width * width < size:
        width *= 2
    height = size // width
    _add_and_subtract(values, width)
    for row in range(height):
        for column in range(width):
            sums[column * height + row] = values[row * width + column]
    _add_and_subtract(sums, height)


@compiled
def _add_and_subtract(values, half):  # type: ignore[no-untyped-def]
    """The steps of the transform that combine values at least `half` places apart."""
    while half < values.size:
        for begin in range(0, values.size, 2 * half):
            left, right = values[begin : begin + half], values[begin + half : begin + 2 * half]
            for n in range(half):
                one, other = left[n], right[n]
                left[n] = one + other
                right[n] = one - other
        half *= 2
