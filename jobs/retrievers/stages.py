"""The stages that all retrievers share: texts encoded once, a model for each fold, and the lists of candidates."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fusion.errors import ConfigError, InputError, SetupError, XmtcError
from fusion.retrieval.contrastive import CollapseError
from jobs.datasets.prepared import PreparedDataset
from jobs.engines.engine import Engine
from jobs.runtime.log import Progress, log
from jobs.storage.folders import ResultFolder, read_object
from jobs.storage.stages import import_closure, input_fingerprint, run_stage, stage_folder
from jobs.storage.versions import STAGE_FILE
from jobs.storage.workspace import LABELS, SAMPLES, TEST, Workspace, role_lists
from udfs.retrieval.encode import check_weights, find_model
from udfs.retrieval.folds import EVERY_TEXT, FoldSource, label_words
from udfs.retrieval.retriever import Models, Retriever, over_folds, rank_texts
from udfs.steps import Batches, Step, listening
from udfs.stores.addresses import absolute

ERRORS: dict[str, type[XmtcError]] = {
    kind.__name__: kind for kind in (CollapseError, ConfigError, InputError, SetupError)
}


@dataclass(frozen=True)
class Work:
    """What a run of retrievers works with: the engine, the prepared dataset, and the folders of the stages."""

    engine: Engine[Any]
    prepared: PreparedDataset
    place: Workspace

    def texts(self) -> Any:
        """All texts, as rows (id, text)."""
        return renamed(self.engine, self.prepared.table(SAMPLES), {"text_id": "id", "text": "text"})


@dataclass(frozen=True)
class Encoded:
    """A table of encoded texts, in one or several folders."""

    folders: tuple[str, ...]
    fingerprint: str
    fold: int | None = None
    """The fold that it is made for, where each has an encoder of its own."""

    @property
    def folder(self) -> str:
        """The folder, where there is one."""
        (folder,) = self.folders
        return folder


@dataclass(frozen=True)
class FoldModels:
    """A stage with a model for each fold."""

    path: str

    @property
    def folder(self) -> str:
        """Where workers find it."""
        return absolute(stage_folder(self.path))

    @property
    def fingerprint(self) -> str:
        return input_fingerprint(self.path)

    def about(self, field_name: str) -> Mapping[str, Any]:
        """What the stage says about its models."""
        return read_object(f"{stage_folder(self.path)}/{STAGE_FILE}").get(field_name, {})


@dataclass(frozen=True)
class Job:
    """What the driver does for a retriever."""

    retriever: Retriever
    encoded: Sequence[Encoded]
    """The tables of encoded texts; none if texts are read as they are."""
    model_of: str
    """The retriever whose models it uses: its own name, or that of a relative."""
    model_key: Mapping[str, Any]
    """What the models depend on, apart from the prepared dataset and code."""
    lists_key: Mapping[str, Any]
    """What the lists depend on, apart from the models."""
    report: Callable[[ResultFolder, Mapping[int, Any]], Mapping[str, Any]] = field(
        default=lambda folder, reports: summed(reports)
    )
    """What is kept of the reports of all folds, and the counts for the log."""
    judged: Callable[[Work, Job, FoldModels], Mapping[str, Any]] | None = None
    """What is said of the lists when they are there."""

    @property
    def code(self) -> tuple[str, ...]:
        """The modules that decide what is learned and listed: that of the retriever, and what it imports."""
        return import_closure(type(self.retriever).__module__)


def renamed(engine: Engine[Any], source: str, names: Mapping[str, str]) -> Any:
    """Some columns of a table under other names."""
    rows = engine.read(source, list(names))
    fields = engine.schema(rows)
    schema = pa.schema([pa.field(new, fields.field(old).type) for old, new in names.items()])

    def run(batches: Batches) -> Batches:
        for batch in batches:
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)

    return engine.map(rows, Step(run, schema))


@dataclass(frozen=True)
class Texts:
    """Rows (id, text) to encode: those of all texts, or those of the labels' words."""

    what: str
    rows: Callable[[], Any]
    count: int
    ids: pa.DataType


def fit_stage(work: Work, job: Job) -> FoldModels:
    """The models of all folds, fitted side by side, unless that was done before."""
    retriever = job.retriever
    key = {"prepared": work.prepared.fingerprint, **job.model_key}

    def build(folder: ResultFolder) -> Mapping[str, Any]:
        def fit(source: FoldSource) -> Any:
            return retriever.fit(source, absolute(folder.uri))

        reports = run_folds(work, f"{retriever.name}: fit", fit, retriever.in_threads)
        return {"folds": len(reports), **job.report(folder, reports)}

    models = FoldModels(work.place.retriever_stage(job.model_of, "model"))
    run_stage(f"{job.model_of} model", models.path, key, build, job.code)
    return models


