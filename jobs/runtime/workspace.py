"""Where everything below the work folder lies. No other module joins a path to `work.path`.

Stages and results are folders with versions (jobs/runtime/versions.py); the paths here are those of the folders, and
`stage_folder` says where the version is that a job reads.

<work>/<dataset>/prepared            samples.parquet, labels.parquet, folds.parquet, statistics.json
                 bm25/index/fold=N   the BM25 index of a fold
                 bm25/lists/fold=N   the ranked labels of its test texts
                 bm25/validation_lists/fold=N  those of its validation texts
                 vectors/<model>     vectors of texts and labels, in chunks
                 dense/model         what was trained for each fold
                 dense/index         the label vectors of each fold
                 <name>/model        what another retriever has learned from each fold
                 candidates/<name>   the lists of a retriever, all folds together, in one folder per role of texts
                 results             the figures of `run`
                 tuned               the figures of `tune`, and its model file
                 report              their report
                 nightly             the figures of the last night
<work>/nightly/<night>               the report and summary of one night
       history                       the tables of all nights, and the lease of the one at work
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from fusion.errors import InputError
from jobs.datasets.roles import TEST
from jobs.runtime.folders import output_errors, probe
from jobs.runtime.stages import stage_fingerprint
from jobs.settings.prepare import WorkSettings
from udfs.stores.addresses import for_spark

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

    def bm25_index(self, fold: int, retriever: str = "bm25") -> str:
        return self.retriever_stage(retriever, f"index/fold={fold}")

    def bm25_lists(self, fold: int, retriever: str = "bm25", role: str = TEST) -> str:
        stage = "lists" if role == TEST else f"{role}_lists"
        return self.retriever_stage(retriever, f"{stage}/fold={fold}")

    def retriever_stage(self, retriever: str, stage: str) -> str:
        """A stage on the way to a retriever's candidates, such as its index or what it has learned."""
        return f"{self.folder}/{retriever}/{stage}"

    def vectors(self, model: str) -> str:
        """The vectors that one encoder has made; `model` is its name there."""
        return f"{self.folder}/vectors/{model}"

    def fold_vectors(self, fold: int) -> str:
        """The vectors by the model that was fine-tuned for a fold."""
        return self.vectors(f"tuned-fold={fold}")

    @property
    def dense_model(self) -> str:
        return f"{self.folder}/dense/model"

    @property
    def dense_index(self) -> str:
        return f"{self.folder}/dense/index"

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
    def nightly_results(self) -> str:
        """The figures of the dataset as the last night left them."""
        return f"{self.folder}/nightly"

    def night(self, run_id: str) -> str:
        """What a night publishes."""
        return f"{self._work}/nightly/{run_id}"

    @property
    def history(self) -> str:
        return f"{self.work_path.rstrip('/')}/history"
