"""Job `nightly` in this process: skipping, comparing, alarming, and what the history holds afterwards."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from fusion.errors import ConfigError, OutputError
from jobs.cli import main
from jobs.evaluation import evaluate
from jobs.nights import nightly, record
from jobs.nights.datasets import inputs_of
from jobs.nights.delta import DeltaTables
from jobs.nights.lease import held_lease
from jobs.nights.tables import TABLES
from jobs.settings.config import load_config
from tests.nights import TEXTS, Site, Texts
from tests.receivers import Inbox, http_receiver

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, texts: Texts) -> Site:
    """After its first night."""
    site = Site(tmp_path_factory.mktemp("site"), texts)
    first = site.run("night-1")
    assert (first.exit_code, first["sample"].results.built, first.problems) == (0, True, ())
    return site


WITHOUT_SPARK = "import sys; sys.modules.update(pyspark=None, py4j=None); from jobs.cli import main; sys.exit(main())"


def test_a_night_needs_no_spark(site: Site, tmp_path: Path) -> None:
    options = ["--datasets", str(site.dataset), "--work", str(tmp_path / "work"), "--run-id", "alone"]
    few = ["--set=grid.cells=[zmuv+combmnz]", "--set=evaluate.randomizations=0"]
    command = [sys.executable, "-c", WITHOUT_SPARK, "nightly", *options, *few]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "engine: local, in this process" in done.stderr


def test_an_unchanged_night_is_skipped_and_quiet(site: Site) -> None:
    night = site.run("night-2")
    assert (night.exit_code, night["sample"].results.built, night["sample"].changed) == (0, False, [])
    assert {one.change.difference for one in night["sample"].compared} == {0.0}
    assert "against night-1, changed since: nothing; nothing to do, figures kept" in str(night)
    assert site.verdicts()[-2:] == [("night-1", "sample", "ok"), ("night-2", "sample", "ok")]


def test_a_rerun_is_a_further_attempt(site: Site) -> None:
    before = site.history().attempts()
    night = site.run("night-2")
    after = site.history().attempts()
    assert [row for row in after if row["attempt"] != night.attempt] == before
    # Of every table, the rows of one attempt count.
    for name in set(TABLES) - {"runs", "choices", "predictions"}:
        both = [site.history().read(name, [run_id]) for run_id in ("night-1", "night-2")]
        counts = [len(rows) for rows in both if rows is not None]
        assert len(counts) == 2
        assert counts[0] == counts[1] or name in ("checks", "run_log")
        assert set(both[1]["attempt"].to_pylist()) == {night.attempt}  # type: ignore[index]


def test_a_history_answers_sql(site: Site) -> None:
    means = site.history().sql(
        "SELECT run_id, avg(value) AS mean FROM metrics WHERE fusion = 'combmnz' GROUP BY run_id"
    )
    assert "night-1" in means["run_id"].to_pylist()
    assert all(0 < mean < 1 for mean in means["mean"].to_pylist())


def test_what_was_not_committed_does_not_count(site: Site) -> None:
    history = site.history()
    history.append("metrics", pa.table({"value": [1.0]}), "killed", "sample", 10_000)
    assert "killed" not in {row["run_id"] for row in history.runs()}
    assert history.read("metrics", ["killed"]) is None


def test_summary_report_and_trend(site: Site) -> None:
    place = site.work / "nightly" / "night-1"
    facts = json.loads((place / "summary.json").read_text())
    assert (facts["run_id"], facts["exit_code"], facts["recorded"]) == ("night-1", 0, True)
    assert facts["datasets"]["sample"]["verdict"] == "ok"
    assert '<a href="trend.html">Night by night</a>' in (place / "index.html").read_text()
    trend = (place / "trend.html").read_text()
    assert trend.count("<svg") == 6
    assert "night-1" in trend


def test_a_planted_drop_is_caught_and_told(tmp_path: Path, texts: Texts) -> None:
    site = Site(tmp_path, texts)
    site.run("good")
    site.degrade(0.25)
    inbox = Inbox()
    with http_receiver(inbox) as address:
        night = site.run("bad", nightly__alerts__webhook=address)
    assert night.exit_code == 10
    assert night["sample"].changed == ["data"]
    drops = [one.change.difference for one in night["sample"].fallen]
    assert drops and all(-0.2 < drop < -0.01 for drop in drops)
    assert {one.figure.fusion for one in night["sample"].fallen} == {"combmnz", "dense"}
    message = str(night)
    assert "fell from" in message
    assert "changed since: data (candidates);" in message
    assert inbox.bodies[0]["exit_code"] == 10
    # What to do next: texts, the retriever, and the command.
    assert "texts that fell most in head nDCG@10 of dense alone: " in message
    assert "the retriever that moved most is dense: -8." in message
    assert f"xmtc-fusion nightly rerun bad --dataset sample --work {site.work}" in message
    # The bad night does not hide the drop from the next one, even if it is pinned: the last good night is asked, too.
    again = site.run("again", nightly__baseline="bad")
    assert (again.exit_code, again["sample"].against) == (10, "bad")
    assert {one.against for one in again["sample"].compared} == {"bad", "good"}
    assert {one.against for one in again["sample"].fallen} == {"good"}
    with pytest.raises(ConfigError, match="no complete night 'nowhere'"):
        site.run("x", nightly__baseline="nowhere")
    assert 'class="alarm"' in (site.work / "nightly" / "again" / "trend.html").read_text()


def test_any_metric_with_a_figure_per_text_is_watched(tmp_path: Path, texts: Texts) -> None:
    """Summed over texts, a mean over cut-offs, or both."""
    watched = {"micro-f1@5": 5, "rp@3": 3, "recall@5:15:5": 0, "micro-precision@1:5:2": 0}
    settings = {"nightly__watch__metrics": list(watched), "evaluate__metrics": ["ndcg@10", *watched]}
    site = Site(tmp_path, texts)
    site.run("good", **settings)
    site.degrade(0.25)
    night = site.run("bad", **settings)
    figures = [one.figure for one in night["sample"].compared]
    assert {(f"{one.metric}@{one.k}" if one.k else one.metric): one.k for one in figures} == watched
    assert {one.figure.metric for one in night["sample"].fallen if one.figure.fusion == "dense"} == {
        name.split("@")[0] if k else name for name, k in watched.items()
    }
    assert "micro F1@5 of dense alone" in str(night) and "R@5:15:5" in str(night)
    with pytest.raises(ConfigError, match="macro-f1@1:5:2 is a mean over labels"):
        site.run("x", nightly__watch__metrics=["macro-f1@1:5:2"])


def test_settings_that_differ_are_named(tmp_path: Path, texts: Texts) -> None:
    site = Site(tmp_path, texts)
    site.run("good")
    site.degrade(0.5)
    night = site.run("bad", evaluate__seed=7)
    assert night["sample"].changed == ["data", "configuration"]
    assert "settings that differ: evaluate.seed was 0, is 7" in str(night)


def test_a_publishing_error_does_not_lower_the_verdict(tmp_path: Path, texts: Texts) -> None:
    """A stray file where the night's pages go: the alarm is recorded, sent and returned all the same."""
    site = Site(tmp_path, texts)
    site.run("good")
    site.degrade(0.25)
    stray = site.work / "nightly" / "bad"
    stray.mkdir(parents=True)
    (stray / "notes.txt").write_text("mine")
    inbox = Inbox()
    with http_receiver(inbox) as address:
        night = site.run("bad", nightly__alerts__webhook=address)
    assert night.exit_code == 10
    assert [body["exit_code"] for body in inbox.bodies] == [10]
    assert site.verdicts()[-1] == ("bad", "sample", "regression")
    assert any(problem.startswith("not published: ") and "is left alone" in problem for problem in night.problems)
    assert "not published" in str(night)
    assert (stray / "notes.txt").read_text() == "mine"


