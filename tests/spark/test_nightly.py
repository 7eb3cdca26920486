"""Job `nightly`: skipping, comparing, alarming, and what the history holds afterwards."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from pyspark.sql import SparkSession

from fusion.errors import ConfigError, OutputError
from jobs import evaluate, nightly
from jobs.config import load_config
from jobs.monitoring.history import TABLES, History
from jobs.monitoring.lock import exclusive
from tests.lists import Text, random_relevant, random_texts, write_tables

TEXTS = 400


@pytest.fixture(scope="module")
def texts() -> tuple[list[Text], list[set[int]]]:
    """Lists that find most relevant labels near the top."""
    rng = np.random.default_rng(1)
    made, relevant = random_texts(rng, TEXTS, ties=False), random_relevant(rng, TEXTS)
    for text, labels in zip(made, relevant, strict=True):
        for groups in text.values():
            for scores in groups.values():
                scores.update({label: scores[label] + 4 for label in scores if label in labels})
    return made, relevant


class Site:
    """A folder with a dataset and a nightly configuration over it."""

    def __init__(self, folder: Path, texts: tuple[list[Text], list[set[int]]]) -> None:
        self.folder = folder
        self.settings = write_tables(folder, *texts, folds=2)
        nested: dict[str, Any] = {"dataset": "sample"}
        for key, value in self.settings.items():
            nested.setdefault("inputs", {})[key.split(".")[1]] = value
        self.dataset = folder / "sample.yaml"
        self.dataset.write_text(yaml.safe_dump(nested))

    def run(self, spark: SparkSession, run_id: str, **settings: Any) -> nightly.Night:
        chosen = {
            "nightly.datasets": [str(self.dataset)],
            "nightly.run_id": run_id,
            "nightly.watch.metrics": ["ndcg@10"],
            "grid.cells": ["zmuv+combmnz", "rank+isr"],
            "report.figures": False,
            "work.path": str(self.folder / "work"),
            "nightly.drift.overlap": 0.5,
            **{key.replace("__", "."): value for key, value in settings.items()},
        }
        return nightly.run(spark, load_config(None, chosen))

    def degrade(self, share: float) -> None:
        """The labels of one retriever's lists in reverse order, for some of the texts."""
        path = self.folder / "candidates.parquet"
        rows = pq.read_table(path).to_pylist()
        for row in rows:
            if row["retriever"] == "dense" and row["text_id"] < share * TEXTS:
                row["scores"] = row["scores"][::-1]
        pq.write_table(pa.Table.from_pylist(rows, pq.read_schema(path)), path)

    def files(self) -> dict[str, bytes]:
        history = self.folder / "work" / "history"
        return {str(path.relative_to(history)): path.read_bytes() for path in history.rglob("*.parquet")}


@pytest.fixture(scope="module")
def site(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, texts: Any) -> Site:
    """After two quiet nights."""
    site = Site(tmp_path_factory.mktemp("site"), texts)
    first = site.run(spark, "night-1")
    assert (first.exit_code, first.evaluated["sample"].built) == (0, True)
    return site


def test_an_unchanged_night_is_skipped_and_quiet(spark: SparkSession, site: Site) -> None:
    night = site.run(spark, "night-2")
    assert (night.exit_code, night.evaluated["sample"].built, night.changed("sample")) == (0, False, [])
    assert {change.difference for change in night.changes.values()} == {0.0}
    assert "against night-1, changed since: nothing; nothing to do, figures kept" in nightly.message(night)
    runs = History(spark, str(site.folder / "work" / "history")).runs()
    assert [(row["run_id"], row["verdict"]) for row in runs] == [("night-1", "ok"), ("night-2", "ok")]


def test_a_rerun_replaces_its_own_partitions_only(spark: SparkSession, site: Site) -> None:
    before = site.files()
    site.run(spark, "night-2")
    after = site.files()
    others = {name: content for name, content in before.items() if "run_id=night-2" not in name}
    assert others == {name: content for name, content in after.items() if "run_id=night-2" not in name}
    for name in TABLES:
        rows = spark.read.parquet(str(site.folder / "work" / "history" / name)).where("run_id = 'night-2'")
        assert (
            rows.count()
            == spark.read.parquet(str(site.folder / "work" / "history" / name)).where("run_id = 'night-1'").count()
        )


