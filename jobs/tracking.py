"""Nightly runs in MLflow. Needs the extra [mlflow]."""

from __future__ import annotations

from typing import Any

from fusion.errors import SetupError


def track(address: str, run_id: str, summary: dict[str, Any], config: str) -> None:
    """One MLflow run a night: watched figures as metrics, what changed as tags, the summary as a file."""
    try:
        import mlflow
    except ImportError:
        raise SetupError("nightly.mlflow needs the package mlflow: pip install 'xmtc-fusion[mlflow]'") from None
    mlflow.set_tracking_uri(address)
    mlflow.set_experiment("xmtc-fusion nightly")
    with mlflow.start_run(run_name=run_id):
        mlflow.set_tag("exit_code", summary["exit_code"])
        for dataset, found in summary["datasets"].items():
            mlflow.set_tags({f"{dataset}.verdict": found["verdict"], f"{dataset}.changed": ", ".join(found["changed"])})
            for watched in found["watched"]:
                cell = f"{watched['normalization']}-{watched['fusion']}"
                mlflow.log_metric(
                    f"{dataset}/{watched['label_group']}/{cell}/{watched['metric']}_{watched['k']}", watched["tonight"]
                )
        mlflow.log_dict(summary, "summary.json")
        mlflow.log_text(config, "config.yaml")
