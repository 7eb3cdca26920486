"""The registry of retrievers: what each indexes, how it scores, and what brings its candidates up to date.

An entry imports Spark only when it runs: a wrong name in the configuration is reported at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fusion.registry import Registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from jobs.config import Config

Work = Callable[["SparkSession", "Config"], str]
"""Brings the candidates of every fold's test and validation texts up to date, and returns the folder they are in."""


@dataclass(frozen=True)
class Retriever:
    """A retriever, as the registry knows it."""

    name: str
    """What users type; also the column value of its candidates."""
    indexes: str
    scores: str
    citation: str
    section: str
    """The section of the configuration that holds its settings."""
    run: Work
    origin: str = ""
    """The file of a retriever that is not ours."""
    when: str = ""
    """When to use it, in a sentence or two."""


class RetrieverRegistry(Registry[Retriever]):
    """Retrievers by name. A file that is read again, because it has changed, replaces what it registered before."""

    def add(self, entry: Retriever) -> Retriever:
        earlier = self._entries.get(entry.name)
        if earlier is not None and entry.origin and earlier.origin == entry.origin:
            del self._entries[entry.name]
        return super().add(entry)


RETRIEVERS = RetrieverRegistry("retriever")


def built_in(
    name: str, *, indexes: str, scores: str, citation: str, section: str, when: str = ""
) -> Callable[[Work], Retriever]:
    """Register one of our own retrievers."""

    def register(work: Work) -> Retriever:
        return RETRIEVERS.add(Retriever(name, indexes, scores, citation, section, work, when=when))

    return register
