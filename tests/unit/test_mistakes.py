"""What a newcomer gets wrong: every message names the place and what to do, and the exit code says that it failed."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import xmtc_fusion as xf
from jobs.cli import main

RUN_A = "q1 Q0 l1 1 9.1 a\nq1 Q0 l2 2 8.0 a\nq2 Q0 l3 1 7.0 a\n"
RUN_B = "q1 Q0 l2 1 0.9 b\nq2 Q0 l3 1 0.7 b\n"
QRELS = "q1 0 l2 1\nq2 0 l3 1\n"
RUNS = ["--run", "a=a.trec", "--run", "b=b.trec"]


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two runs and their judgements."""
    monkeypatch.chdir(tmp_path)
    for name, text in {"a.trec": RUN_A, "b.trec": RUN_B, "q.txt": QRELS}.items():
        Path(name).write_text(text)
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """The exit code of a command, and its last words."""
    try:
        code = main(words)
    except SystemExit as end:
        code = int(str(end.code))
    return code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "hints"),
    [
        ([], ["which job?"]),
        (["evalute", *RUNS], ["unknown job 'evalute' (did you mean 'evaluate'?)"]),
        (["retreive"], ["did you mean 'retrieve'?"]),
        (
            ["evaluate", *RUNS, "--ouput", "out"],
            ["unknown option '--ouput' (did you mean '--output'?)", "evaluate --help"],
        ),
        (["evaluate", *RUNS, "--qerls=q.txt"], ["unknown option '--qerls' (did you mean '--qrels'?)"]),
        (["evaluate", "a.trec", "q.txt"], ["unexpected 'a.trec', 'q.txt': runs are given as --run NAME=PATH"]),
        (["report", "out/"], ["unexpected 'out/': results are given as --results FOLDER"]),
    ],
)
def test_words_that_are_not_understood(capsys: pytest.CaptureFixture[str], words: list[str], hints: list[str]) -> None:
    code, message = said(capsys, *words)
    assert code == 2
    assert all(hint in message for hint in hints), message


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("rows", "hint"),
    [
        ("q1 Q0 l1 1 9.1 a\n\nq1 Q0 l2 2 nan a\n", "line 3: text_id q1, label l2"),
        ("q1 Q0 l1 1 9.1 a\nq1 Q0 l1 2 3 a\n", "lines 1, 2: text_id q1, label_group all, label l1"),
    ],
)
def test_bad_rows_have_their_lines(capsys: pytest.CaptureFixture[str], rows: str, hint: str, packed: bool) -> None:
    name = "bad.trec.gz" if packed else "bad.trec"
    Path(name).write_bytes(gzip.compress(rows.encode()) if packed else rows.encode())
    for job in (["evaluate", "--qrels", "q.txt"], ["fuse", "--cells", "zmuv+combmnz"]):
        code, message = said(capsys, *job, "--run", f"a={name}", "--run", "b=b.trec", "--output", "out")
        assert code == 3 and f"{name}: column '" in message and hint in message, message
        assert not Path("out").exists()


def test_runs_and_judgements_mixed_up(capsys: pytest.CaptureFixture[str]) -> None:
    code, message = said(capsys, "evaluate", "--run", "a=q.txt", "--run", "b=b.trec", "--qrels", "q.txt")
    assert code == 3 and "line 1: 'q1 0 l2 1'" in message
    assert "These look like judgements: give judgements with --qrels" in message
    code, message = said(capsys, "evaluate", *RUNS, "--qrels", "a.trec")
    assert code == 3 and "These look like lines of a run: give runs with --run" in message


def test_a_broken_line_is_no_mixture(capsys: pytest.CaptureFixture[str]) -> None:
    Path("short.trec").write_text("q1 Q0 l1 1 9.1 a\nq1 Q0 l2\n")
    code, message = said(capsys, "evaluate", "--run", "a=short.trec", "--run", "b=b.trec", "--qrels", "q.txt")
    assert code == 3 and "line 2: 'q1 Q0 l2'" in message and "look like" not in message


