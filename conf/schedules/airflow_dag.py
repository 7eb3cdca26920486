"""An Airflow DAG that runs `nightly` by spark-submit, from any folder that Airflow works in.

`make package EXTRAS=dense,nightly` in /opt/xmtc-fusion makes the environments of driver (.venv) and executors (dist).
A night with an alarm has an exit code other than 0, so the task fails and Airflow notifies whom it should.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

with DAG(
    dag_id="xmtc_fusion_nightly",
    schedule="30 2 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    # Two nights at once would wait for each other.
    max_active_runs=1,
    # An alarm is not a glitch: a retry would only repeat it.
    default_args={"retries": 0, "execution_timeout": timedelta(hours=6)},
) as dag:
    BashOperator(
        task_id="nightly",
        bash_command="""
            spark-submit --master spark://HOST:7077 \\
              --archives /opt/xmtc-fusion/dist/environment.tar.gz#environment \\
              --conf spark.pyspark.python=./environment/bin/python \\
              --conf spark.pyspark.driver.python=/opt/xmtc-fusion/.venv/bin/python \\
              /opt/xmtc-fusion/jobs/nightly.py --config /opt/xmtc-fusion/conf/nightly.yaml \\
              --work /opt/xmtc-fusion/work --run-id {{ ds }}
        """,
    )
