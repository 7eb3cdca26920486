"""Where figures come from: what explains that two results of the same settings differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jobs.engines.engine import Engine
from jobs.runtime.machine import code_origin, package_versions, processor
from jobs.settings.config import Config
from jobs.storage.stages import STAGE_NOTES, input_fingerprint, stage_fingerprint
from jobs.storage.versions import Versions, resolve, version_of
from jobs.storage.workspace import ancestors
from udfs.stores.objects import files_below

TABLE = "table:"
MOST_HASHED = 256e6
"""Bytes of an input that are read only to know them again; a larger one is known by its size."""
UNSTEADY = ("stages", "seconds")
"""What may differ between two runs of the same thing."""
AUTO = ("precision",)
"""Settings that a stage resolves, and notes in its marker."""

Provenance = Mapping[str, Any]


def provenance(engine: Engine[Any], config: Config, inputs: Mapping[str, str], seconds: float) -> Provenance:
    """What made a result, from inputs that are paths or catalog tables."""
    stages = list(_stages(list(inputs.values())))
    resolved = {
        f"{stage['stage']}: {name}": stage[name] for stage in stages for name in AUTO if stage.get(name) is not None
    }
    return {
        "code": code_origin(),
        "packages": package_versions(),
        "processor": processor(),
        "engine": engine.about,
        "resolved": resolved,
        "seeds": _seeds(config),
        "inputs": {name: _known_by(path) for name, path in inputs.items()},
        "stages": stages,
        "seconds": round(seconds, 1),
    }


def _seeds(config: Config) -> dict[str, int]:
    """Every setting called seed."""

    def below(name: str, value: Any) -> Iterator[tuple[str, int]]:
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from below(f"{name}.{key}" if name else key, inner)
        elif name.rpartition(".")[2] == "seed" and isinstance(value, int):
            yield name, value

    return dict(below("", config.model_dump(mode="json")))


def _known_by(path: str) -> str:
    """The fingerprint of an input's stage or of its bytes; of a catalog table, its name is all that is known."""
    if path.startswith(TABLE):
        return path
    place = version_of(path)
    if place is not None and (fingerprint := stage_fingerprint(place[0])) is not None:
        return fingerprint
    size = sum(listed.size for listed in files_below(resolve(path)))
    return input_fingerprint(path) if size <= MOST_HASHED else f"{size:,} bytes"


def _stages(paths: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The stages that the inputs were made by, each once, in the order of their names."""
    places = {place for path in paths if not path.startswith(TABLE) and (place := version_of(path))}
    for root, version in sorted({*places, *(older for place in places for older in ancestors(*place))}):
        about = Versions.of_stage(root).about(version)
        if about is not None:
            notes = {name: about[name] for name in STAGE_NOTES if name in about}
            yield {"stage": about["stage"], "fingerprint": about["fingerprint"], **notes}


def differences(one: Provenance, other: Provenance) -> list[tuple[str, Any, Any]]:
    """What differs, with both values; nothing where one of the two is not known."""
    if not one or not other:
        return []
    first, second = (dict(_flat("", {**made, **dict.fromkeys(UNSTEADY)})) for made in (one, other))
    names = dict.fromkeys([*first, *second])
    return [(name, first.get(name), second.get(name)) for name in names if first.get(name) != second.get(name)]


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(f"{name}: {key}" if name else key, inner)
    elif value is not None:
        yield name, value
