"""A model in the workers: labels are ranked, rankings fused, scores become probabilities, and labels are assigned.

It is opened once per process. A text's labels depend on this text alone, whatever the batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from fusion.labels import ALL
from fusion.models.calibration import Calibration, group_probabilities
from fusion.retrieval.neighbours import Neighbours
from fusion.retrieval.ranked import Ranked
from fusion.types import Array, Floats, Ints
from udfs.prediction.fuser import Fuser
from udfs.retrieval.encode import MODEL_FOLDER
from udfs.retrieval.pieces import MODULE, Pieces
from udfs.retrieval.retriever import ComparesTexts, Encoding, Retriever
from udfs.retrieval.retriever import Model as RetrieverModel
from udfs.stores.cache import readable_folder


@dataclass(frozen=True)
class Assigning:
    """How many labels a text is given: at most `top`, with at least the threshold as probability."""

    top: int
    threshold: float = 0.0


@dataclass(frozen=True)
class Labelled:
    """One entry per text and assigned label, by text, best first."""

    text: Ints
    """The place of the text."""
    rank: Ints
    """From 1."""
    label: Array
    score: Array
    probability: Floats


@dataclass(frozen=True)
class Model:
    """What labels texts, as workers get it: retrievers, where their models are, fusion and calibration."""

    folder: str
    fingerprint: str
    retrievers: tuple[Retriever, ...]
    fuser: Fuser
    calibrations: Mapping[str, Calibration]
    """By label group."""

    def label(self, texts: Sequence[str], assigning: Assigning) -> Labelled:
        """The labels of texts."""
        return self.assigned(self.fuser(self.lists(texts), len(texts)), assigning)

    def lists(self, texts: Sequence[str]) -> list[Ranked]:
        """The lists of every retriever. Texts are encoded once for all retrievers that read the same encoding."""
        ranking = opened(self.folder, self.fingerprint, self.retrievers)
        encoded = {encoding: encoding(list(texts)) for encoding in dict.fromkeys(encoding for encoding, _ in ranking)}
        return [model.rank(encoded[encoding]) for encoding, model in ranking]

    def neighbours(self, text: str) -> dict[str, Neighbours]:
        """By retriever, the training texts that a text resembles, where labels are found by them."""
        ranking = opened(self.folder, self.fingerprint, self.retrievers)
        near = {
            retriever.name: model.neighbours(encoding([text])) if isinstance(model, ComparesTexts) else None
            for retriever, (encoding, model) in zip(self.retrievers, ranking, strict=True)
        }
        return {name: texts for name, texts in near.items() if texts is not None}

    def assigned(self, fused: pa.Table, assigning: Assigning) -> Labelled:
        """From fused lists to labels with probabilities. The order is that of the fused scores."""
        labels, scores = fused["label_ids"].combine_chunks(), fused["scores"].combine_chunks()
        size = labels.value_lengths().to_numpy().astype(np.int64)
        label, score = labels.flatten().to_numpy(), scores.flatten().to_numpy()
        groups = self.fuser.plan.layout.groups
        group, names = (groups.lookup(pa.array(label)), groups.names) if groups else (np.zeros(len(label)), (ALL,))
        probability = group_probabilities(score, group, names, self.calibrations)
        likely = probability >= assigning.threshold if assigning.threshold > 0 else np.ones(len(label), np.bool_)
        # The rank of a label among those of its text that are likely enough.
        count = np.cumsum(likely)
        first = np.repeat(np.concatenate(([0], count))[np.cumsum(size) - size], size)
        rank = count - first
        kept = likely & (rank <= assigning.top)
        text = np.repeat(fused["text_id"].to_numpy(), size)
        return Labelled(text[kept], rank[kept], label[kept], score[kept], probability[kept])


@lru_cache(maxsize=4)
def opened(folder: str, fingerprint: str, retrievers: tuple[Retriever, ...]) -> list[tuple[Encoding, RetrieverModel]]:
    """The encodings and models of all retrievers, opened once per process."""
    place = readable_folder(folder, fingerprint)
    return [(_encoding(it, place / it.name), it.open(place / it.name)) for it in retrievers]


def _encoding(retriever: Retriever, place: Path) -> Encoding:
    """How texts are encoded for a retriever: with the tokenizer that is kept with what it has learned, if there is one,
    so that the pretrained model is not needed any more."""
    encoding = retriever.encoding
    if isinstance(encoding, Pieces):
        return Pieces(replace(encoding.start, model=str(place / MODEL_FOLDER / MODULE)))
    return encoding
