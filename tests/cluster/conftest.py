"""A real cluster for the tests: a master and two workers on loopback, and the code packed as users ship it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.servers import SPARK_HOME, server, spark_environment
from tests.steps import ROOT

BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Cluster:
    """A running cluster. Executors are children of the workers."""

    url: str
    workers: tuple[int, ...]
    logs: Path


@dataclass(frozen=True)
class Package:
    """The packed environment, and the same one unpacked for the driver."""

    archive: Path
    unpacked: Path

    @property
    def code(self) -> Path:
        return next(self.unpacked.glob("lib/python*/site-packages"))


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    """What `make package` makes, but for the dependencies: those are found in the tests' own environment, since
    packing and unpacking them takes minutes."""
    folder = tmp_path_factory.mktemp("package")
    # Built from a copy: the build leaves files behind.
    for name in ("setup.py", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, folder)
    for name in ("conf", "fusion", "jobs", "udfs", "xmtc_fusion"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    environment, unpacked, archive = folder / "made", folder / "environment", folder / "environment.tar.gz"
    _call(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder / "dist", folder)
    _call(sys.executable, "-m", "venv", "--without-pip", environment)
    (wheel,) = folder.glob("dist/*.whl")
    _call(sys.executable, "-m", "pip", "--python", environment / "bin/python", "install", "--quiet", "--no-deps", wheel)
    found = next(environment.glob("lib/python*/site-packages"))
    # Searched after the packages of the environment; the .pth file of this project's own install does not count there.
    places = [sysconfig.get_path(name) for name in ("purelib", "platlib")]
    (found / "dependencies.pth").write_text(f"import sys; sys.path.extend({places})\n")
    _call(BIN / "venv-pack", "--quiet", "--prefix", environment, "--output", archive)
    with tarfile.open(archive) as packed:
        packed.extractall(unpacked)
    return Package(archive, unpacked)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A master and two workers with one core each."""
    logs = tmp_path_factory.mktemp("cluster")
    environment = spark_environment(SPARK_DAEMON_MEMORY="256m")

    def daemon(name: str, *options: str) -> list[str]:
        return [str(SPARK_HOME / "bin/spark-class"), f"org.apache.spark.deploy.{name}", "--webui-port", "0", *options]

    with ExitStack() as running:
        master = running.enter_context(
            server(
                daemon("master.Master", "--host", "127.0.0.1", "--port", "0"),
                r"(?<=Starting Spark master at )spark://\S+",
                logs / "master.log",
                environment,
            )
        )
        size = ("--cores", "1", "--memory", "1g")
        workers = [
            running.enter_context(
                server(
                    daemon("worker.Worker", *size, "--work-dir", str(logs / f"worker{n}"), master.said),
                    "Successfully registered with master",
                    logs / f"worker{n}.log",
                    environment,
                )
            )
            for n in range(2)
        ]
        yield Cluster(master.said, tuple(worker.pid for worker in workers), logs)


def _call(*command: str | Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([str(part) for part in command], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
