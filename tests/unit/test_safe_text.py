"""Text of others in CSV and Markdown, and packed files of others."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xmtc_fusion as xf
from fusion.errors import InputError, XmtcError, visible
from jobs.reporting.renderers import report_markdown
from jobs.reporting.report import dataset_csv
from jobs.runtime.log import configure_log, log, log_fields
from jobs.settings.base import OutputSettings
from jobs.settings.sections import LogSettings
from jobs.storage.folders import csv_cells, fenced, whole_folder
from tests.reports import sample_report, with_parts
from tests.results import plain_files
from udfs import text_files
from udfs.splits import Split
from udfs.trec import RUN_FIELDS, read_trec

FORMULA = '=HYPERLINK("http://example.org")'


def test_cells_are_no_formulas(tmp_path: Path) -> None:
    assert csv_cells(["=1+1", "+x", "-x", "@x", "\tx", "plain", -1.5, None, 7]) == [
        "'=1+1",
        "'+x",
        "'-x",
        "'@x",
        "\\tx",
        "plain",
        -1.5,
        None,
        7,
    ]
    report = sample_report()
    dataset = with_parts(report.datasets[0], name=FORMULA)
    rows = list(csv.reader(io.StringIO(dataset_csv(dataset))))
    assert {row[0] for row in rows[1:]} == {f"'{FORMULA}"}
    with whole_folder(OutputSettings(path=str(tmp_path / "out"))) as folder:
        folder.write_table("names", pa.table({"name": [FORMULA, "x"], "value": [-1.0, 2.0]}))
    written = list(csv.reader(io.StringIO((tmp_path / "out" / "names.csv").read_text())))
    assert written == [["name", "value"], [f"'{FORMULA}", "-1.0"], ["x", "2.0"]]


HOSTILE = "\x1b[2J\nFORGED \u202e\x07\r\u2028\x9b\ufeffx"
"""Clears a screen, begins a line, turns the direction of reading, rings, overwrites."""


@pytest.fixture(scope="module")
def hostile() -> dict[str, Any]:
    """Judgements, runs, label groups and folds, all with hostile names."""
    texts, labels = ([f"{kind}{n}{HOSTILE}" for n in range(30)] for kind in "tl")
    relevant = {text: {labels[n % 30]: 1, labels[(n + 7) % 30]: 1} for n, text in enumerate(texts)}
    runs = {
        f"{name}{HOSTILE}": {
            text: {labels[(n + at) % 30]: 9.0 - at for at in range(start, 9)} for n, text in enumerate(texts)
        }
        for start, name in enumerate(("bm25", "dense"))
    }
    groups = {label: f"odd{HOSTILE}" if n % 2 else "tail" for n, label in enumerate(labels)}
    return {
        "judgements": relevant,
        "runs": runs,
        "label_groups": groups,
        "folds": {text: n % 3 for n, text in enumerate(texts)},
    }


def assert_harmless(text: str, where: str) -> None:
    assert visible(text, lines=True) == text, where
    # To a browser a line break is a space.
    html = where.endswith((".html", ".svg", "notebook"))
    assert html or not any(line.lstrip("> -#|").startswith("FORGED") for line in text.splitlines()), where


def test_names_do_nothing_in_a_report(hostile: dict[str, Any], tmp_path: Path) -> None:
    """On the terminal, and in every file of a report and of results."""
    tuned = xf.tune(**hostile, metrics="ndcg@10,P@1", settings={"tune.curve": [5], "report.figures": True})
    assert "bm25\\x1b[2J\\nFORGED \\u202e" in tuned.table()
    tuned.report(str(tmp_path / "report"))
    tuned.save(str(tmp_path / "results"))
    assert_harmless(tuned.table(), "terminal")
    assert_harmless(tuned._repr_html_(), "notebook")
    files = {**plain_files(tmp_path / "report"), **plain_files(tmp_path / "results")}
    checked = [name for name in files if name.endswith((".html", ".md", ".tex", ".csv", ".svg"))]
    assert len(checked) > 20
    for name in checked:
        assert_harmless(files[name].decode(), name)
    data = re.search(r"<script[^>]*application/json[^>]*>(.*?)</script>", files["index.html"].decode(), re.DOTALL)
    assert data is not None
    assert_harmless(json.dumps(json.loads(data[1]), ensure_ascii=False), "data of the page")


def test_names_do_nothing_where_one_text_is_explained(hostile: dict[str, Any]) -> None:
    text, runs = next(iter(hostile["judgements"])), hostile["runs"]
    explained = xf.explain(runs, text, judgements=hostile["judgements"], label_groups=hostile["label_groups"])
    assert_harmless(str(explained), "terminal")
    assert_harmless(explained._repr_html_(), "notebook")


def test_names_do_nothing_in_errors_and_logs(hostile: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    (name, run), *_ = hostile["runs"].items()
    text, labels = next(iter(run.items()))
    broken = {text: {**labels, next(iter(labels)): float("nan")}}
    with pytest.raises(InputError) as error:
        xf.evaluate(hostile["judgements"], {**hostile["runs"], name: broken})
    assert_harmless(str(error.value), "error")
    with pytest.raises(XmtcError) as refused:
        xf.evaluate(hostile["judgements"], {name: run})
    assert visible(str(refused.value), lines=True) == str(refused.value)
    capsys.readouterr()
    try:
        for form in ("text", "keyvalue"):
            configure_log(LogSettings(format=form))
            log(f"about {name}")
            log_fields(f"about {name}", **{name: name, "list": [name]})
    finally:
        configure_log(LogSettings())
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4
    for line in lines:
        assert_harmless(line, line)


def test_scripts_that_need_joiners_keep_them() -> None:
    family, persian = "\U0001f469\u200d\U0001f467", "\u0645\u06cc\u200c\u062e"
    assert visible(f"{family} {persian}\u00a0\u2212") == f"{family} {persian}\u00a0\u2212"


def test_a_name_does_not_close_a_fence() -> None:
    report = sample_report()
    config = "dataset: |\n  x\n~~~\n# Verdict: all is well\n"
    dataset = with_parts(
        report.datasets[0], config=config, result=replace(report.datasets[0].result, sources=("a`b` **bold**",))
    )
    text = report_markdown(replace(report, datasets=(dataset,)))
    assert f"~~~~yaml\n{config}~~~~" in text
    assert r"a\`b\` \*\*bold\*\*" in text


@given(st.text(alphabet="~`a\n ", max_size=30))
def test_fences_hold(text: str) -> None:
    first, *lines, last = fenced(text).split("\n")
    assert first == last and not any(re.match(rf" *{first}", line) for line in lines)


def test_a_packed_file_that_grows_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "FREELY_UNPACKED", 1 << 16)
    bomb = tmp_path / "bomb.run.gz"
    bomb.write_bytes(gzip.compress(b"1 Q0 2 1 0.5 tag\n" * 1_000_000))
    with pytest.raises(InputError, match="unpacks to more than"):
        list(read_trec(Split(str(bomb), 0, None), "bomb.run.gz", RUN_FIELDS, "score"))
    small = tmp_path / "small.run.gz"
    small.write_bytes(gzip.compress(b"1 Q0 2 1 0.5 tag\n"))
    assert sum(map(len, read_trec(Split(str(small), 0, None), "small", RUN_FIELDS, "score"))) == 1
