"""An index of BM25 over texts with labels, as the retriever makes it, without a prepared dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from fusion.retrieval.tokens import Tokenizer
from udfs.retrieval.bm25 import Bm25, BoundIndex
from udfs.retrieval.folds import FoldSource
from udfs.retrieval.retriever import Scoring, encode_rows, fold_folder
from udfs.retrieval.words import Words

GROUPS = ("head", "tail")


@dataclass(frozen=True)
class Corpus:
    """Texts with the labels of each, and the group of each label."""

    texts: Sequence[str]
    labels: Sequence[Sequence[int]]
    groups: Sequence[str]

    def index(self, folder: Path, scoring: Scoring) -> BoundIndex:
        """Tokenise the texts and index them; everything is written to the folder."""
        ids = pa.array(range(len(self.texts)), pa.int64())
        words = Words(Tokenizer())
        lists = pa.array(self.labels, pa.list_(pa.int32()))
        pq.write_table(pa.table({"text_id": ids, "label_ids": lists}), folder / "samples.parquet")
        numbers = pa.array(range(len(self.groups)), pa.int32())
        pq.write_table(pa.table({"label_id": numbers, "label_group": list(self.groups)}), folder / "labels.parquet")
        roles = pa.table({"fold": pa.array([0] * len(ids), pa.int32()), "text_id": ids, "role": ["train"] * len(ids)})
        pq.write_table(roles, folder / "folds.parquet")
        step = encode_rows(words, ids.type)
        rows = pa.table({"id": ids, "text": list(self.texts)}).to_batches()
        pq.write_table(pa.Table.from_batches(step(iter(rows)), step.schema), folder / "tokens.parquet")
        retriever = Bm25("bm25", GROUPS, words, str(folder / "tokens.parquet"), None, 1.5, 0.75, scoring)
        retriever.fit(FoldSource(0, str(folder)), str(folder))
        return retriever.open(Path(fold_folder(str(folder), 0)))