def run_folds(work: Work, name: str, on_fold: Callable[[FoldSource], Any], in_threads: bool = False) -> dict[int, Any]:
    """The reports of some work on all folds, side by side; the first error of a fold is raised here. In threads the
    work itself may say how far it is."""
    folds = pa.table({"fold": pa.array(work.prepared.folds, pa.int32())})
    step = over_folds(work.prepared.folder, on_fold, in_threads)
    with Progress(name, len(folds), "folds") as progress, listening(progress.add) if in_threads else nullcontext():
        done = None if in_threads else progress.add
        rows = work.engine.collect(work.engine.files(folds, step, done)).sort_by("fold").to_pylist()
    for row in rows:
        if row["problem"]:
            kind, message = json.loads(row["problem"])
            raise ERRORS.get(kind, XmtcError)(message)
    return {row["fold"]: json.loads(row["report"]) for row in rows}


def lists_stage(work: Work, job: Job, models: FoldModels) -> str:
    """The lists of the texts of all folds, unless they were made before; the folder of the candidates."""
    retriever, prepared = job.retriever, work.prepared
    path = work.place.candidates(retriever.name)
    key = {
        "prepared": prepared.fingerprint,
        "texts": [table.fingerprint for table in job.encoded],
        "model": models.fingerprint,
        "roles": prepared.listed_roles,
        **job.lists_key,
    }

    def build(folder: ResultFolder) -> Mapping[str, Any]:
        search = Models(retriever, models.folder, models.fingerprint, prepared.folder)
        counts = {}
        for role in prepared.listed_roles:
            place = role_lists(folder.uri, role)
            with Progress(f"{retriever.name}: {role} lists", prepared.texts, "texts") as progress:
                lists = [
                    work.engine.map(rows, rank_texts(search, role, prepared.ids, fold), progress.add)
                    for fold, rows in read_encoded(work, job.encoded)
                ]
                written = work.engine.write(work.engine.union(*lists), place)
            prefix = "" if role == TEST else f"{role}_"
            counts[f"{prefix}texts"] = sum(prepared.role_sizes[role].values())
            counts[f"{prefix}lists"] = written.rows
        return {**counts, **(job.judged(work, job, models) if job.judged else {})}

    run_stage(f"{retriever.name} candidates", path, key, build, job.code)
    return path


def read_encoded(work: Work, tables: Sequence[Encoded]) -> Iterator[tuple[int | None, Any]]:
    """The rows of encoded texts, and the fold that they are for."""
    for table in tables:
        yield table.fold, work.engine.union(*(work.engine.read(folder) for folder in table.folders))
    if not tables:
        yield None, work.texts()


def summed(reports: Mapping[int, Any]) -> Mapping[str, int]:
    """The counts of all folds together."""
    totals: dict[str, int] = {}
    for report in reports.values():
        for name, value in report.items():
            totals[name] = totals.get(name, 0) + value
    return totals


def keep_training(folder: ResultFolder, reports: Mapping[int, Any]) -> Mapping[str, Any]:
    """Say how training went, and keep it with the models."""
    for fold, report in reports.items():
        mrr, best = report["mrr"], report["best"]
        if fold == EVERY_TEXT:
            log(f"train: all texts, {best} epochs")
            continue
        gain = f"{mrr[best]:.3f} after epoch {best} of {len(mrr) - 1}" if best else "which no epoch improved"
        log(f"train: fold {fold}, validation MRR {mrr[0]:.3f} before training, {gain}")
    folder.write_text("report.json", json.dumps(reports, indent=2) + "\n")
    return {}


def label_rows(work: Work, parts: Sequence[str], separator: str, named: bool = False) -> Any:
    """The words of labels, as rows (id, text); with `named`, labels without a word are left out."""
    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])

    def run(batches: Batches) -> Batches:
        for batch in batches:
            texts = label_words(batch, parts, separator)
            rows = pa.RecordBatch.from_arrays([batch["label_id"].cast(pa.int64()), texts], schema=schema)
            yield rows.filter(pc.not_equal(texts, "")) if named else rows

    columns = ["label_id", *dict.fromkeys(parts)]
    return work.engine.map(work.engine.read(work.prepared.table(LABELS), columns), Step(run, schema))


def located_model(model: str) -> tuple[str, str]:
    """A model as workers find it, and its fingerprint. The name of a model on the hub stands for itself."""
    folder = find_model(model)
    checked = check_weights(model)
    identity = checked or (input_fingerprint(str(folder)) if folder else model)
    # Workers look in a folder of their own: they need the whole path, or a package's name.
    return model if checked or folder is None else str(folder.absolute()), identity
