"""Random signs by blocks: how often they find a difference where there is none, and whether they agree with signs of
single texts.

    python -m benchmarks.signs [--comparisons 2000] [--texts 500 5000 50000] [--vectors 100000]

Every comparison draws its own texts from a population of pairs of figures, and swaps the two figures of each text by
a fair coin, so that the null hypothesis holds. `ndcg@10`: figures of two rankings of 1 to 10 relevant labels, which
agree on many texts. `rare and heavy`: 95% of the texts do not differ, and a few of the others differ a lot.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import binomtest

from fusion.metrics import Metric
from fusion.statistics.paired import UNIT
from fusion.statistics.signs import blocks_of, randomization_p
from fusion.statistics.tally import hit_weights
from fusion.types import Array, Floats

RESULTS = Path(__file__).parent / "results"
POPULATION = 200_000
BLOCKS, ALPHA = 1024, 0.05
TEXT_VECTORS = 10_000
"""Sign vectors with a sign for every text, which take long."""
MOST_PRODUCTS = 2 * 10**11
"""Multiplications that signs of single texts may take; where there are many texts, fewer comparisons are made so."""


class Sample(NamedTuple):
    """The p-values of all comparisons by blocks, and of the first of them by single texts."""

    by_blocks: Floats
    by_texts: Floats
    blocks: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comparisons", type=int, default=2000)
    parser.add_argument("--texts", type=int, nargs="+", default=[500, 5_000, 50_000])
    parser.add_argument("--vectors", type=int, default=100_000)
    arguments = parser.parse_args()
    lines = [
        f"{arguments.comparisons:,} comparisons without a difference; {arguments.vectors:,} sign vectors over "
        f"{BLOCKS:,} blocks, {TEXT_VECTORS:,} over single texts.",
        "",
        "| differences | texts | blocks used | p < 0.05 by blocks (95% interval) | comparisons by texts | "
        "p < 0.05 by texts | by blocks, the same | mean change of p | 95% below | same verdict |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, population in populations(np.random.default_rng(0)).items():
        for texts in arguments.texts:
            sample = compared(population, texts, arguments.comparisons, arguments.vectors)
            lines.append(described(name, texts, sample))
    lines += ["", f"The test of 42 columns in 19 aspects takes {driver_seconds(arguments.vectors):.1f} s on one core."]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "signs.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def populations(rng: np.random.Generator) -> dict[str, Array]:
    """Pairs of figures [text, 2], whole numbers of UNIT."""
    number = np.minimum(1 + rng.poisson(4, POPULATION), 10)
    figures = np.zeros((POPULATION, 2))
    weights = hit_weights(Metric("ndcg", 10), 10)
    for label in range(10):
        # How well a label is found is shared by the two rankings; a third of the labels they rank alike.
        shared = rng.normal(1.5, 1.2, (POPULATION, 1))
        own = rng.normal(0, 0.6, (POPULATION, 2)) * (rng.random((POPULATION, 1)) < 2 / 3)
        rank = np.exp(shared + own).astype(np.int64)
        listed = (label < number)[:, None] & (rank > 0) & (rank <= 10)
        figures += np.where(listed, weights[np.minimum(rank, 10), number[:, None]], 0)
    heavy = np.minimum(0.002 * rng.pareto(1.1, POPULATION), 1) * (rng.random(POPULATION) < 0.05)
    pairs = {"ndcg@10": figures, "rare and heavy": np.stack([heavy, np.zeros(POPULATION)], axis=1)}
    return {name: np.rint(values / UNIT) for name, values in pairs.items()}


def compared(population: Array, texts: int, comparisons: int, vectors: int, seed: int = 1) -> Sample:
    """The p-values of comparisons each of which draws `texts` texts."""
    rng = np.random.default_rng([seed, texts])
    block = blocks_of(np.arange(texts), BLOCKS)
    sums = np.zeros((comparisons, BLOCKS, 2))
    kept = min(comparisons, MOST_PRODUCTS // (texts * TEXT_VECTORS))
    differences = np.empty((kept, texts), np.float32)
    for n in range(comparisons):
        pairs = population[rng.integers(0, len(population), texts)]
        swapped = rng.random(texts) < 0.5
        pairs[swapped] = pairs[swapped][:, ::-1]
        for column in range(2):
            sums[n, :, column] = np.bincount(block, pairs[:, column], BLOCKS)
        if n < kept:
            differences[n] = pairs[:, 0] - pairs[:, 1]
    return Sample(randomization_p(sums, vectors, seed)[:, 0, 1], text_p(differences, rng), len(np.unique(block)))


def text_p(differences: Array, rng: np.random.Generator) -> Floats:
    """The same test with an independent sign for every text, as products of matrices."""
    observed = np.abs(differences.sum(axis=1, dtype=np.float64))
    beyond = np.zeros(len(differences), np.int64)
    for _ in range(0, TEXT_VECTORS, 500):
        signs = (2 * rng.integers(0, 2, (differences.shape[1], 500), np.int8) - 1).astype(np.float32)
        # Single precision is enough here, if sums that are equal on paper count as equal.
        beyond += (np.abs(differences @ signs) >= observed[:, None] * (1 - 1e-5)).sum(axis=1)
    p: Floats = (1 + beyond) / (1 + TEXT_VECTORS)
    return p


def described(name: str, texts: int, sample: Sample) -> str:
    same = sample.by_blocks[: len(sample.by_texts)]
    change = np.abs(same - sample.by_texts)
    agree = ((same < ALPHA) == (sample.by_texts < ALPHA)).mean()
    cells = [
        *(name, f"{texts:,}", f"{sample.blocks:,}", rejected(sample.by_blocks), f"{len(same):,}"),
        *(rejected(sample.by_texts), f"{(same < ALPHA).mean():.1%}"),
        *(f"{change.mean():.4f}", f"{np.quantile(change, 0.95):.4f}", f"{agree:.1%}"),
    ]
    return f"| {' | '.join(cells)} |"


def rejected(p: Floats) -> str:
    """The share of p below alpha, with its 95% interval (Clopper and Pearson 1934)."""
    count = int((p < ALPHA).sum())
    interval = binomtest(count, len(p)).proportion_ci()
    return f"{count / len(p):.1%} ({interval.low:.1%} to {interval.high:.1%})"


def driver_seconds(vectors: int) -> float:
    """What is done at the end of an evaluation of the whole grid."""
    sums = np.rint(np.random.default_rng(0).normal(0, 1e6, (19, BLOCKS, 42)))
    randomization_p(sums[:1], 1000, 0)
    begin = time.perf_counter()
    randomization_p(sums, vectors, 0)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
