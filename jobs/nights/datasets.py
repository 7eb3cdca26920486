"""One dataset in one night: its inputs, its choices and its evaluation."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from fusion.cells import ANY_FOLD, TUNED, Cell
from fusion.digests import code_version
from fusion.errors import ConfigError, InputError
from fusion.models.strategies import CELL
from jobs.engines.choose import choose_engine
from jobs.evaluation import evaluate
from jobs.evaluation.evaluate import evaluated
from jobs.evaluation.result import Result
from jobs.inputs.labels import judged_texts, label_texts_of
from jobs.inputs.sources import Sources, source_address, source_format
from jobs.inputs.tables import InputTables
from jobs.nights.baseline import watched_queries
from jobs.reporting.formats import objective_name, percent
from jobs.settings.config import Config
from jobs.storage.folders import CONFIG_FILE, ResultFolder, read_parquet
from jobs.storage.stages import PACKAGES, fingerprint, input_fingerprint, run_stage, stage_fingerprint
from jobs.storage.workspace import Workspace
from udfs.plan import JUDGED
from udfs.stores.addresses import locate
from udfs.stores.objects import AT_HAND

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class OtherChoice(NamedTuple):
    """A strategy that chose otherwise in the baseline."""

    label_group: str
    strategy: str
    before: str
    against: str
    """The night that chose it."""
    now: str
    objective: str
    value: float
    """The objective of tonight's choice on tonight's validation texts."""

    def __str__(self) -> str:
        return (
            f"{self.label_group} labels: tonight's data would choose {self.now} ({objective_name(self.objective)} "
            f"{percent(self.value, 2)} on validation texts), not {self.before} ({self.against}), by {self.strategy}"
        )


def tuned_figures(
    spark: SparkSession | None, config: Config, watched_config: Callable[[set[str]], Config]
) -> tuple[Result, Result]:
    """The figures of all cells and of the watched strategies, and every text's figures of what is watched.

    `watched_config` gives the configuration of the latter for the label groups that there are.
    """
    from jobs.tuning.tuner import Tuner

    sources = Sources.of(config.inputs)
    tables = InputTables(choose_engine(config, sources.addresses(), spark), sources)
    wanted = list(dict.fromkeys([CELL, *config.nightly.watch.strategies]))
    # A night needs no learning curve, and no strategy that nobody watches but the one that tells another choice.
    chosen = config.tune.model_copy(update={"strategies": [str(cell) for cell in wanted], "curve": []})
    tuner = Tuner.of(tables, config.model_copy(update={"tune": chosen}))
    tuned = tuner.tune()
    if tuner.validation.test_parting is not None:
        # Examples are looked up by fold, and the input has none.
        config = config.model_copy(update={"evaluate": config.evaluate.model_copy(update={"examples": 0})})
    result = evaluated(tables, config, tuned.tuning)
    result.details["choices"], result.notes = tuned.choices, [tuner.validation.words]
    groups = set(result.metrics["label_group"].to_pylist())
    strategies = {cell: tuned.tuning.strategies[cell] for cell in config.nightly.watch.strategies}
    watched = evaluated(tables, watched_config(groups), replace(tuned.tuning, strategies=strategies))
    return result, watched


def overall_choices(choices: pa.Table | None) -> list[dict[str, Any]]:
    """The choices over all folds, as the history keeps them."""
    names = ("label_group", "strategy", "choice", "objective", "validation_value")
    rows = [] if choices is None else choices.to_pylist()
    return [{name: row[name] for name in names} for row in rows if row["fold"] == ANY_FOLD]


def other_choices(before: pa.Table | None, tonight: list[dict[str, Any]], against: str) -> list[OtherChoice]:
    """Where tonight's choice is not that of the baseline. Learned fusions differ every night and say nothing here."""
    rows = [] if before is None else before.to_pylist()
    known = {(row["label_group"], row["strategy"]): row["choice"] for row in rows}
    return [
        OtherChoice(
            label_group=row["label_group"],
            strategy=row["strategy"],
            before=was,
            against=against,
            now=row["choice"],
            objective=row["objective"],
            value=value,
        )
        for row in tonight
        if _is_tuned(row["strategy"])
        and (was := known.get((row["label_group"], row["strategy"]))) not in (None, row["choice"])
        and (value := row["validation_value"]) is not None
    ]


def _is_tuned(strategy: str) -> bool:
    return Cell(*strategy.split("+", 1)).normalization == TUNED


