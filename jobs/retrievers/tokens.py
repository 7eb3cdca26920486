"""Retrievers over tokens: BM25, linear classifiers, label trees, and the static bi-encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from fusion.errors import SetupError
from fusion.retrieval.tokens import Tokenizer
from jobs.retrievers.stages import Encoded, Job, Texts, Work, keep_training, label_rows, located_model
from jobs.runtime.log import Progress
from jobs.settings.built_in import WORDS, Bm25Settings, LinearSettings, StaticSettings, TreeSettings
from jobs.storage.folders import ResultFolder
from jobs.storage.stages import fingerprint, input_fingerprint, run_stage, stage_folder
from udfs.retrieval.bm25 import Bm25
from udfs.retrieval.linear import Linear, package
from udfs.retrieval.pieces import Pieces, StaticStart, first_vectors, open_tokenizer
from udfs.retrieval.retriever import Scoring, encode_rows
from udfs.retrieval.static import Static
from udfs.retrieval.tree import Tree
from udfs.retrieval.words import Words
from udfs.stores.addresses import absolute

ENCODED = "encoded.parquet"
TOKENIZING = ("fusion.retrieval.tokens", "udfs.retrieval.words")
"""What decides what a text's tokens are."""


def text_tokens(work: Work, encoding: Words | Pieces) -> Encoded:
    """The tokens of all texts: one stage per tokenizer, for all folds and all retrievers that use it."""
    return _tokens(work, encoding, Texts("texts", work.texts, work.prepared.texts, work.prepared.ids), [])


def label_tokens(work: Work, encoding: Words | Pieces, parts: Sequence[str], separator: str) -> Encoded:
    """The tokens of what labels are called: those columns of the table of labels that are named."""
    texts = Texts("labels", lambda: label_rows(work, parts, separator), work.prepared.labels, pa.int64())
    return _tokens(work, encoding, texts, [*parts, separator])


def _tokens(work: Work, encoding: Words | Pieces, texts: Texts, made_of: Sequence[str]) -> Encoded:
    """Texts, encoded, unless that was done before."""
    kind = "words" if isinstance(encoding, Words) else "word pieces"
    what, identity = f"{kind} of {texts.what}", [*encoding.identity, *made_of]
    path = work.place.tokens(f"{kind.replace(' ', '-')}-{fingerprint(identity)[:8]}", texts.what)

    def build(folder: ResultFolder) -> Mapping[str, Any]:
        with Progress(what, texts.count, "texts") as progress:
            rows = work.engine.map(texts.rows(), encode_rows(encoding, texts.ids), progress.add)
            work.engine.write(rows, f"{folder.uri}/{ENCODED}")
        return {"texts": texts.count}

    run_stage(what, path, {"prepared": work.prepared.fingerprint, "tokens": identity}, build, TOKENIZING)
    return Encoded((absolute(f"{stage_folder(path)}/{ENCODED}"),), input_fingerprint(path))


LABEL_DOCUMENTS = "bm25-labels"
"""The retriever that indexes one document per label; the other one indexes the training texts."""
OWN_WORDS = ("name", "alt_names", "description")


def check_bm25(settings: Bm25Settings) -> None:
    """Refuse a stemmer that is not installed, before any work is done."""
    settings.tokenizer.tokenizer.check()


def bm25_job(work: Work, name: str, settings: Bm25Settings) -> Job:
    """What the driver does for one of the two."""
    encoding = Words(settings.tokenizer.tokenizer)
    texts = text_tokens(work, encoding)
    labels = None
    if name == LABEL_DOCUMENTS:
        labels = label_tokens(work, encoding, OWN_WORDS, "\n")
    scoring = Scoring(settings.neighbours, settings.aggregation, settings.top)
    return Job(
        retriever=Bm25(
            name=name,
            groups=work.prepared.groups,
            encoding=encoding,
            text_tokens=texts.folder,
            label_tokens=labels.folder if labels else None,
            k1=settings.k1,
            b=settings.b,
            scoring=scoring,
        ),
        encoded=[texts],
        model_of=name,
        model_key={
            "texts": texts.fingerprint,
            "labels": labels.fingerprint if labels else None,
            "bm25": [settings.k1, settings.b],
        },
        lists_key={"scoring": [scoring.neighbours, scoring.aggregation, scoring.top]},
    )


