"""The whole way from texts to a report with data, stages and results in a store, Spark's bytes included.

Spark reads and writes through a file system for tests, compiled here, which speaks to the same S3 endpoint as Python
and refuses every rename.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyspark
import pytest
import yaml

from jobs.runtime.machine import ensure_java
from tests.results import plain_files
from tests.storage.conftest import BUCKET, KEY, SECRET, keys, plain_objects
from udfs.stores.clients import ENVIRONMENT
from udfs.stores.objects import send_file

ROOT = Path(__file__).parents[2]
JARS = Path(pyspark.__file__).parent / "jars"
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled file system."""
    compiler = shutil.which("javac")
    if compiler is None:
        pytest.skip("there is no Java compiler here")
    ensure_java()
    folder = tmp_path_factory.mktemp("classes")
    sources = sorted(map(str, HERE.glob("*.java")))
    subprocess.run([compiler, "-d", str(folder), "-cp", f"{JARS}/*", *sources], check=True)
    return folder


def configuration(classes: Path, endpoint: str, folder: str) -> str:
    """The settings of a small dataset. Credentials stand here and nowhere else."""
    settings = yaml.safe_load((ROOT / "conf" / "datasets" / "debtags.yaml").read_text())
    settings["prepare"] |= {"folder": folder, "limit": 120, "folds": 2}
    settings["dense"] = {"max_length": 16, "epochs": 1, "train_batch": 64}
    settings["grid"] = {"normalizations": ["zmuv"], "fusions": ["combmnz", "isr"]}
    settings["evaluate"] = {"randomizations": 1000}
    settings["report"] = {"figures": False}
    settings["storage"] = {"endpoint": endpoint, "access_key": KEY, "secret_key": SECRET, "region": "us-east-1"}
    conf = {
        "spark.driver.extraClassPath": str(classes),
        "spark.hadoop.fs.s3a.impl": "LoopbackStore",
        "spark.sql.parquet.output.committer.class": "InPlaceCommitter",
        "spark.hadoop.fs.s3a.secret.key": SECRET,
        "spark.sql.shuffle.partitions": 2,
    }
    settings["spark"] = {"master": "local[2]", "conf": conf}
    return str(yaml.safe_dump(settings))


def arguments_of(process: subprocess.Popen[str]) -> list[bytes]:
    """The command lines of a process and all its descendants."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            parents.setdefault(parent, []).append(int(entry.name))
    waiting, lines = [process.pid], []
    while waiting:
        number = waiting.pop()
        waiting += parents.get(number, [])
        try:
            lines.append(Path(f"/proc/{number}/cmdline").read_bytes())
        except OSError:
            continue
    return lines


def start(lines: list[str], folder: Path) -> subprocess.Popen[str]:
    """Command lines in one driver, which says what it says into a file of a folder."""
    # The environment does not help: the settings must reach Python, Spark and the workers.
    own = {name for names in ENVIRONMENT.values() for name in names}
    environment = {name: value for name, value in os.environ.items() if name not in own}
    environment |= {"PYTHONPATH": str(ROOT), "XMTC_FUSION_CACHE": str(folder / "cache")}
    command = [sys.executable, "-m", "tests.steps", *lines]
    with (folder / "said").open("w") as said:
        return subprocess.Popen(command, env=environment, stdout=said, stderr=subprocess.STDOUT, text=True)


def send_data() -> None:
    for file in sorted((ROOT / "data" / "debtags").iterdir()):
        if file.is_file():
            send_file(file, f"s3://{BUCKET}/data/{file.name}")


@pytest.mark.drill
def test_from_texts_to_a_report(s3: Any, endpoint: str, classes: Path, tmp_path: Path) -> None:
    send_data()
    (tmp_path / "stored.yaml").write_text(configuration(classes, endpoint, f"s3://{BUCKET}/data"))
    (tmp_path / "local.yaml").write_text(configuration(classes, endpoint, str(ROOT / "data" / "debtags")))
    store = f"s3://{BUCKET}"
    candidates = f"{store}/work/debtags/candidates"
    runs = " ".join(f"--run {name}={candidates}/{name}/lists.parquet" for name in ("bm25", "dense"))
    log = f"--log {tmp_path}/log"
    lines = [
        f"run --config {tmp_path}/stored.yaml --work {store}/work --output {store}/out {log}",
        f"fuse --config {tmp_path}/stored.yaml {runs} --set grid.cells=[zmuv+combmnz] --output {store}/fused {log}",
        f"run --config {tmp_path}/local.yaml --work {tmp_path}/work --output {tmp_path}/out",
    ]
    process = start(lines, tmp_path)
    arguments: set[bytes] = set()
    while process.poll() is None:
        arguments.update(arguments_of(process))
        time.sleep(0.2)
    text = (tmp_path / "said").read_text()
    assert process.returncode == 0, text
    stored, local = plain_objects(s3, "out/"), plain_files(tmp_path / "out")
    assert stored["metrics.csv"] == local["metrics.csv"]
    assert set(stored) == set(local)
    assert "report/index.html" in stored
    assert any(name.endswith(".parquet") for name in plain_objects(s3, "fused/"))
    assert any(b"LoopbackStore" in line for line in arguments)
    written = {name: s3.get_object(Bucket=BUCKET, Key=name)["Body"].read() for name in keys(s3)}
    seen = {**written, "arguments": b"\n".join(arguments), "said": text.encode()}
    seen["log"] = (tmp_path / "log").read_bytes()
    for name, content in seen.items():
        assert SECRET.encode() not in content, name
        assert KEY.encode() not in content, name


@pytest.mark.drill
@pytest.mark.parametrize("seeds", [(1, 1), (1, 2)])
def test_two_runs_at_once(s3: Any, endpoint: str, classes: Path, tmp_path: Path, seeds: tuple[int, int]) -> None:
    """On one work folder, each ends with what it would have alone, on a disk."""
    send_data()
    (tmp_path / "stored.yaml").write_text(configuration(classes, endpoint, f"s3://{BUCKET}/data"))
    (tmp_path / "local.yaml").write_text(configuration(classes, endpoint, str(ROOT / "data" / "debtags")))

    def line(config: str, seed: int, work: str, output: str) -> str:
        options = f"--set prepare.seed={seed} --work {work} --output {output}"
        return f"run --config {tmp_path}/{config}.yaml {options}"

    processes = []
    for number, seed in enumerate(seeds):
        folder = tmp_path / str(number)
        folder.mkdir()
        places = f"s3://{BUCKET}/shared", f"s3://{BUCKET}/out{number}"
        processes.append(start([line("stored", seed, *places)], folder))
    assert [process.wait(900) for process in processes] == [0, 0], (tmp_path / "0" / "said").read_text()
    lines = [line("local", seed, f"{tmp_path}/work{seed}", f"{tmp_path}/alone{seed}") for seed in sorted(set(seeds))]
    alone = start(lines, tmp_path)
    assert alone.wait(900) == 0, (tmp_path / "said").read_text()
    for number, seed in enumerate(seeds):
        figures = plain_objects(s3, f"out{number}/")["metrics.csv"]
        assert figures == (tmp_path / f"alone{seed}" / "metrics.csv").read_bytes()
