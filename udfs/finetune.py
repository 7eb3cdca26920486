"""Fine-tuning of an encoder for a fold, in a worker."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fusion.errors import InputError
from fusion.retrieval.contrastive import (
    LabelSets,
    Training,
    check_collapse,
    dense_package,
    epoch_rate,
    first_dispersion,
    mean_reciprocal_rank,
    pair_loss,
)
from fusion.types import Singles
from udfs.encode import MODEL_FOLDER, Encoder, encode, load_encoder
from udfs.fold_data import FoldSource, label_sets, read_rows, read_texts, role_texts
from udfs.storage import writable_folder


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
            PairTexts(read_texts(source, ids), labels, label_sets(source, ids))
            for ids in (role_texts(source, "train"), role_texts(source, "validation", validation_texts))
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

    start = first_dispersion(*vectors(), where)
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
    pairs = {"text": [train.texts[i] for i in texts], "name": [train.label_texts[i] for i in labels]}
    trainer = package.SentenceTransformerTrainer(
        model=model,
        args=_trainer_arguments(training, scratch),
        train_dataset=datasets.Dataset.from_dict({**pairs, "label": list(range(len(texts)))}),
        loss=pair_loss(model, texts, labels, train.known, training.temperature),
        evaluator=ValidationMrr(),
        callbacks=[transformers.EarlyStoppingCallback(training.patience)],
        optimizers=(optimizer, schedule),
    )
    trainer.train()
    return {"mrr": mrr, "best": int(np.argmax(mrr[1:])) + 1}


def _trainer_arguments(training: Training, scratch: str) -> Any:
    """Judge and save the model after every epoch, keep the best one, and print nothing."""
    return dense_package("sentence_transformers").SentenceTransformerTrainingArguments(
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
        dataloader_pin_memory=dense_package("torch").cuda.is_available(),
        report_to="none",
        disable_tqdm=True,
        logging_strategy="no",
    )
