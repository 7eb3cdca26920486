"""The same jobs through Spark Connect, with a real server on loopback: the same bytes as in local mode."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests import steps
from tests.models import fitted, new_texts, write_lines
from tests.servers import connect_server, spark_environment
from xmtc_fusion import load_model

pytest.importorskip("grpc", reason="needs the extra [connect]")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Spark Connect server. Its Python workers have this package, as those of users' servers must."""
    with connect_server(tmp_path_factory.mktemp("connect"), spark_environment()) as address:
        yield address


def call(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, since a session of the other kind lives in this one."""
    command = [sys.executable, steps.__file__, *arguments]
    return subprocess.run(command, cwd=folder, env=spark_environment(), capture_output=True, text=True, timeout=600)


@pytest.mark.drill
def test_the_whole_way_equals_local_mode(
    address: str, spark: SparkSession, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    done = call(tmp_path, *steps.steps(tmp_path, f"--set spark.remote={address}"))
    assert done.returncode == 0, done.stderr
    steps.assert_same(tmp_path, steps.local_results(spark, tmp_path_factory.getbasetemp()))


@pytest.mark.drill
def test_predictions_become_a_table(address: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    model, texts = fitted(tmp_path / "fitted"), write_lines(tmp_path / "new.jsonl")
    asked = f"predict --model {model} --texts {texts} --set spark.remote={address}"
    asked += " --output table:spark_catalog.default.labels"
    done = call(tmp_path, asked, f"{asked} --mode overwrite --top 1")
    assert done.returncode == 0, done.stderr
    assert "since spark.remote is set" in done.stderr
    written = pq.read_table(tmp_path_factory.getbasetemp() / "connect0" / "warehouse" / "labels").sort_by("text_id")
    assert written.to_pylist() == load_model(str(model)).predict(new_texts(), top=1).to_pylist()
    taken = call(tmp_path, asked)
    assert taken.returncode == 4 and "default.labels exists already" in taken.stderr, taken.stderr


def test_bad_input_ends_with_one_clear_message(address: str, tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_text("1 0 2 1\n")
    (tmp_path / "a.trec").write_text("1 Q0 2 1 0.5 a\n1 Q0 3 2 NaN a\n")
    runs = f"--run a={tmp_path}/a.trec --run b={tmp_path}/b.parquet --qrels {tmp_path}/q.txt"
    missing = call(tmp_path, f"evaluate {runs} --set spark.remote={address}")
    assert missing.returncode == 3, missing.stderr
    assert "error: cannot read" in missing.stderr and "b.parquet" in missing.stderr
    (tmp_path / "b.trec").write_text("1 Q0 2 1 0.5 a\n")
    wrong = call(tmp_path, f"evaluate {runs.replace('b.parquet', 'b.trec')} --set spark.remote={address}")
    assert wrong.returncode == 3, wrong.stderr
    assert "a.trec: column 'scores'" in wrong.stderr and "Traceback" not in wrong.stderr


SLEEP = """
import sys, time
import pyarrow as pa
from jobs.engines.session import get_session
from jobs.engines.spark import SparkEngine
from jobs.runtime import log
from jobs.settings.base import SparkSettings
from jobs.settings.sections import LogSettings
from jobs.storage.folders import stage_line
from udfs.steps import Step

def sleeping(batches):
    for batch in batches:
        time.sleep(1.5)
        yield batch

log.EVERY = 0.2
log.configure_log(LogSettings())
spark, parts = get_session(SparkSettings(remote=sys.argv[1])), pa.table({"part": range(6)})
with stage_line("sleep", None):
    engine = SparkEngine(spark)
    engine.collect(engine.files(parts, Step(sleeping, parts.schema)))
print(spark.client._progress_handlers)
"""


def test_progress(address: str) -> None:
    """What the server sends of its tasks becomes a share, and nobody asks for a context that is not there."""
    code = [sys.executable, "-c", SLEEP, address]
    # The code of this checkout, of which the server's workers need nothing.
    environment = spark_environment(PYTHONPATH=str(steps.ROOT))
    done = subprocess.run(code, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
    shares = re.findall(r"sleep, Spark stage \d+: ([1-5]) of 6 tasks \(\d+%\), about \d+ s left", done.stderr)
    assert shares and shares == sorted(shares), done.stderr
