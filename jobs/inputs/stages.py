"""What the stages of a dataset left in the work folder, as inputs."""

from __future__ import annotations

from collections.abc import Mapping

from jobs.settings.base import OutputSettings
from jobs.settings.config import Config
from jobs.storage.stages import stage_fingerprint
from jobs.storage.workspace import Workspace


def with_stages(config: Config) -> Config:
    """The configuration with the lists and tables of the dataset's stages as inputs, where none are named; lists that
    are named are added to those of the stages."""
    if config.inputs.judgements is not None or isinstance(config.inputs.candidates, str):
        return config
    place = Workspace.of(config)
    if stage_fingerprint(place.prepared) is None:
        return config
    finished = {
        entry.name: place.candidate_lists(entry.name)
        for entry in config.retrievers.entries()
        if stage_fingerprint(place.candidates(entry.name)) is not None
    }
    return with_tables(config, {**finished, **(config.inputs.candidates or {})})


def with_inputs(config: Config, results: str | None = None) -> Config:
    """The same, but only where nothing at all is named; and then with a place for results, unless one is set."""
    if config.inputs.candidates is not None or config.inputs.judgements is not None:
        return config
    staged = with_stages(config)
    return staged if staged is config or results is None else with_output(staged, results)


def with_tables(config: Config, candidates: Mapping[str, str]) -> Config:
    """The configuration with the tables of the prepared dataset, and these lists, as inputs."""
    place = Workspace.of(config)
    inputs = config.inputs.model_copy(
        update={
            "candidates": dict(candidates),
            "judgements": place.samples,
            "label_groups": place.labels,
            "folds": place.folds,
        }
    )
    return config.model_copy(update={"inputs": inputs})


def with_output(config: Config, place: str) -> Config:
    """A place for the figures: as set, or in the work folder, where a later run replaces them."""
    if config.output.path is not None:
        return config
    return config.model_copy(update={"output": OutputSettings(path=place, mode="overwrite")})
