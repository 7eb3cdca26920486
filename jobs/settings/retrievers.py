"""The registry of retrievers, and the part of the configuration that chooses some of them.

What brings a retriever's candidates up to date is known to `retrieve` alone: a wrong name in the configuration is
reported without importing Spark.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ConfigDict, GetCoreSchemaHandler, ValidationError
from pydantic_core import CoreSchema, core_schema

from fusion.errors import ConfigError
from fusion.registry import Registry
from jobs.settings.base import RetrieverSettings
from jobs.settings.built_in import Bm25Settings, DenseSettings, LinearSettings, StaticSettings, TreeSettings

SettingsT = TypeVar("SettingsT", bound=RetrieverSettings)


class OwnSettings(RetrieverSettings):
    """Of a retriever of your own: any settings, which its function reads."""

    model_config = ConfigDict(extra="allow")

    @property
    def reads(self) -> str:
        return ""


@dataclass(frozen=True)
class Retriever:
    """A retriever, as the registry knows it."""

    name: str
    """What users type; also the column value of its candidates."""
    indexes: str
    scores: str
    citation: str
    settings: type[RetrieverSettings] = OwnSettings
    """The model of its settings."""
    family: str = ""
    """The retriever whose settings it takes over where it has none of its own."""
    when: str = ""
    """When to use it, in a sentence or two."""
    origin: str = ""
    """The file of a retriever that is not ours."""
    learn: Callable[..., Any] | None = None
    """The function of such a retriever."""


class RetrieverRegistry(Registry[Retriever]):
    """Retrievers by name. A file that is read again, because it has changed, replaces what it registered before."""

    def find(self, name: str) -> Retriever | None:
        return self._entries.get(name)

    def add(self, entry: Retriever) -> Retriever:
        earlier = self._entries.get(entry.name)
        if earlier is not None and entry.origin and earlier.origin == entry.origin:
            del self._entries[entry.name]
        return super().add(entry)


RETRIEVERS = RetrieverRegistry("retriever")
for _entry in (
    Retriever(
        "bm25",
        indexes="the fold's training texts",
        scores="the maximum (or sum) of BM25(text, t) over the most similar training texts t that carry the label",
        citation="Robertson et al., Okapi at TREC-3, 1994",
        settings=Bm25Settings,
        when="Always: it needs no training and finds words that an encoder has never seen.",
    ),
    Retriever(
        "bm25-labels",
        indexes="one document per label: its name, alternative names, description and training texts",
        scores="BM25(text, the label's document)",
        citation="Robertson et al., Okapi at TREC-3, 1994",
        settings=Bm25Settings,
        family="bm25",
        when="Labels with names or descriptions that occur in texts; labels without training texts.",
    ),
    Retriever(
        "dense",
        indexes="one vector per label: its name and the mean of its training texts",
        scores="the cosine of the text's and the label's vector",
        citation="Reimers and Gurevych, Sentence-BERT, EMNLP 2019; trained with NT-Xent, Chen et al., ICML 2020",
        settings=DenseSettings,
        when="With `bm25`: it finds synonyms, and labels without training texts by their names.",
    ),
    Retriever(
        "dense-texts",
        indexes="the vectors of the fold's training texts by the model of `dense`",
        scores="the maximum (or sum) of the cosine over the nearest training texts that carry the label",
        citation="Zhang and Zhou, ML-KNN: A lazy learning approach to multi-label learning, 2007, for the idea",
        settings=DenseSettings,
        family="dense",
        when="Labels whose names say little, with enough training texts.",
    ),
    Retriever(
        "linear",
        indexes="one plane per label that training texts carry, over their TF-IDF",
        scores="the signed distance of the text to the label's plane",
        citation="Babbar and Schölkopf, DiSMEC, WSDM 2017",
        settings=LinearSettings,
        when="Labels with dozens of training texts each; no GPU and no encoder.",
    ),
    Retriever(
        "static",
        indexes="one vector per label: that of its words, plus a learned one that starts at zero",
        scores="the cosine of the text's and the label's vector, plus a little for the label's frequency",
        citation="Reimers and Gurevych, Sentence-BERT, EMNLP 2019 (StaticEmbedding); NT-Xent: Chen et al., ICML 2020",
        settings=StaticSettings,
        when="As `dense` on a machine without a GPU: it is trained in seconds.",
    ),
    Retriever(
        "static-texts",
        indexes="the vectors of the fold's training texts by the model of `static`",
        scores="the maximum (or sum) of the cosine over the nearest training texts that carry the label",
        citation="Zhang and Zhou, ML-KNN: A lazy learning approach to multi-label learning, 2007, for the idea",
        settings=StaticSettings,
        family="static",
        when="As `dense-texts`, with the vectors of `static`.",
    ),
    Retriever(
        "tree",
        indexes="trees of the labels that training texts carry, with one linear classifier per branch over TF-IDF",
        scores="the label's probability: those on the way to it multiplied, as a mean over trees",
        citation="Prabhu et al., Parabel, WWW 2018; Khandagale et al., Bonsai, Machine Learning 2020",
        settings=TreeSettings,
        when="Thousands of labels or more, without a GPU; with `static`, as it never returns a label without training "
        "texts.",
    ),
):
    RETRIEVERS.add(_entry)


BUILT_IN = tuple(RETRIEVERS.names())


class Retrievers(Mapping[str, RetrieverSettings]):
    """The chosen retrievers, by name or by the file of one's own, in their order; each with its settings.

    In a configuration, names with settings (`{bm25: {k1: 0.9}, tree.py: {}}`), a list of names, or names separated by
    commas.
    """

    def __init__(self, settings: Mapping[str, RetrieverSettings]) -> None:
        self._settings = dict(settings)

    def __getitem__(self, name: str) -> RetrieverSettings:
        return self._settings[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._settings)

    def __len__(self) -> int:
        return len(self._settings)

    def __repr__(self) -> str:
        return f"Retrievers({self._settings!r})"

    def entries(self) -> list[Retriever]:
        """The retrievers behind names and files, without repetitions."""
        return list({entry.name: entry for name in self for entry in registered(name)}.values())

    def settings(self, retriever: str, model: type[SettingsT]) -> SettingsT:
        """The settings of a retriever, which are of this model; its defaults if it was not chosen."""
        for name, settings in self.items():
            if name == retriever or (is_file(name) and retriever in (entry.name for entry in registered(name))):
                assert isinstance(settings, model), f"{retriever} has {type(settings).__name__}, not {model.__name__}"
                return settings
        return model()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        written = core_schema.plain_serializer_function_ser_schema(_dumped, info_arg=True)
        return core_schema.no_info_plain_validator_function(_validated, serialization=written)


DEFAULT = Retrievers({"bm25": Bm25Settings(), "static": StaticSettings()})
"""What a plain installation can run."""


def _dumped(retrievers: Retrievers, info: core_schema.SerializationInfo) -> dict[str, Any]:
    return {name: settings.model_dump(mode=info.mode) for name, settings in retrievers.items()}


def _validated(given: object) -> Retrievers:
    if isinstance(given, Retrievers):
        return given
    choice = given_choice(given)
    if not choice:
        raise ValueError("name at least one retriever, as in [bm25, static] or {bm25: {k1: 0.9}, static: {}}")
    problems, settings = [], {}
    for name, values in choice.items():
        entry = None if is_file(name) else RETRIEVERS.find(name)
        model = entry.settings if entry else OwnSettings
        family = choice.get(entry.family) if entry else None
        if isinstance(family, dict) and isinstance(values, dict):
            values = {**family, **values}
        try:
            settings[name] = model.model_validate(values)
        except ValidationError as error:
            problems += [{**problem, "loc": (name, *problem["loc"])} for problem in error.errors()]
    if problems:
        raise ValidationError.from_exception_data("retrievers", problems)  # type: ignore[arg-type]
    return Retrievers(settings)


def given_choice(given: object) -> dict[str, Any]:
    """What a layer of settings says about the retrievers, as names with settings; nothing if that makes no sense."""
    if isinstance(given, str):
        given = [name.strip() for name in given.split(",") if name.strip()]
    if isinstance(given, Mapping):
        return {str(name): {} if values is None else values for name, values in given.items()}
    if isinstance(given, list | tuple) and all(isinstance(name, str) for name in given):
        return {name: {} for name in given}
    return {}


def is_file(name: str) -> bool:
    """Whether a retriever is named by the Python file that registers it."""
    return name.endswith(".py")


def registered(name: str) -> list[Retriever]:
    """The retriever of this name, or those that a file registers."""
    return load_file(name) if is_file(name) else [RETRIEVERS[name]]


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
