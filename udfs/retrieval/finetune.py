"""Fine-tuning of an encoder for a fold, in a worker, which goes on after a kill."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from fusion.errors import InputError
from fusion.retrieval.contrastive import (
    LabelSets,
    Side,
    Training,
    cached_step,
    check_collapse,
    dense_package,
    epoch_rate,
    first_dispersion,
    mean_reciprocal_rank,
    negatives,
    random_state,
    set_random_state,
)
from fusion.retrieval.projection import deterministic
from fusion.types import Singles
from udfs.retrieval.encode import MODEL_FOLDER, Encoder, encode, load_encoder
from udfs.retrieval.folds import FoldSource, label_sets, read_rows, read_texts, role_texts
from udfs.stores.cache import writable_folder
from udfs.stores.objects import put, read_bytes

STATE_FILE = "state.pt"


@dataclass
class Checkpoints:
    """The folder of a training's state, and how many seconds may be lost."""

    uri: str
    seconds: float
    _saved: float = field(default_factory=time.monotonic)

    def load(self) -> dict[str, Any] | None:
        """The state that was saved last; None if there is none."""
        content = read_bytes(f"{self.uri}/{STATE_FILE}")
        if content is None:
            return None
        state: dict[str, Any] = dense_package("torch").load(io.BytesIO(content), weights_only=True)
        return state

    @property
    def due(self) -> bool:
        return time.monotonic() - self._saved >= self.seconds

    def save(self, state: dict[str, Any]) -> None:
        """Replace the state. A process that is killed meanwhile leaves the earlier one."""
        content = io.BytesIO()
        dense_package("torch").save(state, content)
        put(f"{self.uri}/{STATE_FILE}", content.getvalue())
        self._saved = time.monotonic()


LONGEST_GRADIENT = 1.0
"""Longer gradients are shortened to this, so that one strange batch cannot undo many others."""


class PairTexts(NamedTuple):
    """Training pairs for fine-tuning: texts and label texts by number, and the labels each text is known to have."""

    texts: list[str]
    label_texts: list[str]
    known: LabelSets


class Saving(NamedTuple):
    """Where the states of unfinished trainings are kept, by fold, and how many seconds of work may be lost."""

    folder: str
    seconds: float


