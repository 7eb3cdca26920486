"""A small prepared dataset and a tiny encoder, for tests of the retrievers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from jobs.storage.stages import run_stage

FOLDS, TEXTS, LABELS, WORDS = 2, 120, 20, 200
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def tiny_bert(folder: Path) -> Path:
    """A BERT of two layers that has learnt nothing, but tells words apart."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    words = [*SPECIAL, *(word(n) for n in range(WORDS))]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    config = BertConfig(vocab_size=len(words), max_position_embeddings=64, initializer_range=0.5, **shape)
    BertModel(config).save_pretrained(folder)
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


def word(number: int) -> str:
    """Words of one length, so that exchanging them changes no padding."""
    return f"w{number:03}"


def make_data() -> dict[str, Any]:
    """Texts that say words of their labels; a label's words are its name and four others."""
    rng = np.random.default_rng(3)
    labels = [sorted(rng.choice(LABELS, rng.integers(1, 4), replace=False).tolist()) for _ in range(TEXTS)]
    texts = []
    for some in labels:
        said = [5 * label + int(rng.integers(5)) for label in some for _ in range(3)]
        texts.append(" ".join(word(n) for n in [*said, *rng.integers(100, WORDS, rng.integers(0, 6)).tolist()]))
    roles = [["test" if t % FOLDS == f else ("train", "validation")[t % 7 == 0] for t in range(TEXTS)] for f in (0, 1)]
    return {"texts": texts, "labels": labels, "roles": roles}


def write_prepared(work: Path, data: dict[str, Any]) -> None:
    samples = {"text_id": list(range(TEXTS)), "text": data["texts"], "label_ids": data["labels"]}
    labels = {
        "label_id": list(range(LABELS)),
        "label": [f"L{n}" for n in range(LABELS)],
        "name": [word(5 * n) for n in range(LABELS)],
        "alt_names": [[word(5 * n + 1), word(5 * n + 2)] if n % 2 else [] for n in range(LABELS)],
        "description": [word(5 * n + 3) if n % 3 else None for n in range(LABELS)],
        "frequency": [sum(n in some for some in data["labels"]) for n in range(LABELS)],
        "label_group": ["head" if n < 8 else "tail" for n in range(LABELS)],
    }
    folds = [(f, t, role) for f, roles in enumerate(data["roles"]) for t, role in enumerate(roles)]
    types = {"label_id": pa.int32(), "label_ids": pa.list_(pa.int32()), "fold": pa.int32()}
    tables = {"samples": samples, "labels": labels}
    tables["folds"] = dict(zip(("fold", "text_id", "role"), map(list, zip(*folds, strict=True)), strict=True))

    def build(folder: Any) -> dict[str, int]:
        for name, columns in tables.items():
            arrays = {column: pa.array(values, types.get(column)) for column, values in columns.items()}
            pq.write_table(pa.table(arrays), f"{folder.uri.removeprefix('file://')}/{name}.parquet")
        return {"texts": TEXTS}

    run_stage("prepare", str(work / "made" / "prepared"), {"data": json.dumps(data)}, build)


def read_lists(folder: str, role: str = "test") -> list[tuple[Any, ...]]:
    rows = pq.read_table(f"{folder}/lists.parquet", filters=[("role", "=", role)]).to_pylist()
    columns = ("fold", "retriever", "text_id", "label_group", "label_ids", "scores")
    return sorted(tuple(tuple(row[c]) if isinstance(row[c], list) else row[c] for c in columns) for row in rows)
