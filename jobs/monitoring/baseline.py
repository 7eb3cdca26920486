"""Tonight against the baseline: sums over texts for the gate, and what moved in the data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from fusion.errors import InputError
from fusion.grid import SINGLE, Cell
from fusion.metrics import Measure
from fusion.statistics.gate import Change, Sums, change
from fusion.statistics.paired import UNIT
from jobs.monitoring.history import History
from jobs.monitoring.reevaluate import LABEL_COUNTS, QUERIES, Evaluated
from jobs.reporting.formats import cell_name, input_count_text
from jobs.results.schemas import RUN_FILE
from jobs.runtime.folders import read_parquet, read_text
from jobs.settings.nightly import DriftSettings
from udfs.input_counts import EMPTY_LISTS, JUDGED, per_retriever, split_key

OVERLAP, LABEL_FREQUENCIES = "overlap", "label_frequencies"
"""What may drift beside the share of empty lists: how far two retrievers agree, and which labels are frequent."""
FIGURE_SCHEMA = (
    "normalization string, fusion string, label_group string, metric string, k int, "
    "mean double, low double, high double, queries long"
)
CELL = ["normalization", "fusion", "label_group"]


class Watched(NamedTuple):
    """A figure that must not fall, and the run it is compared with."""

    dataset: str
    label_group: str
    metric: str
    k: int
    normalization: str
    fusion: str
    against: str

    def __str__(self) -> str:
        measure = Measure(self.metric, self.k)
        return f"{self.label_group} {measure} of {cell_name(Cell(self.normalization, self.fusion))}"


class Quantity(NamedTuple):
    """Something about the data that may drift. What does not apply to its kind is empty."""

    kind: str
    retriever: str = ""
    other: str = ""
    label_group: str = ""

    def __str__(self) -> str:
        """As people read it."""
        if self.kind == OVERLAP:
            return f"overlap of {self.retriever} and {self.other} ({self.label_group} labels)"
        if self.kind == EMPTY_LISTS:
            return f"share of {input_count_text(per_retriever(self.kind, self.retriever))}"
        return self.kind.replace("_", " ")


class Moved(NamedTuple):
    """Something about the data: tonight's value, its change since the baseline, and whether that is too much."""

    value: float
    change: float | None
    allowed: float

    @property
    def alarm(self) -> bool:
        return self.change is not None and self.change > self.allowed


def watched_figures(spark: SparkSession, evaluated: Evaluated) -> DataFrame:
    """Tonight's watched figures over all texts, with 95% intervals."""
    measures = evaluated.config.nightly.watch.measures
    rows = []
    for cell, figures in _sums(_queries(spark, evaluated), [F.col(f"`{measure}`") for measure in measures]):
        for measure, sums in zip(measures, figures, strict=True):
            mean = change(sums, sums, sums, 0.0)
            rows.append((*cell, measure.metric, measure.k, mean.difference, mean.low, mean.high, sums.texts))
    return spark.createDataFrame(rows, FIGURE_SCHEMA)


def changes(
    spark: SparkSession, history: History, evaluated: Evaluated, baseline: str, tolerance: float
) -> dict[Watched, Change]:
    """Every watched figure that the baseline has, too."""
    before = history.read("query_figures", [baseline], evaluated.dataset)
    known = before.columns if before is not None else []
    measures = [measure for measure in evaluated.config.nightly.watch.measures if str(measure) in known]
    if before is None or not measures:
        return {}
    # A text whose judgement has changed counts as another text: its figure says nothing about the code.
    nights = _figures(before, measures, "a"), _figures(_queries(spark, evaluated), measures, "b")
    joined = nights[0].join(nights[1], [*CELL, "text_id", "judgement"], "full")
    columns = [
        F.expr(figure)
        for n in range(len(measures))
        for figure in (f"a{n}", f"b{n}", f"b{n} - a{n}", f"if(b{n} is null, null, a{n})")
    ]
    compared: dict[Watched, Change] = {}
    for (normalization, fusion, group), figures in _sums(joined, columns):
        for n, measure in enumerate(measures):
            a, b, both, kept = figures[4 * n : 4 * n + 4]
            if a.texts and b.texts:
                watched = Watched(evaluated.dataset, group, measure.metric, measure.k, normalization, fusion, baseline)
                compared[watched] = change(a, b, both, tolerance, kept)
    return compared


