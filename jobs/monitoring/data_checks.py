"""What the data must be like before they are evaluated: counted, and compared with bounds and with the baseline."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from fusion.errors import unknown_name
from jobs.config import Config
from jobs.datasets.roles import TEST
from jobs.inputs.local_tables import LocalTables
from jobs.inputs.roles import of_role
from jobs.inputs.sources import Sources, source_format
from jobs.runtime.engines import spark_reason
from jobs.settings.nightly import (
    AGE,
    EMPTY,
    GONE,
    LABELS,
    LISTS,
    NEW,
    PAIRS,
    TEXTS,
    UNLABELLED,
    CheckSettings,
)
from udfs.judgements import JUDGED_SCHEMA, judgement_digests
from udfs.storage import local_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATED, AGAINST = "stated bounds", "baseline"
"""What a check compares with."""
WORDS = {
    TEXTS: "judged texts",
    LABELS: "labels",
    PAIRS: "pairs of text and label",
    UNLABELLED: "share of judged texts without a label",
    GONE: "share of the baseline's texts that are gone",
    NEW: "share of texts that the baseline had not",
    LISTS: "texts with candidates of {}",
    EMPTY: "share of rows of {} without a label or score",
    AGE: "hours since {} was written",
    "seconds": "seconds that the dataset took",
    "peak_memory": "bytes of memory that the dataset took at most",
}


@dataclass(frozen=True)
class Counted:
    """What was counted about the inputs of a dataset."""

    quantities: dict[str, float]
    """By key: `texts`, `lists:bm25` and so on."""
    judged: pa.Table
    """The judged texts, each with a digest of its labels."""


class Check(NamedTuple):
    """A quantity, what it was compared with, and whether it is within bounds; None: no bound on that side."""

    quantity: str
    rule: str
    value: float
    before: float | None
    low: float | None
    high: float | None

    @property
    def alarm(self) -> bool:
        below = self.low is not None and self.value < self.low
        return below or (self.high is not None and self.value > self.high)

    def __str__(self) -> str:
        """As people read it."""
        bounds = [f"at least {_number(self.low)}"] if self.low is not None else []
        bounds += [f"at most {_number(self.high)}"] if self.high is not None else []
        was = f", {_number(self.before)} in the baseline" if self.before is not None else ""
        return f"{in_words(self.quantity)}: {_number(self.value)}{was}; allowed: {' and '.join(bounds) or 'anything'}"


def in_words(quantity: str) -> str:
    """A quantity as people read it."""
    kind, _, name = quantity.partition(":")
    return WORDS[kind].format(name)


def count_inputs(spark: SparkSession | None, config: Config) -> Counted:
    """Count what is to be evaluated, in this process where that can read it."""
    sources = Sources.of(config.inputs)
    local = config.grid.engine == "local" or (
        config.grid.engine == "auto" and spark_reason(config, sources, spark) is None
    )
    counted = _counted_locally(config) if local else _counted_on_spark(spark, config)
    return Counted({**counted.quantities, **_ages(sources)}, counted.judged)


def _counted_locally(config: Config) -> Counted:
    tables, source = LocalTables(), config.inputs.judgements
    assert source is not None
    judgements = tables.read_judgements(source, source)
    labels = tables.relevant_only(judgements, config.evaluate.relevant_from)["label_ids"]
    sizes = pc.fill_null(pc.list_value_length(labels), 0)
    flat = pc.list_flatten(labels).drop_null()
    digests = judgement_digests(iter(judgements.combine_chunks().to_batches()))
    judged = pa.Table.from_batches(digests, pa.schema([("text_id", pa.string()), ("judgement", pa.int64())]))
    quantities = _about_judgements(len(judgements), len(flat.unique()), len(flat), pc.sum(pc.equal(sizes, 0)).as_py())
    for name, run in _runs(tables, config).items():
        values = run["label_ids" if "label_ids" in run.column_names else "label_id"]
        scores = run["scores" if "scores" in run.column_names else "score"]
        without = pc.or_(_nothing(values), _nothing(scores))
        quantities[f"{LISTS}:{name}"] = float(len(run["text_id"].unique()))
        quantities[f"{EMPTY}:{name}"] = (pc.sum(without).as_py() or 0) / max(len(run), 1)
    return Counted(quantities, judged)


def _nothing(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whether an entry, or something in its list, is null, or its list is empty."""
    missing = pc.is_null(values)
    if pa.types.is_list(values.type):
        missing = pc.or_(missing, pc.equal(pc.fill_null(pc.list_value_length(values), 0), 0))
        holes = (
            [any(item is None for item in entry or ()) for entry in values.to_pylist()] if _has_holes(values) else None
        )
        missing = missing if holes is None else pc.or_(missing, pa.chunked_array([holes]))
    return missing


