"""Nights in MLflow. Needs the extra [mlflow]."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from fusion.errors import SetupError

EXPERIMENT = "xmtc-fusion nightly"


def check_installed() -> None:
    """Refuse before any work is done."""
    if find_spec("mlflow") is None:
        raise SetupError("nightly.mlflow needs the package mlflow: pip install 'xmtc-fusion[mlflow]'")


def track(address: str, run_id: str, summary: dict[str, Any], config: str) -> None:
    """One MLflow run per night, the same one again if the night is run again.

    Watched figures are its metrics, what changed its tags, and the summary is a file.
    """
    import mlflow

    mlflow.set_tracking_uri(address)
    experiment = mlflow.set_experiment(EXPERIMENT).experiment_id
    same = mlflow.MlflowClient().search_runs([experiment], f"attributes.run_name = '{run_id}'", max_results=1)
    with mlflow.start_run(same[0].info.run_id if same else None, run_name=run_id):
        mlflow.set_tag("exit_code", summary["exit_code"])
        for dataset, facts in summary["datasets"].items():
            mlflow.set_tags({f"{dataset}.verdict": facts["verdict"], f"{dataset}.changed": ", ".join(facts["changed"])})
            for watched in facts["figures"]:
                cell = f"{watched['normalization']}-{watched['fusion']}"
                name = f"{dataset}/{watched['label_group']}/{cell}/{watched['metric']}_{watched['k']}"
                if watched["mean"] is not None:
                    mlflow.log_metric(name, watched["mean"])
        mlflow.log_dict(summary, "summary.json")
        mlflow.log_text(config, "config.yaml")