def drift(
    spark: SparkSession, history: History, evaluated: Evaluated, baseline: str | None, allowed: DriftSettings
) -> dict[Quantity, Moved]:
    """What is known about the data: how candidates overlap, how many lists are empty, which labels are frequent."""
    before: dict[Quantity, float] = {}
    rows = history.read("drift", [baseline], evaluated.dataset) if baseline is not None else None
    if rows is not None:
        missing = [name for name in Quantity._fields if name not in rows.columns]
        if missing:
            raise InputError(
                f"the table drift of the history lacks the column {missing[0]!r}, so another version wrote it: "
                "set nightly.history to another place"
            )
        before = {Quantity(*(row[name] for name in Quantity._fields)): row["value"] for row in rows.collect()}
    tonight: dict[Quantity, Moved] = {}
    for quantity, value, most in _quantities(evaluated, allowed):
        distance = abs(value - before[quantity]) if quantity in before else None
        tonight[quantity] = Moved(value, distance, most)
    frequencies = Quantity(LABEL_FREQUENCIES)
    # A retriever that is gone takes its quantities with it.
    for quantity in before.keys() - tonight.keys() - {frequencies}:
        tonight[quantity] = Moved(0.0, before[quantity] or 1.0, 0.0)
    labels = spark.read.parquet(f"{evaluated.path}/{LABEL_COUNTS}.parquet")
    counts = history.read(LABEL_COUNTS, [baseline], evaluated.dataset) if baseline is not None else None
    variation = _total_variation(counts, labels) if counts is not None else None
    tonight[frequencies] = Moved(float(labels.count()), variation, allowed.labels)
    return tonight


def drift_rows(spark: SparkSession, moved: dict[Quantity, Moved]) -> DataFrame:
    """The table `drift`: the key of a quantity, its words, and what became of it."""
    rows = [(*quantity, str(quantity), *movement, movement.alarm) for quantity, movement in moved.items()]
    key = ", ".join(f"{name} string" for name in Quantity._fields)
    schema = f"{key}, quantity string, value double, change double, allowed double, alarm boolean"
    return spark.createDataFrame(rows, schema)


def _quantities(evaluated: Evaluated, allowed: DriftSettings) -> Iterator[tuple[Quantity, float, float]]:
    agreement = read_parquet(f"{evaluated.path}/agreement.parquet")
    for row in agreement.to_pylist() if agreement is not None else []:
        if row["quantity"] == OVERLAP:
            quantity = Quantity(OVERLAP, row["retriever"], row["other"], row["label_group"])
            yield quantity, row["value"], allowed.overlap
    counts = json.loads(read_text(f"{evaluated.path}/{RUN_FILE}") or "{}").get("input_counts", {})
    for key, count in counts.items():
        kind, retriever = split_key(key)
        if kind == EMPTY_LISTS:
            yield Quantity(EMPTY_LISTS, retriever), count / max(counts[JUDGED], 1), allowed.empty_lists


def _total_variation(before: DataFrame, after: DataFrame) -> float:
    """Half the sum of the differences between two distributions: 0 if they are the same, 1 if they share nothing."""
    joined = before.select("label", F.col("texts").alias("a")).join(
        after.select("label", F.col("texts").alias("b")), "label", "full"
    )
    joined = joined.fillna(0)
    sums = joined.agg(F.sum("a").alias("a"), F.sum("b").alias("b")).first()
    if sums is None or not sums["a"] or not sums["b"]:
        return 1.0
    distance = F.sum(F.abs(F.col("a") / F.lit(sums["a"]) - F.col("b") / F.lit(sums["b"]))) / 2
    row = joined.agg(distance.alias("distance")).first()
    return float(row["distance"]) if row is not None else 1.0


def _queries(spark: SparkSession, evaluated: Evaluated) -> DataFrame:
    queries = spark.read.parquet(f"{evaluated.path}/{QUERIES}")
    return queries if evaluated.config.nightly.watch.retrievers else queries.where(F.col("normalization") != SINGLE)


def _figures(queries: DataFrame, measures: list[Measure], name: str) -> DataFrame:
    figures = [F.col(f"`{measure}`").alias(f"{name}{n}") for n, measure in enumerate(measures)]
    return queries.select(*CELL, F.col("text_id").cast("string"), "judgement", *figures)


def _sums(rows: DataFrame, figures: list[Column]) -> Iterator[tuple[tuple[str, str, str], list[Sums]]]:
    """Counts, sums and sums of squares of every cell: whole numbers of a unit, so that they do not depend on order."""
    sums = []
    for n, figure in enumerate(figures):
        whole = F.round(figure / F.lit(UNIT)).cast("long")
        sums += [F.count(whole).alias(f"n{n}"), F.sum(whole).alias(f"s{n}"), F.sum(whole * whole).alias(f"q{n}")]
    for row in rows.groupBy(*CELL).agg(*sums).orderBy(*CELL).collect():
        totals = [
            Sums(row[f"n{n}"], (row[f"s{n}"] or 0) * UNIT, (row[f"q{n}"] or 0) * UNIT**2) for n in range(len(figures))
        ]
        yield (row["normalization"], row["fusion"], row["label_group"]), totals
