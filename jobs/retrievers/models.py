"""The model that a setting names."""

from __future__ import annotations

from jobs.storage.stages import input_fingerprint
from udfs.retrieval.encode import check_weights, find_model


def located_model(model: str) -> tuple[str, str]:
    """A model as workers find it, and its fingerprint. The name of a model on the hub stands for itself."""
    folder = find_model(model)
    checked = check_weights(model)
    identity = checked or (input_fingerprint(str(folder)) if folder else model)
    # Workers look in a folder of their own: they need the whole path, or a package's name.
    return model if checked or folder is None else str(folder.absolute()), identity
