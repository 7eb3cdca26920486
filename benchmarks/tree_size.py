"""Label trees over synthetic texts in the shape of Amazon-670K: what they cost, and whether they fit.

    python -m benchmarks.tree_size [--shares 0.01,0.1,1] [--trees 3] [--minutes 40] [--gigabytes 24]

Amazon-670K has 490,449 training texts of 75 terms among 135,909, and 670,091 labels, each in 4 texts in the mean: most
in one or two, some in a thousand. A share of it has that share of the texts and of the labels, and all terms. Labels
whose numbers are near have terms in common, and so do the labels of a text, so that there is something to cluster. Each
size runs in a process of its own, which may take a limited number of CPU minutes and gigabytes. Written to
benchmarks/results/tree-size.md.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.memory import resident_bytes
from benchmarks.registry_tables import markdown
from fusion.retrieval.bags import Bags, TfIdf, counted
from fusion.retrieval.contrastive import LabelSets
from fusion.retrieval.label_trees import Forest, forest_labels, grow_forest
from fusion.retrieval.ranked import Ranked
from jobs.settings.built_in import TreeSettings

RESULTS = Path(__file__).parent / "results"
TEXTS, LABELS, TERMS, WORDS = 490_449, 670_091, 135_909, 75
RELATED, OWN, SHARED = 50, 12, 60
"""Labels of a family; terms of a label and of its family."""
PER_TEXT = 5.45
RANKED, TOP = 2_000, 64
COLUMNS = [
    "texts",
    "labels",
    "trees",
    "minutes of CPU to grow",
    "peak memory, GB",
    "model, GB",
    "texts ranked per second of CPU",
    "P@1",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shares", default="0.01,0.1,1")
    parser.add_argument("--trees", type=int, default=TreeSettings().trees)
    parser.add_argument("--minutes", type=float, default=40)
    parser.add_argument("--gigabytes", type=float, default=24)
    parser.add_argument("--one", type=float, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measured(arguments.one, arguments.trees)))
        return
    rows = [tried(share, arguments) for share in map(float, arguments.shares.split(","))]
    limits = f"at most {arguments.minutes:g} minutes of CPU and {arguments.gigabytes:g} GB for each size"
    text = f"# Label trees in the shape of Amazon-670K, {os.cpu_count()} threads, {limits}\n\n{markdown(COLUMNS, rows)}"
    (RESULTS / "tree-size.md").write_text(text)
    print(text)


def tried(share: float, arguments: argparse.Namespace) -> list[str]:
    """The figures of one size, from a process of its own."""
    size = [f"{round(TEXTS * share):,}", f"{round(LABELS * share):,}", str(arguments.trees)]
    memory, seconds = int(arguments.gigabytes * 1e9), int(60 * arguments.minutes)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))

    command = [sys.executable, "-m", "benchmarks.tree_size", "--one", str(share), "--trees", str(arguments.trees)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, preexec_fn=limit)
    if done.returncode:
        why = "not done in time" if done.returncode == -signal.SIGKILL else "out of memory"
        return [*size, why, *[""] * (len(COLUMNS) - 4)]
    figures = json.loads(done.stdout)
    gigabytes = [f"{figures[name] / 1e9:.2f}" for name in ("peak", "model")]
    return [*size, f"{figures['cpu'] / 60:.1f}", *gigabytes, f"{figures['ranked']:.0f}", f"{figures['precision']:.2f}"]


def measured(share: float, trees: int) -> dict[str, float]:
    """Grow the trees, and rank texts that they were not grown from."""
    rng = np.random.default_rng(0)
    count, labels = round(TEXTS * share), round(LABELS * share)
    train, new, few = (synthetic(rng, texts, labels) for texts in (count, RANKED, RANKED))
    tfidf = TfIdf.of(train[0], 2)
    terms, group, settings = len(tfidf.terms), np.zeros(labels, np.int8), TreeSettings(trees=trees)

    def grow(texts: Bags, known: LabelSets) -> Forest:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return grow_forest(tfidf.vectors(texts), terms, known, settings.growing, pool.map)

    def rank(forest: Forest, texts: Bags) -> Ranked:
        return forest_labels(forest, tfidf.vectors(texts), terms, group, 1, settings.beam, TOP)

    # The first time, everything is compiled.
    rank(grow(*few), few[0])
    begin = time.process_time()
    forest = grow(*train)
    grown = time.process_time()
    lists = rank(forest, new[0])
    done = time.process_time()
    first = zip(lists.item[lists.offset[:-1]], np.split(new[1].labels, new[1].offsets[1:-1]), strict=True)
    return {
        "cpu": grown - begin,
        "peak": resident_bytes(at_peak=True),
        "model": sum(np.asarray(values).nbytes for values in forest),
        "ranked": RANKED / (done - grown),
        "precision": float(np.mean([label in carried for label, carried in first])),
    }


def synthetic(rng: Any, count: int, labels: int) -> tuple[Bags, LabelSets]:
    """Texts with labels: the first by Zipf's law, the others of its family."""
    sizes = 1 + rng.poisson(PER_TEXT - 1, count)
    chance = 1 / np.arange(20, labels + 20) ** 0.8
    # Frequent and rare labels are in the same families.
    scattered = np.random.default_rng(2).permutation(labels)
    first = scattered[rng.choice(labels, count, p=chance / chance.sum())]
    text = np.repeat(np.arange(count), sizes)
    family = first[text] // RELATED * RELATED
    label = np.minimum(family + rng.integers(0, RELATED, len(text)), labels - 1)
    begin = np.concatenate(([0], np.cumsum(sizes)))
    label[begin[:-1]] = first
    pairs = np.unique(text * labels + label)
    known = LabelSets(np.searchsorted(pairs, np.arange(count + 1) * labels), pairs % labels)
    return counted(said(rng, known), np.arange(count + 1) * WORDS), known


def said(rng: Any, known: LabelSets) -> Any:
    """The terms of texts: of their labels, of the labels' families, and any, by Zipf's law."""
    size = (len(known), WORDS)
    sizes = np.diff(known.offsets)[:, None]
    label = known.labels[known.offsets[:-1, None] + rng.integers(0, 1 << 30, size) % sizes]
    # Hashed, so that a label's terms need no table: some of them are frequent, most are not.
    own, shared = label * OWN + rng.integers(0, OWN, size), label // RELATED * SHARED + rng.integers(0, SHARED, size)
    hashed = np.where(rng.random(size) < 0.5, own * 2_654_435_761, shared * 40_503 + 7) % (1 << 32) / (1 << 32)
    kind = rng.random(size)
    zipf = (TERMS ** np.where(kind < 0.5, 0.5 + hashed / 2, rng.random(size))).astype(np.int64) - 1
    return np.minimum(zipf, TERMS - 1).ravel()


if __name__ == "__main__":
    main()
