"""What tuning and learning cost, and what they are worth on a dataset.

    python -m benchmarks.tuning [--texts 2000] [--learning-texts 5700] [--results FOLDER]

Costs: 2 retrievers x 2 label groups x 64 labels per text; tail, head and all labels; the engine `local`, nDCG@10.
Seconds are those of one core's work, the least of several rounds that take turns. `--results`: a folder that
`xmtc-fusion tune` wrote, whose figures go to results/tuned-DATASET.md; with `--texts 0`, these alone.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.data import write_data
from fusion.cells import ANY_FOLD, Cell
from fusion.grid.grid import Grid
from fusion.metrics import parse_metrics
from fusion.models.models import Model
from fusion.models.strategies import LAMBDAMART, LOGISTIC, STRATEGIES, Strategy
from fusion.tuning.search import parameter_cells, weighted_cells
from jobs.engines.local import LocalEngine
from jobs.inputs.lists import ListRows, load_lists
from jobs.inputs.sources import Sources
from jobs.inputs.tables import InputTables
from jobs.settings.config import load_config
from jobs.tuning.learning import Learner, kinds_of
from jobs.tuning.validation import count_cells
from udfs.plan import EvaluationPlan
from udfs.tuning import Parting, TrainTexts

T = TypeVar("T")
RESULTS = Path(__file__).parent / "results"
ROUNDS = 20
SETTINGS = 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=2_000)
    parser.add_argument("--learning-texts", type=int, default=5_700)
    parser.add_argument("--results", type=Path, action="append", default=[])
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "xmtc-fusion-bench")
    arguments = parser.parse_args()
    if arguments.texts:
        _write("tuning.md", costs(arguments.texts, arguments.learning_texts, arguments.data))
    for folder in arguments.results:
        _write(f"tuned-{load_config(str(folder / 'config.yaml')).dataset}.md", figures(folder))


def _write(name: str, lines: list[str]) -> None:
    text = "\n".join([*lines, ""])
    (RESULTS / name).write_text(text)
    print(text)


def costs(texts: int, learning_texts: int, data: Path) -> list[str]:
    """Passes with many settings and with learned fusions next to the pass of the grid; and the training itself."""
    settings = load_config(None, {**write_data(data / f"{learning_texts}-tuning", learning_texts)})
    lists = load_lists(InputTables(LocalEngine(), Sources.of(settings.inputs)), True, count_labels=True)
    train_texts, views = _counts(lists), lists.layout.views
    plain = EvaluationPlan(
        lists.layout, tuple(Grid.of("all", "all").cells), views, "group", tuple(parse_metrics("ndcg@10"))
    )
    learner = Learner(
        replace(plain, cells=()), settings.tune.goal, {view: (view,) for view in views}, train_texts, Parting(0), []
    )
    # What is compiled, is compiled before anything is timed.
    few = _first_texts(lists, 100)
    kinds = kinds_of([LOGISTIC, LAMBDAMART], settings.tune)
    replace(learner, kinds=kinds).learn(few, (0,))
    many = [*parameter_cells(), *plain.cells]
    many = (many + weighted_cells(lists.layout.retrievers, 10**9))[:SETTINGS]
    evaluations = {"the grid's 60 cells": plain, "cells, weights and parameters": replace(plain, cells=tuple(many))}
    trained: dict[Cell, list[float]] = {}
    for kind in kinds:
        learned, *trained[kind.cell] = _taken(replace(learner, kinds=[kind]).learn, lists, (0,))
        models = {view: learned[kind.cell, view].model for view in views}
        evaluations[f"the grid and {kind.cell} ({_options(models)})"] = _with(plain, kind.cell, models)
    rows = learner.rows(lists.collect())
    for number, (leaves, trees) in enumerate(settings.tune.trees):
        models = {view: learner.trained(kinds[-1], rows[view], number) for view in views}
        evaluations[f"the grid and {LAMBDAMART}, all with {trees} trees of {leaves} leaves"] = _with(
            plain, LAMBDAMART, models
        )
    measured = _measured(evaluations, _first_texts(lists, texts), train_texts)
    grid = next(iter(measured.values()))
    lines = [
        f"| one pass over {texts:,} texts | settings | microseconds of a core per text | times the grid |",
        "|---|---|---|---|",
    ]
    for name, seconds in measured.items():
        number = len(evaluations[name].cells) + len(evaluations[name].strategies)
        lines.append(f"| {name} | {number} | {seconds / texts * 1e6:.0f} | {seconds / grid:.2f} |")
    cores = len(os.sched_getaffinity(0))
    lines += [
        "",
        f"Least of {ROUNDS} rounds that take turns. Learning from {learning_texts:,} texts, cores: {cores}. As `tune`",
    ]
    lines += [
        "does for a fold, for tail, head and all labels: features, every option on both halves, the best on all.",
        "",
    ]
    lines += ["| | seconds of a core's work | seconds |", "|---|---|---|"]
    lines += [f"| {cell} | {cpu:.1f} | {wall:.1f} |" for cell, (cpu, wall) in trained.items()]
    return lines


def _with(plain: EvaluationPlan, cell: Cell, models: Mapping[str, Model]) -> EvaluationPlan:
    return replace(plain, strategies={cell: Strategy({view: {ANY_FOLD: model} for view, model in models.items()})})


def _options(models: Mapping[str, Model]) -> str:
    """What was chosen for each label group."""
    return "; ".join(f"{view}: {str(model).split(':')[0]}" for view, model in models.items())


def _taken(action: Callable[..., T], *arguments: Any) -> tuple[T, float, float]:
    """What an action gives, its seconds of a core's work and those of the clock."""
    work, clock = time.process_time(), time.perf_counter()
    result = action(*arguments)
    return result, time.process_time() - work, time.perf_counter() - clock


