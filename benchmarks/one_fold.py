"""One fold of the demo without Spark: the tables, vectors, lists and figures, by the workers' own code."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.retrievers import ASPECTS, FAVOURITE, figures
from fusion.cells import SINGLE, Cell
from fusion.labels import pareto_groups
from fusion.retrieval.contrastive import Training
from jobs.evaluation import evaluate
from jobs.settings.built_in import Bm25Settings
from jobs.settings.config import load_config
from tests.demo import demo_rows
from udfs.retrieval.bm25 import Bm25
from udfs.retrieval.encode import Encoder, encode, load_encoder
from udfs.retrieval.folds import FoldSource, read_rows
from udfs.retrieval.retriever import Models, Retriever, Scoring, encode_rows, rank_texts
from udfs.retrieval.vectors import Dense, Index, ProjectionTraining, VectorTables, train_projection
from udfs.retrieval.words import Words

GROUPS = ("head", "tail")
TEST_OF, VALIDATION_OF = 5, 10
"""Every fifth text is a test text, and every tenth of the others a validation text."""
SCORING = Scoring(neighbours=64, aggregation="max", top=64)


class Vectors(NamedTuple):
    """Where the vectors of texts and of labels are."""

    texts: str
    labels: str


class Projections(NamedTuple):
    """Trained heads, and the validation MRR before training and after each epoch."""

    folder: str
    mrr: list[float]


@dataclass(frozen=True)
class OneFold:
    """A folder with the tables of one fold, and what was made of them."""

    folder: Path

    @property
    def words(self) -> Path:
        """What labels are called: (id, text)."""
        return self.folder / "words.parquet"

    def source(self) -> FoldSource:
        return FoldSource(0, str(self.folder.absolute()))

    def write(self, limit: int) -> dict[str, int]:
        """Write the tables of the demo's texts, at most `limit` of them; how many there are of each kind."""
        self.folder.mkdir(parents=True, exist_ok=True)
        rows, labels = demo_rows("texts"), demo_rows("labels")
        rows = sorted(rows, key=lambda row: _hash("limit", row["text_id"]))[:limit]
        number = {row["label"]: n for n, row in enumerate(labels)}
        carried = [sorted({number[label] for label in row["labels"]}) for row in rows]
        counts = np.bincount(np.concatenate(carried), minlength=len(labels))
        used = np.flatnonzero(counts)
        place = {old: new for new, old in enumerate(used.tolist())}
        ids = pa.array([int(row["text_id"]) for row in rows], pa.int64())
        lists = pa.array([[place[label] for label in some] for some in carried], pa.list_(pa.int32()))
        write_columns(self.folder / "samples.parquet", text_id=ids, text=[row["text"] for row in rows], label_ids=lists)
        names = [labels[old]["name"] for old in used]
        write_columns(
            self.folder / "labels.parquet",
            label_id=pa.array(range(len(used)), pa.int32()),
            name=names,
            alt_names=pa.array([[]] * len(used), pa.list_(pa.string())),
            description=[""] * len(used),
            label_group=pareto_groups(np.arange(len(used)), counts[used]).tolist(),
        )
        write_columns(self.words, id=pa.array(range(len(used)), pa.int64()), text=names)
        roles = [_role(row["key"]) for row in rows]
        write_columns(
            self.folder / "folds.parquet", fold=pa.array([0] * len(rows), pa.int32()), text_id=ids, role=roles
        )
        pairs = sum(len(some) for some, role in zip(carried, roles, strict=True) if role == "train")
        by_role = {role: roles.count(role) for role in ("train", "validation", "test")}
        return {"texts": len(rows), "labels": len(used), "pairs": pairs, **by_role}

    def encoded(self, encoder: Encoder, name: str) -> Vectors:
        """The vectors of all texts and label names, unless they are there."""
        paths = [self.folder / f"{name}-{what}.parquet" for what in ("texts", "labels")]
        for path, table, number in zip(paths, ("samples.parquet", "words.parquet"), ("text_id", "id"), strict=True):
            if not path.exists():
                rows = read_rows(str(self.folder / table), [number, "text"])
                texts = rows["text"].to_pylist()
                vectors = encode(load_encoder(encoder), texts, encoder.batch_size, encoder.precision)
                write_columns(path, id=rows[number], vector=pa.array(list(vectors), pa.list_(pa.float32())))
        return Vectors(*map(str, paths))

    def projections(self, vectors: Vectors, parts: Sequence[str], training: Training) -> Projections:
        folder = str(self.folder / f"heads-{'-'.join(parts)}")
        work = ProjectionTraining(_tables(vectors, parts), "train_texts" in parts, training)
        done = train_projection(folder, work)(self.source())
        return Projections(f"{folder}/fold=0", done["mrr"])

    def dense(self, encoder: Encoder, vectors: Vectors, parts: Sequence[str], heads: str | None) -> str:
        """The lists of the test texts, by vectors and perhaps heads."""
        name = f"{Path(vectors.texts).stem}-{'-'.join(parts)}-{'heads' if heads else 'plain'}"
        retriever = Dense(
            name="dense",
            groups=GROUPS,
            encoder=encoder,
            tables=(_tables(vectors, parts),),
            trained=str(Path(heads).parent) if heads else None,
            fingerprint=name,
            train_texts="train_texts" in parts,
            by_texts=False,
            index=Index(None),
            scoring=SCORING,
        )
        return self._lists(name, retriever, vectors.texts)

    def bm25(self) -> str:
        """The lists of BM25 over the training texts."""
        words, tokens = Words(Bm25Settings().tokenizer.tokenizer), self.folder / "tokens.parquet"
        samples = read_rows(str(self.folder / "samples.parquet"), ["text_id", "text"]).rename_columns(["id", "text"])
        step = encode_rows(words, samples.schema.field("id").type)
        pq.write_table(pa.Table.from_batches(step(iter(samples.to_batches())), step.schema), tokens)
        return self._lists("bm25", Bm25("bm25", GROUPS, words, str(tokens), None, 1.5, 0.75, SCORING), str(tokens))

    def figures(self, bm25: str, dense: str) -> dict[str, list[float]]:
        """By retriever and for both fused: nDCG@10 and P@1, tail and head."""
        chosen: dict[str, Any] = {
            "inputs.candidates": {"bm25": bm25, "dense": dense},
            "inputs.judgements": str(self.folder / "samples.parquet"),
            "inputs.label_groups": str(self.folder / "labels.parquet"),
            "inputs.folds": str(self.folder / "folds.parquet"),
            "grid.engine": "local",
            "grid.cells": [str(FAVOURITE)],
            "evaluate.metrics": ["ndcg@10", "precision@1"],
            "evaluate.label_groups": ["tail", "head"],
            "evaluate.details": False,
        }
        found = figures(evaluate.compute(None, load_config(None, chosen)), ["bm25", "dense"])
        cells = {"bm25": Cell(SINGLE, "bm25"), "dense": Cell(SINGLE, "dense"), "fused": FAVOURITE}
        return {name: [found.of[aspect][cell] for aspect in ASPECTS] for name, cell in cells.items()}

    def _lists(self, name: str, retriever: Retriever, encoded: str) -> str:
        """Fit the fold, and rank labels for its test texts."""
        models, path = str(self.folder / f"models-{name}"), self.folder / f"lists-{name}.parquet"
        retriever.fit(self.source(), models)
        step = rank_texts(Models(retriever, models, name, self.source().prepared), "test", pa.int64())
        pq.write_table(pa.Table.from_batches(step(iter(pq.read_table(encoded).to_batches())), step.schema), path)
        return str(path)


def _tables(vectors: Vectors, parts: Sequence[str]) -> VectorTables:
    return VectorTables((vectors.texts,), (vectors.labels,) if "name" in parts else ())


def write_columns(path: Path, **columns: Any) -> None:
    """Write a table."""
    pq.write_table(pa.table(columns), path)


def _hash(purpose: str, value: object) -> int:
    return zlib.crc32(f"{purpose} {value}".encode())


def _role(key: object) -> str:
    """Texts of one key have one role."""
    if _hash("test", key) % TEST_OF == 0:
        return "test"
    return "validation" if _hash("validation", key) % VALIDATION_OF == 0 else "train"