def check_linear(settings: LinearSettings) -> None:
    """Refuse to begin without the package that trains."""
    package("sklearn.svm")


def linear_job(work: Work, name: str, settings: LinearSettings) -> Job:
    """What the driver does."""
    encoding = Words(Tokenizer())
    texts = text_tokens(work, encoding)
    retriever = Linear(
        name=name,
        groups=work.prepared.groups,
        encoding=encoding,
        text_tokens=texts.folder,
        cost=settings.cost,
        top=settings.top,
    )
    return Job(
        retriever=retriever,
        encoded=[texts],
        model_of=name,
        model_key={"texts": texts.fingerprint, "linear": settings.model_dump(mode="json", exclude={"top"})},
        lists_key={"top": settings.top},
    )


RANKED = {"beam", "top"}
"""Settings that ranking alone depends on."""


def tree_job(work: Work, name: str, settings: TreeSettings) -> Job:
    """What the driver does."""
    encoding = Words(Tokenizer())
    texts = text_tokens(work, encoding)
    retriever = Tree(
        name=name,
        groups=work.prepared.groups,
        encoding=encoding,
        text_tokens=texts.folder,
        growing=settings.growing,
        most_terms=settings.most_terms,
        beam=settings.beam,
        top=settings.top,
    )
    return Job(
        retriever=retriever,
        encoded=[texts],
        model_of=name,
        model_key={"texts": texts.fingerprint, "tree": settings.model_dump(mode="json", exclude=RANKED)},
        lists_key=settings.model_dump(mode="json", include=RANKED),
    )


STATIC, STATIC_TEXTS = "static", "static-texts"
TRAINED = {"learning_rate", "epochs", "patience", "train_batch", "extra_labels", "label_text", "frequency_bias"}


def check_static(settings: StaticSettings) -> None:
    """Refuse a model that is not there or has no tokenizer or token vectors, before any work is done."""
    try:
        encoding = static_encoding(settings)
        if isinstance(encoding, Pieces):
            open_tokenizer(encoding.start)
            first_vectors(encoding.start)
    except SetupError as error:
        raise SetupError(f"{error}, or set retrievers.static.model to {WORDS}, which needs no extra") from None


def static_encoding(settings: StaticSettings) -> Words | Pieces:
    """The tokens that have vectors."""
    if settings.model == WORDS:
        return Words(Tokenizer())
    return Pieces(StaticStart(*located_model(settings.model), settings.max_length))


def static_job(work: Work, name: str, settings: StaticSettings) -> Job:
    """What the driver does for one of the two."""
    encoding = static_encoding(settings)
    texts = text_tokens(work, encoding)
    labels = label_tokens(work, encoding, settings.label_text, ". ")
    scoring = Scoring(settings.neighbours, settings.aggregation, settings.top)
    near = [] if name == STATIC else [scoring.neighbours, scoring.aggregation]
    return Job(
        retriever=Static(
            name=name,
            by_texts=name == STATIC_TEXTS,
            encoding=encoding,
            groups=work.prepared.groups,
            text_tokens=texts.folder,
            label_tokens=labels.folder,
            training=settings.training,
            frequency_bias=settings.frequency_bias,
            scoring=scoring,
        ),
        encoded=[texts],
        model_of=STATIC,
        model_key={
            "texts": texts.fingerprint,
            "labels": labels.fingerprint,
            "static": settings.model_dump(mode="json", include=TRAINED),
        },
        lists_key={"scoring": [*near, scoring.top]},
        report=keep_training,
    )