def _measured(
    evaluations: Mapping[str, EvaluationPlan], lists: ListRows[Any], train_texts: TrainTexts
) -> dict[str, float]:
    measured: dict[str, list[float]] = defaultdict(list)
    for round_number in range(ROUNDS + 1):
        for name, evaluation in evaluations.items():
            known = train_texts if evaluation.strategies else None
            _, work, _ = _taken(count_cells, lists, evaluation, None, known)
            # The first round compiles.
            if round_number:
                measured[name].append(work)
    return {name: min(seconds) for name, seconds in measured.items()}


def _counts(lists: ListRows[Any]) -> TrainTexts:
    """As if the texts themselves were the training texts: what matters here is the time it takes."""
    assert lists.frequencies is not None
    ids, counts = lists.frequencies
    return TrainTexts(np.array([ANY_FOLD]), ids, np.append(counts, 0)[None].astype(np.int32), float(counts.max()))


def _first_texts(lists: ListRows[Any], texts: int) -> ListRows[Any]:
    rows = lists.collect()
    last = np.unique(rows["text_id"].to_numpy())[:texts][-1]
    return ListRows.of_read(rows.filter(pa.array(rows["text_id"].to_numpy() <= last)), lists)


def figures(folder: Path) -> list[str]:
    """Fixed, tuned and learned side by side, tested over texts against the fixed cell that validation texts chose."""
    metrics = pq.read_table(folder / "metrics.parquet").to_pylist()
    values: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for row in metrics:
        if row["ideal"] == "all" and row["value"] is not None:
            cell = f"{row['normalization']}+{row['fusion']}"
            values[row["label_group"], cell, f"{row['metric']}@{row['k']}"].append(100 * row["value"])
    means = {key: float(np.mean(folds)) for key, folds in values.items()}
    tests = _tests(folder)
    lines = [
        "| labels | | ndcg@10 | precision@1 | ndcg@10 against tuned+cell, 95% interval, p |",
        "|---|---|---|---|---|",
    ]
    for view in ("tail", "head", "all"):
        fixed = [
            cell
            for of, cell, measure in means
            if of == view and measure == "ndcg@10" and not cell.startswith(("tuned", "learned", "single"))
        ]
        singles = [
            cell for of, cell, measure in means if (of, measure) == (view, "ndcg@10") and cell.startswith("single")
        ]
        best = max(fixed, key=lambda cell: means[view, cell, "ndcg@10"])
        strategies = [name for name in map(str, STRATEGIES) if (view, name, "ndcg@10") in means]
        for cell in [*singles, best, *strategies]:
            shown = f"{cell}, best of the grid on test texts" if cell == best else cell.replace("single+", "")
            first, second = (means[view, cell, measure] for measure in ("ndcg@10", "precision@1"))
            lines.append(f"| {view} | {shown} | {first:.2f} | {second:.2f} | {tests.get((view, cell), '')} |")
    return lines


def _tests(folder: Path) -> dict[tuple[str, str], str]:
    if not (folder / "pairs.parquet").exists():
        return {}
    found = {}
    for row in pq.read_table(folder / "pairs.parquet").to_pylist():
        cells = [f"{row[f'{side}normalization']}+{row[f'{side}fusion']}" for side in ("", "against_")]
        if (row["metric"], row["k"]) == ("ndcg", 10) and "tuned+cell" in cells:
            sign, other = (-1, cells[1]) if cells[0] == "tuned+cell" else (1, cells[0])
            low, high = sorted((100 * sign * row["low"], 100 * sign * row["high"]))
            moved = 100 * sign * row["difference"]
            found[row["label_group"], other] = f"{moved:+.2f} [{low:+.2f}, {high:+.2f}], {row['p']:.2g}"
    return found


if __name__ == "__main__":
    main()
