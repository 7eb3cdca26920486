"""The vectors of texts and labels, in chunks that are stages of their own.

A run that was stopped goes on with the first chunk that is missing, and texts that have not changed are not encoded
again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from jobs.retrievers.stages import Encoded, FoldModels, Texts, Work, label_rows, located_model
from jobs.runtime.log import Progress
from jobs.settings.built_in import DenseSettings
from jobs.storage.folders import ResultFolder
from jobs.storage.stages import fingerprint, run_stage, stage_fingerprint, stage_folder
from jobs.storage.workspace import TRAIN, VECTORS
from udfs.retrieval.encode import (
    MODEL_FOLDER,
    Encoder,
    Precision,
    bucket_contents,
    encode_buckets,
    in_buckets,
    native_precision,
)
from udfs.retrieval.retriever import fold_folder, of_fold
from udfs.stores.addresses import absolute

SCRATCH = "scratch"
CHUNK_TEXTS = 4_000
"""Texts encoded in one stage, about a minute's work of two cores: what a kill may cost at most."""
BUCKET = 256
"""About how many texts are encoded together: with more, less is padding; with fewer, workers are loaded more evenly."""
ENCODING = ("udfs.retrieval.encode",)
"""The code that decides what a text's vector is. Whatever else it imports does not: encoding takes hours, and the
digests of the texts and of the model are in the key."""


def precision_of(settings: DenseSettings) -> Precision:
    """How the products inside the model are rounded."""
    return native_precision() if settings.precision == "auto" else settings.precision


def base_encoder(settings: DenseSettings) -> Encoder:
    """The model as it was before any training."""
    model, identity = located_model(settings.model)
    return Encoder(
        model=model,
        fingerprint=identity,
        max_length=settings.max_length,
        batch_size=settings.batch_size,
        precision=precision_of(settings),
    )


def fold_encoder(trained: FoldModels, encoder: Encoder, fold: int) -> Encoder:
    """The model that was fine-tuned for a fold."""
    model = f"{fold_folder(trained.folder, fold)}/{MODEL_FOLDER}"
    return replace(encoder, model=model, fingerprint=f"{trained.fingerprint}/{fold}")


def vectors_folder(work: Work, settings: DenseSettings, encoder: Encoder) -> str:
    """Where the vectors by an untrained model are."""
    slug = re.sub(r"[^a-z0-9]+", "-", settings.model.lower().rpartition("/")[2]).strip("-")
    return work.place.vectors(f"{slug}-{fingerprint(_identity(encoder))[:8]}")


def encode_texts(work: Work, encoder: Encoder, folder: str) -> Encoded:
    """The vectors of all texts."""
    return _encode(work, encoder, folder, Texts("texts", work.texts, work.prepared.texts, work.prepared.ids))


def encode_fold(work: Work, encoder: Encoder, folder: str, fold: int, train_texts: bool) -> Encoded:
    """The vectors of the texts that are listed in a fold, and of its training texts where they are asked for."""
    prepared = work.prepared
    roles = [*prepared.listed_roles, *([TRAIN] if train_texts else [])]
    chosen = of_fold(prepared.folder, prepared.fingerprint, fold, roles, prepared.ids)
    count = sum(prepared.role_sizes[role][fold] for role in roles)
    texts = Texts("texts", lambda: work.engine.map(work.texts(), chosen), count, prepared.ids)
    return replace(_encode(work, encoder, folder, texts), fold=fold)


def encode_labels(work: Work, settings: DenseSettings, encoder: Encoder, folder: str) -> Encoded:
    """The vectors of the labels' words, none if they do not count."""
    if not settings.words:
        return Encoded((), "")
    rows = label_rows(work, settings.words, ". ", named=True)
    return _encode(work, encoder, folder, Texts("labels", lambda: rows, work.prepared.labels, pa.int64()))


def rows_digest(work: Work, rows: Any) -> list[int]:
    """What changes with any of the rows (id, text), whatever their order."""
    return [number for about in _contents(work, rows, 1).values() for number in about]


