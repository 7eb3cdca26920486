"""Where everything below the work folder is, and when it goes. No other module joins a path to `work.path`.

Stages and results are folders with versions (jobs/storage/versions.py); the paths here are those of the folders, and
`stage_folder` says where the version is that a job reads.

<work>/<dataset>/prepared            samples.parquet, labels.parquet, folds.parquet, statistics.json
                 tokens/<tokenizer>  the tokens of texts and of the labels' words
                 vectors/<model>     vectors of texts and labels, in chunks
                 dense/trained       what was trained for each fold
                 <name>/model        what a retriever has learned from each fold: fold=N has all that ranks texts
                 fit/<name>/model    what it has learned from all texts, for the model that labels new ones
                 fitted.json         how that model did on validation texts
                 candidates/<name>   the lists of a retriever, all folds together, in one folder per role of texts
                 results             the figures of `run`
                 tuned               the figures of `tune`, and its model file
                 report              their report
                 nightly             the figures of the last night
<work>/nightly/<night>               the report and summary of one night
       history                       the tables of all nights, and the lease of the one at work
"""

from __future__ import annotations

import posixpath
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from fusion.errors import InputError
from jobs.runtime.log import log
from jobs.settings.prepare import WorkSettings
from jobs.storage.folders import output_errors, probe
from jobs.storage.stages import MADE_FROM, stage_fingerprint
from jobs.storage.versions import HIDDEN, STAGE_FILE, VERSION_NAME, Versions, pointer, version_of
from udfs.stores.addresses import for_spark, locate, without_dots
from udfs.stores.objects import delete_folder, files_below

TRAIN, VALIDATION, TEST = "train", "validation", "test"


SAMPLES, LABELS, FOLDS = "samples.parquet", "labels.parquet", "folds.parquet"
"""The prepared tables."""
STATISTICS = "statistics.json"
LISTS = "lists.parquet"
"""The ranked lists in the folder of a retriever's candidates."""
VECTORS = "vectors.parquet"
"""The vectors in the folder of a chunk."""


def role_lists(folder: str, role: str) -> str:
    """Where a folder of candidates has the lists of the texts with a role, which readers see as the column `role`."""
    return f"{folder}/{LISTS}/role={role}"


def check_work(config: Placed) -> None:
    """Refuse a work folder that cannot be written and read, before any work is done."""
    place = Workspace.of(config).folder
    with output_errors(place):
        probe(place)


def check_prepared(path: str) -> None:
    """Refuse the folder of a dataset's prepared tables where `prepare` has not written them yet."""
    if stage_fingerprint(path) is None:
        raise InputError(f"{path} is not there: run 'xmtc-fusion prepare' with the same work.path and dataset first")


class Placed(Protocol):
    """The settings that decide where things lie."""

    @property
    def dataset(self) -> str: ...
    @property
    def work(self) -> WorkSettings: ...


@dataclass(frozen=True)
class Workspace:
    """The folders and files of one dataset, and those that all datasets of a work folder share."""

    work_path: str
    dataset: str
    models: str = ""
    """A folder of their own for what retrievers learn; nothing for what they learn from folds."""

    @classmethod
    def of(cls, config: Placed) -> Workspace:
        """The workspace that a configuration names."""
        return cls(config.work.path, config.dataset)

    @property
    def _work(self) -> str:
        """The work folder as Spark names it, which Python understands, too."""
        return for_spark(self.work_path).rstrip("/")

    @property
    def folder(self) -> str:
        """The folder of the dataset."""
        return f"{self._work}/{self.dataset}"

    @property
    def prepared(self) -> str:
        return f"{self.folder}/prepared"

    @property
    def samples(self) -> str:
        return f"{self.prepared}/{SAMPLES}"

    @property
    def labels(self) -> str:
        return f"{self.prepared}/{LABELS}"

    @property
    def folds(self) -> str:
        return f"{self.prepared}/{FOLDS}"

    @property
    def statistics(self) -> str:
        return f"{self.prepared}/{STATISTICS}"

    def tokens(self, tokenizer: str, what: str) -> str:
        """The tokens of all texts, or of the labels' words, by one tokenizer."""
        return f"{self.folder}/tokens/{tokenizer}/{what}"

    def retriever_stage(self, retriever: str, stage: str) -> str:
        """A stage on the way to a retriever's candidates, such as its index or what it has learned."""
        return posixpath.join(self.folder, self.models, retriever, stage)

    def vectors(self, model: str) -> str:
        """The vectors that one encoder has made; `model` is its name there."""
        return f"{self.folder}/vectors/{model}"

    def candidates(self, retriever: str) -> str:
        """The folder of a retriever's candidates, which is a stage."""
        return f"{self.folder}/candidates/{retriever}"

    def candidate_lists(self, retriever: str) -> str:
        """The table of a retriever's candidates."""
        return f"{self.candidates(retriever)}/{LISTS}"

    @property
    def results(self) -> str:
        return f"{self.folder}/results"

    @property
    def tuned(self) -> str:
        return f"{self.folder}/tuned"

    @property
    def report(self) -> str:
        return f"{self.folder}/report"

    @property
    def fitted(self) -> str:
        """How the model that was last fitted did on validation texts."""
        return f"{self.folder}/fitted.json"

    @property
    def nightly_results(self) -> str:
        """The figures of the dataset as the last night left them."""
        return f"{self.folder}/nightly"

    def night(self, run_id: str) -> str:
        """What a night publishes."""
        return f"{self._work}/nightly/{run_id}"

    @property
    def history(self) -> str:
        return f"{self.work_path.rstrip('/')}/history"


