"""Writes the figures of README and docs from the committed results, and the tables of the registries.

    python -m benchmarks.figures          # or make figures

In Markdown, what is written stands between two comments: `<!--= NAME -->` and `<!--/-->`. Everything that is measured
is read from benchmarks/results and docs/example, so that a page cannot say another number than the result it cites.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.committed import (
    DEMO,
    EURLEX57K,
    EURLEX57K_ALL,
    RESULTS,
    ROOT,
    best,
    cells,
    demo_answers,
    fused,
    losses,
    matched,
    read,
    recommended,
    singles,
    tables,
)
from benchmarks.registry_tables import SHOWN, algorithm_tables, error_tables, markdown, metric_tables, retriever_tables
from tests.doc_blocks import not_run

MARK = re.compile(r"(<!--= ([^>]+?) -->)(.*?)(<!--/-->)", re.DOTALL)
PAPER = ("zmuv", "combmnz")
"""The paper's best cell."""
MICRO_F1 = "micro F1 of assigned labels"
PAPER_ROW = ("Eurlex-4K", "ZMUV", "CombMNZ")


class Stale(NamedTuple):
    """A figure on a page that is not what the committed results say."""

    page: str
    name: str
    shown: str
    expected: str


def pages() -> list[Path]:
    """The pages that may hold figures."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def figures() -> dict[str, str]:
    """Every figure by name. Those of several lines are blocks of their own."""
    inline = {**_speed(), **_demo(), **_eurlex57k(), **_as_published()}
    blocks = {**_measured_tables(), **algorithm_tables(), **metric_tables(), **retriever_tables(), **error_tables()}
    return {**inline, **{name: f"\n\n{block.strip()}\n\n" for name, block in blocks.items()}}


def written(text: str, known: dict[str, str]) -> str:
    """A page with the figures as they are now. An unknown name is an error."""
    return MARK.sub(lambda mark: f"{mark[1]}{known[mark[2]]}{mark[4]}", text)


def stale() -> list[Stale]:
    """The figures that pages show otherwise."""
    known = figures()
    return [
        Stale(page.name, name, shown.strip(), known.get(name, "no such figure").strip())
        for page in pages()
        for _, name, shown, _ in MARK.findall(read(page))
        if shown != known.get(name)
    ]


def _speed() -> dict[str, str]:
    grid, small, times = RESULTS / "grid.md", RESULTS / "small.md", RESULTS / "times.md"
    texts = float(matched(r"^. `arrays` . ([\d,.]+)", grid).replace(",", ""))
    return {
        "grid.texts": f"{texts:,.0f}",
        "grid.million": f"{1e6 / texts:,.0f} seconds",
        "grid.times": matched(r"^. `arrays` . [\d,.]+ . \d+% . ([\d,]+)", grid),
        "grid.comb_texts": matched(r"Comb methods: `arrays` ([\d,]+) texts/s", grid),
        "grid.comb_ranx": matched(r"Comb methods: .*, ranx ([\d.]+):", grid),
        "grid.comb_times": matched(r"ranx [\d.]+: ([\d,]+) times", grid),
        "grid.tests": matched(r"Tests leave (\d+%)", grid),
        "grid.compile": matched(r"Compiling the kernel: ([\d.]+ s)", grid),
        "grid.load": matched(r"loading it from the cache on disk: ([\d.]+ s)", grid),
        "small.ours": matched(r"^. `xmtc-fusion evaluate`, with all tests . [\d.]+ . ([\d.]+)", small) + " s",
        "small.ours_cold": matched(r"^. `xmtc-fusion evaluate`, with all tests . ([\d.]+)", small) + " s",
        "small.ranx": matched(r"^. ranx . [\d.]+ . ([\d.]+)", small) + " s",
        "bm25.ours": matched(r"^. ours: nearest 64 documents . ([\d,]+)", RESULTS / "bm25.md"),
        "bm25.bm25s": matched(r"^. bm25s, numba backend: nearest 64 documents . ([\d,]+)", RESULTS / "bm25.md"),
        "bm25.times": matched(r"Met, with (\d+) times", RESULTS / "bm25.md"),
        "labelling.example": matched(r"takes (\d+ seconds) of one core", RESULTS / "labelling.md"),
        "times.demo": matched(r"^. `make demo` . ([^|]+?) .$", times),
        "times.test": matched(r"^. `make test` . ([^|]+?) .$", times),
        "times.fresh_demo": matched(r"^. `make demo` in a fresh clone . ([^|]+?) .$", times),
        "retrieval.bm25_memory": max(
            (row[4] for row in tables(read(RESULTS / "retrieval.md"))[0][1:] if row[1] == "bm25"),
            key=lambda memory: int(memory.split()[0].replace(",", "")),
        ),
    }


def _demo() -> dict[str, str]:
    column = "all nDCG@10"
    favourite = fused(DEMO)[PAPER][column]
    return {
        "demo.recommended": recommended(),
        "demo.gain": next(answer[5] for answer in demo_answers() if answer[1] == "all").partition(" ")[0],
        "demo.texts": matched(r"^\w+ · [\d-]+ · ([\d,]+) texts", DEMO),
        "demo.behind": f"{best(DEMO, column)[1] - favourite:.1f}",
    }


def _eurlex57k() -> dict[str, str]:
    columns = [column for column in fused(EURLEX57K)[PAPER] if not column.startswith("all")]
    behind = [best(EURLEX57K, column)[1] - fused(EURLEX57K)[PAPER][column] for column in columns]
    return {
        "eurlex57k.behind": f"{min(behind):.1f} to {max(behind):.1f}",
        "eurlex57k.correlation": _least_and_most(EURLEX57K),
        "eurlex57k.all.correlation": _least_and_most(EURLEX57K_ALL),
        "eurlex57k.all.winners": str(sum(row[-1] != "no" for row in _correlations(EURLEX57K_ALL))),
    }


def _as_published() -> dict[str, str]:
    """nDCG@5 on EURLEX57K's published split."""
    header, *rows = tables(read(_of_one_split("eurlex57k")))[0]
    column = header.index("nDCG@5")
    return {
        "published.ours": next(row[column] for row in rows if row[0].startswith("**")),
        "published.bert": next(row[column] for row in rows if row[0].startswith("BERT-base, ")),
        **_with_dense(),
    }


