"""The static bi-encoder in the workers: tokens of all texts, training of a fold, ranked labels, and its files.

The files of a static bi-encoder: the model that token vectors start from, and the one that is saved.

What is saved is an ordinary sentence-transformers model: `SentenceTransformer(folder).encode(texts)` gives the same
vectors. Its files are written and read without that library, whose import takes longer than the work.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from fusion.errors import InputError
from fusion.retrieval.bags import Bags
from fusion.retrieval.contrastive import dense_package
from fusion.retrieval.ranked import Ranked
from fusion.retrieval.static import Labelled, StaticModel, StaticTraining, frequency_bias, train_static, with_bias
from fusion.types import Array, Ints, Singles
from udfs.lists import Batches, list_rows
from udfs.retrieval.bm25 import Scoring
from udfs.retrieval.encode import MODEL_FOLDER, find_model
from udfs.retrieval.folds import VALIDATION_TEXTS, FoldSource, label_sets, read_label_words, read_rows, role_texts
from udfs.retrieval.text_neighbours import TextIndex, write_texts
from udfs.retrieval.vectors import GroupIndex, Index, write_groups
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
    encoded = tokenizer.encode_batch_fast(cut, add_special_tokens=False)
    counted = [np.unique(np.array(one.ids, np.int32), return_counts=True) for one in encoded]
    offset = np.concatenate(([0], np.cumsum([len(token) for token, _ in counted]))).astype(np.int64)
    token = np.concatenate([np.empty(0, np.int32), *(token for token, _ in counted)])
    count = np.concatenate([np.empty(0, np.float32), *(count.astype(np.float32) for _, count in counted)])
    return Bags(offset, token, count)


def bags_of(tokens: pa.ListArray, counts: pa.ListArray) -> Bags:
    """Bags from the columns of a table."""
    offset = np.concatenate(([0], np.cumsum(tokens.value_lengths().to_numpy()))).astype(np.int64)
    return Bags(offset, tokens.flatten().to_numpy(), counts.flatten().to_numpy())


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


LABELS, TEXTS = "static", "static-texts"
"""The two retrievers of a model: nearest labels, and labels of the nearest training texts."""
TOKENS_SCHEMA = "id long, tokens array<int>, counts array<float>"
CHUNK = 1024
EXACT_SEARCH = Index(None, 0, 0)


def tokenize_texts(start: StaticStart) -> Callable[[Batches], Batches]:
    """For `mapInArrow` on rows (id, text): the distinct tokens of each text, and how often each is there."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for begin in range(0, len(batch), CHUNK):
                rows = batch.slice(begin, CHUNK)
                texts = [text or "" for text in rows["text"].to_pylist()]
                bags = token_bags(open_tokenizer(start), texts, start.max_length)
                offset = pa.array(bags.offset, pa.int32())
                columns = {
                    "id": rows["id"],
                    "tokens": pa.ListArray.from_arrays(offset, pa.array(bags.token)),
                    "counts": pa.ListArray.from_arrays(offset, pa.array(bags.times)),
                }
                yield pa.RecordBatch.from_pydict(columns)

    return run


def read_bags(uri: str, ids: Ints) -> Bags:
    """The tokens of some texts, in the order of the ids, which are ascending."""
    rows = read_rows(uri, ["id", "tokens", "counts"], ds.field("id").isin(ids)).sort_by("id").combine_chunks()
    if len(rows) != len(ids):
        raise InputError(f"{len(ids) - len(rows):,} texts have no tokens in {uri}")
    return bags_of(*(pa.concat_arrays(rows[name].chunks) for name in ("tokens", "counts")))


@dataclass(frozen=True)
class StaticWork:
    """What training needs beside the fold: where tokens are, where it starts, and how it goes."""

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
        groups = np.array(read_label_words(source.prepared).groups)
        names = read_bags(work.label_tokens, np.arange(len(groups)))
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
class StaticSearch:
    """How the labels of texts are ranked."""

    retriever: str
    model: str
    fingerprint: str
    """That of the trained models: a worker that has read others reads again."""
    groups: tuple[str, ...]
    scoring: Scoring


class FoldModel:
    """The trained model of a fold with the index that a retriever searches."""

    def __init__(self, search: StaticSearch, fold: int) -> None:
        place = readable_folder(f"{search.model}/fold={fold}", search.fingerprint)
        table = read_vectors(place / MODEL_FOLDER / MODULE / WEIGHTS)
        self.model = StaticModel(table, np.zeros((0, table.shape[1]), np.float32))
        self.search = search
        self.texts = TextIndex.open(place, 0) if search.retriever == TEXTS else None
        self.labels = [GroupIndex(place, group, 0, exact=True) for group in search.groups] if not self.texts else []

    def lists(self, bags: Bags) -> Ranked:
        """The ranked labels of texts, by text and group."""
        queries, scoring = self.model.texts(bags), self.search.scoring
        if self.texts is not None:
            return self.texts.lists(queries, len(self.search.groups), scoring)
        biased = with_bias(queries, 1.0)
        return interleaved([index.search(biased, scoring.top) for index in self.labels])


def interleaved(groups: Sequence[tuple[Array, Singles, Ints]]) -> Ranked:
    """The lists of several groups, each (labels, scores, sizes) by text, as lists by text and group."""
    sizes = np.stack([size for _, _, size in groups], axis=1)
    offset = np.concatenate(([0], np.cumsum(sizes.ravel())))
    item, score = np.empty(offset[-1], np.int32), np.empty(offset[-1], np.float32)
    for number, (labels, scores, size) in enumerate(groups):
        inside = np.arange(len(labels)) - np.repeat(np.cumsum(size) - size, size)
        place = np.repeat(offset[number : -1 : len(groups)], size) + inside
        item[place], score[place] = labels, scores
    return Ranked(offset, item, score)


@lru_cache(maxsize=1)
def open_model(search: StaticSearch, fold: int) -> FoldModel:
    """The model of a fold, read once per Python worker."""
    return FoldModel(search, fold)


def search_static(search: StaticSearch) -> Callable[[Batches], Batches]:
    """For `mapInArrow` on rows (fold, text_id, tokens, counts), the folds together: the ranked labels of each text.

    A text without a token has no list.
    """

    def run(batches: Batches) -> Batches:
        for batch in batches:
            folds = batch["fold"].to_numpy()
            for fold in np.unique(folds):
                rows = batch.filter(pa.array((folds == fold) & (batch["tokens"].value_lengths().to_numpy() > 0)))
                lists = open_model(search, int(fold)).lists(bags_of(rows["tokens"], rows["counts"]))
                yield list_rows(int(fold), search.retriever, rows["text_id"], search.groups, lists)

    return run