LEFT_AFTER = 48.0
"""Hours after which a version without a marker is taken for one that a killed writer left."""


@dataclass
class _Version:
    """What is known of a version from a listing."""

    modified: float = 0.0
    complete: bool = False


def sweep(folder: str, keep: int, hours: float) -> list[str]:
    """Remove versions of stages below a folder; where they were.

    Of each stage, the current version and the newest of the others stay, `keep` in all, and so does whatever the marker
    of any version names. The rest goes once it is older than `hours`; so does what killed writers have left.
    """
    stages = _listed(folder)
    if not any(len(versions) > 1 for versions in stages.values()) and all(
        version.complete for versions in stages.values() for version in versions.values()
    ):
        return []
    named = _named(stages)
    now, removed = time.time(), []
    for root, versions in stages.items():
        finished = {name: version.modified for name, version in versions.items() if version.complete}
        newest = sorted(finished, key=lambda name: finished[name], reverse=True)
        current = pointer(root)
        kept = {current, *[name for name in newest if name != current][: keep - 1]}
        for name, version in versions.items():
            old = now - version.modified > 3600 * (hours if version.complete else max(hours, LEFT_AFTER))
            if old and name not in kept and (root, name) not in named:
                delete_folder(f"{root}/{name}")
                removed.append(f"{root}/{name}")
    if removed:
        log(f"{len(removed)} old version{'s' * (len(removed) > 1)} of stages removed (work.keep is {keep})")
    return removed


def _listed(folder: str) -> dict[str, dict[str, _Version]]:
    """The versions of all stages below a folder, from one listing of it."""
    base = str(locate(folder))
    stages: dict[str, dict[str, _Version]] = defaultdict(lambda: defaultdict(_Version))
    for listed in files_below(base):
        steps = listed.name.split("/")
        for place, step in enumerate(steps):
            if not VERSION_NAME.fullmatch(step) or HIDDEN in steps[:place]:
                continue
            version = stages["/".join([base, *steps[:place]])][step]
            version.modified = max(version.modified, listed.modified)
            version.complete |= steps[place + 1 :] == [STAGE_FILE]
            break
    return stages


def _named(stages: dict[str, dict[str, _Version]]) -> set[tuple[str, str]]:
    """Every version that a marker says something was made from."""
    return {made_from for root, versions in stages.items() for name in versions for made_from in _made_from(root, name)}


def _made_from(root: str, version: str) -> list[tuple[str, str]]:
    """The folders and versions that the marker of a version names."""
    about = Versions.of_stage(root).about(version) or {}
    return [(without_dots(f"{root}/{place}"), name) for place, name in (about.get(MADE_FROM) or {}).items()]


PREPARED = "prepared"
"""The stage that all others of a dataset are made from."""


def check_lineage(sources: Iterable[str]) -> None:
    """Refuse inputs of which some were made from another version of the prepared dataset than is read now."""
    read: dict[str, tuple[str, str]] = {}
    made_from: dict[str, set[tuple[str, str]]] = {}
    for source in sources:
        root, version = version_of(source) or ("", "")
        if not version:
            continue
        if _is_prepared(root):
            read[root] = (source, version)
        made_from[source] = {(place, name) for place, name in ancestors(root, version) if _is_prepared(place)}
    for source, inputs in made_from.items():
        for place, name in sorted(inputs):
            other, version = read.get(place, ("", name))
            if _fingerprint(version) != _fingerprint(name):
                raise InputError(
                    f"{source} was made from another version of the prepared dataset ({_fingerprint(name)}) than "
                    f"{other} holds now ({_fingerprint(version)}): run the retriever again, or 'xmtc-fusion run'"
                )


def _is_prepared(root: str) -> bool:
    return posixpath.basename(root) == PREPARED


def ancestors(root: str, version: str) -> set[tuple[str, str]]:
    """The folders and versions that a version was made from, those that these were made from, and so on."""
    ancestors: set[tuple[str, str]] = set()
    waiting = [(root, version)]
    while waiting:
        before = set(_made_from(*waiting.pop())) - ancestors
        ancestors |= before
        # Nothing lies between a prepared dataset and the files that it was read from.
        waiting += [place for place in before if not _is_prepared(place[0])]
    return ancestors


def _fingerprint(version: str) -> str:
    return version.partition("-")[0]