def _with_dense() -> dict[str, str]:
    """What a transformer adds there: its own nDCG@5 and that of all four, and how many rare labels each finds."""
    every = tables(read(RESULTS / "published-eurlex57k-bm25-static-tree-dense.md"))
    header, *rows = every[0]
    quality = {row[0]: dict(zip(header, row, strict=True)) for row in rows}
    deployed = next(name for name in quality if name.startswith("**"))
    header, *rows = next(table for table in every if table[0][0].startswith("found in"))
    rare = {row[0]: f"{100 * float(row[header.index('1-2')]):.0f}%" for row in rows if row[0].startswith("single+")}
    return {
        "published.dense": quality["dense"]["nDCG@5"],
        "published.with_dense": f"{quality[deployed]['nDCG@5']} and {quality[deployed]['P@1']}",
        **{f"published.rare.{name}": rare[f"single+{name}"] for name in ("bm25", "static", "dense")},
    }


def _least_and_most(path: Path) -> str:
    """The range of the rank correlations with the paper's table."""
    ranks = [float(row[2]) for row in _correlations(path)]
    return f"{min(ranks):.2f} to {max(ranks):.2f}"


def _measured_tables() -> dict[str, str]:
    makers: dict[str, Callable[[], str]] = {
        "demo.best": _best_of_demo,
        "demo.losses": _losses,
        "demo.printed": _printed,
        "eurlex57k.table": lambda: _eurlex57k_table(EURLEX57K),
        "eurlex57k.all.table": lambda: _eurlex57k_table(EURLEX57K_ALL),
        "grid.table": lambda: _copied(RESULTS / "grid.md", 0),
        "grid.sizes": lambda: _copied(RESULTS / "grid.md", 1),
        "paper.table": _paper,
        "published.eurlex57k": lambda: _published("eurlex57k", ["nDCG@5", "RP@5", "P@1", MICRO_F1]),
        "published.tibkat": lambda: _published("tibkat", ["nDCG@10", "R@5", "R@10", "R@50", MICRO_F1]),
        "bands.eurlex57k": lambda: _bands("eurlex57k"),
        "bands.tibkat": lambda: _bands("tibkat"),
        "blocks not run": lambda: markdown(["what it needs", "commands", "pages"], not_run()),
        "labelling.table": lambda: _copied(RESULTS / "labelling.md", 0),
        "nights.table": lambda: _copied(RESULTS / "nights.md", 0),
        "readers.table": lambda: _copied(RESULTS / "readers.md", 0),
        "retrieval.table": lambda: _copied(RESULTS / "retrieval.md", 0),
        "small.table": lambda: _copied(RESULTS / "small.md", 0),
        "tree.size": lambda: _copied(RESULTS / "tree-size.md", 0),
        "whole.small": lambda: _copied(RESULTS / "whole-way-small.md", 0),
        "times.table": lambda: _copied(RESULTS / "times.md", 0),
    }
    return {name: make() for name, make in makers.items()}


