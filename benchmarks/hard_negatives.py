"""What hard negatives from BM25's lists do for `static`, on validation texts.

    python -m benchmarks.hard_negatives [--work FOLDER] [--parts 3] [--seeds 3] [--folder FOLDER] [--limit 12000]

Several folds of the demo and, with `--folder` (documents.parquet and labels.parquet, see conf/datasets/eurlex57k.yaml),
of EURLEX57K, at most `--limit` texts of each, by the workers' own code without Spark. Test texts are left out. What is
done already is kept in the work folder: a benchmark that was stopped goes on. Written to
benchmarks/results/hard_negatives.md.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import xmtc_fusion as xf
from benchmarks.one_fold import GROUPS, TOP, Dataset, OneFold
from benchmarks.retrievers import FAVOURITE
from fusion.grid import SINGLE
from fusion.types import Floats
from jobs.config import load_config
from jobs.retrieval.static import static_start
from jobs.settings.static import StaticSettings
from udfs.bm25 import Scoring
from udfs.fold_data import read_rows, role_texts
from udfs.static import LABELS, StaticSearch, StaticWork, search_static, tokenize_texts, train_fold
from udfs.storage import absolute

ROOT = Path(__file__).parents[1]
SLICES = ("tail", "head", "all")
MEASURES = ("MRR", *(f"{labels} nDCG@10" for labels in SLICES))


class Way(NamedTuple):
    """Labels drawn for every batch, and for every pair from so many that BM25 lists."""

    extra_labels: int
    hard_labels: int
    hard_among: int = 32

    def __str__(self) -> str:
        return "-".join(map(str, self))


PLAIN = Way(0, 0)


class Case(NamedTuple):
    """A dataset, and the ways to compare on it, the first of which is what the others are compared with."""

    title: str
    config: str
    ways: Sequence[Way]


DEMO = Case(
    "The demo",
    "debtags",
    [
        PLAIN,
        *(Way(0, hard, among) for among in (8, 32) for hard in (1, 2, 4)),
        *(Way(extra, 0) for extra in (256, 512)),
        Way(256, 2, 32),
    ],
)
EURLEX57K = Case(
    "EURLEX57K",
    "eurlex57k",
    [PLAIN, Way(0, 1, 8), Way(0, 1, 32), Way(0, 2, 32), Way(512, 0), Way(512, 1, 32)],
)


class Trial(NamedTuple):
    """The lists of the validation texts, their MRR, and the CPU seconds of training."""

    lists: str
    mrr: float
    seconds: float


class Trials(NamedTuple):
    """The trainings of a dataset: its settings, its folds, the ways to compare, the seeds."""

    settings: StaticSettings
    folds: Sequence[OneFold]
    ways: Sequence[Way]
    seeds: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", default="work/hard_negatives")
    parser.add_argument("--parts", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folder")
    parser.add_argument("--limit", type=int, default=12_000)
    arguments = parser.parse_args()
    text = "\n".join(report(arguments)) + "\n"
    (ROOT / "benchmarks" / "results" / "hard_negatives.md").write_text(text)
    print(text)


def eurlex57k(folder: Path) -> Dataset:
    """The dataset as it is published."""
    documents = pq.read_table(folder / "documents.parquet", columns=["celex_id", "text", "label_codes"]).to_pylist()
    labels = pq.read_table(folder / "labels.parquet", columns=["code", "name"]).to_pylist()
    texts = [
        {"text_id": n, "key": row["celex_id"], "text": row["text"], "labels": row["label_codes"]}
        for n, row in enumerate(documents)
    ]
    return Dataset(texts, [{"label": row["code"], "name": row["name"]} for row in labels])


def write_tokens(fold: OneFold, settings: StaticSettings) -> tuple[str, str]:
    """The tokens of texts and of label names, unless they are there."""
    paths = fold.folder / "text-tokens.parquet", fold.folder / "label-tokens.parquet"
    for path, table, number in zip(paths, ("samples", "words"), ("text_id", "id"), strict=True):
        if not path.exists():
            rows = read_rows(str(fold.folder / f"{table}.parquet"), [number, "text"]).rename_columns(["id", "text"])
            tokens = tokenize_texts(static_start(settings))(iter(rows.combine_chunks().to_batches()))
            pq.write_table(pa.Table.from_batches(tokens), path)
    return str(paths[0]), str(paths[1])


def trial(fold: OneFold, way: Way, settings: StaticSettings) -> Trial:
    """Train a fold and list the labels of its validation texts, unless that is done."""
    name = fold.folder / f"{way}-seed-{settings.seed}"
    path, lists = name.with_suffix(".json"), name.with_suffix(".parquet")
    if not path.exists():
        tokens, folder = write_tokens(fold, settings), absolute(str(name))
        start, training, validation = static_start(settings), settings.training, settings.validation_texts
        work = StaticWork(*tokens, start, training, validation, settings.frequency_bias, GROUPS)
        begin = time.process_time()
        trained = train_fold(folder, work)(fold.source())
        seconds = time.process_time() - begin
        rows = pq.read_table(tokens[0], filters=_validation(fold, "id")).rename_columns(["text_id", "tokens", "counts"])
        rows = rows.append_column("fold", pa.array(np.zeros(len(rows), np.int32))).combine_chunks()
        search = search_static(StaticSearch(LABELS, folder, "", GROUPS, Scoring(1, "max", TOP)))
        listed = pa.Table.from_batches(search(iter(rows.to_batches())))
        pq.write_table(listed.drop_columns(["fold", "retriever"]), lists)
        shutil.rmtree(folder)
        path.write_text(json.dumps([trained["mrr"][trained["best"]], seconds]))
        print(path, path.read_text(), flush=True)
    return Trial(str(lists), *json.loads(path.read_text()))


def figures(fold: OneFold, trials: Mapping[Way, Trial]) -> Floats:
    """The measures in percent and the CPU seconds, a row per way."""
    evaluation = xf.evaluate(
        pq.read_table(fold.folder / "samples.parquet", filters=_validation(fold, "text_id")),
        {str(way): trial.lists for way, trial in trials.items()},
        metrics="ndcg@10",
        cells=[str(FAVOURITE)],
        label_groups=str(fold.folder / "labels.parquet"),
        engine="local",
        settings={"evaluate.details": False},
    )
    rows = [row for row in evaluation.metrics.to_pylist() if row["ideal"] == "all" and row["normalization"] == SINGLE]
    ndcg = {(row["fusion"], row["label_group"]): row["value"] for row in rows}
    return np.array(
        [
            [100 * trial.mrr, *(100 * ndcg[str(way), group] for group in SLICES), trial.seconds]
            for way, trial in trials.items()
        ]
    )


def _validation(fold: OneFold, column: str) -> Any:
    return pc.field(column).isin(role_texts(fold.source(), "validation"))


def table(trials: Trials) -> Iterator[str]:
    """A row per way: means over folds and seeds, and the mean difference from the first way with its standard error."""
    yield f"| extra_labels | hard_labels | hard_among | {' | '.join(MEASURES)} | CPU s |"
    yield "|---:|" + "---:|" * (len(MEASURES) + 3)
    found = []
    for seed in range(trials.seeds):
        for fold in trials.folds:
            chosen = {way: trials.settings.model_copy(update={**way._asdict(), "seed": seed}) for way in trials.ways}
            found.append(figures(fold, {way: trial(fold, way, settings) for way, settings in chosen.items()}))
    for way, values in zip(trials.ways, np.stack(found, axis=1), strict=True):
        shown = [compared(*columns) for columns in zip(values.T, np.array(found)[:, 0].T, strict=True)][: len(MEASURES)]
        among = way.hard_among if way.hard_labels else ""
        yield f"| {way.extra_labels} | {way.hard_labels} | {among} | {' | '.join(shown)} | {values[:, -1].mean():.1f} |"


def compared(values: Floats, plain: Floats) -> str:
    """A mean, and its difference from another with the standard error of pairs."""
    difference = values - plain
    if not difference.any():
        return f"{values.mean():.2f}"
    return f"{values.mean():.2f} ({difference.mean():+.2f} ± {difference.std(ddof=1) / np.sqrt(len(values)):.2f})"


def section(arguments: argparse.Namespace, case: Case, published: Dataset | None = None) -> Iterator[str]:
    folds = [OneFold(Path(arguments.work) / f"{case.config}-{part}", part) for part in range(arguments.parts)]
    counts, *_ = [fold.write(arguments.limit, published) for fold in folds]
    settings = load_config(str(ROOT / "conf" / "datasets" / f"{case.config}.yaml"), {}).static
    yield f"## {case.title}"
    yield ""
    yield f"{counts['texts']:,} texts, {counts['labels']:,} labels; the first fold has {counts['train']:,} training"
    yield f"texts ({counts['pairs']:,} pairs) and {counts['validation']:,} validation texts. Batches of"
    yield f"{settings.train_batch} pairs, {settings.epochs} epochs."
    yield ""
    yield from table(Trials(settings, folds, case.ways, arguments.seeds))


def report(arguments: argparse.Namespace) -> Iterator[str]:
    """The tables in Markdown."""
    yield "# Hard negatives of the static bi-encoder, on validation texts"
    yield ""
    yield f"Means of {arguments.parts} folds and {arguments.seeds} seeds of each, in percent; in brackets the"
    yield "difference from the first row, by fold and seed, with its standard error. That is the noise of training: the"
    yield "folds have most of their validation texts in common. MRR is over all labels, and the epoch in which it is"
    yield "best is kept. CPU seconds are those of training a fold, the search by BM25 included."
    yield ""
    yield from section(arguments, DEMO)
    if arguments.folder:
        yield ""
        yield from section(arguments, EURLEX57K, eurlex57k(Path(arguments.folder)))


if __name__ == "__main__":
    main()
