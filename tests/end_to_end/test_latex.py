"""The LaTeX tables compile, and fit the page."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from jobs.reporting.report import dataset_latex, latex_document
from tests.reports import sample_report, with_parts

COMMANDS = {
    "pdflatex": ["-interaction=nonstopmode", "-halt-on-error"],
    "tectonic": ["--keep-logs"],
}
FOUND = next((name for name in COMMANDS if shutil.which(name)), None)
pytestmark = pytest.mark.skipif(FOUND is None, reason="neither pdflatex nor tectonic is installed")


def compiled(folder: Path, document: str) -> str:
    """What TeX said."""
    assert FOUND
    (folder / "tables.tex").write_text(document, encoding="utf-8")
    done = subprocess.run(
        [FOUND, *COMMANDS[FOUND], "tables.tex"], cwd=folder, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert (folder / "tables.pdf").read_bytes().startswith(b"%PDF")
    return (folder / "tables.log").read_text(encoding="utf-8", errors="replace")


def test_the_document_compiles(tmp_path: Path) -> None:
    report = sample_report(2, missing=[1])
    odd = with_parts(report.datasets[0], name=r"my_run% & \co ~^{$#} [*] <a|b>")
    document = latex_document(replace(report, datasets=(odd, report.datasets[1])))
    # Without the box that centres a table, TeX complains about one that is wider than the text.
    log = compiled(tmp_path, document.replace(r"\makebox[\linewidth]", ""))
    assert "Overfull" not in log
    assert "6 pages" in log.replace("\n", "")


def test_tables_go_into_an_article(tmp_path: Path) -> None:
    report = sample_report(folds=1)
    (tmp_path / "mine.tex").write_text(dataset_latex(report, report.datasets[0]), encoding="utf-8")
    article = r"\documentclass[twocolumn]{article}\usepackage{booktabs}\begin{document}\input{mine}\end{document}"
    assert "Overfull" not in compiled(tmp_path, article)
