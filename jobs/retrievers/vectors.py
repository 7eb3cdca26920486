"""Job `train_dense`: texts and labels become vectors, and every fold gets a model of its own.

Vectors are kept in `vectors/<model>`, in chunks that are stages of their own: a run that was stopped goes on with
the first chunk that is missing, and texts that have not changed are not encoded again. `dense/model` holds, for
each fold, the projection heads (`train: projection`) or the fine-tuned model (`train: full`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from fusion.digests import code_version
from jobs.datasets.tables import DatasetTables, open_tables
from jobs.engines.credentials import job
from jobs.retrievers.models import located_model
from jobs.retrievers.stages import keep_reports, run_folds
from jobs.runtime.log import Progress, log
from jobs.settings.config import Config
from jobs.settings.dense import DenseSettings
from jobs.storage.folders import ResultFolder, remove_folder
from jobs.storage.stages import fingerprint, import_closure, run_stage, stage_fingerprint, stage_folder
from jobs.storage.workspace import VECTORS, Workspace
from udfs.retrieval.encode import VECTORS_SCHEMA, Encoder, encode_texts, find_model, load_encoder, native_precision
from udfs.retrieval.finetune import Saving, finetune
from udfs.retrieval.folds import VALIDATION_TEXTS, FoldSource
from udfs.retrieval.vectors import RETRIEVER, train_projection
from udfs.stores.addresses import absolute

WORDS, SCRATCH = "words.parquet", "scratch"
SLICE_SECONDS = 20.0
"""About how long texts are encoded between two lines about the progress. Workers wait for each other at its end."""
CHUNK_TEXTS = 4_000
"""Texts encoded in one stage, about a minute's work of two cores: what a kill may cost at most."""
BUCKET = 256
"""About how many texts are encoded together: with more, less is padding; with fewer, workers are loaded more evenly."""
RANGES = 4
"""Ranges per bucket that Spark is asked for. It makes fewer, since none of them divides a bucket; of as many ranges as
there are buckets, some would hold two and others none."""
ENCODING = ("udfs.retrieval.encode",)
"""The code that decides what a text's vector is. Whatever else it imports does not: encoding takes hours, and the
digests of the texts and of the model are in the key."""
LEARNING = ("udfs.retrieval.finetune", "udfs.retrieval.vectors")
"""These and what they import decide what is learnt from vectors and texts."""
TRAINING = {"temperature", "learning_rate_low", "learning_rate_high", "epochs", "patience", "train_batch"}


@dataclass(frozen=True)
class Vectors:
    """Where vectors are, and what they were made of."""

    paths: tuple[str, ...]
    fingerprint: str


