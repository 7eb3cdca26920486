"""The stages that hold the tokens of all texts: one per tokenizer, for all folds and all retrievers that use it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jobs.retrievers.stages import Encoded, Texts, Work, encode_stage
from jobs.storage.stages import fingerprint
from jobs.storage.workspace import LABELS
from udfs.retrieval.folds import label_words
from udfs.retrieval.retriever import Encoding
from udfs.steps import Batches, Step

CODE = ("fusion.retrieval.tokens", "udfs.retrieval.words")
"""What decides what a text's tokens are."""


def text_tokens(work: Work, kind: str, encoding: Encoding, identity: Sequence[Any]) -> Encoded:
    """The tokens of all texts; `identity` holds what they depend on, apart from code."""
    texts = Texts(f"{kind} of texts", work.texts, work.prepared.texts, work.prepared.ids)
    return _stage(work, texts, kind, "texts", encoding, list(identity))


def label_tokens(
    work: Work, kind: str, encoding: Encoding, identity: Sequence[Any], parts: Sequence[str], separator: str
) -> Encoded:
    """The tokens of what labels are called: those columns of the table of labels that are named."""
    texts = Texts(f"{kind} of labels", lambda: label_rows(work, parts, separator), work.prepared.labels, pa.int64())
    return _stage(work, texts, kind, "labels", encoding, [*identity, *parts, separator])


def label_rows(work: Work, parts: Sequence[str], separator: str, named: bool = False) -> Any:
    """The words of labels, as rows (id, text); with `named`, labels without a word are left out."""
    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])

    def run(batches: Batches) -> Batches:
        for batch in batches:
            texts = label_words(batch, parts, separator)
            rows = pa.RecordBatch.from_arrays([batch["label_id"].cast(pa.int64()), texts], schema=schema)
            yield rows.filter(pc.not_equal(texts, "")) if named else rows

    columns = ["label_id", *dict.fromkeys(parts)]
    return work.engine.map(work.engine.read(work.prepared.table(LABELS), columns), Step(run, schema))


def _stage(work: Work, texts: Texts, kind: str, folder: str, encoding: Encoding, identity: Sequence[Any]) -> Encoded:
    name = f"{kind.replace(' ', '-')}-{fingerprint(identity)[:8]}"
    return encode_stage(work, texts, work.place.tokens(name, folder), encoding, {"tokens": list(identity)}, CODE)
