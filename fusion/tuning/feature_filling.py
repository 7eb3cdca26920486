"""How the features of candidates are computed, for the pools of a block one after another (see features.py).

Rows of x are cut from x itself, not from a part of it: only then does the compiler know that their values lie side by
side, which vectors need. For the same reason every feature has a loop of its own, without branches.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fusion.kernel.compiled import compiled

OF_LIST = 13
"""The number of features per retriever; below, each has its place among these."""
WHOLE = 128
"""The candidates that are scored together are a multiple of this many, however wide the vectors of the processor."""


@compiled
def fill_features(source, pools, first, wanted, x) -> Any:  # type: ignore[no-untyped-def]
    """Fill x (features x candidates) with the wanted features of some pools, from the first on and as many as there is
    room for: the first that is left out, and the number of candidates."""
    retrievers = source.position.shape[0]
    end = 0
    for n in range(first, pools.size):
        p = pools[n]
        last = end + source.offset[p + 1] - source.offset[p]
        if last > x.shape[1]:
            return n, end
        for r in range(retrievers):
            _fill_list(source, p, r, wanted, x, end, last)
        _fill_common(source, p, retrievers * OF_LIST, wanted, x, end, last)
        if wanted[retrievers * OF_LIST + 4 :].any():
            _fill_training(source, p, retrievers * OF_LIST + 4, wanted, x, end, last)
        end = last
    return pools.size, end


@compiled
def _fill_list(source, p, r, wanted, x, end, last):  # type: ignore[no-untyped-def]
    n, low, high, total, mean, std, pooled = source.figures[:, p, r]
    begin, stop, eps, f = source.offset[p], source.offset[p + 1], source.eps, r * OF_LIST
    position, score = source.position[r, begin:stop], source.score[r, begin:stop]
    if n == 0:
        x[f : f + OF_LIST, end:last] = 0.0
        return
    if wanted[f]:
        _scale(position, score, 0.0, 1.0, x[f, end:last])
    if wanted[f + 1]:
        _scale(position, score, low, max(high - low, eps), x[f + 1, end:last])
    if wanted[f + 2]:
        _scale(position, score, 0.0, max(high, eps), x[f + 2, end:last])
    if wanted[f + 3]:
        _scale(position, score, low, max(total - n * low, eps), x[f + 3, end:last])
    if wanted[f + 4]:
        _scale(position, score, mean, max(std, eps), x[f + 4, end:last])
    if wanted[f + 5]:
        _by_place(position, n, 0.0, x[f + 5, end:last])
    if wanted[f + 6]:
        _by_place(position, pooled, 0.5 - (n - 1) / (2 * pooled), x[f + 6, end:last])
    if wanted[f + 7]:
        _inverse(position, x[f + 7, end:last])
    if wanted[f + 8]:
        _logarithm(position, n, source.logs, x[f + 8, end:last])
    if wanted[f + 9]:
        _presence(position, x[f + 9, end:last])
    if wanted[f + 10]:
        x[f + 10, end:last] = np.log(1.0 + n)
    if wanted[f + 11]:
        x[f + 11, end:last] = high
    if wanted[f + 12]:
        _gap(position, score, high, x[f + 12, end:last])


@compiled
def _scale(position, score, shift, scale, x):  # type: ignore[no-untyped-def]
    for c in range(position.size):
        value = (score[c] - shift) / scale
        x[c] = value if position[c] >= 0 else 0.0


@compiled
def _by_place(position, size, missing, x):  # type: ignore[no-untyped-def]
    for c in range(position.size):
        value = 1 - position[c] / size
        x[c] = value if position[c] >= 0 else missing


@compiled
def _inverse(position, x):  # type: ignore[no-untyped-def]
    for c in range(position.size):
        # A list that lacks the label has place -1.
        value = 1 / max(position[c] + 1, 1)
        x[c] = value if position[c] >= 0 else 0.0


@compiled
def _logarithm(position, n, logs, x):  # type: ignore[no-untyped-def]
    # ln(1) is also the value of a label that the list lacks.
    if n <= logs.size:
        for c in range(position.size):
            x[c] = logs[max(position[c], 0)]
    else:
        for c in range(position.size):
            i = max(position[c], 0)
            x[c] = logs[i] if i < logs.size else np.log(i + 1.0)


@compiled
def _presence(position, x):  # type: ignore[no-untyped-def]
    for c in range(position.size):
        x[c] = 1.0 if position[c] >= 0 else 0.0


@compiled
def _gap(position, score, high, x):  # type: ignore[no-untyped-def]
    for c in range(position.size):
        value = high - score[c]
        x[c] = value if position[c] >= 0 else 0.0


@compiled
def _add(values, x):  # type: ignore[no-untyped-def]
    for c in range(values.size):
        x[c] += values[c]


@compiled
def _multiply(values, x):  # type: ignore[no-untyped-def]
    for c in range(values.size):
        x[c] *= values[c]


@compiled
def _product(a, b, x):  # type: ignore[no-untyped-def]
    for c in range(a.size):
        x[c] = a[c] * b[c]


@compiled
def _fill_common(source, p, f, wanted, x, end, last):  # type: ignore[no-untyped-def]
    begin, stop, retrievers = source.offset[p], source.offset[p + 1], source.position.shape[0]
    if wanted[f] or wanted[f + 1]:
        x[f, end:last] = 0.0
        for r in range(retrievers):
            _count_list(source.position[r, begin:stop], x[f, end:last])
    if wanted[f + 1]:
        x[f + 1, end:last] = 0.0
        for r in range(retrievers):
            _add(x[r * OF_LIST + 4, end:last], x[f + 1, end:last])
        _multiply(x[f, end:last], x[f + 1, end:last])
    if wanted[f + 2]:
        x[f + 2, end:last] = 0.0
        for r in range(retrievers):
            _add(x[r * OF_LIST + 1, end:last], x[f + 2, end:last])
    if wanted[f + 3]:
        x[f + 3, end:last] = np.log(1.0 + stop - begin)


@compiled
def _count_list(position, held):  # type: ignore[no-untyped-def]
    for c in range(position.size):
        held[c] += 1.0 if position[c] >= 0 else 0.0


@compiled
def _fill_training(source, p, f, wanted, x, end, last):  # type: ignore[no-untyped-def]
    label, counts = source.label[source.offset[p] : source.offset[p + 1]], source.train_texts[source.train_row[p]]
    seen, unseen, logs = x[f, end:last], x[f + 1, end:last], source.logs
    for c in range(label.size):
        texts = counts[label[c]] if label[c] < counts.size else 0
        seen[c] = logs[texts] if texts < logs.size else np.log(1.0 + texts)
    # A loop of its own, for vectors: ln(1 + texts) is 0 for no texts alone.
    for c in range(label.size):
        unseen[c] = 1.0 if seen[c] == 0.0 else 0.0
    for r in range(source.position.shape[0]):
        for second in range(2):
            of_unseen = f + 2 + 2 * r + second
            if wanted[of_unseen]:
                # Of every list in turn, its min-max and its reciprocal rank.
                _product(x[r * OF_LIST + (7 if second else 1), end:last], unseen, x[of_unseen, end:last])
