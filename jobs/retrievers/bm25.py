"""BM25 over the fold's training texts (`bm25`), or over one document per label (`bm25-labels`)."""

from __future__ import annotations

from jobs.retrievers.stages import Job, Work
from jobs.retrievers.tokens import label_tokens, text_tokens
from jobs.settings.built_in import Bm25Settings
from udfs.retrieval.bm25 import Bm25
from udfs.retrieval.retriever import Scoring
from udfs.retrieval.words import Words

LABEL_DOCUMENTS = "bm25-labels"
"""The retriever that indexes one document per label; the other one indexes the training texts."""
CODE = ("udfs.retrieval.bm25",)
OWN_WORDS = ("name", "alt_names", "description")


def check_bm25(settings: Bm25Settings) -> None:
    """Refuse a stemmer that is not installed, before any work is done."""
    settings.tokenizer.tokenizer.check()


def bm25_job(work: Work, name: str, settings: Bm25Settings) -> Job:
    """What the driver does for one of the two."""
    tokenizer = settings.tokenizer.tokenizer
    encoding = Words(tokenizer)
    texts = text_tokens(work, "words", encoding, encoding.identity)
    labels = None
    if name == LABEL_DOCUMENTS:
        labels = label_tokens(work, "words", encoding, encoding.identity, OWN_WORDS, "\n")
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
        model_code=CODE,
        lists_key={"scoring": [scoring.neighbours, scoring.aggregation, scoring.top]},
        lists_code=CODE,
    )