def test_the_history_is_plain_sql_and_partial_runs_do_not_count(spark: SparkSession, site: Site) -> None:
    place = site.folder / "work" / "history"
    found = spark.sql(
        f"select run_id, avg(value) as mean from parquet.`{place}/metrics` where fusion = 'combmnz' group by run_id"
    ).collect()
    assert {row["run_id"] for row in found} >= {"night-1"}
    history = History(spark, str(place))
    history.write("metrics", spark.createDataFrame([(1.0,)], "value double"), "killed", "sample")
    assert "killed" not in {row["run_id"] for row in history.runs()}
    assert history.read("metrics", [row["run_id"] for row in history.runs()]).where("run_id = 'killed'").isEmpty()  # type: ignore[union-attr]
    history.remove("killed", "sample")


def test_summary_report_and_trend(spark: SparkSession, site: Site) -> None:
    place = site.folder / "work" / "nightly" / "night-1"
    told = json.loads((place / "summary.json").read_text())
    assert (told["run_id"], told["exit_code"]) == ("night-1", 0)
    assert told["datasets"]["sample"]["verdict"] == "ok"
    assert '<a href="trend.html">Night by night</a>' in (place / "index.html").read_text()
    trend = (place / "trend.html").read_text()
    assert trend.count("<svg") == 6
    assert "night-1" in trend


def test_a_planted_drop_is_caught_and_told(spark: SparkSession, tmp_path: Path, texts: Any) -> None:
    site = Site(tmp_path, texts)
    site.run(spark, "good")
    site.degrade(0.25)
    got: list[dict[str, Any]] = []
    with webhook(got) as address:
        night = site.run(spark, "bad", nightly__webhook=address)
    assert night.exit_code == 10
    assert night.changed("sample") == ["data"]
    drops = [night.changes[watched].difference for watched in night.fallen]
    assert drops
    assert all(-0.2 < drop < -0.01 for drop in drops)
    assert {watched.fusion for watched in night.fallen} == {"combmnz", "dense"}
    message = nightly.message(night)
    assert "fell from" in message
    assert "changed since: data (candidates);" in message
    assert got[0]["exit_code"] == 10
    # The bad night does not hide the drop from the next one, even if it is pinned: the last good night is asked, too.
    again = site.run(spark, "again", nightly__baseline="bad")
    assert (again.exit_code, again.baselines["sample"]["run_id"]) == (10, "bad")
    assert {watched.against for watched in again.changes} == {"bad", "good"}
    assert {watched.against for watched in again.fallen} == {"good"}
    with pytest.raises(ConfigError, match="no complete run 'nowhere'"):
        site.run(spark, "x", nightly__baseline="nowhere")
    trend = (tmp_path / "work" / "nightly" / "again" / "trend.html").read_text()
    assert 'class="alarm"' in trend


class webhook:  # noqa: N801
    """A server on loopback that keeps what it is sent."""

    def __init__(self, got: list[dict[str, Any]]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self.server = HTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self) -> str:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self.server.server_port}/"

    def __exit__(self, *_: Any) -> None:
        self.server.shutdown()
        self.server.server_close()


def test_drift_and_a_missing_dataset(spark: SparkSession, tmp_path: Path, texts: Any) -> None:
    site = Site(tmp_path, texts)
    site.run(spark, "good")
    # A third of the texts lose their lists of one retriever, and half of the judgements are gone.
    path = tmp_path / "candidates.parquet"
    schema = pq.read_schema(path)
    rows = [r for r in pq.read_table(path).to_pylist() if r["retriever"] == "bm25" or r["text_id"] % 3]
    pq.write_table(pa.Table.from_pylist(rows, schema), path)
    both = [str(site.dataset), str(tmp_path / "no.yaml")]
    night = site.run(spark, "drifted", nightly__tolerance=90, nightly__datasets=both)
    assert (night.exit_code, night.verdict("sample")) == (11, "data drift")
    assert "share of judged texts that dense returned nothing for moved by 0.3" in nightly.message(night)
    assert f"no: missing dataset: {tmp_path / 'no.yaml'}" in nightly.message(night)
    path.unlink()
    night = site.run(spark, "gone")
    assert (night.exit_code, night.absent[str(site.dataset)].dataset) == (11, "sample")
    # The history has seen it; with the file back, the last good night is the baseline again.
    runs = {(row["run_id"], row["dataset"]): row for row in History(spark, str(tmp_path / "work" / "history")).runs()}
    assert {key: row["verdict"] for key, row in runs.items()} == {
        ("good", "sample"): "ok",
        ("drifted", "sample"): "data drift",
        ("drifted", "no"): "missing dataset",
        ("gone", "sample"): "missing dataset",
    }
    assert "candidates.parquet does not exist" in runs["gone", "sample"]["reason"]
    pq.write_table(pa.Table.from_pylist(rows, schema), path)
    assert site.run(spark, "back", nightly__baseline="gone").baselines["sample"]["run_id"] == "good"


