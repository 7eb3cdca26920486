"""Job `retrieve`: the candidates of every retriever that the configuration names.

Every retriever goes the same way: texts are encoded once, a model is fitted for each fold, and labels are ranked for
the test and validation texts of the fold.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any, NamedTuple

from fusion.errors import ConfigError, check_all
from jobs.datasets.prepared import open_prepared
from jobs.engines.credentials import job
from jobs.engines.engine import Engine
from jobs.retrievers.dense import check_dense, dense_job
from jobs.retrievers.own import own_job
from jobs.retrievers.stages import Job, Work, fit_stage, lists_stage
from jobs.retrievers.tokens import bm25_job, check_bm25, check_linear, check_static, linear_job, static_job, tree_job
from jobs.settings.config import Config
from jobs.settings.retrievers import OwnSettings, Retriever
from jobs.storage.workspace import Workspace


class BuiltIn(NamedTuple):
    """A retriever of ours: what refuses settings that cannot work here, and what the driver does for it."""

    check: Callable[[Any], None]
    job: Callable[[Work, str, Any], Job]


BUILT_IN = {
    "bm25": BuiltIn(check_bm25, bm25_job),
    "bm25-labels": BuiltIn(check_bm25, bm25_job),
    "dense": BuiltIn(check_dense, dense_job),
    "dense-texts": BuiltIn(check_dense, dense_job),
    "linear": BuiltIn(check_linear, linear_job),
    "static": BuiltIn(check_static, static_job),
    "static-texts": BuiltIn(check_static, static_job),
    "tree": BuiltIn(lambda settings: None, tree_job),
}


def check(config: Config) -> None:
    """Refuse retrievers that cannot run here, all of them at once, before any work is done."""

    def settings(entry: Retriever) -> Any:
        return config.retrievers.settings(entry.name, entry.settings)

    built_in = [entry for entry in config.retrievers.entries() if entry.learn is None]
    check_all(*(partial(BUILT_IN[entry.name].check, settings(entry)) for entry in built_in))


def check_fused(config: Config, brought: Collection[str] = ()) -> None:
    """Refuse to rank labels for a fusion of fewer than two retrievers; `brought` are those whose lists are given."""
    names = sorted({*brought, *(entry.name for entry in config.retrievers.entries())})
    if len(names) < 2:
        raise ConfigError(
            f"fusion needs two retrievers or more, and {names[0]} is the only one: name others as well, as in "
            "--retrievers bm25,static"
        )


@job
def run(
    engine: Engine[Any], config: Config, begin: Callable[[Retriever], object] = lambda entry: None
) -> dict[str, str]:
    """Bring all candidates up to date; the table of each retriever. `begin` is called before each of them."""
    check(config)
    place = Workspace.of(config)
    work = Work(engine, open_prepared(engine, place.prepared, config.validation_candidates), place)
    tables = {}
    for entry in config.retrievers.entries():
        begin(entry)
        retrieve(work, entry, config)
        tables[entry.name] = place.candidate_lists(entry.name)
    return tables


def retrieve(work: Work, entry: Retriever, config: Config) -> str:
    """Bring the candidates of one retriever up to date; their folder."""
    if entry.learn is None:
        settings = config.retrievers.settings(entry.name, entry.settings)
        todo = BUILT_IN[entry.name].job(work, entry.name, settings)
    else:
        todo = own_job(work, entry, config.retrievers.settings(entry.name, OwnSettings))
    return lists_stage(work, todo, fit_stage(work, todo))
