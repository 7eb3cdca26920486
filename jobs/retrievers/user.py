"""Retrievers of the user's own, from a file or a notebook."""

from __future__ import annotations

import json
import sys
from typing import Any

import cloudpickle

from fusion.digests import digest
from jobs.retrievers.own import source_of
from jobs.retrievers.stages import Job, Work
from jobs.settings.retrievers import OwnSettings, Retriever
from udfs.retrieval.own import Own

CODE = ("udfs.retrieval.own",)


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
        model_code=CODE,
        lists_key={"top": settings.top},
        lists_code=CODE,
    )


def pickled(function: Any) -> bytes:
    """A function with the code of its module, which workers do not have as a file."""
    module = sys.modules.get(function.__module__)
    ours = module is None or module.__name__.startswith(("__main__", "jobs.", "udfs.", "fusion."))
    if module is not None and not ours:
        cloudpickle.register_pickle_by_value(module)
    content: bytes = cloudpickle.dumps(function)
    return content