def inputs_of(spark: SparkSession | None, config: Config) -> dict[str, Any]:
    """A fingerprint of each input."""
    inputs = config.inputs.model_dump(mode="json")
    candidates = inputs.pop("candidates")
    named = {**inputs, **(candidates if isinstance(candidates, dict) else {"candidates": candidates})}
    return {name: _of_source(spark, config, source) for name, source in named.items()}


def brought_inputs(spark: SparkSession | None, config: Config) -> dict[str, Any]:
    """A fingerprint of each run that a user brings beside a prepared dataset."""
    brought = config.inputs.candidates if isinstance(config.inputs.candidates, dict) else {}
    return {name: _of_source(spark, config, source) for name, source in brought.items()}


def _of_source(spark: SparkSession | None, config: Config, source: Any) -> Any:
    """The fingerprint of the stage that wrote it, of its bytes (in a store, of their tags), or of its rows where only
    Spark can read it."""
    if not isinstance(source, str) or source in ("auto", "pareto", "none"):
        return source
    kind, path = source_format(source)
    if kind not in ("table", "parquet") or (kind == "parquet" and locate(path).kind in AT_HAND):
        return stage_fingerprint(path.rpartition("/")[0]) or input_fingerprint(path)
    from jobs.engines.session import get_session
    from jobs.engines.spark import SparkEngine

    session = spark or get_session(config.spark)
    return rows_fingerprint(SparkEngine(session).read(source_address(source)))


def rows_fingerprint(rows: DataFrame) -> list[Any]:
    """The number of rows and two sums over them that do not depend on their order.

    Sums, since in an exclusive or equal rows cancel each other out; JSON with its nulls, since Spark's hashes pass over
    nulls and would not see where they are.
    """
    from pyspark.sql import functions as F

    text = F.to_json(F.struct("*"), {"ignoreNullFields": "false"})
    hashes = [F.xxhash64(text), F.xxhash64(F.lit(1), text)]
    sums = [F.sum(value.cast("decimal(38,0)")).cast("string").alias(f"sum_{n}") for n, value in enumerate(hashes)]
    digest = rows.agg(F.count("*").alias("rows"), *sums).first()
    return [] if digest is None else list(digest)


LABEL_COUNTS, QUERIES, JUDGED_TEXTS = "label_counts", "query_metrics.parquet", "judged.parquet"


@dataclass(frozen=True)
class DatasetInputs:
    """The inputs of a dataset, brought up to date."""

    given: Config
    """As the night was asked."""
    config: Config
    """With the tables that earlier stages wrote as inputs."""
    file: str
    """The configuration file that names the dataset."""
    fingerprints: dict[str, str]
    """Of the data (each input, as JSON), the configuration and the code."""


@dataclass(frozen=True)
class DatasetResults:
    """The results of a dataset, in a folder that `report` reads, and the inputs that they follow from."""

    inputs: DatasetInputs
    path: str
    built: bool
    """False if nothing had changed."""
    _tables: dict[str, pa.Table] = field(default_factory=dict, repr=False, compare=False)

    def metrics(self) -> pa.Table:
        return self._table("metrics.parquet")

    def label_groups(self) -> set[str]:
        """Those that have figures, with all labels together as one of them."""
        return set(self.metrics()["label_group"].to_pylist())

    def label_counts(self) -> pa.Table:
        return self._table(f"{LABEL_COUNTS}.parquet")

    def choices(self) -> list[dict[str, Any]]:
        """What strategies chose over all folds; nothing where none is watched."""
        return overall_choices(read_parquet(f"{self.path}/choices.parquet"))

    def judged(self) -> pa.Table:
        """The judged texts, each with a digest of its labels."""
        return self._table(JUDGED_TEXTS)

    def queries(self) -> pa.Table:
        """Every text's watched figures, with the digest of how the text was judged."""
        if "queries" not in self._tables:
            rows, judged = self._table(QUERIES), self.judged()
            text_id = rows["text_id"].cast(pa.string())
            places = pc.index_in(text_id, value_set=judged["text_id"].combine_chunks())
            rows = rows.set_column(rows.schema.get_field_index("text_id"), "text_id", text_id)
            rows = rows.append_column("judgement", judged["judgement"].take(places))
            self._tables["queries"] = watched_queries(rows, self.inputs.config.nightly.watch.retrievers)
        return self._tables["queries"]

    def _table(self, name: str) -> pa.Table:
        if name not in self._tables:
            table = read_parquet(f"{self.path}/{name}")
            if table is None:
                raise InputError(f"{self.path}/{name} is gone: remove {self.path}, so that it is made again")
            self._tables[name] = table
        return self._tables[name]


