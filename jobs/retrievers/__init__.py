"""Retrievers, one file each. Importing the package registers them; a file of your own registers when it is named."""

from __future__ import annotations

from collections.abc import Iterable

from jobs.retrievers import bm25, bm25_labels, dense, dense_texts, linear, static, static_texts
from jobs.retrievers.base import RETRIEVERS, Retriever
from jobs.retrievers.files import load_file

__all__ = [
    "RETRIEVERS",
    "Retriever",
    "bm25",
    "bm25_labels",
    "chosen_retrievers",
    "dense",
    "dense_texts",
    "linear",
    "static",
    "static_texts",
]


def chosen_retrievers(names: Iterable[str]) -> list[Retriever]:
    """The retrievers behind names and files, in the order given and without repetitions."""
    chosen = [entry for name in names for entry in (load_file(name) if name.endswith(".py") else [RETRIEVERS[name]])]
    return list({entry.name: entry for entry in chosen}.values())
