"""docs/nightly.md, followed from top to bottom over two small datasets, without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusion.errors import AlarmError
from jobs.cli import main
from jobs.nights import nightly
from tests.doc_blocks import OURS, ROOT, commands, examples
from tests.nights import Site, good_texts

PAGE = ROOT / "docs" / "nightly.md"
QUICK = ["--set", "evaluate.randomizations=0", "--set", "grid.cells=[zmuv+combmnz]"]
NIGHTS = ("2026-03-02", "2026-03-04")


@pytest.mark.drill
def test_commands_and_python_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf").symlink_to(ROOT / "conf")
    sites = [Site(tmp_path / name, good_texts(100), dataset) for name, dataset in (("a", "debtags"), ("b", "other"))]
    for site in sites:
        (tmp_path / f"{site.folder.name}.yaml").write_text(site.dataset.read_text())
    work = str(tmp_path / "work")
    datasets = [str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml")]
    for run_id in NIGHTS:
        if run_id == NIGHTS[1]:
            sites[0].degrade(0.2)
        nightly.run(None, sites[0].config(run_id, work__path=work, nightly__datasets=datasets))

    answers = {}
    for command in commands(PAGE):
        assert command.words[0] == OURS
        words = [word.replace("/data/work", work) for word in command.words[1:]]
        evaluates = words[1].startswith("--")
        if "conf/nightly.yaml" in words:
            words += ["--datasets", ",".join(datasets), "--work", work]
        capsys.readouterr()
        code = main([*words, *(QUICK if evaluates else [])])
        # A night may end with an alarm, since one of the datasets has become worse.
        assert code == 0 or (code >= AlarmError.exit_code and (evaluates or "rerun" in words)), command
        answers[words[1]] = capsys.readouterr().out
    assert all(night in answers["status"] for night in NIGHTS)
    assert "2026-03-04" in answers["show"]

    (example,) = [example for example in examples() if example.page == PAGE.name]
    left: dict = {}
    exec(example.code.replace("/data/work", work).replace("2026-03-02T06:00:00Z", "2126-03-02T06:00:00Z"), left)
    assert left["watched"].num_rows > 0
