"""A dataset whose inputs a simulator changes from night to night, and what its figures are by the plain formulas."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import stats

from fusion.statistics.gate import ENOUGH_COMMON
from jobs.settings.config import Config
from tests.nights import Site, good_texts
from tests.plain_metrics import figure, ranked

TEXTS, SPARE = 200, 300
"""Texts of the first night, and texts that are new on a later one."""
FOLDS = 3
METRICS = (("ndcg", 10), ("precision", 1))
METRIC_NAMES = [f"{metric}@{k}" for metric, k in METRICS]
RETRAINED, NOISE = 0.3, 1.5
"""The share of lists whose scores come out otherwise when a retriever is trained again, and by how much."""
Row = dict[str, Any]


class Figure(NamedTuple):
    """What is watched of a retriever alone."""

    retriever: str
    label_group: str
    metric: str
    k: int


Figures = dict[Figure, dict[tuple[int, int, tuple[int, ...]], float]]
"""Of every fold, text and its relevant labels."""


@dataclass(frozen=True)
class Data:
    """The inputs of a night, before chance has its part in the scores."""

    lists: tuple[Row, ...]
    """Each with a `slot`: the first or second fold that the text is tested in."""
    judgements: Mapping[int, tuple[int, ...]]
    folds: Mapping[int, tuple[int, ...]]
    """The folds of each text that there is."""

    def texts(self) -> list[int]:
        return sorted(self.folds)

    def fold(self, row: Row) -> int:
        return self.folds[row["text_id"]][row["slot"]]

    def ruined(self, texts: Collection[int], chosen: Callable[[Row], bool] = lambda row: True) -> Data:
        """The labels of the dense retriever's lists in reverse order."""

        def change(row: Row) -> Row:
            hit = row["retriever"] == "dense" and row["text_id"] in texts and chosen(row)
            if not hit:
                return row
            place = np.argsort(np.argsort(row["scores"]))
            return {**row, "scores": np.sort(row["scores"])[::-1][place].tolist()}

        return self.with_lists(change)

    def with_folds(self, folds: Mapping[int, tuple[int, ...]]) -> Data:
        """With further texts, or other folds of those that there are."""
        return replace(self, folds={**self.folds, **folds})

    def without_texts(self, texts: Collection[int]) -> Data:
        return replace(self, folds={text: folds for text, folds in self.folds.items() if text not in texts})

    def with_lists(self, change: Callable[[Row], Row | None]) -> Data:
        return replace(self, lists=tuple(row for row in map(change, self.lists) if row is not None))


