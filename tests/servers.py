"""Spark's own servers, as processes of the tests: started on loopback, ended by process id."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pyspark

from jobs.runtime.machine import ensure_java

SPARK_HOME = Path(pyspark.__file__).parent
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options for Java processes that live shortly: compiling well does not pay."""
PATIENCE = 90
"""Seconds for a server to come up on a busy machine."""


class Server(NamedTuple):
    """A running server: its process, and what the line said that told it was ready."""

    pid: int
    said: str


def spark_environment(**more: str) -> dict[str, str]:
    """The environment of Spark's commands. Code must come from where the test says, so no PYTHONPATH."""
    ensure_java()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "SPARK"))}
    own = {"SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    return {**kept, **own, **more}


@contextmanager
def server(command: list[str], ready: str, log: Path, environment: Mapping[str, str]) -> Iterator[Server]:
    """Start a server, wait for the line that matches `ready`, and end it with the block."""
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
            preexec_fn=_end_with_the_tests if sys.platform == "linux" else None,
        )
    try:
        yield Server(process.pid, _wait_for(ready, log, process))
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def connect_server(folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """A Spark Connect server with a folder of its own; its address."""
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": 0,
        "spark.driver.extraJavaOptions": QUICK,
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.warehouse.dir": folder / "warehouse",
        "spark.ui.enabled": "false",
    }
    conf = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    name = "org.apache.spark.sql.connect.service.SparkConnectServer"
    command = [str(SPARK_HOME / "bin/spark-submit"), "--class", name, "--master", "local[2]", *conf]
    ready = r"(?<=Spark Connect server started at: )\S+"
    with server(command, ready, folder / "server.log", environment) as running:
        yield f"sc://{running.said}"


def _end_with_the_tests() -> None:
    """Ask Linux to end this process with its parent, since tests that are killed cannot."""
    death_signal = 1
    ctypes.CDLL(None).prctl(death_signal, signal.SIGTERM)


def _wait_for(ready: str, log: Path, process: subprocess.Popen[bytes]) -> str:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        found = re.search(ready, log.read_text())
        if found:
            return found.group(0)
        time.sleep(0.1)
    raise AssertionError(f"no {ready!r} in\n{log.read_text()}")
