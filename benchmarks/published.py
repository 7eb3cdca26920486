"""A dataset with one split, as others report on it: retrievers and fusions next to published figures.

    python -m benchmarks.published --config conf/datasets/eurlex57k-published.yaml --folder FOLDER [--work WORK]
                                   [--retrievers bm25,static] [--set retrievers.static.epochs=3 ...]
    python -m benchmarks.published --config conf/datasets/tibkat.yaml --folder FOLDER --by language kind

All choices are made on validation texts: those of `tune` and, for every retriever and strategy, the labels that a text
is assigned, for the greatest micro F1 (as `fit` does). Then the test texts are looked at. Seconds and memory are those
of a work folder without stages. Written to benchmarks/results/published-DATASET-RETRIEVERS.md.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.frequency_bands import RESULTS, Found, K, test_batches
from benchmarks.memory import TreeMemory
from benchmarks.registry_tables import markdown
from fusion.cells import SINGLE, Cell
from fusion.labels import ALL
from fusion.metrics import WHOLE, Metric
from fusion.models.bands import BAND_NAMES, BandModel, Bonus
from fusion.models.calibration import Calibration, Candidates, group_probabilities
from fusion.models.models import Model
from fusion.registry import METRICS
from fusion.tuning.assignment import Assignment, parse_aim
from fusion.types import Array, Ints
from jobs.datasets import prepare
from jobs.datasets.prepared import open_prepared
from jobs.engines.local import LocalEngine
from jobs.evaluation.model_file import ModelFile
from jobs.inputs.lists import load_lists
from jobs.inputs.sources import Sources
from jobs.inputs.stages import with_tables
from jobs.inputs.tables import InputTables
from jobs.prediction.fit import calibrated, validation_candidates
from jobs.reporting.formats import metric_name, percent
from jobs.reporting.published import published_figures
from jobs.retrievers import driver
from jobs.retrievers.stages import Work
from jobs.settings.config import Config, load_config
from jobs.storage.workspace import TEST, VALIDATION, Workspace
from jobs.tuning.tuner import Tuned, Tuner
from udfs.plan import EvaluationPlan
from udfs.prediction.candidates import text_keys
from udfs.problems import Problems
from udfs.query_figures import query_figures

LISTED = 16.0
"""What a single retriever's scores are raised by, so that labels that it lacks, which have 0, come last."""
ASSIGNED = Metric("micro-f1", WHOLE)
FOLD = 0
"""The only one."""


@dataclass
class Stages:
    """What each stage takes, with the processes that it starts."""

    rows: list[list[str]] = field(default_factory=list)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        start, before = time.perf_counter(), cpu_seconds()
        with TreeMemory(os.getpid()) as memory:
            yield
        seconds = time.perf_counter() - start, cpu_seconds() - before
        self.rows.append([name, *(f"{of:,.0f}" for of in seconds), f"{memory.peak / 2**20:,.0f}"])


