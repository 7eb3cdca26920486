"""Job `doctor`: what is wrong with an installation, from Java to the last executor, and what to do about it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fusion.errors import XmtcError
from jobs.runtime.machine import (
    PACKAGE,
    PROBE_SCHEMA,
    Finding,
    Probe,
    java,
    make_probe,
    requirement_name,
    requirements,
    without_spark,
)
from jobs.settings.base import OutputSettings
from jobs.settings.config import Config
from jobs.storage.folders import read_parquet, whole_folder
from udfs.stores.addresses import local_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


TASKS = 8
"""How often workers are asked. Few enough to be quick; on a large cluster it is a sample."""
GIB = 2**30
GUIDE = "docs/clusters.md"


def run(config: Config, tell: Callable[[str], object] = print) -> int:
    """Look at all that jobs need, tell it line by line, and end with a verdict; the number of problems."""
    states = []
    for finding in findings(config):
        tell(str(finding))
        states.append(finding.state)
    problems, warnings = states.count("problem"), states.count("warning")
    tell(verdict(problems, warnings))
    return problems


def verdict(problems: int, warnings: int) -> str:
    """The last line."""
    counts = ", ".join(
        f"{count} {name}{'s' * (count > 1)}" for count, name in ((problems, "problem"), (warnings, "warning")) if count
    )
    if problems:
        return f"Not ready: {counts}, see above"
    return f"Ready: jobs can run here{f' ({counts}, see above)' if counts else ''}"


def findings(config: Config) -> Iterator[Finding]:
    """Every finding, in the order in which one thing needs another. Spark is imported only once pyspark is known to be
    there, so that doctor can say that it is not."""
    needed, optional = requirements()
    # Spark brings its own pyspark.
    names = {requirement_name(requirement) for requirement in needed} - {"pyspark"}
    describe, probe = make_probe(tuple(sorted(names)))
    here, usable = describe(), True
    for finding in without_spark(here, optional):
        yield finding
        usable = usable and (finding.state, finding.subject) != ("problem", "pyspark")
    yield from _kernels("driver", [here])
    if not usable:
        return
    remote = config.spark.remote or os.environ.get("SPARK_REMOTE")
    if remote is None:
        runtime = java()
        yield runtime
        if runtime.state == "problem":
            return
    yield from _with_spark(config, here, probe, remote)


def _with_spark(config: Config, here: dict[str, Any], probe: Probe, remote: str | None) -> Iterator[Finding]:
    """What a session, its workers and its storage have to say."""
    from jobs.engines.session import get_session

    try:
        spark = get_session(config.spark)
        spark_version = spark.version
    except Exception as error:
        yield Finding(
            "problem", "Spark", _reason(error), "check spark.master, spark.remote and what spark-submit was given"
        )
        return
    yield _spark(spark, spark_version, remote)
    workers, failure = _ask(spark, probe)
    if failure is None:
        yield from _workers(workers, here)
        yield _arrow(spark)
    else:
        remedy = f"executors need Python {here['python'].rpartition('.')[0]} with pyarrow; see {GUIDE}"
        yield Finding("problem", "workers", _reason(failure), remedy)
    yield from _memory(spark, [] if remote else [here], workers)
    yield _storage(spark, "work.path", config.work.path)
    if config.output.path is not None and config.output.table is None:
        yield _storage(spark, "output.path", config.output.path)


def _spark(spark: SparkSession, version: str, remote: str | None) -> Finding:
    from pyspark import __version__ as own

    where = f"Spark Connect, {remote.split(';')[0]}" if remote else str(spark.conf.get("spark.master"))
    text = f"{version}, {where}"
    if version.split(".")[:2] != own.split(".")[:2]:
        return Finding("warning", "Spark", f"{text}; pyspark here is {own}", f"pip install 'pyspark=={version}'")
    return Finding("ok", "Spark", text)


def _memory(spark: SparkSession, drivers: list[dict[str, Any]], workers: list[dict[str, Any]]) -> Iterator[Finding]:
    master = str(spark.conf.get("spark.master", ""))
    machines = {"driver": drivers, "executor": [] if master.startswith("local") else workers}
    for who, processes in machines.items():
        sizes = [process["memory"] for process in processes if process["memory"]]
        if not sizes:
            continue
        heap = _bytes(spark.conf.get(f"spark.{who}.memory", "1g"))
        text = f"{who}: heap {heap / GIB:.1f} GiB, machine {min(sizes) / GIB:.1f} GiB"
        if heap > 0.75 * min(sizes):
            yield Finding("warning", "memory", text, f"Python needs room beside it: lower spark.{who}.memory")
        else:
            yield Finding("ok", "memory", text)
    if master.startswith(("yarn", "k8s")) and spark.conf.get("spark.executor.memoryOverhead", None) is None:
        text = "spark.executor.memoryOverhead is not set; Python workers live on it, some 0.4 GiB each"
        remedy = "--conf spark.executor.memoryOverhead=1g, and half as much for every further core of an executor"
        yield Finding("warning", "memory", text, remedy)


def _bytes(text: str | None) -> int:
    """A size as Spark writes it: 512m, 2g."""
    match = re.fullmatch(r"(\d+)([kmgt]?)b?", str(text).lower())
    return int(match.group(1)) * 1024 ** " kmgt".index(match.group(2) or " ") if match else 0


def _ask(spark: SparkSession, probe: Probe) -> tuple[list[dict[str, Any]], Exception | None]:
    """What the workers say of themselves, one entry per process; or why they say nothing."""
    try:
        rows = spark.range(0, TASKS, 1, TASKS).mapInArrow(probe, PROBE_SCHEMA).toArrow()["about"].to_pylist()
    except Exception as error:
        return [], error
    # A process that answers again has its kernel already.
    answers = sorted(map(json.loads, rows), key=lambda row: float(row.get("kernel_seconds", 0)))
    return list({(row["host"], row["process"]): row for row in answers}.values()), None


def _reason(error: Exception) -> str:
    """What went wrong, where Spark's own sentence says only that something did."""
    if isinstance(error, XmtcError):
        return str(error)
    from jobs.engines.errors import spark_reason

    sentences = re.findall(
        r"Cannot run program [^\n]+|^\w+Error: [^\n]+|\[PYTHON_VERSION_MISMATCH\][^\n]+", str(error), re.M
    )
    return str(sentences[-1]) if sentences else spark_reason(error)