def _has_holes(values: pa.ChunkedArray) -> bool:
    return bool(pc.list_flatten(values).null_count)


def _runs(tables: Any, config: Config) -> dict[str, Any]:
    """The candidates of each retriever for test texts, as tables of an engine."""
    candidates = config.inputs.candidates

    def of_tests(source: Any) -> Any:
        return of_role(tables, tables.read_run(source, source), TEST, source)

    if isinstance(candidates, dict):
        return {name: of_tests(source) for name, source in candidates.items()}
    every = of_tests(candidates)
    if "retriever" not in tables.columns(every):
        return {"candidates": every}
    names = sorted(name for name in tables.distinct(every, "retriever") if name is not None)
    return {name: tables.equal(every, "retriever", name) for name in names}


def _counted_on_spark(spark: SparkSession | None, config: Config) -> Counted:
    from pyspark.sql import functions as F

    from jobs.inputs.spark_tables import SparkTables
    from jobs.runtime.session import get_session

    tables, source = SparkTables(spark or get_session(config.spark)), config.inputs.judgements
    assert source is not None
    judgements = tables.read_judgements(source, source)
    judged = judgements.mapInArrow(judgement_digests, JUDGED_SCHEMA).toArrow()
    relevant = tables.relevant_only(judgements, config.evaluate.relevant_from)
    pairs = relevant.select(F.explode("label_ids").alias("label")).where("label IS NOT NULL")
    sums = pairs.agg(F.countDistinct("label").alias("labels"), F.count("*").alias("pairs")).first()
    assert sums is not None
    without = relevant.where("label_ids IS NULL OR size(label_ids) = 0").count()
    quantities = _about_judgements(len(judged), sums["labels"], sums["pairs"], without)
    for name, run in _runs(tables, config).items():
        nothing = "label_id IS NULL OR score IS NULL"
        if "label_ids" in run.columns:
            nothing = (
                "label_ids IS NULL OR scores IS NULL OR size(label_ids) = 0 OR size(scores) = 0 "
                "OR exists(label_ids, x -> x IS NULL) OR exists(scores, x -> x IS NULL)"
            )
        counts = run.agg(
            F.countDistinct("text_id").alias("texts"),
            F.count("*").alias("rows"),
            F.sum(F.expr(f"if({nothing}, 1, 0)")).alias("without"),
        ).first()
        quantities[f"{LISTS}:{name}"] = float(counts["texts"])
        quantities[f"{EMPTY}:{name}"] = (counts["without"] or 0) / max(counts["rows"], 1)
    return Counted(quantities, judged)


def _about_judgements(texts: int, labels: int, pairs: int, without: int | None) -> dict[str, float]:
    share = (without or 0) / max(texts, 1)
    return {TEXTS: float(texts), LABELS: float(labels), PAIRS: float(pairs), UNLABELLED: share}


def _ages(sources: Sources) -> dict[str, float]:
    """How old each input is, in hours: the newest file of each, where files tell."""
    candidates = sources.candidates if isinstance(sources.candidates, Mapping) else {"candidates": sources.candidates}
    ages = {}
    for name, source in {**candidates, "judgements": sources.judgements}.items():
        if not isinstance(source, str):
            continue
        kind, path = source_format(source)
        local = local_folder(path) if kind != "table" else None
        if local is not None and local.exists():
            ages[f"{AGE}:{name}"] = (time.time() - _newest(local)) / 3600
    return ages


