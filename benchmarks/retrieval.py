"""Memory and time of retrieval as the number of labels grows: random vectors for the bi-encoder, Zipf texts for BM25.

    python -m benchmarks.retrieval [--labels 4000 31000 131000 670000]

Each measurement runs in a process of its own, on one core. Dense: unit vectors of 384 dimensions, a fifth of the
labels head; exact search, and HNSW from the size at which it is the default. BM25: 40,000 training texts of 60 tokens
with 5 labels each.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
DIMENSIONS, QUERIES, TOP = 384, 512, 64
TEXTS, TOKENS, VOCABULARY, LABELS_PER_TEXT = 40_000, 60, 50_000, 5
HNSW_FROM = 200_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, nargs="+", default=[4_000, 31_000, 131_000, 670_000])
    parser.add_argument("--measure", nargs=2, metavar=("KIND", "LABELS"))
    arguments = parser.parse_args()
    if arguments.measure:
        kind, labels = arguments.measure
        print(json.dumps(MEASUREMENTS[kind](int(labels))))
        return
    lines = ["| labels | search | build, s | texts/s, one core | peak memory |", "|---|---|---|---|---|"]
    for labels in arguments.labels:
        kinds = ["exact", *(["hnsw"] if labels >= HNSW_FROM else []), "bm25"]
        for kind in kinds:
            command = [sys.executable, "-m", "benchmarks.retrieval", "--measure", kind, str(labels)]
            told = subprocess.run(command, capture_output=True, text=True, check=True)
            found = json.loads(told.stdout)
            lines.append(
                f"| {labels:,} | {kind} | {found['build']:.1f} | {found['rate']:,.0f} | {found['memory']:,.0f} MiB |"
            )
            print(lines[-1], flush=True)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "retrieval.md").write_text("\n".join(lines) + "\n")


def exact(labels: int) -> dict[str, float]:
    return dense(labels, None)


def hnsw(labels: int) -> dict[str, float]:
    return dense(labels, 1)


def dense(labels: int, hnsw_from: int | None) -> dict[str, float]:
    """Index and search random vectors as the workers do, head and tail separately."""
    import faiss

    faiss.omp_set_num_threads(1)
    rng = np.random.default_rng(0)
    groups = []
    for size in (labels // 5, labels - labels // 5):
        vectors = rng.normal(size=(size, DIMENSIONS)).astype(np.float32)
        groups.append(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    texts = rng.normal(size=(QUERIES, DIMENSIONS)).astype(np.float32)
    texts /= np.linalg.norm(texts, axis=1, keepdims=True)
    begin = time.perf_counter()
    indexes = []
    for vectors in groups:
        if hnsw_from is None:
            index: Any = faiss.IndexFlatIP(DIMENSIONS)
        else:
            index = faiss.IndexHNSWFlat(DIMENSIONS, 32, faiss.METRIC_INNER_PRODUCT)
            index.hnsw.efConstruction, index.hnsw.efSearch = 100, 256
        index.add(vectors)
        indexes.append(index)
    build = time.perf_counter() - begin
    begin = time.perf_counter()
    for index in indexes:
        index.search(texts, TOP)
    return {"build": build, "rate": QUERIES / (time.perf_counter() - begin), "memory": peak()}


def bm25(labels: int) -> dict[str, float]:
    """Build and search an index of training texts through the worker's own code."""
    from benchmarks.bm25_index import Corpus
    from fusion.retrieval.tokens import Tokenizer
    from udfs.retrieval.retriever import Scoring
    from udfs.retrieval.words import Words

    rng = np.random.default_rng(0)
    share = np.cumsum(1 / np.arange(1, VOCABULARY + 1) ** 0.9)
    drawn = np.searchsorted(share / share[-1], rng.random((TEXTS + QUERIES, TOKENS)))
    texts = [" ".join(f"t{token}" for token in row) for row in drawn]
    weight = np.cumsum(1 / np.arange(1, labels + 1) ** 0.8)
    carried = np.searchsorted(weight / weight[-1], rng.random((TEXTS, LABELS_PER_TEXT)))
    groups = ["head"] * (labels // 5) + ["tail"] * (labels - labels // 5)
    corpus = Corpus(texts[:TEXTS], [sorted(set(row.tolist())) for row in carried], groups)
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        index = corpus.index(Path(folder), Scoring(64, "max", TOP))
        build = time.perf_counter() - begin
        words = Words(Tokenizer())
        index.rank(words(texts[TEXTS : TEXTS + 8]))
        begin = time.perf_counter()
        lists = len(index.rank(words(texts[TEXTS:])).offset)
        seconds = time.perf_counter() - begin
        assert lists > QUERIES
    return {"build": build, "rate": QUERIES / seconds, "memory": peak()}


def peak() -> float:
    """The largest resident size of this process, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


MEASUREMENTS = {"exact": exact, "hnsw": hnsw, "bm25": bm25}


if __name__ == "__main__":
    main()
