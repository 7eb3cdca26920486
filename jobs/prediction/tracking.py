"""Models in MLflow: the folder of a model as it is, which `xmtc_fusion.pyfunc` opens. Nothing in it is a pickle."""

from __future__ import annotations

import tempfile
from typing import Any

from fusion import __version__
from fusion.errors import SetupError
from jobs.prediction.model import KeptModel, copy_model

LOADER = "xmtc_fusion.pyfunc"
FINGERPRINT = "fingerprint"
"""The tag of a registered version that says which model it is."""


def mlflow_package() -> Any:
    """MLflow, which is an extra."""
    try:
        import mlflow
    except ImportError as error:
        raise SetupError(f"a model in MLflow needs the package mlflow ({error}): pip install '.[mlflow]'") from None
    return mlflow


def log_model(kept: KeptModel, name: str, registered: str | None = None) -> str:
    """Log a model in the active run, or in a new one, and register it if a name is given; its address in MLflow."""
    mlflow = mlflow_package()
    # MLflow 3 has renamed it.
    place = {"artifact_path" if mlflow.__version__.startswith("2.") else "name": name}
    with tempfile.TemporaryDirectory(prefix="xmtc-fusion-") as scratch:
        copy_model(kept, f"{scratch}/model", overwrite=False)
        logged = mlflow.pyfunc.log_model(
            **place,
            loader_module=LOADER,
            data_path=f"{scratch}/model",
            pip_requirements=[f"xmtc-fusion=={__version__}"],
            signature=_signature(),
            input_example=_example(),
            registered_model_name=registered,
            metadata={FINGERPRINT: kept.fingerprint, "dataset": kept.manifest["dataset"]},
        )
    if registered is not None:
        client = mlflow.MlflowClient()
        client.set_model_version_tag(registered, logged.registered_model_version, FINGERPRINT, kept.fingerprint)
    return str(logged.model_uri)


def is_registered(kept: KeptModel, name: str) -> bool:
    """Whether a version of a registered model is this one."""
    versions = mlflow_package().MlflowClient().search_model_versions(f"name = '{name}'")
    return any(version.tags.get(FINGERPRINT) == kept.fingerprint for version in versions)


def _signature() -> Any:
    from mlflow.models import ModelSignature
    from mlflow.types.schema import Array, ColSpec, DataType, Schema

    columns = {"labels": DataType.string, "names": DataType.string, "probabilities": DataType.double}
    inputs: list[Any] = [ColSpec(DataType.string, "text")]
    outputs: list[Any] = [ColSpec(Array(kind), name) for name, kind in columns.items()]
    return ModelSignature(Schema(inputs), Schema(outputs))


def _example() -> Any:
    import pandas as pd

    return pd.DataFrame({"text": ["The text that is to be labelled."]})