def _workers(workers: list[dict[str, Any]], here: dict[str, Any]) -> Iterator[Finding]:
    hosts = {worker["host"] for worker in workers}
    pythons = {f"{worker['python']}, {worker['executable']}" for worker in workers}
    about = f"{len(workers)} on {len(hosts)} host{'s' * (len(hosts) > 1)}: Python {'; '.join(sorted(pythons))}"

    failed = [worker for worker in workers if "error" in worker]
    other = [worker for worker in workers if worker.get("code") != here.get("code") and worker not in failed]
    versions = {
        f"{name} {number or 'missing'} (driver: {here['packages'][name]})"
        for worker in workers
        for name, number in worker["packages"].items()
        if number != here["packages"][name]
    }
    if failed:
        text = f"{about}; {PACKAGE} does not work there: {failed[0]['error']}"
        yield Finding("problem", "workers", text, f"ship the environment that `make package` makes; see {GUIDE}")
    elif other:
        text = f"{about}; their code ({other[0]['place']}) is not the driver's ({here['place']})"
        yield Finding("problem", "workers", text, f"ship the environment that the driver has; see {GUIDE}")
    elif versions:
        text = f"{about}; other versions: {', '.join(sorted(versions))}"
        yield Finding("warning", "workers", text, f"ship the environment that the driver has; see {GUIDE}")
    else:
        yield Finding("ok", "workers", f"{about}; code and packages are the driver's")
    yield from _kernels("workers", [worker for worker in workers if worker not in failed])


def _kernels(who: str, processes: list[dict[str, Any]]) -> Iterator[Finding]:
    known = [process for process in processes if "kernel_seconds" in process]
    if not known:
        return
    slowest = max(process["kernel_seconds"] for process in known)
    text = f"{who}: the first one was ready after {slowest:.1f} s"
    if any(process["cache"] is None for process in known):
        text += "; compiled code cannot be kept, so that every Python worker compiles for itself"
        remedy = "set NUMBA_CACHE_DIR (for executors: spark.executorEnv.NUMBA_CACHE_DIR) to a folder they may write"
        yield Finding("warning", "kernels", text, remedy)
    else:
        yield Finding("ok", "kernels", f"{text}; kept in {', '.join(sorted({process['cache'] for process in known}))}")


def _arrow(spark: SparkSession) -> Finding:
    table = pa.table(
        {
            "text_id": pa.array([1, 2], pa.int64()),
            "label_ids": pa.array([[3, 4], []], pa.list_(pa.int32())),
            "scores": pa.array([[0.5, -1.5], []], pa.list_(pa.float32())),
        }
    )
    try:
        back = spark.createDataFrame(table).mapInArrow(lambda batches: batches, spark.createDataFrame(table).schema)
        same = back.toArrow().sort_by("text_id").to_pylist() == table.to_pylist()
    except Exception as error:
        return Finding("problem", "Arrow", _reason(error), "pyarrow of driver and executors must suit Spark's")
    if not same:
        return Finding("problem", "Arrow", "rows came back changed", "install the pyarrow that Spark asks for")
    return Finding("ok", "Arrow", "lists went to the workers and came back unchanged")


class _TrialDoneError(Exception):
    """Raised at the end of a trial, so that nothing is left of it."""


def _storage(spark: SparkSession, setting: str, path: str) -> Finding:
    """Whether Spark and the driver can write to a place, and see each other's files there."""
    rows = None
    try:
        with whole_folder(OutputSettings(path=f"{_existing(path)}/doctor", mode="overwrite")) as folder:
            spark.range(TASKS).write.parquet(f"{folder.uri}/rows.parquet")
            rows = read_parquet(f"{folder.uri}/rows.parquet")
            raise _TrialDoneError
    except _TrialDoneError:
        pass
    except Exception as error:
        return Finding("problem", setting, f"{path}: {_reason(error)}", f"set {setting} to a place that may be written")
    if rows is None or len(rows) != TASKS:
        text = f"{path}: what the executors write there, the driver does not see"
        return Finding("problem", setting, text, "use storage that all machines share")
    return Finding("ok", setting, f"{path} can be written, and is the same place for driver and executors")


def _existing(path: str) -> str:
    """The nearest folder that is there, where folders are real: a look should not make any."""
    local = local_folder(path)
    if local is None:
        return path.rstrip("/")
    local = local.absolute()
    while not local.exists():
        local = local.parent
    return str(local)
