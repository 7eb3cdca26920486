"""The tokens of texts as columns, and how they are read back."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from fusion.errors import InputError
from fusion.retrieval.bags import Bags, counted
from fusion.retrieval.tokens import Tokenizer
from fusion.types import Ints
from udfs.retrieval.folds import read_rows

TOKENS, COUNTS = "tokens", "counts"


@dataclass(frozen=True)
class Words:
    """Words as digests of 64 bits, which need no vocabulary: a text's row depends on this text alone.

    Two of a million words share a digest with a probability of one in 37 million.
    """

    tokenizer: Tokenizer

    @property
    def schema(self) -> pa.Schema:
        return bags_schema(pa.int64())

    @property
    def identity(self) -> list[object]:
        """What the columns depend on, apart from code."""
        return list(asdict(self.tokenizer).values())

    def __call__(self, texts: list[str]) -> pa.RecordBatch:
        cut = [self.tokenizer(text) for text in texts]
        words = pa.array([word for words in cut for word in words], pa.string()).dictionary_encode()
        digests = np.array([word_digest(word) for word in words.dictionary.to_pylist()], np.int64)
        offset = np.concatenate(([0], np.cumsum([len(words) for words in cut]))).astype(np.int64)
        return bag_columns(counted(digests[words.indices.to_numpy()], offset))


def word_digest(word: str) -> int:
    """The number that a word is known by."""
    return int.from_bytes(blake2b(word.encode(), digest_size=8).digest(), "little", signed=True)


def bags_schema(token: pa.DataType) -> pa.Schema:
    return pa.schema([(TOKENS, pa.list_(token)), (COUNTS, pa.list_(pa.float32()))])


def bag_columns(bags: Bags) -> pa.RecordBatch:
    """Bags as columns of a table."""
    offset, token = pa.array(bags.offset, pa.int32()), pa.array(bags.token)
    lists = [pa.ListArray.from_arrays(offset, values) for values in (token, pa.array(bags.times, pa.float32()))]
    return pa.record_batch(lists, schema=bags_schema(token.type))


def bags_of(rows: pa.RecordBatch | pa.Table) -> Bags:
    """Bags from the columns of a table."""
    tokens, counts = (_one_array(rows[name]) for name in (TOKENS, COUNTS))
    offset = np.concatenate(([0], np.cumsum(tokens.value_lengths().to_numpy()))).astype(np.int64)
    return Bags(offset, tokens.flatten().to_numpy(), counts.flatten().to_numpy())


def read_bags(uri: str, ids: pa.Array) -> Bags:
    """The tokens of some texts, in the order of the ids, which are ascending."""
    rows = read_rows(uri, ["id", TOKENS, COUNTS], ds.field("id").isin(ids)).sort_by("id")
    if len(rows) != len(ids):
        raise InputError(f"{len(ids) - len(rows):,} texts have no tokens in {uri}")
    return bags_of(rows)


def read_sizes(uri: str, ids: pa.Array) -> Ints:
    """How many distinct tokens some texts have, in the order of the ids, which are ascending."""
    rows = read_rows(uri, ["id", COUNTS], ds.field("id").isin(ids)).sort_by("id")
    return _one_array(rows[COUNTS]).value_lengths().to_numpy().astype(np.int64)


def _one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return (
        pa.concat_arrays(column.chunks)
        if isinstance(column, pa.ChunkedArray) and column.num_chunks
        else (column if isinstance(column, pa.Array) else pa.array([], column.type))
    )
