"""An Airflow DAG that runs `nightly` by spark-submit. Needs apache-airflow-providers-apache-spark.

The packed environment comes from `make package EXTRAS=nightly`; the connection `spark_default` names the cluster. A
night with an alarm ends with an exit code that is not 0, so that the task fails and Airflow tells whom it should.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow import DAG
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

with DAG(
    dag_id="xmtc_fusion_nightly",
    schedule="30 2 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    # Two nights at once would wait for each other.
    max_active_runs=1,
    # An alarm is no accident: a second try would only say the same.
    default_args={"retries": 0, "execution_timeout": timedelta(hours=6)},
) as dag:
    SparkSubmitOperator(
        task_id="nightly",
        conn_id="spark_default",
        application="/opt/xmtc-fusion/jobs/nightly.py",
        archives="/opt/xmtc-fusion/dist/environment.tar.gz#environment",
        conf={"spark.pyspark.python": "./environment/bin/python"},
        application_args=[
            "--config",
            "/opt/xmtc-fusion/conf/nightly.yaml",
            "--work",
            "/opt/xmtc-fusion/work",
            "--run-id",
            "{{ ds }}",
        ],
    )
