"""The static bi-encoder: the nearest labels (`static`), or the labels of the nearest training texts (`static-texts`).

Both share the models of `static`, which hold the vectors of a fold's labels and of its training texts.
"""

from __future__ import annotations

from jobs.retrievers.models import located_model
from jobs.retrievers.stages import Job, Work, keep_training
from jobs.retrievers.tokens import label_tokens, text_tokens
from jobs.settings.static import StaticSettings
from udfs.retrieval.retriever import Scoring
from udfs.retrieval.static import Pieces, Static, StaticStart, StaticWork, first_vectors, open_tokenizer

STATIC, STATIC_TEXTS = "static", "static-texts"
CODE = ("udfs.retrieval.static",)
TRAINED = {"learning_rate", "epochs", "patience", "train_batch", "extra_labels", "label_text", "frequency_bias"}


def check_static(settings: StaticSettings) -> None:
    """Refuse a model that is not there or has no tokenizer or token vectors, before any work is done."""
    start = static_start(settings)
    open_tokenizer(start)
    first_vectors(start)


def static_start(settings: StaticSettings) -> StaticStart:
    """The model that token vectors start from."""
    return StaticStart(*located_model(settings.model), settings.max_length)


def static_job(work: Work, name: str, settings: StaticSettings) -> Job:
    """What the driver does for one of the two."""
    encoding = Pieces(static_start(settings))
    texts = text_tokens(work, "word pieces", encoding, encoding.identity)
    labels = label_tokens(work, "word pieces", encoding, encoding.identity, settings.label_text, ". ")
    training = StaticWork(
        text_tokens=texts.folder,
        label_tokens=labels.folder,
        start=encoding.start,
        training=settings.training,
        frequency_bias=settings.frequency_bias,
        groups=work.prepared.groups,
    )
    scoring = Scoring(settings.neighbours, settings.aggregation, settings.top)
    near = [] if name == STATIC else [scoring.neighbours, scoring.aggregation]
    return Job(
        retriever=Static(name, name == STATIC_TEXTS, encoding, training, scoring),
        encoded=[texts],
        model_of=STATIC,
        model_key={
            "texts": texts.fingerprint,
            "labels": labels.fingerprint,
            "static": settings.model_dump(mode="json", include=TRAINED),
        },
        model_code=CODE,
        lists_key={"scoring": [*near, scoring.top]},
        lists_code=CODE,
        report=keep_training,
    )
