"""A history in an object store (moto's server speaks S3), and two machines that want it at the same time."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import boto3
import pytest
import yaml

from fusion.errors import OutputError
from jobs.cli import main
from jobs.nights.history import History
from jobs.nights.lease import held_lease
from tests.nights import Site, good_texts, lease_numbers
from tests.processes import wait_for
from tests.servers import server
from udfs.stores.clients import StoreAccess, configure
from udfs.stores.objects import put, read_bytes

PLACE = "s3://nights/history"
AT_WORK = "engine: local|up to date"
"""What a night says once it has the lease."""
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "x",
    "AWS_SECRET_ACCESS_KEY": "y",
    "AWS_REGION": "us-east-1",
    "AWS_ALLOW_HTTP": "true",
}


@contextmanager
def object_store(host: str, log: Path) -> Iterator[dict[str, str]]:
    """A server with one bucket; the environment of its clients."""
    command = [sys.executable, "-m", "moto.server", "-H", host, "-p", "0"]
    with server(command, r"Running on http://[0-9.]+:\d+", log, {**os.environ, **CREDENTIALS}) as running:
        address = running.said.removeprefix("Running on ")
        boto3.client(
            "s3", endpoint_url=address, aws_access_key_id="x", aws_secret_access_key="y", region_name="us-east-1"
        ).create_bucket(Bucket="nights")
        yield {**CREDENTIALS, "AWS_ENDPOINT_URL": address}


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """A store that only settings know: nothing in the environment says where it is, or who may read it."""
    with object_store("127.0.0.1", tmp_path / "moto.log") as environment:
        for name in environment:
            monkeypatch.delenv(name, raising=False)
        # What a machine's own profile or the cloud's metadata service would say does not count either.
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
        endpoint, region = environment["AWS_ENDPOINT_URL"], environment["AWS_REGION"]
        keys = {"access_key": environment["AWS_ACCESS_KEY_ID"], "secret_key": environment["AWS_SECRET_ACCESS_KEY"]}
        try:
            yield {f"storage.{name}": value for name, value in {**keys, "endpoint": endpoint, "region": region}.items()}
        finally:
            configure(StoreAccess())


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with object_store("127.0.0.1", tmp_path / "moto.log") as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield


def test_a_history_in_an_object_store(store: None, tmp_path: Path) -> None:
    site = Site(tmp_path, good_texts(60))
    site.place = PLACE
    for run_id in ("1", "2"):
        night = site.run(run_id, nightly__history=PLACE)
        assert (night.exit_code, night.problems) == (0, ())
    assert night["sample"].against == "1"
    site.degrade(1)
    assert site.run("3", nightly__history=PLACE).exit_code == 10
    assert site.verdicts() == [("1", "sample", "ok"), ("2", "sample", "ok"), ("3", "sample", "regression")]
    site.run("4", nightly__history=PLACE, nightly__keep=1)
    assert [run_id for run_id, _, _ in site.verdicts()] == ["2", "4"]
    # The lock belongs to the history: another work folder is refused.
    other = Site(tmp_path / "other", good_texts(60))
    busy = pytest.raises(OutputError, match=r"night first .* has been running")
    with held_lease(History(PLACE).storage, "first", 30), busy:
        other.run("second", nightly__history=PLACE)


def test_two_nights_in_a_row_with_credentials_from_settings_alone(settings: dict[str, str], tmp_path: Path) -> None:
    """Inputs, results, history, lease and pages are all in the store, as Spark's users address it."""
    site = Site(tmp_path, good_texts(60))
    configure(StoreAccess(**{name.removeprefix("storage."): value for name, value in settings.items()}))  # type: ignore[arg-type]
    about = yaml.safe_load(site.dataset.read_text())
    for name, path in about["inputs"].items():
        about["inputs"][name] = f"s3a://nights/inputs/{name}.parquet"
        put(about["inputs"][name], Path(path).read_bytes())
    site.dataset.write_text(yaml.safe_dump(about))
    configure(StoreAccess())
    given = {**settings, "work.path": "s3a://nights/work", "grid.engine": "local"}
    nights = [site.run(run_id, **given) for run_id in ("1", "2")]
    assert [(night.exit_code, night.problems) for night in nights] == [(0, ())] * 2
    assert [night["sample"].results.built for night in nights] == [True, False]
    assert nights[1]["sample"].against == "1"
    assert site.run("1", **given, nightly__checks__oldest=1e-9).exit_code == 14
    configure(StoreAccess())
    history = History("s3a://nights/work/history", settings=settings)
    assert [row["run_id"] for row in history.runs()] == ["1", "2"]
    assert json.loads(read_bytes("s3a://nights/work/nightly/2/summary.json") or b"")["exit_code"] == 0
    # Asking about past nights, deciding about them and making one again need no more than the same settings.
    options = [word for name, value in given.items() for word in ("--set", f"{name}={value}")]
    for words in (["status"], ["pin", "1", "--because", "release"], ["rerun", "2"]):
        configure(StoreAccess())
        assert main(["nightly", *words, *options]) == 0


