"""The model file: the fusion that was chosen over all folds, for people to read and for `fuse --model` to apply."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from fusion import __version__
from fusion.cells import ANY_FOLD, Cell
from fusion.errors import ConfigError, InputError
from fusion.kernel.candidates import Constant, Missing, Policies, Tied
from fusion.kernel.texts import Scope
from fusion.labels import ALL
from fusion.models.bands import BandModel
from fusion.models.features import OF_TRAINING, feature_names
from fusion.models.models import LinearModel, Model, TreeModel, model_from_json
from fusion.models.pooling import LogOddsModel
from fusion.models.strategies import Strategy
from jobs.settings.base import parse_cell
from jobs.storage.folders import read_text
from udfs.json_records import parse_json

FORMAT = 1
ABOUT = {
    "cell": "the score of a label is that of the cell; see docs/algorithms.md",
    "calibration": "each retriever's scores become probabilities by its curve, which the fusion combines; see "
    "docs/tuning.md",
    "bonus": "the score of a label is the level of its frequency band plus the sum of its features times their "
    "coefficients; with a bonus for rare labels, the first k are chosen; see docs/tuning.md",
    "coefficients": "the score of a label is the intercept plus the sum of its features times their coefficients",
    "trees": "the score of a label is the sum over the trees: from node 0, a feature of at most the threshold leads to "
    "the left child; a child below 0 is the leaf -1 - child, whose value counts",
}
"""How a model is read, by what it holds."""
POLICIES = {"missing_labels": Missing, "constant_lists": Constant, "tied_labels": Tied}
"""The names that the file has for the fields of `Policies`, in their order."""


@dataclass(frozen=True)
class ModelFile:
    """A fusion by label group, and what it needs."""

    retrievers: tuple[str, ...]
    scope: Scope
    policies: Policies
    models: Mapping[str, Model]
    source: str

    @property
    def strategy(self) -> Strategy:
        return Strategy({view: {ANY_FOLD: model} for view, model in self.models.items()})

    def of(self, view: str) -> Model:
        """The model that makes the scores of a label group."""
        return self.models[ALL if self.scope == "joint" else view]

    @property
    def reads_training(self) -> bool:
        """Whether a feature counts the training texts of labels."""
        read = {name for model in self.models.values() for name in getattr(model, "features", ())}
        return not read.isdisjoint(OF_TRAINING) or any(
            isinstance(model, (BandModel, LogOddsModel)) for model in self.models.values()
        )

    def check(self, retrievers: Sequence[str], views: Sequence[str]) -> None:
        """Refuse lists of other retrievers, label groups that the file does not know, and features that nothing has."""
        if sorted(retrievers) != sorted(self.retrievers):
            raise ConfigError(
                f"{self.source} fuses the lists of {', '.join(self.retrievers)}; given are {', '.join(retrievers)}"
            )
        known = feature_names(self.retrievers, trained=True)
        for model in self.models.values():
            read = model.features if isinstance(model, (LinearModel, TreeModel)) else ()
            if unknown := set(read).difference(known):
                raise InputError(f"{self.source}: unknown feature {min(unknown)!r}")
        for view in [ALL] if self.scope == "joint" else views:
            if view not in self.models:
                raise ConfigError(f"{self.source} knows the label groups {', '.join(self.models)}, not {view!r}")


def model_json(
    models: Mapping[str, tuple[Cell, Model]],
    evidence: Mapping[str, Sequence[Mapping[str, Any]]],
    about: Mapping[str, Any],
) -> str:
    """The text of the file. `models`: by view, with the strategy behind each; `evidence`: by view, how all strategies
    did on validation texts."""
    groups = {}
    for view, (strategy, model) in models.items():
        described = model.to_json()
        groups[view] = {"strategy": str(strategy), "how": how(described), **described, "evidence": list(evidence[view])}
    return json.dumps({"format": FORMAT, "version": __version__, **about, "label_groups": groups}, indent=1) + "\n"


def how(described: Mapping[str, Any]) -> str:
    """How a model that is described makes scores."""
    return next(words for key, words in ABOUT.items() if key in described)


def read_model(path: str) -> ModelFile:
    """A model file, checked."""
    if Path(path).is_dir():
        raise InputError(f"{path} is a folder; give the file model.json that 'tune' wrote")
    text = read_text(path)
    if text is None:
        raise InputError(f"cannot read the model {path}: there is no such file")
    return parsed_model(text, path)


def parsed_model(text: str, path: str) -> ModelFile:
    """The text of a model file, checked; `path` is its name in messages."""
    try:
        found = parse_json(text)
        if found["format"] != FORMAT:
            raise InputError(f"{path}: format {found['format']!r} of another version; this one reads {FORMAT}")
        models = {view: _model(described, path) for view, described in found["label_groups"].items()}
        retrievers = tuple(map(str, found["retrievers"]))
        policies = Policies(*(_word(found, name, known) for name, known in POLICIES.items()))
        return ModelFile(retrievers, _word(found, "scope", Scope), policies, models, path)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise InputError(f"{path} is not a model file of 'tune': {why}") from None


def _word(found: Mapping[str, Any], name: str, known: Any) -> Any:
    """A word of the file, which must be one of those of a type."""
    if found[name] not in get_args(known):
        raise ValueError(f"{name} is {found[name]!r}; known: {', '.join(get_args(known))}")
    return found[name]


def _model(described: Mapping[str, Any], path: str) -> Model:
    return model_from_json(described, parse_cell(described["cell"]) if "cell" in described else None, path)
