"""Retrievers of the user's own: a function that learns from a fold's training texts and returns what ranks labels."""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import cloudpickle

from fusion.digests import digest
from fusion.errors import ConfigError
from jobs.retrievers.stages import Job, Work
from jobs.settings.retrievers import RETRIEVERS, OwnSettings, Retriever
from udfs.retrieval.own import Own

if TYPE_CHECKING:
    from udfs.retrieval.own import Learn


TAKEN = frozenset({"prepared", "tokens", "vectors", "candidates", "results", "report", "nightly", "all"})
"""Folders and words that mean something else."""


def retriever(name: str, *, indexes: str, scores: str, citation: str) -> Callable[[Learn], Retriever]:
    """Register a function as a retriever.

    The function gets a `FoldTexts`: the fold's training and validation texts with their labels, the words of all
    labels, and the settings that the configuration has for its file. It returns a function from a list of texts to a
    pair for each: numbers of labels and their scores, in any order, without the labels that are no candidates. The
    length of the lists, label groups, folds, stages and partitions are taken care of, and so is leakage: it never sees
    a test text while it learns. Lists of validation texts are what fusions are tuned on, so these texts should only
    decide when learning stops.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_-]*", name) or name in TAKEN:
        raise ConfigError(f"a retriever cannot be called {name!r}: small letters, digits and hyphens, and no {TAKEN}")

    def register(learn: Learn) -> Retriever:
        module = sys.modules.get(learn.__module__)
        origin = str(getattr(module, "__file__", None) or learn.__module__)

        return RETRIEVERS.add(Retriever(name, indexes, scores, citation, origin=origin, learn=learn))

    return register


def source_of(learn: Learn) -> str:
    """The text of the function's file; of the function alone where it was written in a notebook."""
    module = sys.modules.get(learn.__module__)
    try:
        return inspect.getsource(module if module is not None and hasattr(module, "__file__") else learn)
    except (OSError, TypeError):
        raise ConfigError(f"the retriever's function {learn.__qualname__} has no source that could be read") from None


def own_job(work: Work, entry: Retriever, settings: OwnSettings) -> Job:
    """What the driver does for a retriever that a user has registered."""
    values = settings.model_dump(mode="json")
    return Job(
        retriever=Own(entry.name, work.prepared.groups, pickled(entry.learn), json.dumps(values), settings.top),
        encoded=[],
        model_of=entry.name,
        # The text of the file is known, whatever it imports from elsewhere is not.
        model_key={
            "code": digest(source_of(entry.learn)) if entry.learn else "",
            "settings": {name: value for name, value in values.items() if name != "top"},
        },
        lists_key={"top": settings.top},
    )


def pickled(function: Any) -> bytes:
    """A function with the code of its module, which workers do not have as a file."""
    module = sys.modules.get(function.__module__)
    ours = module is None or module.__name__.startswith(("__main__", "jobs.", "udfs.", "fusion."))
    if module is not None and not ours:
        cloudpickle.register_pickle_by_value(module)
    content: bytes = cloudpickle.dumps(function)
    return content
