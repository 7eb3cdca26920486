"""Queries per second of BM25: ours, bm25s as it is, and rank-bm25, on the same tokens and documents in one process.

python -m benchmarks.bm25 [--documents 20000] [--queries 2000] [--reference-queries 5]
"""

from __future__ import annotations

import argparse
import platform
import tempfile
import time
from collections.abc import Callable
from copy import copy
from functools import partial
from importlib.metadata import version
from pathlib import Path

import bm25s
import numpy as np
from rank_bm25 import BM25Okapi

from benchmarks.bm25_index import Corpus
from fusion.retrieval.tokens import Tokenizer
from udfs.retrieval.bm25 import BoundIndex
from udfs.retrieval.retriever import Scoring
from udfs.retrieval.words import Words, bags_of

RESULT = Path(__file__).parent / "results" / "bm25.md"
VOCABULARY, LABELS, NEIGHBOURS, LISTED, TARGET = 50_000, 4_000, 64, 64, 100
SCORING = Scoring(NEIGHBOURS, "max", LISTED)


def zipf_corpus(documents: int, seed: int = 0) -> list[list[str]]:
    """Short documents, 8 to 40 tokens, the n-th word with a chance of 1/(n + 5)."""
    rng = np.random.default_rng(seed)
    chance = 1 / np.arange(6, VOCABULARY + 6)
    sizes = rng.integers(8, 41, documents)
    words = rng.choice(VOCABULARY, sizes.sum(), p=chance / chance.sum())
    return [[f"w{word}" for word in part] for part in np.split(words, np.cumsum(sizes)[:-1])]


def build(folder: Path, documents: list[list[str]]) -> BoundIndex:
    """Our index of the documents, with random labels."""
    rng = np.random.default_rng(1)
    carried = [rng.choice(LABELS, 5, replace=False).tolist() for _ in documents]
    groups = [("tail", "head")[n % 5 == 0] for n in range(LABELS)]
    return Corpus([" ".join(words) for words in documents], carried, groups).index(folder, SCORING)


def seconds(work: Callable[[], object], repeat: int = 3) -> tuple[float, float]:
    """The seconds of the first call, and of the best of some later ones; of the processor, not of the clock, so
    that other work on the machine does not count."""
    taken = []
    for _ in range(repeat + 1):
        begin = time.process_time()
        work()
        taken.append(time.process_time() - begin)
    return taken[0], min(taken[1:])


def run(documents: int, queries: int, reference_queries: int) -> str:
    corpus, asked = zipf_corpus(documents), zipf_corpus(queries, seed=2)
    okapi = BM25Okapi(corpus)
    theirs = bm25s.BM25(method="atire", idf_method="robertson")
    theirs.index(corpus, show_progress=False)
    begin = time.process_time()
    expected = [okapi.get_scores(query) for query in asked[:reference_queries]]
    reference = reference_queries / (time.process_time() - begin)

    with tempfile.TemporaryDirectory() as scratch:
        bound = build(Path(scratch), corpus)
        index, words = bound.index, Words(Tokenizer())
        rows = words([" ".join(query) for query in asked])
        bags = bags_of(rows)
        together = np.zeros(documents, np.int8)
        everything = index.nearest(bags_of(rows.slice(0, len(expected))), together, 1, documents)
        for n, scores in enumerate(expected):
            some = slice(everything.offset[n], everything.offset[n + 1])
            np.testing.assert_allclose(everything.score[some], scores[everything.item[some]], rtol=1e-5)
            assert len(everything.item[some]) == (scores > 0).sum()

        def ours() -> None:
            index.nearest(bags, together, 1, NEIGHBOURS)

        def ours_to_labels() -> None:
            bound.rank(rows)

        known = [[theirs.vocab_dict[word] for word in query if word in theirs.vocab_dict] for query in asked]
        contestants: dict[str, Callable[[], object]] = {}
        for backend in ("numpy", "numba"):
            searcher = copy(theirs)
            searcher.backend = backend
            contestants[f"bm25s, {backend} backend: nearest {NEIGHBOURS} documents"] = partial(
                searcher.retrieve, known, k=NEIGHBOURS, show_progress=False
            )
        contestants[f"ours: nearest {NEIGHBOURS} documents"] = ours
        contestants[f"ours: from tokens to the top {LISTED} head and tail labels"] = ours_to_labels
        timed = {name: seconds(work) for name, work in contestants.items()}

    rows = [f"| rank-bm25: scores of all documents ({reference_queries} queries) | {reference:,.1f} | 1 | |"]
    for name, (first, best) in timed.items():
        rate = queries / best
        rows.append(f"| {name} | {rate:,.0f} | {rate / reference:,.0f} | {max(0.0, first - best):.1f} |")
    slowest = min(queries / timed[name][1] for name in timed if name.startswith("ours")) / reference
    packages = ", ".join(f"{name} {version(name)}" for name in ("bm25s", "rank-bm25", "numba", "numpy"))
    return "\n".join(
        [
            "# BM25: queries per second",
            "",
            f"{documents:,} documents of 8 to 40 Zipf words, {queries:,} queries of the same kind, as tokens.",
            f"One process, one thread, {platform.machine()}, Python {platform.python_version()}, {packages}.",
            "All in one run of `python -m benchmarks.bm25`, in seconds of processor time; the scores of the queries",
            "put to rank-bm25 are checked to be equal. The last column is what the first call costs beyond a later",
            "one: compilation, which bm25s repeats in every process, while ours is kept on disk.",
            "",
            "| | queries/s | times rank-bm25 | first call, s |",
            "|---|---|---|---|",
            *rows,
            "",
            f"Target: {TARGET} times rank-bm25. {'Met' if slowest >= TARGET else 'Missed'}, with {slowest:,.0f} times.",
            "",
        ]
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--queries", type=int, default=2_000)
    parser.add_argument("--reference-queries", type=int, default=5)
    given = parser.parse_args()
    text = run(given.documents, given.queries, given.reference_queries)
    print(text, end="")
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(text, encoding="utf-8")
