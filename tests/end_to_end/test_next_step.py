"""The page of a report ends with the commands that fit a model on its dataset and apply it; after that, the page says
how good the probabilities are."""

from __future__ import annotations

import html
import json
import re
import shlex
from pathlib import Path

import pytest

from jobs.cli import main

ROOT = Path(__file__).parents[2]
SMALL = [
    "prepare.limit=300",
    "prepare.folds=2",
    "retrievers.static.model=words",
    "retrievers.static.epochs=1",
    "grid.cells=[zmuv+combmnz]",
    "evaluate.randomizations=0",
]


def next_section(page: Path) -> str:
    return page.read_text().partition('<section id="next"')[2].partition("</section>")[0]


def test_the_commands_on_the_page_do_what_they_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    chosen = [
        word
        for setting in [*SMALL, "evaluate.randomizations=0", "grid.cells=[zmuv+combmnz]"]
        for word in ("--set", setting)
    ]
    given = ["--config", str(ROOT / "conf/datasets/debtags.yaml"), "--work", str(tmp_path / "work")]
    quiet = ["--set", "report.figures=false"]
    assert main(["run", *given, "--retrievers", "bm25,static", *chosen, *quiet]) == 0
    assert "texts/label\ndebtags " in capsys.readouterr().err
    page = tmp_path / "work/debtags/report/index.html"
    before = next_section(page)
    assert "Label new texts" in before and "calibration error" not in before
    (code,) = re.findall(r"<pre[^>]*>(.*?)</pre>", before, re.DOTALL)
    fit, predict = (shlex.split(line)[1:] for line in html.unescape(re.sub(r"<[^>]+>", "", code)).strip().splitlines())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new.jsonl").write_text(json.dumps({"text_id": 17, "text": "A mail client with IMAP"}) + "\n")
    assert main(fit) == 0
    assert main(predict) == 0
    (row,) = map(json.loads, (tmp_path / "labelled/predictions.jsonl").read_text().splitlines())
    assert row["text_id"] == 17 and row["labels"]
    # A model is never replaced by a command that somebody has copied.
    assert main(fit) == 4
    assert main(["report", *given, *quiet]) == 0
    after = next_section(page)
    figures = json.loads((tmp_path / "model/model.json").read_text())["validation"]
    assert f"{100 * figures['calibration_error']:.1f} points in {figures['bins']} bins" in after
    assert f"{100 * figures['expected_error']:.1f} in {len(figures['reliability'])} of as many expected" in after
    made = figures["assignment"]
    assert f"{made['labels_per_text']:.2f}, with a probability of at least" in after
    assert re.search(rf"texts without a label</dt>\s*<dd[^>]*>{made['texts_without']}<", after)
    assert after.count("<circle") == len(figures["reliability"])
    markdown = (page.parent / "report.md").read_text()
    assert "calibration error" in markdown and "xmtc-fusion fit --config" in markdown
    capsys.readouterr()
