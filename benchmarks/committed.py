"""What the committed results say: the tables of benchmarks/results and docs/example, as numbers and texts."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
DEMO = ROOT / "docs" / "example" / "report.md"
EURLEX57K = RESULTS / "eurlex57k.md"
"""With BM25 and a transformer, as in the paper."""
EURLEX57K_ALL = RESULTS / "eurlex57k-bm25-dense-static.md"
"""With the demo's three retrievers."""
CELLS_HEADER = ("norm.", "fusion")
Cells = dict[tuple[str, str], dict[str, float]]
"""By normalisation and fusion, by column such as `tail nDCG@10`, in percent."""


class Slice(NamedTuple):
    """Labels among which the recommended fusion finds fewer than a retriever alone does."""

    labels: str
    slice: str
    retriever: str
    fused: float
    alone: float
    pairs: str


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def tables(text: str) -> list[list[list[str]]]:
    """The tables of a Markdown text, each as rows of cells, without the line below the header."""
    found = []
    for block in re.findall(r"(?:^\|.*\|[ ]*\n?)+", text, re.MULTILINE):
        rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in block.strip().split("\n")]
        found.append([row for row in rows if not re.fullmatch(r"[-:\s]*", "".join(row)) or not any(row)])
    return found


@cache
def shown(path: Path) -> dict[tuple[str, str], dict[str, str]]:
    """What the tables of a report show of every cell, by column."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for header, *rows in tables(read(path)):
        if tuple(header[:2]) != CELLS_HEADER:
            continue
        columns = [name.replace(" labels ", " ") for name in header[2:]]
        for normalization, fusion, *figures in rows:
            if normalization:
                found.setdefault((normalization, fusion), {}).update(zip(columns, figures, strict=True))
    return found


@cache
def cells(path: Path) -> Cells:
    """The figures of every cell in the tables of a report."""
    return {cell: {column: _number(text) for column, text in row.items()} for cell, row in shown(path).items()}


def _number(text: str) -> float:
    found = re.search(r"[\d.]+", text)
    return float(found[0]) if found else 0.0


def fused(path: Path) -> Cells:
    """The cells that are no single retriever."""
    return {cell: figures for cell, figures in cells(path).items() if cell[0] != "single"}


def singles(path: Path) -> dict[str, dict[str, float]]:
    """The figures of the single retrievers, by name."""
    return {name: figures for (kind, name), figures in cells(path).items() if kind == "single"}


def best(path: Path, column: str) -> tuple[str, float]:
    """The best cell of a column, which has a mark there, and its figure."""
    name = next(cell for cell, row in shown(path).items() if "†" in row[column])
    return "+".join(name), cells(path)[name][column]


def demo_answers() -> list[list[str]]:
    """The first table of the demo's report: dataset, labels, metric, best retriever, best fusion, gain, verdict."""
    return tables(read(DEMO))[0][1:]


def recommended() -> str:
    """The cell that the demo's report recommends."""
    return matched(r"\*\*Deploy ([^\s:]+)", DEMO)


def losses() -> list[Slice]:
    """Where the demo's recommended fusion loses to a retriever, as its report says."""
    pattern = (
        r"^- (\w+) labels: loses to (\S+) on (.+?): ([\d.]+) against ([\d.]+) found in the first 10 \(([\d,]+) pairs"
    )
    return [
        Slice(labels, name, retriever, float(fused), float(alone), pairs)
        for labels, retriever, name, fused, alone, pairs in re.findall(pattern, read(DEMO), re.MULTILINE)
    ]


def matched(pattern: str, path: Path) -> str:
    """What a pattern's group matches in a committed result; a result that no longer has it is an error."""
    match = re.search(pattern, read(path), re.MULTILINE)
    if match is None:
        raise ValueError(f"{path.relative_to(ROOT)} has nothing that matches {pattern!r}")
    return match[1]
