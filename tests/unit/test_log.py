"""What jobs say: sentences on the terminal, key=value lines in a file, one rewritten line for progress."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusion.errors import OutputError
from jobs.runtime import log as log_module
from jobs.runtime.log import (
    CLEAR_LINE,
    Progress,
    Tasks,
    configure_log,
    counts_text,
    duration_text,
    log,
    log_context,
    log_fields,
    log_progress,
    recorded,
    work_elsewhere,
)
from jobs.settings.sections import LogSettings
from jobs.storage.folders import stage_line

ROOT = Path(__file__).parents[2]


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    configure_log(LogSettings())
    yield
    configure_log(LogSettings())


IMPORT_ALL = """
import importlib, json, logging, os, pkgutil
import fusion, jobs, udfs, xmtc_fusion

ROOTS = (fusion, udfs, jobs, xmtc_fusion)

def state():
    known = [logging.getLogger(name) for name in [None, *logging.Logger.manager.loggerDict]]
    own = [logger for logger in known if logger.name.split(".")[0] in ("root", *(root.__name__ for root in ROOTS))]
    loggers = {logger.name: [len(logger.handlers), logger.level, logger.propagate, logger.disabled] for logger in own}
    return {"environment": dict(os.environ), "loggers": {name: how for name, how in loggers.items() if how != PLAIN}}

PLAIN = [0, logging.NOTSET, True, False]
before = state()
names = [module.name for root in ROOTS for module in pkgutil.walk_packages(root.__path__, f"{root.__name__}.")]
for name in names:
    importlib.import_module(name)
print(json.dumps([len(names), before, state()]))
"""


def test_importing_configures_no_log_and_changes_no_variable() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL], stdout=subprocess.PIPE, check=True, cwd=ROOT)
    modules, before, after = json.loads(done.stdout)
    assert modules > 100
    assert before == after


STATE, _, IMPORTED = IMPORT_ALL.partition("before = state()\n")
CALL_ALL = f"""{STATE}
import xmtc_fusion as xf

before = state()
runs = {{
    "a": {{"t": {{"x": 2.0, "y": 1.0}}, "u": {{"y": 3.0}}}},
    "b": {{"t": {{"y": 0.9}}, "u": {{"x": 0.8}}}},
}}
judged = {{"t": {{"x": 1}}, "u": {{"x": 1}}}}
xf.evaluate(judged, runs).best()
xf.fuse(runs, "zmuv+combmnz")
xf.explain(runs, "t")
xf.load_config("conf/datasets/debtags.yaml")
print(json.dumps([4, before, state()]))
"""


def test_calling_the_library_configures_no_log_and_changes_no_variable() -> None:
    done = subprocess.run([sys.executable, "-c", CALL_ALL], stdout=subprocess.PIPE, check=True, cwd=ROOT)
    _, before, after = json.loads(done.stdout)
    assert before == after


def test_a_program_sees_the_lines_once_it_asks_for_them() -> None:
    code = """
import logging
from jobs.runtime.log import log
log("unseen")
logging.basicConfig(level=logging.INFO)
log("seen")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert (done.stdout, done.stderr) == ("", "INFO:xmtc_fusion:seen\n")


def test_people_read_sentences_and_programs_read_fields(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "new" / "log.txt"
    configure_log(LogSettings(file=str(path)))
    with log_context(run="r1"), stage_line("prepare", None) as counts:
        counts.update(texts=9812, labels=435, stray_texts=0)
    log("a sentence")
    terminal = capsys.readouterr().err.splitlines()
    assert terminal == [f"prepare: 9,812 texts, 435 labels in {terminal[0].split(' in ')[1]}", "a sentence"]
    started, done, sentence = path.read_text().splitlines()
    assert started.endswith("level=debug run=r1 stage=prepare event=started")
    assert "level=info run=r1 stage=prepare seconds=0.0 texts=9812 labels=435 stray_texts=0" in done
    assert sentence.endswith('level=info message="a sentence"')


def test_a_second_run_adds_to_the_file(tmp_path: Path) -> None:
    for _ in range(2):
        configure_log(LogSettings(file=str(tmp_path / "log.txt")))
        log("again")
    assert (tmp_path / "log.txt").read_text().count("again") == 2


def test_fields_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    configure_log(LogSettings(format="keyvalue"))
    log_fields("for people", stage="a b", quoted='say "x"', nothing="", search={"head": "exact"})
    line = capsys.readouterr().err
    assert line.startswith("time=20") and "for people" not in line
    assert r'stage="a b" quoted="say \"x\"" nothing="" search="{\"head\": \"exact\"}"' in line


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"log\.file: cannot write"):
        configure_log(LogSettings(file=str(tmp_path / "file" / "log.txt")))


