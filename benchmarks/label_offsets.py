"""Whether an offset per label, learned on validation texts, improves a learned fusion (it is not part of `tune`).

    python -m benchmarks.label_offsets --config conf/datasets/debtags.yaml --work WORK [--retrievers bm25,static]

Reads the lists of validation texts that `run` left in the work folder. With n candidates of a label in a list, h of
them relevant and e the sum of their probabilities (Platt's curve over the scores of the fusion), a label's logit there
is moved by n / (n + tau) * ln((h + 1/2) / (e + 1/2)), as the mean over the lists that hold the label. Fusion, curve and
offsets are learned on one half of the texts and tried on the other. Adds to benchmarks/results/label-offsets.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import ttest_rel

from benchmarks.frequency_bands import RESULTS, test_batches
from benchmarks.registry_tables import markdown
from fusion.cells import ANY_FOLD, Cell
from fusion.grid.grid import Grid
from fusion.kernel.texts import pool_views
from fusion.labels import ALL
from fusion.models.calibration import fit_platt
from fusion.models.strategies import BANDS, LOGISTIC, Strategy
from fusion.types import Array, Floats, Ints
from jobs.engines.local import LocalEngine
from jobs.inputs.sources import Sources
from jobs.inputs.stages import with_inputs
from jobs.inputs.tables import InputTables
from jobs.settings.config import load_config
from jobs.tuning.tuner import Tuner
from udfs.counter import id_keys

K = 10
TAUS = (1.0, 10.0, 100.0, 1_000.0)
STRATEGIES = (BANDS, LOGISTIC)


class Rows(NamedTuple):
    """The candidates of validation texts, text after text."""

    text: Ints
    half: Ints
    label: Ints
    relevant: Array
    listed: Array
    """Which lists hold it (lists x candidates)."""
    ideal: Floats
    """Of the candidate's text."""
    scores: Floats
    """By strategies that were learned on the other half (strategies x candidates)."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--retrievers", default="bm25,static")
    arguments = parser.parse_args()
    settings: dict[str, Any] = {
        "work.path": arguments.work,
        "retrievers": arguments.retrievers,
        "tune.strategies": list(map(str, STRATEGIES)),
        "tune.curve": [],
        "evaluate.label_groups": ALL,
        "grid.engine": "local",
    }
    config = with_inputs(load_config(arguments.config, settings))
    tuner = Tuner.of(InputTables(LocalEngine(), Sources.of(config.inputs)), config)
    rows = validation_rows(tuner)
    header = ["fusion", "without", *(f"tau {tau:g}" for tau in TAUS)]
    lines = [[str(cell), *figures(rows, s)] for s, cell in enumerate(STRATEGIES)]
    texts = len(np.unique(rows.text))
    about = f"{config.dataset}: {', '.join(config.retrievers)}; {texts:,} validation texts. nDCG@{K}, and the change"
    text = f"{about} with offsets (paired t-test over texts):\n\n{markdown(header, lines)}\n"
    print(text)
    with (RESULTS / "label-offsets.md").open("a", encoding="utf-8") as file:
        file.write(text)


def validation_rows(tuner: Tuner) -> Rows:
    """Every candidate, under what was learned on the other half of the texts."""
    halves = {choice.strategy: choice.halves for choice in tuner.tune().by_fold if choice.fold == ANY_FOLD}
    strategies = {cell: Strategy({ALL: halves[cell]}) for cell in STRATEGIES}
    grid = Grid((), tuner.evaluation.layout.retrievers, tuner.evaluation.policies, strategies=strategies)
    found = list(_blocks(tuner, grid))
    return Rows(*(np.concatenate(parts, axis=-1) for parts in zip(*found, strict=True)))


def _blocks(tuner: Tuner, grid: Grid) -> Iterator[Rows]:
    groups, parting = tuner.evaluation.layout.group_names, tuner.validation.parting.halves
    discounts = np.cumsum(1 / np.log2(np.arange(2, K + 2)))
    assert tuner.train_texts is not None
    for batch in test_batches(tuner.validation.lists, tuner.train_texts):
        batch.texts.fold = code = parting.of(batch)
        keys = id_keys(batch.text_id) * np.int64(31) + batch.fold
        relevant = batch.texts.relevant_counts(groups, ALL)
        for first, block in batch.texts.blocks():
            ((view,),) = pool_views(block, (ALL,), groups, "group", keep_all=True)
            pools = view.pools
            text = np.repeat(pools.source, np.diff(pools.offset)) + first
            hit = np.zeros(len(pools.label), np.bool_)
            hit[view.relevant_candidate] = True
            fused = dict(grid.fused(pools, view.normalized, np.float64))
            yield Rows(
                keys[text],
                (code[text] & 1).astype(np.int64),
                id_keys(batch.decode(pools.label)),
                hit,
                pools.position >= 0,
                discounts[np.clip(relevant[text], 1, K) - 1],
                np.stack([fused[grid.column_of[Cell(*cell)]] for cell in STRATEGIES]),
            )


def figures(rows: Rows, strategy: int) -> list[str]:
    """Without offsets, then for each tau."""
    logits = np.empty(len(rows.text))
    for half in (0, 1):
        mine = rows.half == half
        curve = fit_platt(rows.scores[strategy][~mine], rows.relevant[~mine])
        logits[mine] = curve.slope * rows.scores[strategy][mine] + curve.intercept
    plain = gains(rows, logits)
    shown = [f"{100 * plain.mean():.2f}"]
    for tau in TAUS:
        moved = gains(rows, logits + offsets(rows, logits, tau))
        p = float(ttest_rel(moved, plain).pvalue)
        shown.append(f"{100 * (moved.mean() - plain.mean()):+.2f} (p = {p:.2g})")
    return shown


def offsets(rows: Rows, logits: Floats, tau: float) -> Floats:
    """Of every candidate, by what the other half of the texts says of its label."""
    probability = 1 / (1 + np.exp(-logits))
    _, label = np.unique(rows.label, return_inverse=True)
    moves = np.zeros(len(logits))
    for listed in rows.listed:
        for half in (0, 1):
            other = listed & (rows.half != half)
            n, hits, expected = (
                np.bincount(label[other], weight, label.max() + 1)
                for weight in (None, rows.relevant[other].astype(float), probability[other])
            )
            of_label = n / (n + tau) * np.log((hits + 0.5) / (expected + 0.5))
            mine = listed & (rows.half == half)
            moves[mine] += of_label[label[mine]]
    return moves / np.maximum(rows.listed.sum(axis=0), 1)


def gains(rows: Rows, scores: Floats) -> Floats:
    """nDCG of each text that has candidates."""
    order = np.lexsort((rows.label, -scores, rows.text))
    text = rows.text[order]
    first = np.flatnonzero(np.append(True, text[1:] != text[:-1]))
    rank = np.arange(len(text)) - np.repeat(first, np.diff(np.append(first, len(text))))
    worth = np.where(rows.relevant[order] & (rank < K), 1 / np.log2(rank + 2), 0.0) / rows.ideal[order]
    of_texts: Floats = np.add.reduceat(worth, first)
    return of_texts


if __name__ == "__main__":
    main()