def _best_of_demo() -> str:
    """The best fusion of each label group next to the single retrievers."""
    alone = singles(DEMO)
    rows = []
    for _, labels, _, _, fusion, gain, _ in demo_answers():
        name, _, figure = fusion.partition(" ")
        figures = [f"{figures[f'{labels} nDCG@10']:.1f}" for figures in alone.values()]
        rows.append([labels, *figures, f"{figure.partition('(')[0]} ({name})", gain])
    return markdown(["labels", *alone, "best fusion", "gain [95% interval]"], rows)


def _printed() -> str:
    """The end of what the demo prints, on a cluster as elsewhere."""
    answer = matched(r"^\*\*(Deploy [^;*]+)", DEMO)
    return f"```text\n{answer}; ...\nThe report's page is /shared/work/debtags/report/index.html\n```"


def _losses() -> str:
    """Where the demo's recommended fusion loses to a retriever."""
    rows = (
        [f"{loss.labels}: {loss.slice}", loss.pairs, f"{loss.alone:.0f}% ({loss.retriever})", f"{loss.fused:.0f}%"]
        for loss in losses()
    )
    return markdown(["labels", "pairs", "found by one retriever alone", f"found by {recommended()}"], rows)


def _eurlex57k_table(path: Path) -> str:
    """The single retrievers, the paper's best cell and the best cell of each column."""
    columns = ["tail P@1", "tail nDCG@10", "head P@1", "head nDCG@10"]
    named = {**{f"{name} alone": ("single", name) for name in singles(path)}, "+".join(PAPER): PAPER}
    rows = [[name, *(f"{cells(path)[cell][column]:.1f}" for column in columns)] for name, cell in named.items()]
    top = [best(path, column) for column in columns]
    return markdown(["", *columns], [*rows, ["best cell", *(f"{figure:.1f} ({name})" for name, figure in top)]])


def _paper() -> str:
    """The paper's best cell on EURLEX57K next to the paper's Eurlex-4K, and how the order of the cells agrees."""
    with (ROOT / "conf" / "paper" / "results.csv").open(encoding="utf-8") as file:
        published = {
            f"{row['label_group']} {SHOWN[row['metric']]}@{row['k']}": row["mean"]
            for row in csv.DictReader(file)
            if (row["dataset"], row["normalization"], row["fusion"]) == PAPER_ROW
        }
    ours = cells(EURLEX57K)[PAPER]
    rows = []
    for labels, measure, correlation, top, *_ in _correlations(EURLEX57K):
        metric, _, k = measure.partition("@")
        column = f"{labels} {SHOWN[metric]}@{k}"
        rows.append(
            [column, f"{ours[column]:.1f}", published[column], correlation, top, f"{best(EURLEX57K, column)[1]:.1f}"]
        )
    header = ["", "EURLEX57K, here", "Eurlex-4K, the paper", "Spearman", "best cell here", "its figure"]
    return markdown(header, rows)


def _correlations(path: Path) -> list[list[str]]:
    """The rows of the table that compares the order of the cells with the paper's."""
    return next(rows for header, *rows in tables(read(path)) if "Spearman" in " ".join(header))


def _published(dataset: str, columns: list[str]) -> str:
    """Some columns of what a dataset with one split gives over all labels."""
    header, *rows = tables(read(_of_one_split(dataset)))[0]
    chosen = [header.index(column) for column in columns]
    shown = (row for row in rows if not row[0].startswith("tuned"))
    return markdown(["", *columns], [[row[0], *(row[number] for number in chosen)] for row in shown])


def _bands(dataset: str) -> str:
    """What the best retrievers, the paper's cell or the one chosen, and the learned fusions find by frequency band."""
    found = next(table for table in tables(read(_of_one_split(dataset))) if table[0][0].startswith("found in"))
    header, pairs, *rows = found
    shown = (row for row in rows if row[0].strip("*").startswith(("best", "tuned+cell", "learned")))
    return markdown(header, [pairs, *shown])


def _of_one_split(dataset: str) -> Path:
    return RESULTS / f"published-{dataset}-bm25-static-tree.md"


def _copied(path: Path, number: int) -> str:
    header, *rows = tables(read(path))[number]
    return markdown(header, rows)


def main() -> None:
    known = figures()
    for page in pages():
        text = read(page)
        new = written(text, known)
        if new != text:
            page.write_text(new, encoding="utf-8")
            print(f"written: {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
