"""A dataset of a night: everything up to its figures, as far as something changed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from fusion.errors import ConfigError, InputError
from fusion.kernel.compiled import code_version
from jobs import evaluate
from jobs.config import Config
from jobs.inputs.local_tables import LocalTables
from jobs.monitoring.baseline import watched_queries
from jobs.monitoring.choices import overall_choices, tuned_figures
from jobs.monitoring.input_fingerprints import brought_inputs, inputs_of
from jobs.results.result import Result
from jobs.runtime.code import PACKAGES
from jobs.runtime.engines import LOCAL
from jobs.runtime.folders import CONFIG_FILE, ResultFolder, read_parquet
from jobs.runtime.stages import fingerprint, run_stage
from jobs.runtime.workspace import Workspace
from udfs.input_counts import JUDGED
from udfs.judgements import JUDGED_SCHEMA, judgement_digests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LABEL_COUNTS, QUERIES, JUDGED_TEXTS = "label_counts", "query_metrics.parquet", "judged.parquet"


@dataclass(frozen=True)
class Prepared:
    """A dataset whose inputs are there: what is to be evaluated, and what that follows from."""

    given: Config
    """As the night was asked."""
    config: Config
    """With the tables that earlier stages wrote as inputs."""
    file: str
    """The configuration file that names the dataset."""
    fingerprints: dict[str, str]
    """Of the data (each input, as JSON), the configuration and the code."""

    @property
    def dataset(self) -> str:
        return self.config.dataset


@dataclass(frozen=True)
class Evaluated:
    """The figures of a dataset, in a folder that `report` reads, and what they follow from."""

    dataset: str
    config: Config
    path: str
    built: bool
    """False if nothing had changed."""
    fingerprints: dict[str, str]
    given: Config
    """As the night was asked, before earlier stages had written the inputs."""
    file: str
    """The configuration file that names the dataset."""
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
            self._tables["queries"] = watched_queries(rows, self.config.nightly.watch.retrievers)
        return self._tables["queries"]

    def _table(self, name: str) -> pa.Table:
        if name not in self._tables:
            table = read_parquet(f"{self.path}/{name}")
            if table is None:
                raise InputError(f"{self.path}/{name} is gone: remove {self.path}, so that it is made again")
            self._tables[name] = table
        return self._tables[name]


def prepare_inputs(spark: SparkSession | None, config: Config, file: str) -> Prepared:
    """Bring everything before the evaluation up to date."""
    given = config
    if config.prepare.format is not None:
        from jobs import run as pipeline
        from jobs.datasets.input_files import input_fingerprints
        from jobs.runtime.session import get_session

        session = spark or get_session(config.spark)
        inputs = {**input_fingerprints(session, config.prepare), **brought_inputs(session, config)}
        config = pipeline.with_candidates(session, config)
    elif config.inputs.candidates is None or config.inputs.judgements is None:
        raise ConfigError(f"dataset {config.dataset}: set prepare.format, or inputs.candidates and inputs.judgements")
    else:
        inputs = inputs_of(spark, config)
    data = json.dumps({name: fingerprint(content) for name, content in inputs.items()}, sort_keys=True)
    fingerprints = {"data": data, "configuration": _configuration(config), "code": code_version(*PACKAGES)}
    return Prepared(given, config, file, fingerprints)


def reevaluate(spark: SparkSession | None, prepared: Prepared) -> Evaluated:
    """Bring the figures of a dataset up to date."""
    config = prepared.config
    path = Workspace.of(config).nightly_results
    key = {"inputs": inputs_of(spark, config), "settings": prepared.fingerprints["configuration"]}

    def build(folder: ResultFolder) -> dict[str, Any]:
        result, watched = _figures(spark, config)
        evaluate.write(result, folder)
        _write_rows(folder, QUERIES, watched.queries)
        _write_judgements(spark, config, watched.engine, folder)
        folder.write_text(CONFIG_FILE, config.to_yaml())
        return {"texts": result.input_counts[JUDGED], "figures": len(result.metrics)}

    built = run_stage("evaluate", path, key, build)
    return Evaluated(config.dataset, config, path, built, prepared.fingerprints, prepared.given, prepared.file)


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
    figures = {"metrics": [str(measure) for measure in watch.measures], "label_groups": watch.groups(groups)}
    return config.model_copy(
        update={
            "grid": config.grid.model_copy(update={"cells": list(watch.fixed)}),
            "evaluate": config.evaluate.model_copy(update={**figures, "per_query": True, "details": False}),
        }
    )


def _write_judgements(spark: SparkSession | None, config: Config, engine: str, folder: ResultFolder) -> None:
    """How each text was judged, and how many texts carry each label, by the engine that read the lists."""
    source = config.inputs.judgements
    assert source is not None
    if engine == LOCAL:
        local = LocalTables()
        rows = local.read_judgements(source, source)
        digests = judgement_digests(iter(rows.combine_chunks().to_batches()))
        judged = pa.Table.from_batches(digests, pa.schema([("text_id", pa.string()), ("judgement", pa.int64())]))
        ids, counts = local.frequencies(local.relevant_only(rows, config.evaluate.relevant_from))
    else:
        from jobs.inputs.spark_tables import SparkTables
        from jobs.runtime.session import get_session

        on_spark = SparkTables(spark or get_session(config.spark))
        judgements = on_spark.read_judgements(source, source)
        judged = judgements.mapInArrow(judgement_digests, JUDGED_SCHEMA)
        ids, counts = on_spark.frequencies(on_spark.relevant_only(judgements, config.evaluate.relevant_from))
    _write_rows(folder, JUDGED_TEXTS, judged)
    folder.write_table(LABEL_COUNTS, pa.table({"label": ids.cast(pa.string()), "texts": pa.array(counts, pa.int64())}))


def _write_rows(folder: ResultFolder, name: str, rows: Any) -> None:
    if isinstance(rows, pa.Table):
        folder.write_parquet(name, rows)
    else:
        rows.write.parquet(f"{folder.uri}/{name}")


def _configuration(config: Config) -> str:
    """What was asked for, without the places where things lie."""
    chosen = config.model_dump(mode="json")
    chosen["prepare"].pop("folder")
    watch = chosen["nightly"]["watch"]
    retrieval = ("retrievers", "retriever_settings", "sparse", "dense", "static", "linear")
    tuned = ("validation_candidates", "tune") if config.nightly.watch.strategies else ()
    sections = {name: chosen[name] for name in ("dataset", "prepare", *retrieval, "grid", "evaluate", *tuned)}
    return fingerprint(json.loads(json.dumps({**sections, "watch": watch})))