def _identity(encoder: Encoder) -> list[Any]:
    """What a text's vector depends on. That 32 bits are the rule is not mentioned."""
    rounded = [] if encoder.precision == "float32" else [encoder.precision]
    return [encoder.fingerprint, encoder.max_length, *rounded]


def _contents(work: Work, rows: Any, buckets: int) -> dict[int, tuple[int, int]]:
    """How many texts each bucket has, and the sum of their digests."""
    sizes: Counter[int] = Counter()
    digests: Counter[int] = Counter()
    for row in work.engine.collect(work.engine.map(rows, bucket_contents(buckets))).to_pylist():
        sizes[row["bucket"]] += row["texts"]
        digests[row["bucket"]] += row["digest"]
    return {bucket: (size, digests[bucket] % 2**64) for bucket, size in sizes.items()}


def _encode(work: Work, encoder: Encoder, folder: str, texts: Texts) -> Encoded:
    """The vectors of texts, chunk by chunk. A chunk is encoded again only if its texts have changed."""
    chunks = max(1, -(-texts.count // CHUNK_TEXTS))
    buckets = max(1, -(-min(texts.count, CHUNK_TEXTS) // BUCKET))
    contents = _contents(work, texts.rows(), chunks * buckets)
    paths = []
    with Progress("encode", sum(size for size, _ in contents.values()), texts.what) as progress:
        for number in range(chunks):
            of_chunk = {bucket: contents[bucket] for bucket in sorted(contents) if bucket // buckets == number}
            if not of_chunk:
                continue
            path = f"{folder}/{texts.what}-{number + 1:04}-of-{chunks:04}"
            # The number of buckets decides which texts are padded together.
            key = {
                "encoder": [*_identity(encoder), encoder.batch_size],
                "texts": [buckets, sorted((bucket, *about) for bucket, about in of_chunk.items())],
            }
            sizes = {bucket: size for bucket, (size, _) in of_chunk.items()}
            build = _encode_chunk(work, encoder, texts, (number * buckets, chunks * buckets), sizes, progress)
            name = f"encode {texts.what}" + (f", chunk {number + 1} of {chunks}" if chunks > 1 else "")
            if not run_stage(name, path, key, build, ENCODING, {"precision": encoder.precision}):
                progress.skip(sum(sizes.values()))
            paths.append(path)
    folders = tuple(absolute(f"{stage_folder(path)}/{VECTORS}") for path in paths)
    return Encoded(folders, fingerprint([stage_fingerprint(path) for path in paths]))


def _encode_chunk(
    work: Work,
    encoder: Encoder,
    texts: Texts,
    place: tuple[int, int],
    sizes: Mapping[int, int],
    progress: Progress,
) -> Callable[[ResultFolder], dict[str, int]]:
    """What encodes the buckets of a chunk, side by side; `place` is its first bucket and the number of all."""

    def build(folder: ResultFolder) -> dict[str, int]:
        uri, engine, (first, buckets) = absolute(folder.uri), work.engine, place
        scratch = f"{uri}/{SCRATCH}"
        engine.write(engine.map(texts.rows(), in_buckets(texts.ids, first, max(sizes) + 1, buckets)), scratch)
        waiting: Iterator[int] = iter(sizes.values())
        splits = pa.table({"bucket": pa.array(sizes, pa.int64())})
        vectors = engine.files(
            splits, encode_buckets(encoder, scratch, texts.ids), lambda rows: progress.add(sum(_next(waiting, rows)))
        )
        engine.write(vectors, f"{uri}/{VECTORS}")
        # An engine that does not say how far it is has done all by now.
        progress.add(sum(waiting))
        folder.remove(SCRATCH)
        return {texts.what: sum(sizes.values())}

    return build


def _next(values: Iterator[int], count: int) -> list[int]:
    return [next(values) for _ in range(count)]
