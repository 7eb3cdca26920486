"""Each retriever alone, the best pair, all together, and what each adds to the others.

    python -m benchmarks.retrievers [--config conf/datasets/debtags.yaml] [--folder FOLDER] [--work FOLDER]
                                    [--retrievers bm25,dense,static] [--limit N]

For every set of retrievers the whole grid is evaluated, and its best cell counts. The figures are means over the folds
in percent; whether the best fusion differs from the best retriever is tested over all texts. Written to
benchmarks/results/retrievers-DATASET.md.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fusion.grid import SINGLE, Cell
from jobs import evaluate, prepare, retrieve
from jobs import run as pipeline
from jobs.config import Config, load_config
from jobs.results.result import Result
from jobs.runtime.session import get_session
from jobs.runtime.workspace import Workspace

ROOT = Path(__file__).parents[1]
COLUMNS = [(group, metric, k) for group in ("tail", "head") for metric, k in (("ndcg", 10), ("precision", 1))]
DECISIVE = COLUMNS[0]
FAVOURITE = Cell("zmuv", "combmnz")
Column = tuple[str, str, int]


class Figures(NamedTuple):
    """The mean over the folds of every cell, by column."""

    of: dict[Column, dict[Cell, float]]
    result: Result

    def best(self, column: Column) -> tuple[Cell, float]:
        fused = {cell: value for cell, value in self.of[column].items() if cell.normalization != SINGLE}
        cell = max(fused, key=lambda cell: fused[cell])
        return cell, fused[cell]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default=str(ROOT / "conf" / "datasets" / "debtags.yaml"))
    parser.add_argument("--folder")
    parser.add_argument("--work", default="work")
    parser.add_argument("--retrievers", default="bm25,bm25-labels,dense,dense-texts,static,static-texts,linear")
    parser.add_argument("--limit", type=int)
    arguments = parser.parse_args()
    settings: dict[str, Any] = {
        "work.path": arguments.work,
        "retrievers": arguments.retrievers,
        "evaluate.metrics": ["ndcg@10", "precision@1"],
        "evaluate.label_groups": ["tail", "head"],
        "prepare.limit": arguments.limit,
    }
    if arguments.folder:
        settings["prepare.folder"] = arguments.folder
    config = load_config(arguments.config, settings)
    spark = get_session(config.spark)
    statistics = prepare.run(spark, config)
    seconds, last = dict[str, float](), ["", time.monotonic()]

    def begin(name: str) -> None:
        seconds[last[0]], last[:] = time.monotonic() - last[1], [name, time.monotonic()]

    names = list(retrieve.run(spark, config, lambda entry: begin(entry.name)))
    begin("")
    tables = {name: Workspace.of(config).candidate_lists(name) for name in names}

    def figures_of(chosen: Sequence[str]) -> Figures:
        inputs = pipeline.evaluated(config, {name: tables[name] for name in chosen})
        return figures(evaluate.compute(spark, without_output(inputs)))

    lines = list(report(names, figures_of, seconds))
    about = f"{statistics['texts']:,} texts, {statistics['labels']:,} labels, {config.prepare.folds} folds"
    text = "\n".join([f"# Retrievers on {config.dataset}: {about}", "", *lines]) + "\n"
    (Path(__file__).parent / "results" / f"retrievers-{config.dataset}.md").write_text(text)
    print(text)


def without_output(config: Config) -> Config:
    return config.model_copy(update={"output": config.output.model_copy(update={"path": None})})


def figures(result: Result) -> Figures:
    values: dict[Column, dict[Cell, list[float]]] = {column: {} for column in COLUMNS}
    for row in result.metrics.to_pylist():
        column = (row["label_group"], row["metric"], row["k"])
        if row["ideal"] == "all" and column in values and row["value"] is not None:
            values[column].setdefault(Cell(row["normalization"], row["fusion"]), []).append(100 * row["value"])
    return Figures(
        {column: {cell: float(np.mean(folds)) for cell, folds in cells.items()} for column, cells in values.items()},
        result,
    )


def report(names: Sequence[str], figures_of: Any, seconds: dict[str, float]) -> Iterator[str]:
    """The tables in Markdown."""
    together = figures_of(names)
    pairs = {pair: figures_of(pair) for pair in combinations(names, 2)}
    header = " | ".join(f"{group} {metric}@{k}" for group, metric, k in COLUMNS)
    yield f"| | {header} | seconds |"
    yield "|---|" + "---:|" * (len(COLUMNS) + 1)
    for name in names:
        single = Cell(SINGLE, name)
        shown = " | ".join(f"{together.of[column][single]:.1f}" for column in COLUMNS)
        yield f"| {name} alone | {shown} | {seconds.get(name, 0):.0f} |"
    sets = {"best pair": None, "all together": together}
    if len(names) > 2:
        for name in names:
            sets[f"all but {name}"] = figures_of([other for other in names if other != name])
    for label, of in sets.items():
        cells = []
        for column in COLUMNS:
            pair, chosen = max(pairs.items(), key=lambda entry: entry[1].best(column)[1]) if of is None else ((), of)
            cell, value = chosen.best(column)
            cells.append(f"{value:.1f} ({', '.join([*pair, str(cell)])})")
        yield f"| {label} | {' | '.join(cells)} | |"
    favourite = " | ".join(f"{together.of[column][FAVOURITE]:.1f}" for column in COLUMNS)
    yield f"| all together, {FAVOURITE} | {favourite} | |"
    yield ""
    yield from tested(together)


def tested(together: Figures) -> Iterator[str]:
    """Whether the best fusion of all retrievers differs from the best retriever, over all texts."""
    rows = together.result.details["comparisons"].to_pylist()
    for column in COLUMNS:
        cell, value = together.best(column)
        singles = {name: mean for name, mean in together.of[column].items() if name.normalization == SINGLE}
        best = max(singles, key=lambda name: singles[name])
        group, metric, k = column
        compared = next(
            row
            for row in rows
            if (row["label_group"], row["metric"], row["k"], row["ideal"]) == (group, metric, k, "all")
            and (row["normalization"], row["fusion"]) == cell
            and (row["against_normalization"], row["against_fusion"]) == best
        )
        p = compared["p"]
        yield f"- {group} {metric}@{k}: {cell} {value:.1f} against {best.fusion} {singles[best]:.1f}, p = {p:.2g}"


if __name__ == "__main__":
    main()