def _newest(path: Path) -> float:
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return max((file.stat().st_mtime for file in files), default=0.0)


def checks(
    counted: Counted, before: Mapping[str, float] | None, judged_before: pa.Table | None, settings: CheckSettings
) -> list[Check]:
    """Every bound that was stated, and every bound that follows from the baseline's quantities and texts."""
    quantities = dict(counted.quantities)
    if judged_before is not None:
        quantities |= _exchanged(judged_before, counted.judged)
    made = [
        Check(name, STATED, value, None, *_stated(name, settings))
        for name, value in quantities.items()
        if _stated(name, settings) != (None, None)
    ]
    for name, value in quantities.items():
        made += _against_baseline(name, value, before, settings)
    for name in sorted((before or {}).keys() - quantities.keys()):
        # A retriever that is gone has no lists any more.
        if name.startswith(f"{LISTS}:"):
            made += _against_baseline(name, 0.0, before, settings)
    return made


def idle_bounds(counted: Counted, settings: CheckSettings) -> list[str]:
    """Stated bounds that none of the quantities has, a sentence each. What compares with a baseline needs one."""
    kinds = {name.partition(":")[0] for name in counted.quantities} | {GONE, NEW}
    known = sorted({*kinds, *counted.quantities})
    idle = [
        f"nightly.checks.bounds: {unknown_name('quantity', name, known)}"
        for name in settings.bounds
        if name not in known
    ]
    if settings.oldest is not None and AGE not in kinds:
        idle.append("nightly.checks.oldest: no input tells when it was written")
    return idle


def _exchanged(before: pa.Table, tonight: pa.Table) -> dict[str, float]:
    ids, known = tonight["text_id"], before["text_id"]
    common = pc.sum(pc.is_in(ids, value_set=known.combine_chunks())).as_py() or 0
    return {GONE: 1 - common / max(len(known), 1), NEW: 1 - common / max(len(ids), 1)}


def _stated(name: str, settings: CheckSettings) -> tuple[float | None, float | None]:
    kind = name.partition(":")[0]
    low, high = settings.bounds.get(name, settings.bounds.get(kind, (None, None)))
    if kind == AGE and high is None:
        high = settings.oldest
    return low, high


def _against_baseline(
    name: str, value: float, before: Mapping[str, float] | None, settings: CheckSettings
) -> Iterable[Check]:
    """Counts may change by a share of what they were, shares by a difference."""
    kind = name.partition(":")[0]
    if kind in (GONE, NEW):
        allowed = settings.gone_texts if kind == GONE else settings.new_texts
        return [] if allowed is None else [Check(name, AGAINST, value, None, None, allowed)]
    was = (before or {}).get(name)
    allowed = {TEXTS: settings.texts, LABELS: settings.labels, PAIRS: settings.pairs, LISTS: settings.lists}.get(kind)
    if was is None or kind == AGE:
        return []
    if kind in (UNLABELLED, EMPTY):
        return [] if settings.nulls is None else [Check(name, AGAINST, value, was, None, was + settings.nulls)]
    if allowed is None:
        return []
    return [Check(name, AGAINST, value, was, was * (1 - allowed), was * (1 + allowed))]


def check_rows(made: Iterable[Check], counted: Counted) -> list[dict[str, Any]]:
    """The table `checks`: every quantity as it was counted, and every check of it."""
    plain = [
        {"quantity": name, "rule": None, "value": value, "alarm": False} for name, value in counted.quantities.items()
    ]
    return [*plain, *({**check._asdict(), "alarm": check.alarm} for check in made)]


def counted_before(rows: pa.Table | None) -> dict[str, float] | None:
    """The quantities of an earlier night, out of the table `checks`."""
    if rows is None:
        return None
    return {row["quantity"]: row["value"] for row in rows.to_pylist() if row["rule"] is None}


def _number(value: float | None) -> str:
    if value is None:
        return "unknown"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
