"""Where everything below the work folder lies. No other module joins a path to `work.path`.

<work>/<dataset>/prepared            samples.parquet, labels.parquet, folds.parquet, statistics.json
                 bm25/index/fold=N   the BM25 index of a fold
                 bm25/lists/fold=N   the ranked labels of its test texts
                 vectors/<model>     vectors of texts and labels, in chunks
                 dense/model         what was trained for each fold
                 dense/index         the label vectors of each fold
                 <name>/model        what another retriever has learned from each fold
                 candidates/<name>   the lists of a retriever, all folds together
                 results             the figures of `run`
                 report              their report
                 nightly             the figures of the last nightly run
<work>/nightly/<run>                 the report and summary of one night
       history                       the tables of all nights
       nightly.lock                  held by the nightly run at work
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from jobs.settings.prepare import WorkSettings
from udfs.storage import in_volume, local_folder

SAMPLES, LABELS, FOLDS = "samples.parquet", "labels.parquet", "folds.parquet"
"""The prepared tables."""
STATISTICS = "statistics.json"
LISTS = "lists.parquet"
"""The ranked lists in the folder of a retriever's candidates."""
VECTORS = "vectors.parquet"
"""The vectors in the folder of a chunk."""


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
    def folder(self) -> str:
        """The folder of the dataset."""
        return f"{self.work_path.rstrip('/')}/{self.dataset}"

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

    def bm25_lists(self, fold: int, retriever: str = "bm25") -> str:
        return self.retriever_stage(retriever, f"lists/fold={fold}")

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
    def report(self) -> str:
        return f"{self.folder}/report"

    @property
    def nightly_results(self) -> str:
        """The figures of the dataset as the last nightly run left them."""
        return f"{self.folder}/nightly"

    def night(self, run_id: str) -> str:
        """What a nightly run publishes."""
        return f"{self.work_path.rstrip('/')}/nightly/{run_id}"

    @property
    def history(self) -> str:
        return f"{self.work_path.rstrip('/')}/history"

    @property
    def nightly_lock(self) -> Path | None:
        """The lock of nightly runs; None on storage where a lock file cannot be made by one process alone."""
        work = local_folder(self.work_path)
        return None if work is None or in_volume(work) else work / "nightly.lock"