def cpu_seconds() -> float:
    """Of this process and of those that it has waited for, which do not count what else the machine does."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(of.ru_utime + of.ru_stime for of in used)


class Assigned(NamedTuple):
    """The labels that are assigned to texts: the number of the text, the label group, and whether it is relevant."""

    text: Ints
    group: Array
    relevant: Array


@dataclass
class Tested:
    """How retrievers and strategies do on test texts, text by text."""

    groups: tuple[str, ...]
    ids: list[Any] = field(default_factory=list)
    labels: dict[str, list[Ints]] = field(default_factory=lambda: defaultdict(list))
    """By label group, the number of relevant labels of each text."""
    figures: dict[tuple[Cell, str], list[pa.RecordBatch]] = field(default_factory=lambda: defaultdict(list))
    """By cell and label group."""
    assigned: dict[Cell, Assigned] = field(default_factory=dict)

    def mean(self, cell: Cell, group: str, metric: Metric, texts: set[Any] | None) -> float:
        """Over some texts, or all. The best possible ranking within a group is that of its own labels."""
        name = f"{metric}_group" if group != ALL and METRICS[metric.name].ideal else str(metric)
        values = [
            value
            for batch in self.figures[cell, group]
            for text, value in zip(batch["text_id"].to_pylist(), batch[name].to_pylist(), strict=True)
            if texts is None or text in texts
        ]
        return float(np.mean(values))

    def micro_f1(self, cell: Cell, group: str, texts: set[Any] | None) -> float:
        """Of the labels of a group among those that are assigned to some texts."""
        assigned = self.assigned[cell]
        chosen = np.array([texts is None or text in texts for text in self.ids])
        inside = np.isin(assigned.text, text_keys(pa.array(self.ids), FOLD)[chosen])
        if group != ALL:
            inside &= assigned.group == self.groups.index(group)
        relevant = np.concatenate(self.labels[group])[chosen].sum()
        return float(2 * assigned.relevant[inside].sum() / (inside.sum() + relevant))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", required=True)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--work", default="work")
    parser.add_argument("--retrievers", default="bm25,static")
    parser.add_argument("--set", action="append", default=[], help="one more setting: retrievers.static.epochs=3")
    parser.add_argument("--by", nargs="*", default=[], help="columns of the texts' file, for figures by their values")
    arguments = parser.parse_args()
    config = load_config(
        arguments.config,
        {
            "prepare.folder": arguments.folder,
            "work.path": arguments.work,
            "retrievers": arguments.retrievers,
            "grid.engine": "local",
            "tune.curve": [],
            **dict(setting.split("=", 1) for setting in arguments.set),
        },
    )
    text = "\n".join(measured(config, arguments.by))
    print(text)
    name = "-".join(["published", config.dataset.removesuffix("-published"), *config.retrievers])
    (RESULTS / f"{name}.md").write_text(text, encoding="utf-8")


def measured(config: Config, by: Sequence[str] = ()) -> Iterator[str]:
    """From the dataset's files to the page."""
    stages, engine, place = Stages(), LocalEngine(), Workspace.of(config)
    with stages.timed("prepare"):
        statistics = prepare.run(engine, config)
    work = Work(engine, open_prepared(engine, place.prepared), place)
    for entry in config.retrievers.entries():
        with stages.timed(entry.name):
            driver.retrieve(work, entry, config)
    config = with_tables(config, {name: place.candidate_lists(name) for name in config.retrievers})
    tables = InputTables(engine, Sources.of(config.inputs))
    with stages.timed("tune"):
        tuner = Tuner.of(tables, config)
        tuned = tuner.tune()
    with stages.timed("test"):
        tested, found = test_figures(config, tuner, tuned)
    fold = statistics["folds"][0]
    sizes = ", ".join(f"{fold[role]:,} {role}" for role in ("train", "validation", "test"))
    yield f"# {config.dataset}: {', '.join(config.retrievers)}\n"
    yield f"{sizes} texts, {statistics['labels']:,} labels; {os.cpu_count()} cores. In percent. Choices are made on"
    yield "validation texts; bold is the strategy that `tune` deploys.\n"
    if published_figures(config.dataset):
        yield "Systems with a year are quoted; [conf/published](../../conf/published) has their sources.\n"
    for group in (ALL, *tested.groups):
        yield f"## Labels: {group}\n"
        yield markdown(*group_table(config, tested, tuned, group))
    if by:
        yield f"## By {', '.join(by)}\n"
        yield markdown(*slice_table(config, tested, tuned, by))
    yield "## By the number of training texts of labels\n"
    yield "\n".join(found.lines(tuned.deployed[ALL]))
    yield f"\nFound in the first {K}; a band is lost where a sign test over pairs says so (p < 0.05).\n"
    yield "## What it takes\n"
    yield markdown(["stage", "seconds", "CPU seconds", "peak memory, MiB"], stages.rows)


def test_figures(config: Config, tuner: Tuner, tuned: Tuned) -> tuple[Tested, Found]:
    """All that is known of test texts."""
    lists = load_lists(tuner.tables, True, config.evaluate.relevant_from)
    layout, train_texts = lists.layout.of_read, tuned.tuning.train_texts
    assert train_texts is not None
    metrics = tuple(config.evaluate.parsed_metrics)
    plan = EvaluationPlan(layout, (), tuner.evaluation.views, "group", metrics, strategies=tuned.tuning.strategies)
    tested, found, problems = Tested(layout.group_names), Found(plan), Problems()
    for batch in test_batches(lists, train_texts):
        found.add(batch)
        judged = batch.judged
        tested.ids += batch.text_id.filter(pa.array(judged)).to_pylist()
        for group in plan.views:
            tested.labels[group].append(batch.texts.relevant_counts(layout.group_names, group)[judged])
        for figures in query_figures(plan)(iter([batch]), problems):
            if len(figures):
                cell = Cell(figures["normalization"][0].as_py(), figures["fusion"][0].as_py())
                tested.figures[cell, figures["label_group"][0].as_py()].append(figures)
    for cell in plan.columns:
        single = cell.normalization == SINGLE
        model = alone(cell.fusion) if single else tuned.tuning.strategies[cell].of(ALL, FOLD)
        tested.assigned[cell] = assigned(config, model, tuner)
    return tested, found


