"""Token vectors of a pretrained model: its tokenizer, its vectors, and the files of what was trained from them.

What is saved is an ordinary sentence-transformers model: `SentenceTransformer(folder).encode(texts)` gives the same
vectors. Its files are written and read without that library, whose import takes longer than the work.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
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
from fusion.types import Singles
from udfs.retrieval.encode import find_model
from udfs.retrieval.words import bag_columns, bags_schema
from udfs.stores.cache import readable_folder

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
    return from_hub(start.model, [TOKENIZER, WEIGHTS]) if folder is None else folder


def from_hub(model: str, files: Sequence[str]) -> Path:
    """The folder with some files of a model of the hub, which are downloaded where they are not there yet."""
    hub = dense_package("huggingface_hub")
    try:
        return Path(hub.snapshot_download(model, allow_patterns=list(files)))
    except (OSError, ValueError, hub.errors.HfHubHTTPError) as error:
        raise InputError(
            f"the model {model} is no folder here, and could not be had from the Hugging Face hub "
            f"({type(error).__name__}): give a model's folder, its hub name, or bundled:minilm"
        ) from None


@lru_cache(maxsize=1)
def open_tokenizer(start: StaticStart) -> Any:
    """The tokenizer, read once per Python worker."""
    return read_tokenizer(start_folder(start) / TOKENIZER, start.max_length)


def read_tokenizer(path: Path, max_length: int) -> Any:
    """The tokenizer of a file, which cuts texts after so many tokens and pads none."""
    if not path.exists():
        raise InputError(f"retrievers.static.model: {path} does not exist: choose a model with a fast tokenizer")
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
        raise InputError(
            f"retrievers.static.model: {path} does not exist: choose a model whose weights are in safetensors"
        )
    with dense_package("safetensors").safe_open(str(path), framework="np") as weights:
        stored = weights.keys()
        names = [name for ending in KNOWN for name in stored if name.endswith(ending)]
        if not names:
            raise InputError(
                f"retrievers.static.model: {path} has no token vectors (names that end in {', '.join(KNOWN)})"
            )
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


def mapped_vectors(path: Path) -> Singles:
    """The token vectors of a saved model, mapped: a file of safetensors is a header of JSON and the bytes of arrays."""
    with path.open("rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
        about = json.loads(stream.read(size))[EMBEDDING]
    begin = 8 + size + about["data_offsets"][0]
    return np.asarray(np.memmap(path, np.float32, "r", begin, tuple(about["shape"])))
