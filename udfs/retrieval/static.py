"""The static bi-encoder in the workers: tokens of all texts, training of a fold, ranked labels, and its files.

The files of a static bi-encoder: the model that token vectors start from, and the one that is saved.

What is saved is an ordinary sentence-transformers model: `SentenceTransformer(folder).encode(texts)` gives the same
vectors. Its files are written and read without that library, whose import takes longer than the work.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fusion.errors import InputError
from fusion.retrieval.bags import Bags, counted
from fusion.retrieval.contrastive import dense_package
from fusion.retrieval.ranked import Ranked, interleaved
from fusion.retrieval.static import Labelled, StaticModel, StaticTraining, frequency_bias, train_static, with_bias
from fusion.types import Singles
from udfs.retrieval.encode import MODEL_FOLDER, find_model
from udfs.retrieval.folds import VALIDATION_TEXTS, FoldSource, label_sets, read_label_groups, role_texts
from udfs.retrieval.retriever import Scoring
from udfs.retrieval.vectors import GroupIndex, Index, TextIndex, write_groups, write_texts
from udfs.retrieval.words import bag_columns, bags_of, bags_schema, read_bags
from udfs.stores.cache import readable_folder, writable_folder

TOKENIZER, WEIGHTS = "tokenizer.json", "model.safetensors"
EMBEDDING = "embedding.weight"
"""What StaticEmbedding calls its token vectors."""
KNOWN = ("word_embeddings.weight", "embed_tokens.weight", "wte.weight", "shared.weight", EMBEDDING, "embeddings")
"""What models call their token vectors, at the end of a longer name."""
MODULE = "0_StaticEmbedding"
CHARACTERS_PER_TOKEN = 16
"""Texts are cut to so many characters per wanted token before they are tokenised, which takes time by the character."""


@dataclass(frozen=True)
class StaticStart:
    """The model that token vectors start from, and how many tokens of a text count."""

    model: str
    """As in `Encoder`: a bundled model, a folder, or a name on the hub."""
    fingerprint: str
    max_length: int


def start_folder(start: StaticStart) -> Path:
    """The model's files on this machine."""
    if "://" in start.model:
        return readable_folder(start.model, start.fingerprint)
    folder = find_model(start.model)
    if folder is None:
        hub = dense_package("huggingface_hub")
        folder = Path(hub.snapshot_download(start.model, allow_patterns=[TOKENIZER, WEIGHTS]))
    return folder


@lru_cache(maxsize=1)
def open_tokenizer(start: StaticStart) -> Any:
    """The tokenizer, read once per Python worker."""
    return read_tokenizer(start_folder(start) / TOKENIZER, start.max_length)


def read_tokenizer(path: Path, max_length: int) -> Any:
    """The tokenizer of a file, which cuts texts after so many tokens and pads none."""
    if not path.exists():
        raise InputError(f"static.model: {path} does not exist: choose a model with a fast tokenizer")
    tokenizer = dense_package("tokenizers").Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length)
    return tokenizer


def token_bags(tokenizer: Any, texts: list[str], max_length: int) -> Bags:
    """The tokens of texts, special ones left out."""
    cut = [text[: CHARACTERS_PER_TOKEN * max_length] for text in texts]
    ids = [one.ids for one in tokenizer.encode_batch_fast(cut, add_special_tokens=False)]
    offset = np.concatenate(([0], np.cumsum(list(map(len, ids))))).astype(np.int64)
    return counted(np.fromiter(chain.from_iterable(ids), np.int32, offset[-1]), offset)


@dataclass(frozen=True)
class Pieces:
    """The tokens of texts as a model counts them."""

    start: StaticStart

    @property
    def schema(self) -> pa.Schema:
        return bags_schema(pa.int32())

    @property
    def identity(self) -> list[object]:
        """What the columns depend on, apart from code."""
        return [self.start.fingerprint, self.start.max_length]

    def __call__(self, texts: list[str]) -> pa.RecordBatch:
        return bag_columns(token_bags(open_tokenizer(self.start), texts, self.start.max_length))


def first_vectors(start: StaticStart) -> Singles:
    """The token vectors of the model."""
    return read_vectors(start_folder(start) / WEIGHTS)


def read_vectors(path: Path) -> Singles:
    """The token vectors in a file of weights."""
    if not path.exists():
        raise InputError(f"static.model: {path} does not exist: choose a model whose weights are in safetensors")
    with dense_package("safetensors").safe_open(str(path), framework="np") as weights:
        stored = weights.keys()
        names = [name for ending in KNOWN for name in stored if name.endswith(ending)]
        if not names:
            raise InputError(f"static.model: {path} has no token vectors (names that end in {', '.join(KNOWN)})")
        return np.ascontiguousarray(weights.get_tensor(names[0]), np.float32)


