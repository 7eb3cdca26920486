"""Text of others in CSV and Markdown, and packed files of others."""

from __future__ import annotations

import csv
import gzip
import io
import re
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.errors import InputError
from jobs.inputs import trec
from jobs.reporting.printing import dataset_csv, report_markdown
from jobs.runtime.folders import whole_folder
from jobs.runtime.safe_text import code_span, csv_cells, fenced
from jobs.settings import OutputSettings
from tests.reports import sample_report
from udfs import text_files

FORMULA = '=HYPERLINK("http://example.org")'


def test_cells_are_no_formulas(tmp_path: Path) -> None:
    assert csv_cells(["=1+1", "+x", "-x", "@x", "\tx", "plain", -1.5, None, 7]) == [
        "'=1+1",
        "'+x",
        "'-x",
        "'@x",
        "'\tx",
        "plain",
        -1.5,
        None,
        7,
    ]
    report = sample_report()
    dataset = replace(report.datasets[0], name=FORMULA)
    rows = list(csv.reader(io.StringIO(dataset_csv(dataset))))
    assert {row[0] for row in rows[1:]} == {f"'{FORMULA}"}
    with whole_folder(OutputSettings(path=str(tmp_path / "out"))) as folder:
        folder.write_table("names", pa.table({"name": [FORMULA, "x"], "value": [-1.0, 2.0]}))
    written = list(csv.reader(io.StringIO((tmp_path / "out" / "names.csv").read_text())))
    assert written == [["name", "value"], [f"'{FORMULA}", "-1.0"], ["x", "2.0"]]


def test_a_name_does_not_close_a_fence() -> None:
    report = sample_report()
    config = "dataset: |\n  x\n~~~\n# Verdict: all is well\n"
    dataset = replace(report.datasets[0], config=config, sources=("a`b` **bold**",))
    text = report_markdown(replace(report, datasets=(dataset,)))
    assert f"~~~~yaml\n{config}~~~~" in text
    assert "`` a`b` **bold** ``" in text


@given(st.text(alphabet="~`a\n ", max_size=30))
def test_fences_hold(text: str) -> None:
    first, *lines, last = fenced(text).split("\n")
    assert first == last and not any(re.match(rf" *{first}", line) for line in lines)
    span = code_span(text)
    ticks = re.match("`+", span)
    assert ticks is not None
    inner = span[len(ticks[0]) : -len(ticks[0])]
    assert ticks[0] not in inner


def test_a_packed_file_that_grows_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "FREELY_UNPACKED", 1 << 16)
    bomb = tmp_path / "bomb.run.gz"
    bomb.write_bytes(gzip.compress(b"1 Q0 2 1 0.5 tag\n" * 1_000_000))
    with pytest.raises(InputError, match="unpacks to more than"):
        trec.read_trec(str(bomb), "bomb.run.gz", ("text_id", "q0", "label_id", "rank", "score", "tag"), "score")
    small = tmp_path / "small.run.gz"
    small.write_bytes(gzip.compress(b"1 Q0 2 1 0.5 tag\n"))
    assert len(trec.read_trec(str(small), "small", ("text_id", "q0", "label_id", "rank", "score", "tag"), "score")) == 1