class SimulatedSite(Site):
    """A site that writes the inputs of a night, knows their figures, and can be killed."""

    def __init__(self, folder: Path, seed: int, repeated: bool, texts: int = TEXTS) -> None:
        super().__init__(folder, good_texts(texts + SPARE), folds=FOLDS)
        self.rng = np.random.default_rng(seed)
        self.repeated = repeated
        slots = 2 if repeated else 1
        lists = tuple(self._of_slot(row, slot) for row in self._rows("candidates") for slot in range(slots))
        judgements = {row["text_id"]: tuple(row["label_ids"]) for row in self._rows("judgements")}
        folds = {text: tuple((text + slot) % FOLDS for slot in range(slots)) for text in judgements}
        self.every = Data(lists, judgements, folds)
        self.data = replace(self.every, folds={text: folds[text] for text in range(texts)})
        self.tail = {row["label_id"] for row in self._rows("labels") if row["label_group"] == "tail"}

    def _rows(self, table: str) -> list[Row]:
        rows: list[Row] = pq.read_table(self.folder / f"{table}.parquet").to_pylist()
        return rows

    def _of_slot(self, row: Row, slot: int) -> Row:
        """What the retriever of another fold returns for the same text: much less of it relevant."""
        scores = np.array(row["scores"]) + slot * self.rng.normal(0, 3, len(row["scores"]))
        return {**row, "scores": scores.tolist(), "slot": slot}

    def write(self) -> None:
        """The inputs as Parquet. Some lists come out a little different, as from retrievers that were trained again; by
        how much does not depend on the night before, so that quiet nights are exchangeable."""
        rows = []
        for row in self.data.lists:
            if row["text_id"] in self.data.folds:
                scores = np.array(row["scores"])
                if self.rng.random() < RETRAINED:
                    scores = scores + self.rng.normal(0, NOISE, len(scores))
                scores = scores * row.get("scale", 1.0)
                rows.append({**row, "scores": scores.tolist(), "fold": self.data.fold(row)})
        names = ["retriever", "text_id", "label_group", "label_ids", "scores"] + ["fold"] * self.repeated
        folds = [{"fold": fold, "text_id": text} for text, of_text in self.data.folds.items() for fold in of_text]
        judgements = [{"text_id": text, "label_ids": self.data.judgements[text]} for text in self.data.folds]
        self._write("candidates", ({name: row[name] for name in names} for row in rows))
        self._write("judgements", judgements)
        self._write("folds", folds)

    def _write(self, table: str, rows: Iterable[Row]) -> None:
        path = self.folder / f"{table}.parquet"
        schema = pq.read_schema(path)
        if table == "candidates" and self.repeated and "fold" not in schema.names:
            schema = schema.append(pa.field("fold", pa.int32()))
        pq.write_table(pa.Table.from_pylist(list(rows), schema), path)

    def figures(self) -> Figures:
        """The figures of the retrievers alone, from what was written."""
        lists: dict[tuple[str, str, int, int], dict[int | str, float]] = {}
        for row in self._rows("candidates"):
            folds = [row["fold"]] if self.repeated else self.data.folds[row["text_id"]]
            scores = dict(zip(row["label_ids"], row["scores"], strict=True))
            lists.update({(row["retriever"], row["label_group"], fold, row["text_id"]): scores for fold in folds})
        found: Figures = {}
        for retriever in sorted({key[0] for key in lists}):
            for group in ("tail", "head"):
                for text, labels in ((text, self.data.judgements[text]) for text in self.data.folds):
                    relevant = [label for label in labels if (label in self.tail) == (group == "tail")]
                    for fold in self.data.folds[text] if relevant else ():
                        ranking = ranked(lists.get((retriever, group, fold, text), {}))
                        for metric, k in METRICS:
                            value = figure(metric, k, ranking, relevant, len(labels))
                            of_texts = found.setdefault(Figure(retriever, group, metric, k), {})
                            of_texts[fold, text, tuple(sorted(labels))] = value
        return found

    def config(self, run_id: str, **settings: Any) -> Config:
        return super().config(run_id, **{"nightly__watch__metrics": METRIC_NAMES, **settings})

    def kill(self, run_id: str, **settings: Any) -> bool:
        """A night in a process of its own that is killed when it has begun to write figures into the history; whether
        it was still at work then."""
        file = self.folder / "killed.yaml"
        file.write_text(self.config(run_id, **settings).to_yaml())
        written = self.work / "history" / "query_figures" / f"run_id={run_id}"
        command = [sys.executable, "-m", "jobs.cli", "nightly", "--config", str(file)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and not written.exists():
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        return process.wait() == -signal.SIGKILL

    def lose(self, table: str) -> None:
        """A table of the history is gone."""
        shutil.rmtree(self.work / "history" / table)

    def lose_last_commit(self, table: str) -> None:
        """The last entry of a table's log is gone, as after a copy that was not complete."""
        log = self.work / "history" / table / "_delta_log"
        last = max(path.name.partition(".")[0] for path in log.glob("*.json"))
        for path in log.glob(f"{last}*"):
            path.unlink()
        (log / "_last_checkpoint").unlink(missing_ok=True)


def differences(before: Figures, tonight: Figures) -> dict[Figure, np.ndarray]:
    """How each text's figure changed, of the texts that both nights test in the same fold and judge alike; nothing
    where that are too few to compare text by text."""
    found = {}
    for watched in before.keys() & tonight.keys():
        was, now = before[watched], tonight[watched]
        common = sorted(was.keys() & now.keys())
        if len(common) >= max(2, ENOUGH_COMMON * len(now)):
            found[watched] = np.array([now[key] - was[key] for key in common])
    return found


def smallest_p(differences: Mapping[Figure, np.ndarray], tolerance: float) -> float:
    """The smallest p-value of a drop beyond the tolerance, by SciPy's test."""
    p = [
        float(stats.ttest_1samp(d, -tolerance, alternative="less").pvalue) if np.ptp(d) else float(d[0] >= -tolerance)
        for d in differences.values()
    ]
    return min(p, default=1.0)