def save_model(place: Path, table: Singles, start: StaticStart) -> None:
    """Save token vectors, weights included, and the tokenizer as a model of sentence-transformers."""
    (place / MODULE).mkdir(parents=True, exist_ok=True)
    dense_package("safetensors.numpy").save_file({EMBEDDING: table}, str(place / MODULE / WEIGHTS))
    open_tokenizer(start).save(str(place / MODULE / TOKENIZER))
    modules = [("0", MODULE, "StaticEmbedding"), ("1", "1_Normalize", "Normalize")]
    listed = [
        {"idx": int(name), "name": name, "path": path, "type": f"sentence_transformers.models.{kind}"}
        for name, path, kind in modules
    ]
    (place / "1_Normalize").mkdir(exist_ok=True)
    (place / "1_Normalize" / "config.json").write_text("{}\n", encoding="utf-8")
    (place / "modules.json").write_text(json.dumps(listed, indent=2) + "\n", encoding="utf-8")
    about: dict[str, Any] = {"similarity_fn_name": "cosine", "prompts": {}, "default_prompt_name": None}
    (place / "config_sentence_transformers.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


EXACT_SEARCH = Index(None)


@dataclass(frozen=True)
class StaticWork:
    """What training needs apart from the fold: where tokens are, where it starts, and how it goes."""

    text_tokens: str
    label_tokens: str
    start: StaticStart
    training: StaticTraining
    frequency_bias: float
    groups: tuple[str, ...]


def train_fold(folder: str, work: StaticWork) -> Callable[[FoldSource], dict[str, Any]]:
    """The work of `over_folds` that trains the model of a fold and writes it to `folder`/fold=N, with its indexes."""

    def run(source: FoldSource) -> dict[str, Any]:
        ids = role_texts(source, "train"), role_texts(source, "validation", VALIDATION_TEXTS)
        train, validation = (Labelled(read_bags(work.text_tokens, some), label_sets(source, some)) for some in ids)
        groups = read_label_groups(source.prepared)
        names = read_bags(work.label_tokens, pa.array(range(len(groups)), pa.int64()))
        where = f"fold {source.fold}, static"
        trained = train_static(first_vectors(work.start), train, validation, names, work.training, where)
        model = trained.model
        with writable_folder(f"{folder}/fold={source.fold}") as place:
            save_model(place / MODEL_FOLDER, model.table, work.start)
            labels = model.labels(names)
            carried = np.bincount(train.known.labels, minlength=len(groups))
            indexed = with_bias(labels, frequency_bias(carried, work.frequency_bias))
            write_groups(place, groups, np.any(labels, axis=1), indexed, EXACT_SEARCH)
            number = np.searchsorted(np.array(work.groups), groups).astype(np.int8)
            write_texts(place, model.texts(train.bags), train.known, number, EXACT_SEARCH)
        return {"mrr": trained.mrr, "loss": trained.losses, "best": trained.best}

    return run


@dataclass(frozen=True)
class Static:
    """The static bi-encoder as a retriever: the nearest labels, or the labels of the nearest training texts."""

    name: str
    by_texts: bool
    encoding: Pieces
    work: StaticWork
    scoring: Scoring
    in_threads: bool = False

    @property
    def groups(self) -> tuple[str, ...]:
        return self.work.groups

    def fit(self, source: FoldSource, models: str) -> dict[str, Any]:
        return train_fold(models, self.work)(source)

    def open(self, place: Path) -> FoldModel:
        table = mapped_vectors(place / MODEL_FOLDER / MODULE / WEIGHTS)
        model = StaticModel(table, np.zeros((0, table.shape[1]), np.float32))
        texts = TextIndex.open(place, 0) if self.by_texts else None
        labels = () if texts else tuple(GroupIndex(place, group, 0, exact=True) for group in self.groups)
        return FoldModel(self, model, labels, texts)


@dataclass(frozen=True)
class FoldModel:
    """The trained model of a fold with the index that a retriever searches."""

    retriever: Static
    model: StaticModel
    labels: tuple[GroupIndex, ...]
    texts: TextIndex | None

    def rank(self, rows: pa.RecordBatch) -> Ranked:
        """The ranked labels of texts, by text and group. A text without a token has no list."""
        bags, groups, scoring = bags_of(rows), len(self.retriever.groups), self.retriever.scoring
        filled = np.diff(bags.offset) > 0
        queries = self.model.texts(Bags(bags.offset[np.append(filled, True)], bags.token, bags.times))
        if self.texts is not None:
            lists = self.texts.lists(queries, groups, scoring)
        else:
            biased = with_bias(queries, 1.0)
            lists = interleaved([index.search(biased, scoring.top) for index in self.labels])
        sizes = np.zeros((len(filled), groups), np.int64)
        sizes[filled] = np.diff(lists.offset).reshape(-1, groups)
        return lists._replace(offset=np.concatenate(([0], np.cumsum(sizes))))


def mapped_vectors(path: Path) -> Singles:
    """The token vectors of a saved model, mapped: a file of safetensors is a header of JSON and the bytes of arrays."""
    with path.open("rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
        about = json.loads(stream.read(size))[EMBEDDING]
    begin = 8 + size + about["data_offsets"][0]
    return np.asarray(np.memmap(path, np.float32, "r", begin, tuple(about["shape"])))