def alone(retriever: str) -> BandModel:
    """The scores of one list."""
    features = (f"{retriever}.listed", f"{retriever}.score")
    return BandModel(features, (LISTED, 1.0), (0.0, 0.0), (0.0,) * len(BAND_NAMES), Bonus(0.0, 1.0, K))


def assigned(config: Config, model: Model, tuner: Tuner) -> Assigned:
    """What test texts are assigned: as many labels, of such a probability, as is best on validation texts."""
    fusion = ModelFile(tuple(config.retrievers), "group", tuner.evaluation.policies, {ALL: model}, "")
    validation, test = (
        validation_candidates(
            load_lists(tuner.tables, True, config.evaluate.relevant_from, role=role), fusion, tuner.train_texts
        )
        for role in (VALIDATION, TEST)
    )
    curves, chosen, _ = calibrated(validation, parse_aim("f1"))
    rows = assigned_rows(test.candidates, curves, chosen)
    taken = test.candidates.some(rows)
    return Assigned(taken.text, taken.group, taken.relevant)


def assigned_rows(candidates: Candidates, curves: Mapping[str, Calibration], chosen: Assignment) -> Ints:
    """The candidates that are assigned: likely enough, and the best of their text."""
    text, group, names, score, _ = candidates
    likely = np.flatnonzero(group_probabilities(score, group, names, curves) >= chosen.threshold)
    likely = likely[np.lexsort((-score[likely], text[likely]))]
    first = np.flatnonzero(np.diff(text[likely], prepend=-1))
    place = np.arange(len(likely)) - np.repeat(first, np.diff(np.append(first, len(likely))))
    rows: Ints = likely[place < chosen.top]
    return rows


def group_table(config: Config, tested: Tested, tuned: Tuned, group: str) -> tuple[list[str], list[list[str]]]:
    """Ours, then what others published."""
    metrics = [*config.evaluate.parsed_metrics, ASSIGNED]
    rows = []
    for cell in sorted(
        dict.fromkeys(cell for cell, _ in tested.figures), key=lambda cell: cell.normalization != SINGLE
    ):
        name = cell.fusion if cell.normalization == SINGLE else str(cell)
        if str(cell) == "tuned+cell":
            name += f" ({tuned.tuning.strategies[cell].of(group, FOLD)})"
        rows.append(
            [f"**{name}**" if str(cell) == tuned.deployed[group] else name, *_figures(tested, cell, group, metrics)]
        )
    others: dict[tuple[int, str], dict[Metric, float]] = defaultdict(dict)
    for figure in published_figures(config.dataset):
        if figure.label_group == group:
            others[figure.year, figure.system][figure.metric] = figure.value
    for (year, system), values in sorted(others.items()):
        rows.append([f"{system}, {year}", *(percent(values.get(metric)) for metric in metrics)])
    return _header("", metrics), rows


def slice_table(config: Config, tested: Tested, tuned: Tuned, by: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """The retrievers, and what is deployed for all labels, on texts of each value of some columns."""
    prepared = config.prepare
    (part,) = (f"{prepared.folder}/{part.texts}" for part in prepared.parts)
    columns = pq.read_table(part, columns=[prepared.columns.text_id, *by]).to_pydict()
    ids = list(map(str, columns.pop(prepared.columns.text_id)))
    metrics = [*config.evaluate.parsed_metrics, ASSIGNED]
    cells = [Cell(SINGLE, name) for name in config.retrievers]
    cells += [cell for cell in tuned.tuning.strategies if str(cell) == tuned.deployed[ALL]]
    rows = []
    for values in columns.values():
        value_of = dict(zip(ids, values, strict=True))
        for value in sorted(set(values)):
            texts = {text for text in tested.ids if value_of[str(text)] == value}
            for cell in cells:
                name = cell.fusion if cell.normalization == SINGLE else str(cell)
                rows.append([value, f"{len(texts):,}", name, *_figures(tested, cell, ALL, metrics, texts)])
    return [", ".join(by), "texts", *_header("", metrics)], rows


def _header(first: str, metrics: Sequence[Metric]) -> list[str]:
    names = (f"{metric_name(metric.name)}{f'@{metric.k}' if metric.k else ''}" for metric in metrics[:-1])
    return [first, *names, "micro F1 of assigned labels"]


def _figures(
    tested: Tested, cell: Cell, group: str, metrics: Sequence[Metric], texts: set[Any] | None = None
) -> list[str]:
    means = [tested.mean(cell, group, metric, texts) for metric in metrics if metric != ASSIGNED]
    return [percent(value) for value in (*means, tested.micro_f1(cell, group, texts))]


if __name__ == "__main__":
    main()
