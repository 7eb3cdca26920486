"""Results and stages in a store: whole or not at all, whoever dies, errs or writes at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest

from fusion.errors import InputError, OutputError
from jobs.cli import main
from jobs.evaluation import evaluate
from jobs.evaluation.result import read_results
from jobs.settings.config import Config, load_config, with_settings
from jobs.storage import folders
from jobs.storage.folders import ResultFolder, result_folder
from jobs.storage.stages import run_stage, stage_fingerprint, stage_folder
from jobs.storage.versions import POINTER, one_view, resolve
from tests.lists import random_relevant, random_texts, write_tables
from tests.results import alike
from tests.storage.conftest import BUCKET, KEY, SECRET, keys, plain_objects
from tests.storage.faults import Faults, KilledError, Killer, proxy
from udfs.stores import objects
from udfs.stores.objects import put, read_bytes, send_file

OUT = f"s3://{BUCKET}/out"


@pytest.fixture
def inputs(s3: Any, tmp_path: Path) -> dict[str, object]:
    """Inputs in the store."""
    rng = np.random.default_rng(0)
    local = write_tables(tmp_path, random_texts(rng, 60), random_relevant(rng, 60), folds=2)
    stored = {}
    for setting, path in local.items():
        files = [Path(str(path))] if Path(str(path)).is_file() else sorted(Path(str(path)).rglob("*.parquet"))
        for file in files:
            inside = file.relative_to(tmp_path).as_posix()
            send_file(file, f"s3://{BUCKET}/in/{inside}")
        stored[setting] = f"s3://{BUCKET}/in/{Path(str(path)).relative_to(tmp_path).as_posix()}"
    return stored


def configured(inputs: dict[str, object], **more: object) -> Config:
    chosen = {"grid.cells": ["zmuv+combmnz", "rank+isr"], "grid.engine": "local", "evaluate.randomizations": 1_000}
    changes = {name.replace("__", "."): value for name, value in more.items()}
    return load_config(settings={**inputs, **chosen, "output.path": OUT, "output.mode": "overwrite", **changes})


def test_the_way_from_runs_to_a_report(s3: Any, inputs: dict[str, object], capsys: pytest.CaptureFixture[str]) -> None:
    """On the command line, with a configuration file, data and results in the store."""
    put(f"s3://{BUCKET}/mine.yaml", configured(inputs, output__path=None, output__mode="error").to_yaml().encode())
    common = ["--config", f"s3://{BUCKET}/mine.yaml"]
    assert main(["evaluate", *common, "--output", OUT]) == 0, capsys.readouterr().err
    assert main(["report", "--results", OUT]) == 0, capsys.readouterr().err
    assert main(["fuse", *common, "--set", "grid.cells=[zmuv+combmnz]", "--output", f"{OUT}2"]) == 0
    results = plain_objects(s3, "out/")
    assert {"metrics.csv", "metrics.parquet", "run.json", "config.yaml", "report/index.html"} <= set(results)
    assert b"zmuv" in results["metrics.csv"]
    fused = [name for name in plain_objects(s3, "out2/") if name.endswith(".parquet")]
    assert fused == ["fused.parquet/normalization=zmuv/fusion=combmnz/part-00000.parquet"]
    assert main(["evaluate", *common, "--output", OUT]) == OutputError.exit_code
    assert "exists already" in capsys.readouterr().err


def test_the_same_bytes_as_on_a_disk(s3: Any, inputs: dict[str, object], tmp_path: Path) -> None:
    local = configured(inputs, output__path=str(tmp_path / "out"))
    evaluate.run(None, local)
    evaluate.run(None, configured(inputs))
    stored = plain_objects(s3, "out/")
    assert len(stored) > 5
    on_disk = {name: (tmp_path / "out" / name).read_bytes() for name in stored}
    assert alike({**on_disk, "config.yaml": b""}) == alike({**stored, "config.yaml": b""})


def test_a_place_that_cannot_be_written_is_told_before_any_work(
    s3: Any, inputs: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate, "compute", lambda *args: pytest.fail("hours of work"))
    with pytest.raises(OutputError, match=r"s3a://nobody-has-this/out.*check the name of the bucket"):
        evaluate.run(None, configured(inputs, output__path="s3://nobody-has-this/out"))


def whole(path: str) -> tuple[Any, ...]:
    """What `report` reads of results."""
    (results,) = read_results([path])
    return results.metrics, dict(results.details), results.config


@pytest.mark.parametrize("stride", [4, pytest.param(1, marks=pytest.mark.drill)])
def test_a_driver_that_dies_between_two_puts(
    s3: Any, inputs: dict[str, object], monkeypatch: pytest.MonkeyPatch, stride: int
) -> None:
    """Whatever was reached: readers see the old results or the new ones, and a rerun ends in the same bytes. The drill
    tries every put."""
    old = configured(inputs, evaluate__details=False, evaluate__per_query=True)
    new = configured(inputs, evaluate__details=False, grid__cells=["sum+combsum"])
    computed = {config.to_yaml(): evaluate.compute(None, config) for config in (old, new)}
    killer = Killer(monkeypatch)
    # Nobody is reading what was replaced.
    monkeypatch.setattr(folders, "READING_TIME", -1.0)
    monkeypatch.setattr(folders, "LEFT_AFTER", -1.0)

    def write(config: Config) -> None:
        with result_folder(config.output, config) as folder:
            evaluate.write(computed[config.to_yaml()], folder)

    write(new)
    after_new, seen_new = plain_objects(s3, "out/"), whole(OUT)
    killer.live()
    write(old)
    steps, after_old, seen_old = killer.steps, plain_objects(s3, "out/"), whole(OUT)
    assert steps > 12
    assert set(after_new) < set(after_old)
    for dies_before in range(0, steps + 1, stride):
        # From the larger set of files to the smaller one and back.
        for config, before, after, files in (
            (new, seen_old, seen_new, after_new),
            (old, seen_new, seen_old, after_old),
        ):
            killer.live(dies_before)
            try:
                write(config)
            except KilledError:
                killer.live()
                assert whole(OUT) in (before, after)
                write(config)
            killer.live()
            assert whole(OUT) == after
            assert plain_objects(s3, "out/") == files


def test_a_first_run_that_dies_between_any_two_puts(
    s3: Any, inputs: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing was, nothing is, and the place may still be used."""
    config = configured(inputs, output__mode="error", evaluate__details=False)
    result, killer = evaluate.compute(None, config), Killer(monkeypatch)
    dies_before, finished = 0, False
    while not finished:
        place = config.output.model_copy(update={"path": f"{OUT}{dies_before}"})
        killer.live(dies_before)
        try:
            with result_folder(place, config) as folder:
                evaluate.write(result, folder)
            finished = True
        except KilledError:
            killer.live()
            if f"out{dies_before}/{POINTER}" not in keys(s3):
                with pytest.raises(InputError, match="holds no results"):
                    whole(str(place.path))
                with result_folder(place, config) as folder:
                    evaluate.write(result, folder)
            assert whole(str(place.path))[0].equals(result.metrics)
        dies_before += 1
    assert dies_before > 10


