"""One linear classifier per label (`linear`)."""

from __future__ import annotations

from fusion.retrieval.tokens import Tokenizer
from jobs.retrievers.stages import Job, Work
from jobs.retrievers.tokens import text_tokens
from jobs.settings.built_in import LinearSettings
from udfs.retrieval.linear import Linear, package
from udfs.retrieval.words import Words

CODE = ("udfs.retrieval.linear",)


def check_linear(settings: LinearSettings) -> None:
    """Refuse to begin without the package that trains."""
    package("sklearn.svm")


def linear_job(work: Work, name: str, settings: LinearSettings) -> Job:
    """What the driver does."""
    encoding = Words(Tokenizer())
    texts = text_tokens(work, "words", encoding, encoding.identity)
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
        model_code=CODE,
        lists_key={"top": settings.top},
        lists_code=CODE,
    )
