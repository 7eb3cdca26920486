"""The registry of retrievers: what each indexes, how it scores, and which section holds its settings.

What brings a retriever's candidates up to date is known to `retrieve` alone: a wrong name in the configuration is
reported without importing Spark.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from fusion.errors import ConfigError
from fusion.registry import Registry


@dataclass(frozen=True)
class Retriever:
    """A retriever, as the registry knows it."""

    name: str
    """What users type; also the column value of its candidates."""
    indexes: str
    scores: str
    citation: str
    section: str
    """The section of the configuration that holds its settings."""
    when: str = ""
    """When to use it, in a sentence or two."""
    origin: str = ""
    """The file of a retriever that is not ours."""
    learn: Callable[..., Any] | None = None
    """The function of such a retriever."""


class RetrieverRegistry(Registry[Retriever]):
    """Retrievers by name. A file that is read again, because it has changed, replaces what it registered before."""

    def add(self, entry: Retriever) -> Retriever:
        earlier = self._entries.get(entry.name)
        if earlier is not None and entry.origin and earlier.origin == entry.origin:
            del self._entries[entry.name]
        return super().add(entry)


RETRIEVERS = RetrieverRegistry("retriever")
for _entry in (
    Retriever(
        "bm25",
        indexes="the fold's training texts (sparse.mode: labels: one document per label)",
        scores="the maximum (or sum) of BM25(text, t) over the most similar training texts t that carry the label",
        citation="Robertson et al., Okapi at TREC-3, 1994",
        section="sparse",
        when="Always: it needs no training and finds words that an encoder has never seen.",
    ),
    Retriever(
        "bm25-labels",
        indexes="one document per label: its name, alternative names, description and training texts",
        scores="BM25(text, the label's document)",
        citation="Robertson et al., Okapi at TREC-3, 1994",
        section="sparse",
        when="Labels with names or descriptions that occur in texts; labels without training texts.",
    ),
    Retriever(
        "dense",
        indexes="one vector per label: its name and the mean of its training texts",
        scores="the cosine of the text's and the label's vector",
        citation="Reimers and Gurevych, Sentence-BERT, EMNLP 2019; trained with NT-Xent, Chen et al., ICML 2020",
        section="dense",
        when="Beside `bm25`: it finds synonyms, and labels without training texts by their names.",
    ),
    Retriever(
        "dense-texts",
        indexes="the vectors of the fold's training texts by the model of `dense`",
        scores="the maximum (or sum) of the cosine over the nearest training texts that carry the label",
        citation="Zhang and Zhou, ML-KNN: A lazy learning approach to multi-label learning, 2007, for the idea",
        section="dense",
        when="Labels whose names say little, with enough training texts.",
    ),
    Retriever(
        "linear",
        indexes="one plane per label that training texts carry, over their TF-IDF",
        scores="the signed distance of the text to the label's plane",
        citation="Babbar and Schölkopf, DiSMEC, WSDM 2017",
        section="linear",
        when="Labels with dozens of training texts each; no GPU and no encoder.",
    ),
    Retriever(
        "static",
        indexes="one vector per label: that of its words, plus one of its own that starts at zero",
        scores="the cosine of the text's and the label's vector, plus a little for the label's frequency",
        citation="Reimers and Gurevych, Sentence-BERT, EMNLP 2019 (StaticEmbedding); NT-Xent: Chen et al., ICML 2020",
        section="static",
        when="As `dense` on a machine without a GPU: it is trained in seconds.",
    ),
    Retriever(
        "static-texts",
        indexes="the vectors of the fold's training texts by the model of `static`",
        scores="the maximum (or sum) of the cosine over the nearest training texts that carry the label",
        citation="Zhang and Zhou, ML-KNN: A lazy learning approach to multi-label learning, 2007, for the idea",
        section="static",
        when="As `dense-texts`, with the vectors of `static`.",
    ),
):
    RETRIEVERS.add(_entry)


def chosen_retrievers(names: Iterable[str]) -> list[Retriever]:
    """The retrievers behind names and files, in the order given and without repetitions."""
    chosen = [entry for name in names for entry in (load_file(name) if name.endswith(".py") else [RETRIEVERS[name]])]
    return list({entry.name: entry for entry in chosen}.values())


def load_file(path: str) -> list[Retriever]:
    """The retrievers that a Python file registers. A file that has changed since is read again."""
    place = Path(path).expanduser().absolute()
    try:
        content = place.read_bytes()
    except OSError as error:
        raise ConfigError(f"the retriever {path} cannot be read: {error.strerror}") from None
    return _loaded(place, hashlib.sha256(content).hexdigest())


@cache
def _loaded(place: Path, digest: str) -> list[Retriever]:
    name = f"retriever_{place.stem}_{digest[:8]}"
    spec = spec_from_file_location(name, place)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    # Whoever pickles a function of the file looks for its module here.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ConfigError(f"the retriever {place} cannot be imported: {type(error).__name__}: {error}") from error
    registered = [entry for entry in RETRIEVERS if entry.origin == str(place)]
    if not registered:
        raise ConfigError(f"{place} registers no retriever: decorate a function with @xmtc_fusion.retriever(...)")
    return registered