def test_judgements_of_other_texts(capsys: pytest.CaptureFixture[str]) -> None:
    Path("other.qrels").write_text("doc1 0 l2 1\n")
    code, message = said(capsys, "evaluate", *RUNS, "--qrels", "other.qrels")
    assert code == 3 and "other.qrels: none of its 1 texts has candidates" in message and "ids" in message


def test_one_run_only(capsys: pytest.CaptureFixture[str]) -> None:
    code, message = said(capsys, "evaluate", "--run", "a=a.trec", "--qrels", "q.txt")
    assert code == 2 and "found only a. Give --run NAME=PATH for each" in message


def test_runs_in_two_ways(capsys: pytest.CaptureFixture[str]) -> None:
    code, message = said(capsys, "evaluate", *RUNS, "--candidates", "all.parquet", "--qrels", "q.txt")
    assert code == 2 and "--candidates holds the lists of all retrievers, --run those of one" in message


@pytest.mark.parametrize("job", ["run", "fit"])
def test_a_retriever_alone_ranks_nothing(capsys: pytest.CaptureFixture[str], job: str, desk: Path) -> None:
    (desk / "texts.csv").write_text("text,labels\na b,x\nc d,y\n")
    (desk / "mine.yaml").write_text("prepare: {format: csv, parts: [{name: all, texts: texts.csv}]}\n")
    code, message = said(capsys, job, "--config", "mine.yaml", "--retrievers", "bm25,bm25", "--output", "out")
    assert code == 2 and "and bm25 is the only one: name others as well" in message
    assert not (desk / "work" / "unnamed" / "prepared").exists()


@pytest.mark.parametrize("retriever", ["static", "dense"])
def test_a_model_that_is_nowhere(
    capsys: pytest.CaptureFixture[str], desk: Path, retriever: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    (desk / "texts.csv").write_text("text,labels\na b,x\nc d,y\n")
    (desk / "mine.yaml").write_text("prepare: {format: csv, parts: [{name: all, texts: texts.csv}]}\n")
    model = ["--retrievers", f"bm25,{retriever}", "--set", f"retrievers.{retriever}.model=nomodel"]
    code, message = said(capsys, "run", "--config", "mine.yaml", *model)
    assert code == 3 and "the model nomodel is no folder here" in message and "its hub name" in message
    assert not (desk / "work" / "unnamed" / "prepared").exists()


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        ("{}", "is not a model file of 'tune': it has no 'format'"),
        ('{"format": 1}', "is not a model file of 'tune': it has no 'label_groups'"),
        ("\xff", "it is not text in UTF-8"),
        (None, "is a folder; give the file model.json that 'tune' wrote"),
    ],
)
def test_no_model_of_tune(capsys: pytest.CaptureFixture[str], desk: Path, content: str | None, hint: str) -> None:
    if content is None:
        (desk / "model.json").mkdir()
    else:
        (desk / "model.json").write_text(content, encoding="latin-1")
    code, message = said(capsys, "fuse", *RUNS, "--model", "model.json", "--output", "out")
    assert code == 3 and f"model.json{': ' * content.startswith(chr(255)) if content else ' '}" in message
    assert hint in message and "KeyError" not in message and "Errno" not in message


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--metrics", ""], "--metrics: evaluate.metrics: name at least one metric, as in ndcg@10"),
        (["--set", "prepare=3"], "--set prepare: prepare: expected settings below it (got 3)"),
        (["--set", "grid="], "--set grid: grid: expected settings below it (got None)"),
        (["--set", "retrievers=3"], "retrievers: name at least one retriever, as in [bm25, static]"),
        (["--set", "nightly.checks.bounds={texts: 9}"], "nightly.checks.bounds.texts: expected a list (got 9)"),
        (["--set", "nightly.checks.bounds={texts: [9, 2]}"], "texts: nothing is at least 9 and at most 2"),
        (["--set", "nightly.predict.texts=new.jsonl"], "set nightly.predict.model as well"),
        (["--set", "tune={strategies: [tuned+cell], deploy: learned+bands}"], "learned+bands is not among the strat"),
    ],
)
def test_settings_that_make_no_sense(capsys: pytest.CaptureFixture[str], words: list[str], hint: str) -> None:
    code, message = said(capsys, "evaluate", *RUNS, "--qrels", "q.txt", *words)
    assert code == 2 and hint in message, message