def test_a_stage_whose_builder_dies_between_any_two_puts(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    killer, path = Killer(monkeypatch), f"s3://{BUCKET}/work/d/stage"

    def build(folder: ResultFolder) -> dict[str, int]:
        for name in ("a", "b", "c"):
            folder.write_text(f"rows/{name}", name)
        return {"rows": 3}

    for dies_before in range(6):
        killer.live(dies_before)
        try:
            run_stage("count", path, {"seed": dies_before}, build)
        except KilledError:
            killer.live()
            assert dies_before < 5
            fingerprint = stage_fingerprint(path)
            built = run_stage("count", path, {"seed": dies_before}, build)
            # A marker is all that counts: with it the stage is done, without it nobody has seen it.
            assert built is (dies_before < 4)
            assert stage_fingerprint(path) != fingerprint
        names = sorted(objects.children(f"{stage_folder(path)}/rows"))
        assert names == ["a", "b", "c"]


def test_a_store_that_errs(s3: Any, endpoint: str, inputs: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    """5% of all requests answered by an error or cut off in the middle."""
    evaluate.run(None, configured(inputs))
    expected = alike(plain_objects(s3, "out/"))
    faults = Faults(share=0.05)
    with proxy(endpoint, faults) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        for _ in range(2):
            evaluate.run(None, configured(inputs))
            assert alike(plain_objects(s3, "out/")) == expected
    assert faults.seen["error"] > 3
    assert faults.seen["reset"] > 3


def test_a_store_that_stalls(s3: Any, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content = bytes(range(256)) * 1000
    put(f"s3://{BUCKET}/x", content)
    faults = Faults(stalls=1, stall_seconds=15)
    with proxy(endpoint, faults) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        assert read_bytes(f"s3://{BUCKET}/x") == content
    assert faults.seen["stall"] == 1


@pytest.mark.parametrize("same", [True, False])
def test_two_evaluations_into_one_place(s3: Any, inputs: dict[str, object], same: bool) -> None:
    """Each is whole; the last one that was put is what is there."""
    cells = [["zmuv+combmnz"], ["zmuv+combmnz" if same else "sum+combsum"]]
    configs = [configured(inputs, grid__cells=chosen, evaluate__details=False) for chosen in cells]
    both = Barrier(2, timeout=60)

    def run(config: Config) -> None:
        result = evaluate.compute(None, config)
        both.wait()
        with result_folder(config.output, config) as folder:
            evaluate.write(result, folder)

    with ThreadPoolExecutor(2) as drivers:
        list(drivers.map(run, configs))
    metrics, _, config = whole(OUT)
    assert config in configs
    assert set(metrics["fusion"].to_pylist()) >= {config.grid.cells[0].partition("+")[2]}
    assert len(metrics) == len(evaluate.compute(None, config).metrics)


@pytest.mark.parametrize("same", [True, False])
def test_two_chains_of_stages_at_once(s3: Any, same: bool) -> None:
    """As two `run`s of one dataset: each goes on with what it has built itself."""
    first, second = f"s3://{BUCKET}/work/d/prepared", f"s3://{BUCKET}/work/d/lists"
    both = Barrier(2, timeout=60)

    def chain(seed: int) -> str:
        def prepare(folder: ResultFolder) -> dict[str, int]:
            both.wait()
            folder.write_text("rows", f"rows of seed {seed}")
            return {}

        def retrieve(folder: ResultFolder) -> dict[str, int]:
            both.wait()
            folder.write_bytes("lists", read_bytes(f"{stage_folder(first)}/rows") or b"")
            return {}

        with one_view():
            run_stage("prepare", first, {"seed": seed}, prepare)
            both.wait()
            run_stage("lists", second, {"prepared": stage_fingerprint(first)}, retrieve)
            both.wait()
            return (read_bytes(f"{stage_folder(second)}/lists") or b"").decode()

    with ThreadPoolExecutor(2) as drivers:
        texts = list(drivers.map(chain, [1, 1 if same else 2]))
    assert texts == ["rows of seed 1", f"rows of seed {1 if same else 2}"]


def test_secrets_are_nowhere(
    s3: Any, inputs: dict[str, object], tmp_path: Path, capfd: pytest.CaptureFixture[str], endpoint: str
) -> None:
    """Not in results, pages, logs, fingerprints or messages, though they come by every way there is."""
    conf = {"spark.hadoop.fs.s3a.secret.key": SECRET, "spark.hadoop.fs.s3a.access.key": KEY}
    own = {"storage.access_key": KEY, "storage.secret_key": SECRET, "storage.endpoint": endpoint, "spark.conf": conf}
    config = with_settings(configured(inputs, log__file=str(tmp_path / "log")), own)
    assert config.storage.secret_key is not None
    assert config.storage.secret_key.reveal() == SECRET
    put(f"s3://{BUCKET}/mine.yaml", b"storage: {secret_key: [" + SECRET.encode() + b"]}")
    assert main(["evaluate", "--config", f"s3://{BUCKET}/mine.yaml"]) == 2
    from jobs.reporting import report

    evaluate.run(None, config)
    report.run(with_settings(config, {"report.results": [OUT], "output.path": None}))
    run_stage("stage", f"s3://{BUCKET}/work/d/stage", config.model_dump(mode="json"), lambda folder: {})
    said = capfd.readouterr()
    written = {name: s3.get_object(Bucket=BUCKET, Key=name)["Body"].read() for name in keys(s3) if name != "mine.yaml"}
    assert "out/report/index.html" in written
    written |= {"stdout": said.out.encode(), "stderr": said.err.encode(), "config": repr(config).encode()}
    for name, text in written.items():
        assert SECRET.encode() not in text, name
        assert KEY.encode() not in text, name


def test_lists_of_another_preparation_are_refused(s3: Any, inputs: dict[str, object]) -> None:
    """Two runs with different seeds on one work folder do not mix."""
    work = f"s3://{BUCKET}/work/d"
    tables = {"folds": inputs["inputs.folds"], "samples": inputs["inputs.judgements"]}

    def prepare(folder: ResultFolder) -> dict[str, int]:
        for name, path in tables.items():
            folder.write_bytes(f"{name}.parquet", read_bytes(str(path)) or b"")
        return {}

    def train(folder: ResultFolder) -> dict[str, int]:
        return {"texts": len(read_bytes(resolve(f"{work}/prepared/samples.parquet")) or b"")}

    def retrieve(folder: ResultFolder) -> dict[str, int]:
        folder.write_bytes("lists.parquet", read_bytes(str(inputs["inputs.candidates"])) or b"")
        return {}

    with one_view():
        run_stage("prepare", f"{work}/prepared", {"seed": 1}, prepare)
        run_stage("train", f"{work}/model", {"seed": 1}, train)
        # By way of its model, a retriever depends on the texts, too.
        run_stage("lists", f"{work}/candidates/all", {"model": stage_fingerprint(f"{work}/model")}, retrieve)
    staged = {
        "inputs.candidates": f"{work}/candidates/all/lists.parquet",
        "inputs.folds": f"{work}/prepared/folds.parquet",
        "inputs.judgements": f"{work}/prepared/samples.parquet",
    }
    config = configured({**inputs, **staged})
    assert len(evaluate.run(None, config).metrics) > 0
    run_stage("prepare", f"{work}/prepared", {"seed": 2}, prepare)
    with pytest.raises(InputError, match=r"candidates/all/lists.parquet was made from another version"):
        evaluate.run(None, config)


def test_tables_of_a_store_are_checked_like_those_of_a_disk(s3: Any, inputs: dict[str, object]) -> None:
    name = str(inputs["inputs.judgements"])
    put(name, (read_bytes(name) or b"")[:-100])
    with pytest.raises(InputError, match="cannot read s3://"):
        evaluate.run(None, configured(inputs))
    with pytest.raises(InputError, match=r"no Parquet file|does not exist"):
        evaluate.run(None, configured({**inputs, "inputs.judgements": f"s3://{BUCKET}/gone.parquet"}))