def test_of_many_that_want_the_lease_one_has_it(store: None) -> None:
    assert lease_numbers(lambda: History(PLACE).storage, 4) == [1, 2, 3, 4]


def run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


@contextmanager
def two_machines() -> Iterator[tuple[str, str, str]]:
    """Two network namespaces on a bridge of this one: their names, and the bridge's address."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("needs root and ip")
    mark = f"{os.getpid() % 10_000}"
    bridge, subnet = f"xb{mark}", f"10.{int(mark) % 200 + 20}.7"
    names = f"xa{mark}", f"xc{mark}"
    with ExitStack() as undo:
        try:
            run("ip", "link", "add", bridge, "type", "bridge")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespaces here: {error.stderr!r}")
        undo.callback(run, "ip", "link", "del", bridge)
        run("ip", "addr", "add", f"{subnet}.1/24", "dev", bridge)
        run("ip", "link", "set", bridge, "up")
        for n, name in enumerate(names):
            run("ip", "netns", "add", name)
            undo.callback(run, "ip", "netns", "del", name)
            run("ip", "link", "add", f"v{name}", "type", "veth", "peer", "name", "eth0", "netns", name)
            run("ip", "link", "set", f"v{name}", "master", bridge, "up")
            run("ip", "-n", name, "addr", "add", f"{subnet}.{n + 2}/24", "dev", "eth0")
            run("ip", "-n", name, "link", "set", "eth0", "up")
            run("ip", "-n", name, "link", "set", "lo", "up")
        yield *names, f"{subnet}.1"  # type: ignore[misc]


def start(
    namespace: str, site: Site, run_id: str, environment: dict[str, str], lease: int = 3
) -> subprocess.Popen[str]:
    """A night on a machine of its own: another network, another host name."""
    chosen = ["grid.cells=[zmuv+combmnz]", "evaluate.randomizations=0", "evaluate.examples=0"]
    chosen += [f"nightly.history={PLACE}", f"nightly.lease={lease}"]
    options = [word for setting in chosen for word in ("--set", setting)]
    job = [sys.executable, "-m", "jobs.cli", "nightly", "--run-id", run_id, "--datasets", str(site.dataset)]
    shell = f'hostname {namespace} && exec ip netns exec {namespace} "$@"'
    return subprocess.Popen(
        ["unshare", "--uts", "sh", "-c", shell, "sh", *job, "--work", str(site.work), *options],
        env={**os.environ, **environment},
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.drill
def test_two_machines_and_one_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has its own network, host name and work folder. One wins; the one that was paused too long is fenced."""
    sites = [Site(tmp_path / name, good_texts(60)) for name in ("a", "b")]
    with two_machines() as (first, second, address), object_store(address, tmp_path / "moto.log") as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        # Both at once: the first is at work (and held there), so the second is refused; the first ends well.
        winner = start(first, sites[0], "winner", environment, lease=600)
        wait_for(winner, AT_WORK)
        os.killpg(winner.pid, signal.SIGSTOP)
        refused = start(second, sites[1], "refused", environment, lease=600)
        error = refused.communicate(timeout=300)[1]
        assert refused.returncode == 4, error
        assert f"night winner (process {winner.pid} on {first}) has been running" in error
        os.killpg(winner.pid, signal.SIGCONT)
        error = winner.communicate(timeout=300)[1]
        assert winner.returncode == 0, error
        # One is paused in the middle of its work, for longer than its lease; the other takes over.
        paused = start(first, sites[0], "paused", environment)
        wait_for(paused, AT_WORK)
        os.killpg(paused.pid, signal.SIGSTOP)
        time.sleep(4)
        other = start(second, sites[1], "other", environment)
        error = other.communicate(timeout=300)[1]
        assert other.returncode == 0, error
        silent = f"the lease of night paused (process {paused.pid} on {first}) is taken over: it has been silent for"
        assert silent in error
        os.killpg(paused.pid, signal.SIGCONT)
        error = paused.communicate(timeout=300)[1]
        assert paused.returncode == 4, error
        assert f"night other (process {other.pid} on {second}) has taken the history {PLACE} over" in error
        names = [row["run_id"] for row in History(PLACE).runs()]
        assert names == ["winner", "other"]