def finetune(
    folder: str, encoder: Encoder, training: Training, validation_texts: int, label_words: str, saving: Saving
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
        model = on_own_gpu(load_encoder(encoder), source.fold)
        checkpoints = Checkpoints(f"{saving.folder}/fold={source.fold}", saving.seconds)
        try:
            report = fit(model, train, validation, training, encoder, checkpoints, f"fold {source.fold}")
        finally:
            # The model in memory is no longer the one that was loaded.
            load_encoder.cache_clear()
        with writable_folder(f"{folder}/fold={source.fold}/{MODEL_FOLDER}") as place:
            model.save_pretrained(str(place), create_model_card=False)
        return report

    return work


def on_own_gpu(model: Any, fold: int) -> Any:
    """The model on the GPU of this fold, where there is any."""
    cuda = dense_package("torch").cuda
    if not cuda.is_available():
        return model
    number = own_gpu(fold, _granted_gpus(), cuda.device_count())
    cuda.set_device(number)
    return model.to(f"cuda:{number}")


def own_gpu(fold: int, granted: Sequence[str], count: int) -> int:
    """The GPU that Spark has granted to the task; else one that the fold shares with as few others as possible.

    A cluster may show a task its own GPU alone, which then has the number 0 whatever its address.
    """
    if granted and granted[0].isdigit() and int(granted[0]) < count:
        return int(granted[0])
    return 0 if granted else fold % count


def _granted_gpus() -> list[str]:
    """The addresses of the GPUs that Spark has granted to this task, if it manages them."""
    pyspark = sys.modules.get("pyspark")
    task = None if pyspark is None else pyspark.TaskContext.get()
    granted = None if task is None else task.resources().get("gpu")
    return [] if granted is None else list(granted.addresses)


def tokenized(model: Any, texts: list[str]) -> Any:
    """What the model reads of some texts."""
    # Releases of sentence-transformers before 6 know it as `tokenize`.
    return (getattr(model, "preprocess", None) or model.tokenize)(texts)


class Steps:
    """A training: the model, its optimizer, and how far it is."""

    def __init__(self, model: Any, train: PairTexts, training: Training, encoder: Encoder) -> None:
        self.torch = dense_package("torch")
        self.model, self.train, self.training, self.encoder = model, train, training, encoder
        self.optimizer = self.torch.optim.AdamW(model.parameters(), lr=training.learning_rate_high)
        texts, labels = train.known.pairs()
        named = np.array([bool(train.label_texts[label]) for label in labels], np.bool_)
        self.texts, self.labels = texts[named], labels[named]
        self.steps = -(-len(self.texts) // training.train_batch)
        self.epoch, self.step = 1, 0
        self.mrr: list[float] = []
        self.best = 0
        self.best_state: Mapping[str, Any] = {}
        self.torch.manual_seed(training.seed)
        self.device = model.device
        on_gpu = self.device.type == "cuda"
        self.rounded = self.torch.cuda.is_bf16_supported() if on_gpu else encoder.precision == "bfloat16"
        """Whether products of matrices are rounded to bfloat16, as on every GPU that can; sums and weights are not."""

    def learn(self) -> None:
        """One step of the current epoch. The order of the texts depends on the seed and the epoch alone."""
        training = self.training
        # The labels of a text are in one batch (or in two neighbouring ones), so that it is encoded once for all.
        place = np.random.default_rng([training.seed, self.epoch]).permutation(len(self.train.texts))
        order = np.argsort(place[self.texts], kind="stable")
        batch = order[self.step * training.train_batch : (self.step + 1) * training.train_batch]
        texts, labels = self.texts[batch], self.labels[batch]
        rate = epoch_rate(self.step, self.steps, training.learning_rate_low, training.learning_rate_high)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.model.train()
        sides = Side.of(texts, self.train.texts), Side.of(labels, self.train.label_texts)
        mask = self.torch.from_numpy(negatives(labels, self.train.known.take(texts))).to(self.device)
        self.optimizer.zero_grad()
        cached_step(self._vectors, sides, mask, training.temperature, self.encoder.batch_size)
        self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), LONGEST_GRADIENT)
        self.optimizer.step()
        self.model.eval()
        self.step += 1

    def _vectors(self, texts: list[str]) -> Any:
        to_device = dense_package("sentence_transformers.util").batch_to_device
        features = to_device(tokenized(self.model, texts), self.device)
        with self.torch.autocast(self.device.type, self.torch.bfloat16, enabled=self.rounded):
            return self.model(features)["sentence_embedding"].float()

    def judged(self, mrr: float) -> None:
        """Take in the validation MRR of the current weights, and keep them if they are the best."""
        self.mrr.append(mrr)
        if mrr > max(self.mrr[:-1], default=-1.0):
            self.best = len(self.mrr) - 1
            self.best_state = {name: value.detach().cpu().clone() for name, value in self.model.state_dict().items()}

    def state(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            "best_model": self.best_state,
            "optimizer": self.optimizer.state_dict(),
            "random": random_state(),
            "progress": [self.epoch, self.step, self.best],
            "mrr": self.mrr,
        }

    def resume(self, state: Mapping[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.best_state = state["best_model"]
        self.optimizer.load_state_dict(state["optimizer"])
        set_random_state(state["random"])
        self.epoch, self.step, self.best = state["progress"]
        self.mrr = list(state["mrr"])


def fit(
    model: Any,
    train: PairTexts,
    validation: PairTexts,
    training: Training,
    encoder: Encoder,
    checkpoints: Checkpoints,
    where: str,
) -> dict[str, Any]:
    """Fine-tune the model with NT-Xent, and leave it as it was at its best epoch, that before training included.

    Batches of any size fit the memory, since gradients are cached (see `cached_step`). A training that was killed goes
    on from its last checkpoint and ends with the same weights.
    """
    run = Steps(model, train, training, encoder)
    if not len(run.texts) or not validation.texts:
        raise InputError(f"{where}: fine-tuning needs training texts that have labels with names, and validation texts")

    def vectors() -> tuple[Singles, Singles]:
        size, precision = encoder.batch_size, encoder.precision
        seen, targets = (encode(model, some, size, precision) for some in (validation.texts, validation.label_texts))
        return seen, targets

    untrained = vectors()
    start = first_dispersion(*untrained, where)
    saved = checkpoints.load()
    if saved is None:
        run.judged(mean_reciprocal_rank(*untrained, validation.known))
    else:
        run.resume(saved)
    with deterministic(run.torch, run.torch.get_num_threads()):
        while run.epoch <= training.epochs and run.epoch - run.best <= training.patience:
            while run.step < run.steps:
                run.learn()
                if checkpoints.due:
                    checkpoints.save(run.state())
            seen, targets = vectors()
            check_collapse(seen, targets, start, f"{where}, epoch {run.epoch}")
            run.judged(mean_reciprocal_rank(seen, targets, validation.known))
            run.epoch, run.step = run.epoch + 1, 0
            checkpoints.save(run.state())
    model.load_state_dict(run.best_state)
    return {"mrr": run.mrr, "best": run.best}