@pytest.mark.parametrize(
    ("content", "found"),
    [("", "nothing"), ("# all of it is a comment\n", "nothing"), ("- a\n", "a list"), ("a", "a s")],
)
def test_files_without_settings(capsys: pytest.CaptureFixture[str], content: str, found: str) -> None:
    Path("mine.yaml").write_text(content)
    code, message = said(capsys, "config", "--config", "mine.yaml")
    assert code == 2 and f"mine.yaml: expected settings in YAML (NAME: VALUE on every line), found {found}" in message
    code, message = said(capsys, "config", "--config", ".")
    assert code == 2 and "cannot read the configuration .: it is a folder; give a file in it" in message


def test_a_word_for_label_groups(capsys: pytest.CaptureFixture[str]) -> None:
    code, message = said(capsys, "evaluate", *RUNS, "--qrels", "q.txt", "--label-groups", "paretto")
    assert code == 3 and "paretto (a file, or one of the words auto, pareto and none)" in message


def test_too_little_to_learn_from(capsys: pytest.CaptureFixture[str]) -> None:
    """Where every candidate is relevant, there is nothing that a regression could tell apart."""
    code, message = said(capsys, "tune", *RUNS, "--qrels", "q.txt", "--strategies", "learned+logistic")
    assert code == 0, message


def test_a_missing_file_is_no_catalog_table(capsys: pytest.CaptureFixture[str]) -> None:
    """A name with a dot may be a table; one that ends as files do is a file, and costs no Spark session."""
    code, message = said(capsys, "evaluate", *RUNS, "--qrels", "q.txt", "--label-groups", "labels.csv")
    assert code == 3 and "an input file is missing" in message and "inputs.label_groups: labels.csv" in message


def test_a_table_that_is_no_parquet_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("labels.csv").write_text("label_id,label_group\nl1,head\n")
    code, message = said(capsys, "evaluate", *RUNS, "--qrels", "q.txt", "--label-groups", "labels.csv")
    assert code == 3 and "cannot read labels.csv: it is not a Parquet file" in message and "to_parquet" in message


def test_arguments_of_python_that_are_mixed_up() -> None:
    judgements, runs = {"t1": ["a"]}, {"x": {"t1": {"a": 1.0}}, "y": {"t1": {"a": 0.5}}}
    with pytest.raises(xf.InputError, match=r"found a list\. Judgements come first"):
        xf.evaluate(runs, judgements)
    with pytest.raises(xf.InputError, match=r"runs: expected a dictionary, .* found a list"):
        xf.evaluate(judgements, list(runs.values()))


def test_broken_configurations(capsys: pytest.CaptureFixture[str], desk: Path) -> None:
    Path("broken.yaml").write_text("evaluate: [\n")
    code, message = said(capsys, "evaluate", *RUNS, "--config", "broken.yaml")
    assert (
        code == 2 and "broken.yaml is not valid YAML, line 2, column 1: " in message and "unicode string" not in message
    )
    code, message = said(capsys, "evaluate", *RUNS, "--config", "gone.yaml")
    assert code == 2 and f"gone.yaml: there is no such file (relative paths start at {desk})" in message


def test_outputs_that_are_taken(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("mine")
    fuse = ["fuse", *RUNS, "--cells", "zmuv+combmnz", "--output"]
    code, message = said(capsys, *fuse, "mine")
    assert code == 4 and "mine exists already and is left alone" in message and "overwrite" not in message
    assert said(capsys, *fuse, "fused")[0] == 0
    code, message = said(capsys, *fuse, "fused")
    assert code == 4 and "fused exists already; choose another output, or --mode overwrite to replace it" in message


def test_results_that_are_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    code, message = said(capsys, "report", "--results", "nowhere", "--output", "report")
    assert code == 3 and "nowhere holds no results of 'evaluate'" in message and "no such folder" in message