def test_old_runs_are_removed_but_never_the_baseline(spark: SparkSession, tmp_path: Path, texts: Any) -> None:
    site = Site(tmp_path, texts)
    for run_id in ("1", "02"):
        site.run(spark, run_id)
    site.run(spark, "3", nightly__keep=1, nightly__baseline="1")
    history = History(spark, str(tmp_path / "work" / "history"))
    assert [row["run_id"] for row in history.runs()] == ["1", "3"]
    assert sorted(path.name for path in (tmp_path / "work" / "nightly").iterdir()) == ["1", "3"]


def test_history_in_catalog_tables(spark: SparkSession, tmp_path: Path, texts: Any) -> None:
    site = Site(tmp_path, texts)
    spark.sql("create database if not exists nights")
    try:
        for run_id in ("a", "b", "b"):
            night = site.run(spark, run_id, nightly__history="table:nights.xmtc")
        assert night.baselines["sample"]["run_id"] == "a"
        runs = spark.sql("select run_id, verdict from nights.xmtc_runs order by run_id").collect()
        assert [tuple(row) for row in runs] == [("a", "ok"), ("b", "ok")]
        History(spark, "table:nights.xmtc").remove("a", "sample")
        for name in TABLES:
            left = spark.table(f"nights.xmtc_{name}").select("run_id").distinct().collect()
            assert [row["run_id"] for row in left] == ["b"]
    finally:
        spark.sql("drop database nights cascade")


