"""Spark's own metrics, out of its event log: plain, packed, rolled over, and still being written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from jobs.nights.checks import task_sums


def task(finished: int, run: int, read: int = 0, failed: bool = False) -> str:
    metrics = {"Executor Run Time": run, "Input Metrics": {"Bytes Read": read}}
    about = {"Finish Time": finished, "Failed": failed}
    return json.dumps({"Event": "SparkListenerTaskEnd", "Task Info": about, "Task Metrics": metrics})


def test_tasks_of_a_time_are_added_up(tmp_path: Path) -> None:
    lines = [json.dumps({"Event": "SparkListenerApplicationStart"}), task(999, 1), task(1500, 10, 7), task(2001, 100)]
    (tmp_path / "events_1_app").write_text("\n".join(lines) + "\n" + task(1600, 10)[:30])
    packed = pa.BufferOutputStream()
    with pa.CompressedOutputStream(packed, "zstd") as stream:
        stream.write((task(1700, 20, 5, failed=True) + "\n").encode())
    (tmp_path / "events_2_app.zstd").write_bytes(packed.getvalue().to_pybytes())
    (tmp_path / "events_3_app.zstd").write_bytes(packed.getvalue().to_pybytes()[:-9])
    sums = task_sums(sorted(tmp_path.iterdir()), 1.0, 2.0)
    assert (sums["spark_tasks"], sums["spark_failed_tasks"]) in ((2, 1), (3, 2))
    assert sums["spark_run_milliseconds"] in (30, 50)


@pytest.mark.drill
def test_a_real_event_log(tmp_path: Path) -> None:
    code = f"""
import time
from jobs.nights.checks import spark_metrics
from jobs.engines.session import get_session
from jobs.settings.base import SparkSettings
assert spark_metrics(0, time.time()) == {{}}
log = {{"spark.eventLog.enabled": True, "spark.eventLog.dir": {tmp_path.as_uri()!r}}}
spark = get_session(SparkSettings(master="local[1]", conf=log))
begin = time.time()
spark.range(1000).selectExpr("id % 7 AS k").groupBy("k").count().write.parquet({str(tmp_path / "out")!r})
time.sleep(3)
metrics = spark_metrics(begin, time.time())
print(metrics)
assert metrics["spark_tasks"] > 0 and metrics["spark_run_milliseconds"] > 0, metrics
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
