"""The bi-encoder: the nearest labels (`dense`), or the labels of the nearest training texts (`dense-texts`).

What is trained, projection heads or the fine-tuned model of each fold, is in `dense/trained`, which both share. The
model of a fold holds its heads and its index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from fusion.digests import code_version
from fusion.errors import SetupError
from fusion.retrieval.contrastive import REMEDY
from jobs.retrievers.stages import Encoded, FoldModels, Job, Work, keep_training, label_rows, run_folds, summed
from jobs.retrievers.vectors import (
    base_encoder,
    encode_fold,
    encode_labels,
    encode_texts,
    fold_encoder,
    precision_of,
    rows_digest,
    vectors_folder,
)
from jobs.runtime.log import log
from jobs.settings.built_in import DenseSettings
from jobs.storage.folders import ResultFolder, remove_folder
from jobs.storage.stages import fingerprint, import_closure, run_stage
from udfs.retrieval.encode import Encoder, find_model
from udfs.retrieval.finetune import Saving, finetune
from udfs.retrieval.folds import VALIDATION_TEXTS
from udfs.retrieval.pieces import from_hub
from udfs.retrieval.retriever import Scoring
from udfs.retrieval.vectors import (
    EXACT,
    HNSW,
    HNSW_FROM,
    Dense,
    Index,
    ProjectionTraining,
    VectorTables,
    found_share,
    train_projection,
)
from udfs.stores.addresses import absolute, has_scheme

DENSE, DENSE_TEXTS = "dense", "dense-texts"
LEARNING = ("udfs.retrieval.finetune", "udfs.retrieval.vectors")
"""These and what they import decide what is learned from vectors and texts."""
TRAINING = {"temperature", "learning_rate_low", "learning_rate_high", "epochs", "patience", "train_batch"}
RECALL_TEXTS = 200
"""Texts of a fold on which the recall of HNSW is measured."""
WORDS = "words.parquet"
DESCRIPTIONS = ("config.json", "modules.json")
"""Files of which every model has one."""


def check_dense(settings: DenseSettings) -> None:
    """Refuse what cannot run here, before any work is done."""
    at_hub = find_model(settings.model) is None and not has_scheme(settings.model)
    packages = ["sentence_transformers", *(["faiss"] if settings.search == "hnsw" else [])]
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise SetupError(f"dense retrieval needs {' and '.join(missing)}: {REMEDY}")
    if at_hub:
        from_hub(settings.model, DESCRIPTIONS)


def dense_job(work: Work, name: str, settings: DenseSettings) -> Job:
    """What the driver does for one of the two."""
    if settings.precision == "auto":
        log(f"dense.precision: auto is {precision_of(settings)} on this machine")
    encoder = base_encoder(settings)
    texts: list[Encoded]
    labels: list[Encoded]
    trained: FoldModels | None
    if settings.train == "full":
        trained = _train_full(work, settings, encoder)
        encoders = {fold: fold_encoder(trained, encoder, fold) for fold in work.prepared.folds}
        folders = {fold: work.place.vectors(f"tuned-fold={fold}") for fold in encoders}
        train_texts = settings.train_texts or name == DENSE_TEXTS
        texts = [encode_fold(work, own, folders[fold], fold, train_texts) for fold, own in encoders.items()]
        labels = [encode_labels(work, settings, own, folders[fold]) for fold, own in encoders.items()]
    else:
        folder = vectors_folder(work, settings, encoder)
        texts = [encode_texts(work, encoder, folder)]
        labels = [encode_labels(work, settings, encoder, folder)]
        trained = _train_projection(work, settings, texts[0], labels[0]) if settings.train == "projection" else None
    with_heads = trained if settings.train == "projection" else None
    index = wanted_index(settings)
    retriever = Dense(
        name=name,
        groups=work.prepared.groups,
        encoder=encoder,
        tables=tuple(VectorTables(some.folders, words.folders) for some, words in zip(texts, labels, strict=True)),
        trained=with_heads.folder if with_heads else None,
        fingerprint=with_heads.fingerprint if with_heads else "",
        train_texts=settings.train_texts,
        by_texts=name == DENSE_TEXTS,
        index=index,
        scoring=Scoring(settings.neighbours, settings.aggregation, settings.top),
    )
    near = [settings.neighbours, settings.aggregation] if retriever.by_texts else []
    made_of = [] if retriever.by_texts else [settings.label_text, [some.fingerprint for some in labels]]
    return Job(
        retriever=retriever,
        encoded=texts,
        model_of=name,
        model_key={
            "texts": [some.fingerprint for some in texts],
            "labels": made_of,
            "trained": retriever.fingerprint,
            "index": [index.hnsw_from, index.links, index.build],
        },
        lists_key={"scoring": [*near, settings.top, retriever.effort]},
        report=summed_texts if retriever.by_texts else summed_groups,
        judged=None if retriever.by_texts else _recall(RECALL_TEXTS),
    )


def wanted_index(settings: DenseSettings) -> Index:
    """How vectors are indexed."""
    threshold = {"auto": HNSW_FROM, "exact": None, "hnsw": 1}[settings.search]
    return Index(threshold)


def summed_texts(folder: ResultFolder, reports: Mapping[int, Any]) -> Mapping[str, Any]:
    return summed(reports)


def summed_groups(folder: ResultFolder, reports: Mapping[int, Any]) -> Mapping[str, Any]:
    """The labels of each group in all folds, and how they are searched: a group may pass the threshold in one fold
    only."""
    labels: Counter[str] = Counter()
    search: dict[str, str] = {}
    for report in reports.values():
        for group, figures in report.items():
            labels[f"{group}_labels"] += figures["labels"]
            search[group] = HNSW if HNSW in (search.get(group, EXACT), figures["search"]) else EXACT
    return {**labels, "search": search}


def _recall(texts: int) -> Any:
    """What says, where the search is approximate, how much of the exact lists it finds."""

    def judge(work: Work, job: Job, models: FoldModels) -> Mapping[str, Any]:
        assert isinstance(job.retriever, Dense)
        if HNSW not in models.about("search").values():
            return {}
        compare = found_share(job.retriever, models.folder, models.fingerprint, texts)
        counts: dict[str, Counter[str]] = {}
        for report in run_folds(work, "dense: recall", compare, in_threads=True).values():
            for group, figures in report.items():
                counts.setdefault(group, Counter()).update(figures)
        shares = {}
        for group, figures in sorted(counts.items()):
            share = figures["found"] / max(figures["wanted"], 1)
            top = job.retriever.scoring.top
            log(f"dense candidates: HNSW finds {share:.4f} of the exact top {top} ({group}, {figures['texts']} texts)")
            shares[f"{group}_recall"] = round(share, 4)
        return shares

    return judge


def _train_projection(work: Work, settings: DenseSettings, texts: Encoded, labels: Encoded) -> FoldModels:
    stage = FoldModels(work.place.retriever_stage(DENSE, "trained"))
    chosen = TRAINING | {"train", "label_text"}
    key = {
        "prepared": work.prepared.fingerprint,
        "vectors": [texts.fingerprint, labels.fingerprint],
        "dense": settings.model_dump(mode="json", include=chosen),
    }

    def build(folder: ResultFolder) -> Mapping[str, Any]:
        tables = VectorTables(texts.folders, labels.folders)
        training = ProjectionTraining(tables, settings.train_texts, settings.training)
        reports = run_folds(work, "train projections", train_projection(absolute(folder.uri), training))
        return {"folds": len(reports), **keep_training(folder, reports)}

    run_stage("train projections", stage.path, key, build, import_closure(*LEARNING))
    return stage


def _train_full(work: Work, settings: DenseSettings, encoder: Encoder) -> FoldModels:
    stage, code = FoldModels(work.place.retriever_stage(DENSE, "trained")), import_closure(*LEARNING)
    chosen = TRAINING | {"train", "max_length", "batch_size"}
    words = label_rows(work, settings.words, ". ", named=True)
    key = {
        "prepared": work.prepared.fingerprint,
        "model": [encoder.fingerprint, encoder.precision],
        "words": rows_digest(work, words),
        "dense": settings.model_dump(mode="json", include=chosen),
    }

    # Outside the stage, which vanishes if it is not finished; other settings or code have other states.
    states = work.place.retriever_stage(DENSE, f"unfinished-{fingerprint([key, code_version(*code)])}")
    saving = Saving(absolute(states), settings.checkpoint_seconds)

    def build(folder: ResultFolder) -> Mapping[str, Any]:
        uri = absolute(folder.uri)
        work.engine.write(words, f"{uri}/{WORDS}")
        train = finetune(uri, encoder, settings.training, VALIDATION_TEXTS, f"{uri}/{WORDS}", saving)
        reports = run_folds(work, "fine-tune", train)
        return {"folds": len(reports), **keep_training(folder, reports)}

    run_stage("fine-tune", stage.path, key, build, code)
    remove_folder(states)
    return stage
