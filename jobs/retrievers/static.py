"""The static bi-encoder: the nearest labels (`static`), or the labels of the nearest training texts (`static-texts`).

Both share the models of `static`, which hold the vectors of a fold's labels and of its training texts.
"""

from __future__ import annotations

from fusion.retrieval.tokens import Tokenizer
from jobs.retrievers.models import located_model
from jobs.retrievers.stages import Job, Work, keep_training
from jobs.retrievers.tokens import label_tokens, text_tokens
from jobs.settings.built_in import WORDS, StaticSettings
from udfs.retrieval.pieces import Pieces, StaticStart, first_vectors, open_tokenizer
from udfs.retrieval.retriever import Scoring
from udfs.retrieval.static import Static
from udfs.retrieval.words import Words

STATIC, STATIC_TEXTS = "static", "static-texts"
CODE = ("udfs.retrieval.static",)
TRAINED = {"learning_rate", "epochs", "patience", "train_batch", "extra_labels", "label_text", "frequency_bias"}


def check_static(settings: StaticSettings) -> None:
    """Refuse a model that is not there or has no tokenizer or token vectors, before any work is done."""
    encoding = static_encoding(settings)
    if isinstance(encoding, Pieces):
        open_tokenizer(encoding.start)
        first_vectors(encoding.start)


def static_encoding(settings: StaticSettings) -> Words | Pieces:
    """The tokens that have vectors."""
    if settings.model == WORDS:
        return Words(Tokenizer())
    return Pieces(StaticStart(*located_model(settings.model), settings.max_length))


def static_job(work: Work, name: str, settings: StaticSettings) -> Job:
    """What the driver does for one of the two."""
    encoding = static_encoding(settings)
    kind = "words" if isinstance(encoding, Words) else "word pieces"
    texts = text_tokens(work, kind, encoding, encoding.identity)
    labels = label_tokens(work, kind, encoding, encoding.identity, settings.label_text, ". ")
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
        model_code=CODE,
        lists_key={"scoring": [*near, scoring.top]},
        lists_code=CODE,
        report=keep_training,
    )
