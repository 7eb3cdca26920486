"""What fusions find among labels of every frequency, compared with the best single retriever of each band.

    python -m benchmarks.frequency_bands --config conf/datasets/debtags.yaml --work WORK [--retrievers bm25,static]

Reads the lists that `xmtc-fusion run` left in the work folder, tunes on their validation texts, and counts over the
test texts of all folds which relevant labels are among the first 10, by how many of the fold's training texts carry the
label. A sign test over the pairs of text and label that only one of the two finds says whether a band loses.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest

from fusion.cells import SINGLE, Cell
from fusion.labels import ALL
from fusion.models.bands import BAND_NAMES, band_of
from fusion.types import Array, Floats, Ints
from jobs.engines.local import LocalEngine
from jobs.inputs.lists import ListRows, load_lists
from jobs.inputs.sources import Sources
from jobs.inputs.stages import with_inputs
from jobs.inputs.tables import InputTables
from jobs.settings.config import Config, load_config
from jobs.tuning.tuner import Tuner
from udfs.counter import judged_hits
from udfs.plan import EvaluationPlan
from udfs.problems import Problems
from udfs.steps import whole_keys
from udfs.texts import Batch, read_texts
from udfs.tuning import TrainTexts

RESULTS = Path(__file__).parent / "results"
K = 10
PLAIN = [Cell("zmuv", "combmnz")]
AT_ONCE = 4_096
FEWEST_PAIRS = 50
"""In bands with fewer pairs of a test text and one of its labels nothing is tested."""


class Found:
    """Per pair of a test text and one of its labels: the label's band, and which columns have it among the first k."""

    def __init__(self, evaluation: EvaluationPlan) -> None:
        self.evaluation = replace(evaluation, views=(ALL,))
        self.columns = list(evaluation.columns)
        self.bands: list[Ints] = []
        self.hits: list[Array] = []
        self.gains: list[Floats] = []

    def add(self, batch: Batch) -> None:
        """The judged texts of a batch."""
        evaluation, texts = self.evaluation, batch.texts
        problems = Problems()
        (hits,) = judged_hits(batch, evaluation, evaluation.grid, problems)
        judged = batch.judged
        number = texts.relevant_counts(evaluation.layout.group_names, ALL)
        labels = texts.relevant_labels(evaluation.layout.group_names, ALL, judged)
        text = np.repeat(np.flatnonzero(judged), number[judged])
        assert texts.train_texts is not None
        counts, row = texts.train_texts
        self.bands.append(band_of(counts[row[text], labels]))
        # A pair's place: texts ascending and the labels of each ascending, in both.
        width = np.int64(counts.shape[1])
        place = np.searchsorted(text * width + labels, hits.text * width + hits.label)
        columns = [evaluation.columns[cell] for cell in self.columns]
        ranks = hits.ranks[:, columns]
        inside = (ranks > 0) & (ranks <= K)
        found = np.zeros((len(labels), len(columns)), np.bool_)
        found[place] = inside
        self.hits.append(found)
        worth = np.where(inside, 1 / np.log2(np.maximum(ranks, 1) + 1), 0.0)
        ideal = np.cumsum(1 / np.log2(np.arange(2, K + 2)))[np.minimum(np.maximum(number, 1), K) - 1]
        gain = np.zeros((len(judged), len(columns)))
        np.add.at(gain, hits.text, worth / ideal[hits.text][:, None])
        self.gains.append(gain[judged])

    def lines(self, deployed: str = "") -> list[str]:
        """The table; the strategy that is deployed is bold."""
        band, found, gain = np.concatenate(self.bands), np.concatenate(self.hits), np.concatenate(self.gains)
        singles = [n for n, cell in enumerate(self.columns) if cell.normalization == SINGLE]
        counts = np.bincount(band, minlength=len(BAND_NAMES))
        shares = np.stack([np.bincount(band, of, len(BAND_NAMES)) for of in found.T]) / np.maximum(counts, 1)
        best = np.array(singles)[shares[singles].argmax(axis=0)]
        rows = [
            f"| found in the first {K}, by training texts | {' | '.join(BAND_NAMES)} | nDCG@{K} | bands lost |",
            "|---" * (len(BAND_NAMES) + 3) + "|",
            f"| pairs of test text and label | {' | '.join(f'{n:,}' for n in counts)} | | |",
            _line(
                "best single retriever of each band",
                shares[best, range(len(BAND_NAMES))],
                gain[:, singles].mean(axis=0).max(),
                "",
            ),
        ]
        for n, cell in enumerate(self.columns):
            lost = []
            for b, name in enumerate(BAND_NAMES):
                mine, theirs = found[band == b, n], found[band == b, best[b]]
                worse, better = int((theirs & ~mine).sum()), int((mine & ~theirs).sum())
                if counts[b] < FEWEST_PAIRS or worse <= better:
                    continue
                p = float(binomtest(worse, worse + better).pvalue)
                if p < 0.05:
                    lost.append(f"{name} (p = {p:.2g})")
            name = f"**{cell}**" if str(cell) == deployed else str(cell)
            rows.append(_line(name, shares[n], gain[:, n].mean(), ", ".join(lost) or "none"))
        return rows


def _line(name: str, shares: Floats, gain: float, lost: str) -> str:
    return f"| {name} | {' | '.join(f'{share:.3f}' for share in shares)} | {gain:.4f} | {lost} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--retrievers", default="bm25,static")
    parser.add_argument("--strategies", default="auto")
    parser.add_argument("--write", action="store_true", help="write results/bands-DATASET.md")
    arguments = parser.parse_args()
    config = load_config(
        arguments.config,
        {
            "work.path": arguments.work,
            "retrievers": arguments.retrievers,
            "tune.strategies": arguments.strategies,
            "tune.curve": [],
            "evaluate.label_groups": ALL,
            "grid.engine": "local",
        },
    )
    lines = measured(config)
    print("\n".join(lines))
    if arguments.write:
        (RESULTS / f"bands-{config.dataset}.md").write_text("\n".join([*lines, ""]))


def measured(config: Config) -> list[str]:
    config = with_inputs(config)
    tables = InputTables(LocalEngine(), Sources.of(config.inputs))
    start = time.perf_counter()
    tuner = Tuner.of(tables, config)
    tuned = tuner.tune()
    seconds = time.perf_counter() - start
    for choice in tuned.by_fold:
        print(choice.strategy, choice.fold, choice.model, choice.held_out)
    assert tuned.tuning.train_texts is not None
    lists = load_lists(tables, True, config.evaluate.relevant_from)
    evaluation = EvaluationPlan(
        lists.layout, tuple(PLAIN), (ALL,), "group", tuner.evaluation.metrics, strategies=tuned.tuning.strategies
    )
    found = Found(evaluation)
    for batch in test_batches(lists, tuned.tuning.train_texts):
        found.add(batch)
    names = ", ".join(lists.layout.retrievers)
    about = (
        f"{config.dataset}: {names}; {len(tuner.validation.serving)} folds; tuned in {seconds:.0f} s. Bold: deployed."
    )
    return [about, "", *found.lines(tuned.deployed[ALL])]


def test_batches(lists: ListRows[Any], train_texts: TrainTexts) -> Iterator[Batch]:
    """The texts of lists, with how frequent their labels are."""
    problems, rows = Problems(), lists.collect().sort_by("text_id")
    for table in whole_keys(iter(rows.to_batches(max_chunksize=AT_ONCE)), ["text_id"]):
        batch = read_texts(table, lists.layout, problems)
        assert not problems, problems
        if batch is not None:
            train_texts.attach(batch)
            yield batch


if __name__ == "__main__":
    main()