@dataclass(frozen=True)
class DenseWork:
    """A run of the dense jobs: its settings, its inputs and the place it works in."""

    spark: SparkSession
    settings: DenseSettings
    prepared: DatasetTables
    place: Workspace
    vectors: tuple[Vectors, Vectors] | None = None
    """Those of all texts and of the labels, unless every fold has an encoder of its own."""

    @property
    def partitions(self) -> int:
        """Always a stated number: Spark would go by the bytes, and few bytes of text are much work."""
        number = str(self.prepared.partitions or self.spark.conf.get("spark.sql.shuffle.partitions"))
        # Some platforms say `auto`.
        return int(number) if number.isdigit() else 64

    @property
    def fewest_buckets(self) -> int:
        """Buckets that are encoded at a time at least: fewer would leave workers idle."""
        return -(-self.partitions // 2)

    def source(self, fold: int, texts: Vectors, labels: Vectors) -> FoldSource:
        prepared = absolute(stage_folder(self.place.prepared))
        return FoldSource(fold, prepared, _everywhere(texts), _everywhere(labels), self.settings.train_texts)


@job
def run(spark: SparkSession, config: Config, retriever: str = RETRIEVER) -> DenseWork:
    """Encode and train, unless that was done before."""
    settings = config.retrievers.settings(retriever, DenseSettings)
    place = Workspace.of(config)
    find_model(settings.model)
    if settings.precision == "auto":
        log(f"retrievers.{retriever}.precision: auto is {native_precision()} on this machine")
    prepared = open_tables(spark, place.prepared, config.spark.partitions, config.validation_candidates)
    work = DenseWork(spark, settings, prepared, place)
    if settings.train == "full":
        _train_full(work)
        return work
    texts, labels = base_vectors(work)
    if settings.train == "projection":
        _train_projection(work, texts, labels)
    return replace(work, vectors=(texts, labels))


def base_encoder(settings: DenseSettings) -> Encoder:
    """The model as it was before any training."""
    precision = native_precision() if settings.precision == "auto" else settings.precision
    model, identity = located_model(settings.model)
    return Encoder(model, identity, settings.max_length, settings.batch_size, precision=precision)


def _identity(encoder: Encoder) -> list[Any]:
    """What a text's vector depends on. That 32 bits are the rule is not mentioned."""
    rounded = [] if encoder.precision == "float32" else [encoder.precision]
    return [encoder.fingerprint, encoder.max_length, *rounded]


def base_vectors(work: DenseWork) -> tuple[Vectors, Vectors]:
    """The vectors of all texts and labels by the untrained model."""
    encoder = base_encoder(work.settings)
    slug = re.sub(r"[^a-z0-9]+", "-", work.settings.model.lower().rpartition("/")[2]).strip("-")
    folder = work.place.vectors(f"{slug}-{fingerprint(_identity(encoder))[:8]}")
    samples = work.prepared.samples.select(F.col("text_id").alias("id"), "text")
    return encode_table(work, samples, encoder, folder, "texts"), encode_label_words(work, encoder, folder)


def encode_label_words(work: DenseWork, encoder: Encoder, folder: str) -> Vectors:
    """The vectors of the labels' words, none if they do not count."""
    if not work.settings.words:
        return Vectors((), "")
    return encode_table(work, label_words(work), encoder, folder, "labels")


def label_words(work: DenseWork) -> DataFrame:
    """What labels are called: (id, text). Labels without a word are left out."""
    written = [F.nullif(F.trim(F.concat_ws(", ", column)), F.lit("")) for column in work.settings.words]
    words = work.prepared.labels.select(
        F.col("label_id").cast("long").alias("id"), F.concat_ws(". ", *written).alias("text")
    )
    return words.where("text <> ''")


def encode_table(work: DenseWork, rows: DataFrame, encoder: Encoder, folder: str, what: str) -> Vectors:
    """The vectors of rows (id, text), chunk by chunk. A chunk is done again only if its texts have changed."""
    count = rows.count()
    chunks = max(1, -(-count // CHUNK_TEXTS))
    buckets = max(1, -(-min(count, CHUNK_TEXTS) // BUCKET))
    bucket = F.pmod(F.xxhash64("id"), F.lit(chunks * buckets))
    bucketed = rows.select(bucket.alias("bucket"), "id", F.coalesce("text", F.lit("")).alias("text"))
    chunk = F.floor(F.col("bucket") / buckets)
    contents = bucketed.groupBy(chunk.alias("chunk")).agg(F.count("*"), content_digest()).collect()
    paths, progress = [], Progress("encode", count, what)
    with progress:
        for number, size, content in sorted(contents):
            path = f"{folder}/{what}-{number + 1:04}-of-{chunks:04}"
            # The number of buckets decides which texts are padded together.
            key = {"encoder": [*_identity(encoder), encoder.batch_size], "texts": [size, content, buckets]}
            build = _encode_chunk(work, bucketed.where(chunk == number), encoder, what, progress)
            name = f"encode {what}" + (f", chunk {number + 1} of {chunks}" if chunks > 1 else "")
            if not run_stage(name, path, key, build, ENCODING):
                progress.skip(size)
            paths.append(path)
    return Vectors(tuple(paths), fingerprint([stage_fingerprint(path) for path in paths]))


def _encode_chunk(
    work: DenseWork, rows: DataFrame, encoder: Encoder, what: str, progress: Progress
) -> Callable[[ResultFolder], dict[str, int]]:
    """What encodes the rows (bucket, id, text) of a chunk, some buckets at a time so that progress can be shown.

    How many that are changes nothing else: a bucket is always encoded for itself.
    """

    def build(folder: ResultFolder) -> dict[str, int]:
        scratch = f"{folder.uri}/{SCRATCH}"
        rows.write.parquet(scratch)
        texts = work.spark.read.parquet(scratch)
        sizes = dict(sorted(tuple(row) for row in texts.groupBy("bucket").count().collect()))
        waiting = list(sizes)
        while waiting:
            together = max(work.fewest_buckets, round(progress.rate * SLICE_SECONDS / BUCKET))
            chosen, waiting = waiting[:together], waiting[together:]
            some = texts.where(F.col("bucket").between(chosen[0], chosen[-1]))
            # Of so many ranges, each holds one bucket: a worker that is done takes the next.
            by_bucket = some.repartitionByRange(RANGES * len(chosen), "bucket")
            whole = by_bucket.sortWithinPartitions("bucket", "id")
            vectors = whole.mapInArrow(encode_texts(encoder), VECTORS_SCHEMA)
            with _reported_here(encoder):
                vectors.write.mode("append").parquet(f"{folder.uri}/{VECTORS}")
            progress.add(sum(sizes[bucket] for bucket in chosen))
        folder.remove(SCRATCH)
        return {what: sum(sizes.values())}

    return build


@contextmanager
def _reported_here(encoder: Encoder) -> Iterator[None]:
    """Where workers fail because the model cannot be loaded, say so as the driver finds it. Loading it here beforehand
    would let workers wait for seconds."""
    try:
        yield
    except Exception:
        load_encoder(encoder)
        raise


def content_digest() -> Column:
    """An aggregate of rows (id, text) that changes with any of them, whatever their order."""
    return F.sum(F.xxhash64("id", "text").cast("decimal(38,0)")).cast("string")


def _train_projection(work: DenseWork, texts: Vectors, labels: Vectors) -> None:
    settings = work.settings
    key = {
        "prepared": work.prepared.fingerprint,
        "vectors": [texts.fingerprint, labels.fingerprint],
        "dense": settings.model_dump(mode="json", include=TRAINING | {"train", "label_text"}),
    }

    def build(folder: ResultFolder) -> Mapping[str, Any]:
        sources = [work.source(fold, texts, labels) for fold in work.prepared.folds]
        train = train_projection(folder.uri, settings.training, VALIDATION_TEXTS)
        return keep_reports(folder, run_folds(work.spark, sources, train))

    run_stage("train projections", work.place.dense_model, key, build, import_closure(*LEARNING))


def _train_full(work: DenseWork) -> None:
    settings, code = work.settings, import_closure(*LEARNING)
    encoder = base_encoder(settings)
    chosen = TRAINING | {"train", "max_length", "batch_size"}
    key = {
        "prepared": work.prepared.fingerprint,
        "model": [encoder.fingerprint, encoder.precision],
        "words": label_words(work).agg(content_digest()).collect()[0][0],
        "dense": settings.model_dump(mode="json", include=chosen),
    }

    # Outside the stage, which vanishes if it is not finished; other settings or code have other states.
    states = work.place.retriever_stage("dense", f"unfinished-{fingerprint([key, code_version(*code)])}")
    saving = Saving(absolute(states), settings.checkpoint_seconds)

    def build(folder: ResultFolder) -> Mapping[str, Any]:
        load_encoder(encoder)
        label_words(work).write.parquet(f"{folder.uri}/{WORDS}")
        sources = [work.source(fold, Vectors((), ""), Vectors((), "")) for fold in work.prepared.folds]
        words = f"{folder.uri}/{WORDS}"
        train = finetune(folder.uri, encoder, settings.training, VALIDATION_TEXTS, words, saving)
        return keep_reports(folder, run_folds(work.spark, sources, train))

    run_stage("fine-tune", work.place.dense_model, key, build, code)
    remove_folder(states)


def _everywhere(vectors: Vectors) -> tuple[str, ...]:
    return tuple(absolute(f"{stage_folder(path)}/{VECTORS}") for path in vectors.paths)
