"""Label trees (`tree`)."""

from __future__ import annotations

from fusion.retrieval.tokens import Tokenizer
from jobs.retrievers.stages import Job, Work
from jobs.retrievers.tokens import text_tokens
from jobs.settings.built_in import TreeSettings
from udfs.retrieval.tree import Tree
from udfs.retrieval.words import Words

CODE = ("udfs.retrieval.tree",)
RANKED = {"beam", "top"}
"""Settings that ranking alone depends on."""


def tree_job(work: Work, name: str, settings: TreeSettings) -> Job:
    """What the driver does."""
    encoding = Words(Tokenizer())
    texts = text_tokens(work, "words", encoding, encoding.identity)
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
        model_code=CODE,
        lists_key=settings.model_dump(mode="json", include=RANKED),
        lists_code=CODE,
    )