def test_a_rerun_that_is_killed_leaves_no_mixed_run(
    spark: SparkSession, tmp_path: Path, texts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While its parts are replaced, a run is not complete; what it has left is swept out by the next one."""
    site = Site(tmp_path, texts)
    site.run(spark, "night")
    site.degrade(0.25)
    history = History(spark, str(tmp_path / "work" / "history"))

    def dying(self: History, name: str, *rest: Any) -> None:
        if name == "query_figures":
            raise KeyboardInterrupt
        write(self, name, *rest)

    write = History.write
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(History, "write", dying)
        site.run(spark, "night")
    assert history.runs() == []
    assert history.leftovers() == [("night", "sample")]
    site.run(spark, "next")
    assert [row["run_id"] for row in history.runs()] == ["next"]
    assert history.leftovers() == []


def test_datasets_do_not_harm_each_other(spark: SparkSession, tmp_path: Path, texts: Any) -> None:
    """One breaks while it is read, one has no label groups, one has a grid of its own, one a name that is taken."""
    site = Site(tmp_path, texts)
    content = bytearray((tmp_path / "candidates.parquet").read_bytes())
    content[2000:12000] = bytes(byte ^ 0x5A for byte in content[2000:12000])
    (tmp_path / "broken.parquet").write_bytes(content)
    rows: dict[tuple[str, int], tuple[list[int], list[float]]] = {}
    for row in pq.read_table(tmp_path / "candidates.parquet").to_pylist():
        labels, scores = rows.setdefault((row["retriever"], row["text_id"]), ([], []))
        labels += row["label_ids"]
        scores += row["scores"]
    plain = [{"retriever": r, "text_id": q, "label_ids": x, "scores": y} for (r, q), (x, y) in rows.items()]
    pq.write_table(pa.Table.from_pylist(plain), tmp_path / "plain.parquet")
    own = yaml.safe_load(site.dataset.read_text())
    others = {
        "broken": {"inputs": {**own["inputs"], "candidates": str(tmp_path / "broken.parquet")}},
        "plain": {
            "inputs": {**own["inputs"], "candidates": str(tmp_path / "plain.parquet"), "label_groups": "none"},
            "grid": {"cells": ["max+combsum"]},
        },
        "sample": {},
    }
    files = []
    for name, change in others.items():
        files.append(tmp_path / f"{name}-2.yaml")
        files[-1].write_text(yaml.safe_dump({**own, "dataset": name, **change}))
    night = site.run(spark, "night", nightly__datasets=[str(files[0]), str(site.dataset), *map(str, files[1:])])
    assert list(night.evaluated) == ["sample", "plain"]
    found = {
        Path(path).stem: (absent.dataset, "broken.parquet" in absent.reason) for path, absent in night.absent.items()
    }
    assert found == {"broken-2": ("broken", True), "sample-2": ("sample-2", False)}
    assert night.exit_code == 11
    told = json.loads((tmp_path / "work" / "nightly" / "night" / "summary.json").read_text())
    assert {figure["label_group"] for figure in told["datasets"]["plain"]["figures"]} == {"all"}
    assert len(told["datasets"]["sample"]["figures"]) == 6
    (stage,) = told["datasets"]["sample"]["stages"]
    assert (stage["stage"], stage["texts"]) == ("evaluate", TEXTS)
    assert stage["seconds"] > 0 and stage["bytes"] > 0


def test_what_is_not_the_datas_fault_is_a_failure(
    spark: SparkSession, tmp_path: Path, texts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path, texts)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(evaluate, "write", full)
        night = site.run(spark, "full")
    assert night.exit_code == 13
    assert "sample: failed" in nightly.message(night)
    assert "No space left on device" in nightly.message(night)
    assert site.run(spark, "room-again").exit_code == 0


def test_texts_that_are_judged_otherwise_are_no_regression(spark: SparkSession, tmp_path: Path, texts: Any) -> None:
    site = Site(tmp_path, texts)
    site.run(spark, "first")
    path = tmp_path / "judgements.parquet"
    rows = pq.read_table(path).to_pylist()
    for row in rows[::4]:
        row["label_ids"] = [0, 40]
    pq.write_table(pa.Table.from_pylist(rows, pq.read_schema(path)), path)
    night = site.run(spark, "relabelled", nightly__drift__labels=0.01)
    assert night.exit_code == 12
    for change in night.changes.values():
        assert (change.difference, change.baseline) == (0.0, change.tonight)
        assert change.new > 0 and change.gone > 0


def test_a_missing_dataset_keeps_its_last_good_run(spark: SparkSession, tmp_path: Path, texts: Any) -> None:
    site = Site(tmp_path, texts)
    other = tmp_path / "other.yaml"
    other.write_text(site.dataset.read_text().replace("dataset: sample", "dataset: other"))
    both = [str(site.dataset), str(other)]
    site.run(spark, "good", nightly__datasets=both)
    site.dataset.rename(tmp_path / "away.yaml")
    site.run(spark, "gone", nightly__datasets=both, nightly__keep=1)
    (tmp_path / "away.yaml").rename(site.dataset)
    site.degrade(0.25)
    night = site.run(spark, "back", nightly__keep=1)
    assert (night.exit_code, night.baselines["sample"]["run_id"]) == (10, "good")


def test_nobody_who_listens_changes_the_verdict(
    spark: SparkSession, site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(*_: Any) -> None:
        raise RuntimeError("no store")

    monkeypatch.setattr(nightly, "check_installed", lambda: None)
    monkeypatch.setattr(nightly, "track", failing)
    settings = {"nightly__datasets": [str(site.dataset), "gone.yaml"], "nightly__mlflow": "anywhere"}
    assert site.run(spark, "told", nightly__webhook="no address", **settings).exit_code == 11
    told = capsys.readouterr().err
    assert "MLflow did not take the summary: no store" in told
    assert "the webhook did not take the summary: unknown url type" in told


def test_the_pinned_run_can_be_run_again(spark: SparkSession, site: Site) -> None:
    night = site.run(spark, "night-1", nightly__baseline="night-1")
    assert night.exit_code == 0
    assert "sample" not in night.baselines or night.baselines["sample"]["run_id"] != "night-1"


def test_two_at_once(spark: SparkSession, site: Site) -> None:
    lock = site.folder / "work" / "nightly.lock"
    with exclusive(lock, "other"), pytest.raises(OutputError, match=r"run other \(process \d+ on .*\) is at work"):
        site.run(spark, "second")
    assert not lock.exists()


def test_wrong_settings(spark: SparkSession, site: Site) -> None:
    with pytest.raises(ConfigError, match=r"nightly\.datasets"):
        site.run(spark, "x", nightly__datasets=[])
    with pytest.raises(ConfigError, match="part of a path"):
        site.run(spark, "../x")