def test_what_is_recorded() -> None:
    with recorded() as outer:
        log_fields("x", stage="one")
        with recorded() as inner:
            log_fields("y", stage="two")
    assert (outer, inner) == ([{"stage": "one"}, {"stage": "two"}], [{"stage": "two"}])


def test_progress_rewrites_one_line_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = FakeTerminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    log_progress("1 of 3")
    log_progress("2 of 3")
    log("done")
    assert terminal.getvalue() == f"1 of 3{CLEAR_LINE}2 of 3{CLEAR_LINE}done\n"


def test_progress_is_rare_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure_log(LogSettings(file=str(tmp_path / "log.txt")))
    now = 100.0
    monkeypatch.setattr(log_module.time, "monotonic", lambda: now)
    for now in (100.0, 101.0, 129.9, 130.0, 131.0):
        log_progress(f"after {now}")
    assert capsys.readouterr().err == "after 100.0\nafter 130.0\n"
    assert (tmp_path / "log.txt").read_text() == ""


def test_the_time_left() -> None:
    progress = Progress("encode", 1000, "texts")
    assert progress.text(0, since=7) == "encode: 0 of 1,000 texts, 7 s so far"
    assert progress.rate == 0
    progress.skip(500)
    progress.add(100)
    assert progress.rate > 0
    assert progress.text(20, since=15) == "encode: 600 of 1,000 texts (60%), about 65 s left"
    assert progress.text(20, since=500).endswith("about 1 s left")
    # 100 texts took 20 s; those of an earlier run took none.
    assert progress.text(20) == "encode: 600 of 1,000 texts (60%), about 80 s left"
    for _ in range(4000):
        progress.add(0.1)
    assert progress.text(600) == "encode: 1,000 of 1,000 texts in 10 min"


def test_progress_between_two_whole_ones() -> None:
    progress = Progress("static: fit", 5, "folds")
    progress.add(1.5)
    assert progress.text(30) == "static: fit: 1 of 5 folds (30%), about 70 s left"


def test_a_silent_stage_says_that_it_is_at_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(log_module, "EVERY", 0.05)
    with stage_line("train", None):
        time.sleep(0.3)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("train: at work for 0 s")
    assert lines[-1].startswith("train: done in 0.")
    capsys.readouterr()
    time.sleep(0.2)
    assert capsys.readouterr().err == ""


def test_progress_counts_down_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = FakeTerminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(log_module, "SOON", 1.0)
    with Progress("encode", 4, "texts") as progress, stage_line("chunk", None):
        time.sleep(1.2)
        progress.add(1)
    lines = terminal.getvalue().split(CLEAR_LINE)
    assert lines[0] == "encode: 0 of 4 texts, 1 s so far"
    assert lines[1].startswith("encode: 1 of 4 texts (25%), about ")
    assert lines[-1].startswith("chunk: done in ")


def test_work_elsewhere(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(log_module, "EVERY", 0.05)
    now: Tasks | None = None

    def lines() -> list[str]:
        capsys.readouterr()
        time.sleep(0.3)
        return capsys.readouterr().err.splitlines()

    with stage_line("candidates", None), Progress("lists", 90, "texts") as progress:
        assert lines()[-1] == "lists: 0 of 90 texts, 0 s so far"
        with work_elsewhere(lambda: now):
            # Nobody counts texts here, so that none is done cannot be said.
            assert lines()[-1].startswith("lists: at work for ")
            now = Tasks("Spark stage 3", 0, 8, time.monotonic() - 30)
            assert lines()[-1] == "lists, Spark stage 3: 0 of 8 tasks, 30 s so far"
            now = now._replace(done=2)
            assert lines()[-1] == "lists, Spark stage 3: 2 of 8 tasks (25%), about 91 s left"
            now = now._replace(done=1)
            assert lines()[-1].startswith("lists, Spark stage 3: 2 of 8 tasks (25%), about ")
            now = now._replace(of="Spark stage 5")
            assert lines()[-1].startswith("lists, Spark stage 5: 1 of 8 tasks (12%), about ")
            progress.add(30)
            assert lines()[-1].startswith("lists: 30 of 90 texts (33%), about ")
        now = None


def test_words() -> None:
    assert counts_text({}) == "done"
    assert counts_text({"texts_without_candidates": 1, "tail labels": 1}) == "1 text without candidates, 1 tail label"
    assert counts_text({"texts": 1200, "empty": 0, "search": {"head": "exact", "tail": "exact"}}) == (
        "1,200 texts, search exact"
    )
    assert counts_text({"search": {"head": "exact", "tail": "hnsw"}, "recall": 0.98}) == (
        "search head exact and tail hnsw, recall 0.98"
    )
    assert [duration_text(seconds) for seconds in (0.44, 12.3, 180, 4800)] == ["0.4 s", "12 s", "3 min", "1 h 20 min"]