def prepare_inputs(spark: SparkSession | None, config: Config, file: str) -> DatasetInputs:
    """Bring everything before the evaluation up to date."""
    given = config
    if config.prepare.format is not None:
        from jobs.datasets.prepare import input_fingerprints
        from jobs.datasets.prepared import dataset_engine
        from jobs.evaluation import pipeline as pipeline

        inputs = {**input_fingerprints(config.prepare), **brought_inputs(spark, config)}
        config = pipeline.with_candidates(dataset_engine(config, spark), config)
    elif config.inputs.candidates is None or config.inputs.judgements is None:
        raise ConfigError(f"dataset {config.dataset}: set prepare.format, or inputs.candidates and inputs.judgements")
    else:
        inputs = inputs_of(spark, config)
    data = json.dumps({name: fingerprint(content) for name, content in inputs.items()}, sort_keys=True)
    fingerprints = {"data": data, "configuration": _configuration(config), "code": code_version(*PACKAGES)}
    return DatasetInputs(given, config, file, fingerprints)


def reevaluate(spark: SparkSession | None, inputs: DatasetInputs) -> DatasetResults:
    """Bring the figures of a dataset up to date."""
    config = inputs.config
    path = Workspace.of(config).nightly_results
    key = {"inputs": inputs_of(spark, config), "settings": inputs.fingerprints["configuration"]}

    def build(folder: ResultFolder) -> dict[str, Any]:
        result, watched = _figures(spark, config)
        evaluate.write(result, folder)
        folder.write_rows(QUERIES, watched.queries)
        _write_judgements(spark, config, folder)
        folder.write_text(CONFIG_FILE, config.to_yaml())
        return {"texts": result.input_counts[JUDGED], "figures": len(result.metrics)}

    return DatasetResults(inputs, path, run_stage("evaluate", path, key, build))


def _figures(spark: SparkSession | None, config: Config) -> tuple[Result, Result]:
    """The figures of all cells, and every text's figures of the watched ones."""
    # Those of single texts are wanted of the watched cells alone.
    everything = config.model_copy(update={"evaluate": config.evaluate.model_copy(update={"per_query": False})})
    if config.nightly.watch.strategies:
        return tuned_figures(spark, everything, partial(_watched_config, config))
    result = evaluate.compute(spark, everything)
    groups = set(result.metrics["label_group"].to_pylist())
    return result, evaluate.compute(spark, _watched_config(config, groups))


def _watched_config(config: Config, groups: set[str]) -> Config:
    """The configuration that gives every text's figures of the watched cells."""
    watch = config.nightly.watch
    figures = {"metrics": [str(metric) for metric in watch.parsed_metrics], "label_groups": watch.groups(groups)}
    return config.model_copy(
        update={
            "grid": config.grid.model_copy(update={"cells": list(watch.fixed)}),
            "evaluate": config.evaluate.model_copy(update={**figures, "per_query": True, "details": False}),
        }
    )


def _write_judgements(spark: SparkSession | None, config: Config, folder: ResultFolder) -> None:
    """How each text was judged, and how many texts carry each label."""
    sources = Sources.of(config.inputs)
    tables = InputTables(choose_engine(config, sources.addresses(), spark), sources)
    judgements, relevant_from = tables.judgements, config.evaluate.relevant_from
    assert judgements is not None
    judged = tables.engine.collect(judged_texts(tables, relevant_from)).select(["text_id", "judgement"])
    folder.write_parquet(JUDGED_TEXTS, judged)
    ids, counts = label_texts_of(tables, judgements, relevant_from).frequencies
    folder.write_table(LABEL_COUNTS, pa.table({"label": ids.cast(pa.string()), "texts": pa.array(counts, pa.int64())}))


def _configuration(config: Config) -> str:
    """What was asked for, without the places where things lie."""
    chosen = config.model_dump(mode="json")
    chosen["prepare"].pop("folder")
    watch = chosen["nightly"]["watch"]
    tuned = ("validation_candidates", "tune") if config.nightly.watch.strategies else ()
    sections = {name: chosen[name] for name in ("dataset", "prepare", "retrievers", "grid", "evaluate", *tuned)}
    return fingerprint(json.loads(json.dumps({**sections, "watch": watch})))