def test_a_full_disk_while_publishing(tmp_path: Path, texts: Texts, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path, texts)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(record, "_report", full)
        night = site.run("full")
    assert night.exit_code == 0
    assert night.problems == ("no report: [Errno 28] No space left on device",)
    facts = json.loads((site.work / "nightly" / "full" / "summary.json").read_text())
    assert facts["problems"] == list(night.problems)


def test_a_night_that_cannot_be_recorded_has_failed_and_says_so(
    tmp_path: Path, texts: Texts, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path, texts)
    site.run("good")

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    inbox = Inbox()
    with monkeypatch.context() as patched, http_receiver(inbox) as address:
        patched.setattr(DeltaTables, "append", full)
        night = site.run("full", nightly__alerts__webhook=address)
        site.degrade(0.25)
        fell = site.run("fell", nightly__alerts__webhook=address)
    assert (night.exit_code, fell.exit_code) == (13, 10)
    assert "the night is not in the history: [Errno 28] No space left on device" in str(night)
    assert [body["exit_code"] for body in inbox.bodies] == [13, 10]
    assert json.loads((site.work / "nightly" / "full" / "summary.json").read_text())["recorded"] is False
    assert site.verdicts() == [("good", "sample", "ok")]


def test_what_is_not_the_datas_fault_is_a_failure(
    tmp_path: Path, texts: Texts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure of one dataset, whatever it is, leaves the others alone."""
    site = Site(tmp_path, texts)
    other = tmp_path / "other.yaml"
    other.write_text(site.dataset.read_text().replace("dataset: sample", "dataset: other"))
    write = evaluate.write

    def failing(result: Any, folder: Any) -> None:
        if "/other/nightly/" in folder.uri:
            raise ZeroDivisionError("somewhere deep inside")
        write(result, folder)

    with monkeypatch.context() as patched:
        patched.setattr(evaluate, "write", failing)
        night = site.run("night", nightly__datasets=[str(other), str(site.dataset)])
    assert night.exit_code == 13
    assert [dataset.name for dataset in night.datasets] == ["sample"]
    assert "other: failed" in str(night)
    assert "ZeroDivisionError: somewhere deep inside" in str(night)
    assert site.run("room-again").exit_code == 0


def test_drift_and_a_missing_dataset(tmp_path: Path, texts: Texts) -> None:
    site = Site(tmp_path, texts)
    site.run("good")
    # A third of the texts lose their lists of one retriever.
    path = tmp_path / "candidates.parquet"
    before = path.read_bytes()
    site.change("candidates", lambda rows: [r for r in rows if r["retriever"] == "bm25" or r["text_id"] % 3])
    both = [str(site.dataset), str(tmp_path / "no.yaml")]
    settings = {"nightly__tolerance": 90, "nightly__checks__lists": None}
    night = site.run("drifted", nightly__datasets=both, **settings)
    assert (night.exit_code, night["sample"].verdict) == (11, "data drift")
    assert "share of judged texts that dense returned nothing for moved by 0.3" in str(night)
    assert f"no: missing dataset: {tmp_path / 'no.yaml'}" in str(night)
    path.unlink()
    night = site.run("gone")
    assert (night.exit_code, [absent.dataset for absent in night.absent]) == (11, ["sample"])
    # The history has seen it; with the file back, the last good night is the baseline again.
    assert site.verdicts() == [
        ("good", "sample", "ok"),
        ("drifted", "no", "missing dataset"),
        ("drifted", "sample", "data drift"),
        ("gone", "sample", "missing dataset"),
    ]
    assert "candidates.parquet does not exist" in site.history().runs()[-1]["reason"]
    path.write_bytes(before)
    assert site.run("back", nightly__baseline="gone")["sample"].against == "good"


def test_a_rerun_without_a_dataset_keeps_its_good_figures(tmp_path: Path, texts: Texts) -> None:
    site = Site(tmp_path, texts)
    first, second = site.run("night-1"), site.run("night-2")
    site.dataset.rename(tmp_path / "away.yaml")
    again = site.run("night-2")
    assert again.exit_code == 11
    rows = {row["run_id"]: row for row in site.history().runs()}
    assert (rows["night-2"]["verdict"], rows["night-2"]["attempt"]) == ("ok", second.attempt)
    figures = site.history().read("watched", ["night-2"])
    assert figures is not None and len(figures) == 6
    (tmp_path / "away.yaml").rename(site.dataset)
    assert site.run("night-3")["sample"].baseline["attempt"] == second.attempt > first.attempt


def test_old_runs_are_removed_but_never_the_baseline(tmp_path: Path, texts: Texts) -> None:
    site = Site(tmp_path, texts)
    for run_id in ("1", "02"):
        site.run(run_id)
    site.run("3", nightly__keep=1, nightly__baseline="1")
    assert [run_id for run_id, _, _ in site.verdicts()] == ["1", "3"]
    assert sorted(path.name for path in (site.work / "nightly").iterdir()) == ["1", "3"]
    for name in set(TABLES) - {"choices", "predictions"}:  # nothing is tuned or labelled here
        rows = site.history().storage.read(name)
        assert rows is not None and set(rows["run_id"].to_pylist()) == {"1", "3"}


def test_retention_removes_no_folder_outside(tmp_path: Path, texts: Texts) -> None:
    """A history may hold names that no night of this version would have."""
    site = Site(tmp_path, texts)
    site.run("1")
    history = site.history()
    with held_lease(history.storage, "..", 30) as lease:
        history.commit(
            [{**history.runs()[0], "run_id": "..", "attempt": lease.number, "started": "2000", "verdict": "failed"}]
        )
    site.run("3", nightly__keep=1, nightly__baseline="1")
    assert [run_id for run_id, _, _ in site.verdicts()] == ["1", "3"]
    assert (site.work / "nightly" / "1" / "summary.json").exists()


def test_datasets_do_not_harm_each_other(tmp_path: Path, texts: Texts) -> None:
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
    night = site.run("night", nightly__datasets=[str(files[0]), str(site.dataset), *map(str, files[1:])])
    assert [dataset.name for dataset in night.datasets] == ["sample", "plain"]
    absent = {Path(absent.file).stem: (absent.dataset, "broken.parquet" in absent.reason) for absent in night.absent}
    assert absent == {"broken-2": ("broken", True), "sample-2": ("sample-2", False)}
    assert night.exit_code == 11
    facts = json.loads((site.work / "nightly" / "night" / "summary.json").read_text())
    assert {figure["label_group"] for figure in facts["datasets"]["plain"]["figures"]} == {"all"}
    assert len(facts["datasets"]["sample"]["figures"]) == 6
    stages = {stage["stage"]: stage for stage in facts["datasets"]["sample"]["stages"]}
    assert stages["evaluate"]["texts"] == TEXTS
    assert stages["evaluate"]["seconds"] > 0 and stages["evaluate"]["bytes"] > 0
    assert stages["dataset"]["peak_memory"] > 1e6


def test_texts_that_are_judged_otherwise_are_no_regression(tmp_path: Path, texts: Texts) -> None:
    site = Site(tmp_path, texts)
    site.run("first")

    def relabelled(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**row, "label_ids": [0, 40]} if n % 4 == 0 else row for n, row in enumerate(rows)]

    site.change("judgements", relabelled)
    night = site.run("relabelled", nightly__drift__labels=0.01)
    assert night.exit_code == 12
    for change in (one.change for one in night["sample"].compared):
        assert (change.difference, change.baseline) == (0.0, change.tonight)
        assert change.new > 0 and change.gone > 0


def test_a_missing_dataset_keeps_its_last_good_night(tmp_path: Path, texts: Texts) -> None:
    site = Site(tmp_path, texts)
    other = tmp_path / "other.yaml"
    other.write_text(site.dataset.read_text().replace("dataset: sample", "dataset: other"))
    both = [str(site.dataset), str(other)]
    site.run("good", nightly__datasets=both)
    site.dataset.rename(tmp_path / "away.yaml")
    site.run("gone", nightly__datasets=both, nightly__keep=1)
    (tmp_path / "away.yaml").rename(site.dataset)
    site.degrade(0.25)
    night = site.run("back", nightly__keep=1)
    assert (night.exit_code, night["sample"].against) == (10, "good")


def test_nobody_who_listens_changes_the_verdict(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any) -> None:
        raise RuntimeError("no store at http://me:password@host")

    monkeypatch.setattr(nightly, "check_installed", lambda: None)
    monkeypatch.setattr(record, "track", failing)
    settings = {"nightly__datasets": [str(site.dataset), "gone.yaml"], "nightly__mlflow": "anywhere"}
    night = site.run("told", nightly__alerts__webhook="https://127.0.0.1:9/token", **settings)
    assert night.exit_code == 11
    assert any(problem.startswith("alert: webhook: NOT sent, ConnectionRefusedError") for problem in night.problems)
    assert "MLflow did not take the summary: RuntimeError" in night.problems
    assert "token" not in str(night) and "password" not in str(night)


def test_the_pinned_run_can_be_run_again(site: Site) -> None:
    night = site.run("night-1", nightly__baseline="night-1")
    assert night.exit_code == 0
    assert night["sample"].baseline is None


def test_text_files_in_any_store_are_looked_at_without_spark() -> None:
    store = pytest.importorskip("fsspec").filesystem("memory")
    files = {"a": "memory://night/a.jsonl", "b": "memory://night/b.trec", "q": "memory://night/q.qrels"}
    config = load_config(
        None, {"inputs.candidates": {name: files[name] for name in "ab"}, "inputs.judgements": files["q"]}
    )
    found = []
    for content in (b"one", b"two, longer"):
        for name, address in files.items():
            store.pipe(address.removeprefix("memory:/"), content if name == "a" else b"the same")
        found.append(inputs_of(None, config))
    assert {name for name, value in found[0].items() if value != found[1][name]} == {"a"}


def test_two_at_once(site: Site) -> None:
    with held_lease(site.history().storage, "other", 30):
        with pytest.raises(OutputError, match=r"night other \(process \d+ on .*\) has been running since 20"):
            site.run("second")
        assert site.run("third", nightly__break_lock="other").exit_code == 0


def test_wrong_settings(site: Site) -> None:
    with pytest.raises(ConfigError, match=r"nightly\.datasets"):
        site.run("x", nightly__datasets=[])
    with pytest.raises(ConfigError, match="part of a path"):
        site.run("../x")


def test_exit_codes_of_the_command(tmp_path: Path, texts: Texts, capsys: pytest.CaptureFixture[str]) -> None:
    site = Site(tmp_path, texts)
    chosen = ["grid.cells=[zmuv+combmnz]", "evaluate.randomizations=0", "evaluate.examples=0"]
    options = [word for setting in chosen for word in ("--set", setting)]
    places = ["--datasets", str(site.dataset), "--work", str(site.work)]
    assert main(["nightly", "--run-id", "good", *places, *options]) == 0
    assert "night good: exit code 0" in capsys.readouterr().out
    site.degrade(0.5)
    assert main(["nightly", "--run-id", "bad", *places, *options]) == 10
    assert "alarm: night bad: exit code 10" in capsys.readouterr().err
