"""Job `doctor`: what is wrong with an installation, from Java to the last executor, and what to do about it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession

from fusion.errors import SetupError, XmtcError
from jobs.config import Config
from jobs.runtime.folders import read_parquet, whole_folder
from jobs.runtime.java import current_java, ensure_java
from jobs.runtime.session import get_session
from jobs.runtime.spark_errors import spark_reason
from jobs.settings import OutputSettings
from udfs.probe import PROBE_SCHEMA, Probe, make_probe
from udfs.storage import local_folder

PACKAGE = "xmtc-fusion"
TASKS = 8
"""How often workers are asked. Few enough to be quick; on a large cluster it is a sample."""
GIB = 2**30
GUIDE = "docs/clusters.md"


class Finding(NamedTuple):
    """One line of the result. What is not ok has a remedy."""

    state: Literal["ok", "warning", "problem"]
    subject: str
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        remedy = f"\n{'':26}-> {self.remedy}" if self.remedy else ""
        return f"{self.state:8} {self.subject:16} {self.text}{remedy}"


def run(config: Config, tell: Callable[[str], object] = print) -> int:
    """Look at all that jobs need and tell it line by line; the number of problems."""
    problems = 0
    for finding in findings(config):
        tell(str(finding))
        problems += finding.state == "problem"
    return problems


def findings(config: Config) -> Iterator[Finding]:
    """Every finding, in the order in which one thing needs another."""
    needed, extras = _requirements()
    # Spark brings its own pyspark.
    describe, probe = make_probe(tuple(sorted({_name(requirement) for requirement in needed} - {"pyspark"})))
    here = describe()
    yield Finding("ok", "Python", f"{here['python']}, {here['executable']}")
    yield _packages(here)
    yield _extras(extras)
    yield from _kernels("driver", [here])

    remote = config.spark.remote or os.environ.get("SPARK_REMOTE")
    if remote is None:
        java = _java()
        yield java
        if java.state == "problem":
            return
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
    if config.output.path is not None:
        yield _storage(spark, "output.path", config.output.path)


def _requirements(package: str = PACKAGE) -> tuple[list[str], dict[str, list[str]]]:
    """What a package always needs, and what each of its extras needs."""
    try:
        lines = requires(package) or []
    except PackageNotFoundError:
        lines = []
    needed: list[str] = []
    extras: dict[str, list[str]] = {}
    for line in lines:
        requirement, _, marker = line.partition(";")
        extra = re.fullmatch(r"\s*extra == ['\"]([^'\"]+)['\"]\s*", marker)
        if extra:
            extras.setdefault(extra.group(1), []).append(requirement)
        elif not marker:
            needed.append(requirement)
    return needed, extras


def _name(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement)[0]


def _installed(requirement: str) -> bool:
    """Whether a package is there, with the extras that are asked of it."""
    name, extras = _name(requirement), re.search(r"\[([^]]+)\]", requirement)
    try:
        version(name)
    except PackageNotFoundError:
        return False
    known = _requirements(name)[1]
    return all(
        _installed(part) for extra in (extras.group(1).split(",") if extras else ()) for part in known.get(extra, ())
    )


def _packages(here: dict[str, Any]) -> Finding:
    if not here["packages"]:
        text = f"{PACKAGE} is not installed, only its code is found"
        return Finding("warning", "packages", text, f"pip install {PACKAGE}")
    missing = [name for name, found in here["packages"].items() if found is None]
    if missing:
        return Finding("problem", "packages", f"missing: {', '.join(missing)}", f"pip install {PACKAGE}")
    told = ", ".join(f"{name} {here['packages'][name]}" for name in ("pyarrow", "numpy", "numba"))
    return Finding("ok", "packages", f"{PACKAGE} {version(PACKAGE)}, pyspark {pyspark.__version__}, {told}")


def _extras(extras: dict[str, list[str]]) -> Finding:
    there = sorted(extra for extra, names in extras.items() if all(map(_installed, names)))
    absent = ", ".join(sorted(set(extras) - set(there)))
    more = f"; not installed: {absent} (pip install '{PACKAGE}[NAME]')" if absent else ""
    return Finding("ok", "extras", f"installed: {', '.join(there) or 'none'}{more}")


def _java() -> Finding:
    try:
        ensure_java()
    except SetupError as error:
        found, _, remedy = str(error).partition(". ")
        return Finding("problem", "Java", found, remedy)
    java, number = current_java()
    return Finding("ok", "Java", f"{number}, {java}")


def _spark(spark: SparkSession, found: str, remote: str | None) -> Finding:
    where = f"Spark Connect, {remote.split(';')[0]}" if remote else str(spark.conf.get("spark.master"))
    text = f"{found}, {where}"
    own = pyspark.__version__
    if found.split(".")[:2] != own.split(".")[:2]:
        return Finding("warning", "Spark", f"{text}; pyspark here is {own}", f"pip install 'pyspark=={found}'")
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
    """What the workers say of themselves, one entry a process; or why they say nothing."""
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
    told = re.findall(
        r"Cannot run program [^\n]+|^\w+Error: [^\n]+|\[PYTHON_VERSION_MISMATCH\][^\n]+", str(error), re.M
    )
    return str(told[-1]) if told else spark_reason(error)


def _workers(workers: list[dict[str, Any]], here: dict[str, Any]) -> Iterator[Finding]:
    hosts = {worker["host"] for worker in workers}
    pythons = {f"{worker['python']}, {worker['executable']}" for worker in workers}
    about = f"{len(workers)} on {len(hosts)} host{'s' * (len(hosts) > 1)}: Python {'; '.join(sorted(pythons))}"

    failed = [worker for worker in workers if "error" in worker]
    other = [worker for worker in workers if worker.get("code") != here.get("code") and worker not in failed]
    versions = {
        f"{name} {found or 'missing'} (driver: {here['packages'][name]})"
        for worker in workers
        for name, found in worker["packages"].items()
        if found != here["packages"][name]
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


class _NotKept(Exception):  # noqa: N818
    """Raised at the end of a trial, so that nothing is left of it."""


def _storage(spark: SparkSession, setting: str, path: str) -> Finding:
    """Whether Spark and the driver can write to a place, and see each other's files there."""
    rows = None
    try:
        with whole_folder(OutputSettings(path=f"{_existing(path)}/doctor", mode="overwrite")) as folder:
            spark.range(TASKS).write.parquet(f"{folder.uri}/rows.parquet")
            rows = read_parquet(f"{folder.uri}/rows.parquet")
            raise _NotKept
    except _NotKept:
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
