"""A table of words, and steps over it, in a module that Spark's workers can import."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from udfs.steps import Step, whole_keys

WORDS = pa.table(
    {
        "id": pa.array(range(5_000), pa.int64()),
        "word": [f"w{n * 7 % 13}" if n % 11 else None for n in range(5_000)],
        "sizes": pa.array([[n % 3, n % 5] for n in range(5_000)], pa.list_(pa.int32())),
    }
)
COUNTED = pa.schema([("word", pa.string()), ("first", pa.int64()), ("texts", pa.int64())])


def doubled(batches):
    for batch in batches:
        twice = pc.multiply(batch["id"], 2)
        yield pa.RecordBatch.from_arrays([twice, batch["word"]], ["id", "word"])


DOUBLED = Step(doubled, pa.schema([("id", pa.int64()), ("word", pa.string())]))


def counted(batches):
    for table in whole_keys(batches, ["word"]):
        starts = pc.unique(table["word"]).to_pylist()
        for word in starts:
            same = pc.is_null(table["word"]) if word is None else pc.fill_null(pc.equal(table["word"], word), False)
            rows = table.filter(same)
            yield pa.RecordBatch.from_pylist(
                [{"word": word, "first": rows["id"][0].as_py(), "texts": len(rows)}], COUNTED
            )
