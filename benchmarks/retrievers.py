"""Each retriever alone, the best pair, all together, and what each adds to the others.

    python -m benchmarks.retrievers [--config conf/datasets/debtags.yaml] [--folder FOLDER] [--work FOLDER]
                                    [--retrievers bm25,dense,static] [--set retrievers.dense.max_length=64 ...]

Every subset of the retrievers is fused in every way of the grid, in one pass (grid.subsets: all); with more than three
retrievers, in nine ways. The figures are means over the folds in percent; tests are over all texts. Written to
benchmarks/results/retrievers-DATASET.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fusion.cells import SINGLE, Cell
from fusion.names import print_subset
from jobs.datasets import prepare
from jobs.datasets.prepared import dataset_engine
from jobs.engines.session import get_session
from jobs.evaluation import evaluate
from jobs.evaluation import pipeline as pipeline
from jobs.evaluation.result import Result
from jobs.retrievers import driver
from jobs.settings.config import Config, load_config

ROOT = Path(__file__).parents[1]
ASPECTS = [(group, metric, k) for group in ("tail", "head") for metric, k in (("ndcg", 10), ("precision", 1))]
FAVOURITE = Cell("zmuv", "combmnz")
FEW = {"grid.normalizations": ["min-max", "sum", "zmuv"], "grid.fusions": ["combsum", "combmnz", "isr"]}
"""The ways in which more than three retrievers are fused, whose subsets are many."""
Aspect = tuple[str, str, int]


class Figures(NamedTuple):
    """The mean over the folds of every cell, by aspect, and the tables of the evaluation."""

    of: dict[Aspect, dict[Cell, float]]
    result: Result
    retrievers: Sequence[str]

    def best(self, aspect: Aspect, sizes: Sequence[int]) -> tuple[Cell, float]:
        """The best cell over a number of retrievers; one means a single retriever."""
        values = {cell: value for cell, value in self.of[aspect].items() if self._size(cell) in sizes}
        cell = max(values, key=lambda cell: values[cell])
        return cell, values[cell]

    def _size(self, cell: Cell) -> int:
        return 1 if cell.normalization == SINGLE else len(cell.subset) or len(self.retrievers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default=str(ROOT / "conf" / "datasets" / "debtags.yaml"))
    parser.add_argument("--folder")
    parser.add_argument("--work", default="work")
    parser.add_argument("--retrievers", default="bm25,dense,static")
    parser.add_argument("--set", action="append", default=[], help="one more setting: retrievers.static.epochs=3")
    arguments = parser.parse_args()
    settings: dict[str, Any] = {
        "work.path": arguments.work,
        "retrievers": arguments.retrievers,
        "grid.subsets": "all",
        "evaluate.metrics": ["ndcg@10", "precision@1"],
        "evaluate.label_groups": ["tail", "head"],
        "evaluate.randomizations": 0,
        "evaluate.examples": 0,
        **(FEW if arguments.retrievers.count(",") > 2 else {}),
        **dict(setting.split("=", 1) for setting in arguments.set),
    }
    if arguments.folder:
        settings["prepare.folder"] = arguments.folder
    config = load_config(arguments.config, settings)
    spark = get_session(config.spark)
    engine = dataset_engine(config, spark)
    statistics = prepare.run(engine, config)
    tables = driver.run(engine, config)
    result = evaluate.compute(spark, without_output(pipeline.evaluated(config, tables)))
    about = f"{statistics['texts']:,} texts, {statistics['labels']:,} labels, {config.prepare.folds} folds"
    lines = [f"# Retrievers on {config.dataset}: {about}", "", *report(figures(result, list(tables)))]
    text = "\n".join(lines) + "\n"
    (Path(__file__).parent / "results" / f"retrievers-{config.dataset}.md").write_text(text)
    print(text)


def without_output(config: Config) -> Config:
    return config.model_copy(update={"output": config.output.model_copy(update={"path": None})})


def figures(result: Result, retrievers: Sequence[str]) -> Figures:
    values: dict[Aspect, dict[Cell, list[float]]] = {aspect: {} for aspect in ASPECTS}
    for row in result.metrics.to_pylist():
        aspect = (row["label_group"], row["metric"], row["k"])
        if row["ideal"] == "all" and aspect in values and row["value"] is not None:
            values[aspect].setdefault(Cell(row["normalization"], row["fusion"]), []).append(100 * row["value"])
    means = {aspect: {cell: float(np.mean(of)) for cell, of in cells.items()} for aspect, cells in values.items()}
    return Figures(means, result, retrievers)


def report(found: Figures) -> Iterator[str]:
    """The tables in Markdown."""
    names = found.retrievers
    yield f"| | {' | '.join(map(aspect_name, ASPECTS))} |"
    yield "|---|" + "---:|" * len(ASPECTS)
    for name in names:
        yield f"| {name} alone | {' | '.join(_all(found, Cell(SINGLE, name)))} |"
    sizes = {"best pair": [2]}
    if len(names) > 2:
        sizes |= {f"all {len(names)}": [len(names)], "best of all sets": list(range(2, len(names) + 1))}
    for label, of in sizes.items():
        best = (found.best(aspect, of) for aspect in ASPECTS)
        yield f"| {label} | {' | '.join(f'{value:.1f} ({cell})' for cell, value in best)} |"
    yield f"| all {len(names)}, {FAVOURITE} | {' | '.join(_all(found, FAVOURITE))} |"
    yield from ["", "## The best fusion against the best retriever", "", *tested(found)]
    yield from ["", "## What each retriever adds to the others", "", *added(found)]


def p_text(p: float) -> str:
    return f"p = {p:.2g}" if p >= 1e-99 else "p < 1e-99"


def _all(found: Figures, cell: Cell) -> Iterator[str]:
    return (f"{found.of[aspect][cell]:.1f}" for aspect in ASPECTS)


def aspect_name(aspect: Aspect) -> str:
    group, metric, k = aspect
    return f"{group} {metric}@{k}"


def tested(found: Figures) -> Iterator[str]:
    """Whether the best fusion differs from the best retriever."""
    rows = found.result.details["comparisons"].to_pylist()
    for aspect in ASPECTS:
        cell, value = found.best(aspect, range(2, len(found.retrievers) + 1))
        single, alone = found.best(aspect, [1])
        compared = next(
            row
            for row in rows
            if _is_of(row, aspect)
            and row["ideal"] == "all"
            and (row["normalization"], row["fusion"]) == cell
            and (row["against_normalization"], row["against_fusion"]) == single
        )
        interval = f"[{100 * compared['low']:+.1f}, {100 * compared['high']:+.1f}]"
        gain = f"{value - alone:+.1f} {interval}, {p_text(compared['p'])}"
        yield f"- {aspect_name(aspect)}: {cell} {value:.1f}, {single.fusion} {alone:.1f}: {gain}"


def added(found: Figures) -> Iterator[str]:
    """By how much each retriever improves the fusion of all others, in points."""
    rows = found.result.details["additions"].to_pylist()
    yield f"Points, as {FAVOURITE} and, in brackets, as the best cell with it and the best cell without it."
    yield ""
    yield f"| retriever | {' | '.join(map(aspect_name, ASPECTS))} |"
    yield "|---|" + "---:|" * len(ASPECTS)
    for name in found.retrievers:
        others = [other for other in found.retrievers if other != name]
        cells = []
        for aspect in ASPECTS:
            of = [row for row in rows if _is_of(row, aspect) and row["retriever"] == name]
            of = [row for row in of if row["others"] == print_subset(others)]
            favourite = next(row for row in of if (row["normalization"], row["fusion"]) == FAVOURITE)
            best = max(row["value"] for row in of) - max(row["others_value"] for row in of)
            shown = f"{100 * favourite['difference']:+.1f}, {p_text(favourite['p'])}"
            cells.append(f"{shown} ({100 * best:+.1f})")
        yield f"| {name} | {' | '.join(cells)} |"


def _is_of(row: dict[str, Any], aspect: Aspect) -> bool:
    return (row["label_group"], row["metric"], row["k"]) == aspect


if __name__ == "__main__":
    main()
