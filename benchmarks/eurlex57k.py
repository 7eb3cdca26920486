"""The whole pipeline on EURLEX57K, and how the order of the cells compares with the paper's Eurlex-4K table.

    python -m benchmarks.eurlex57k --folder FOLDER [--work FOLDER] [--limit 20000]

FOLDER holds documents.parquet and labels.parquet (see conf/datasets/eurlex57k.yaml). Both datasets are EU law with
EuroVoc labels. Left out of the comparison: Condorcet, and the Borda normalisation with methods that read ranks, where
the paper's figures are known to be wrong.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
from scipy.stats import spearmanr, ttest_rel

from fusion import FUSIONS
from fusion.grid import SINGLE, Cell
from fusion.metrics import Measure
from fusion.summary import spread
from jobs import pipeline
from jobs.config import load_config
from jobs.session import get_session

ROOT = Path(__file__).parents[1]
MEASURES = [Measure(metric, k) for metric in ("ndcg", "precision") for k in (1, 5, 10)]
FAVOURITE = Cell("zmuv", "combmnz")
Folds = dict[tuple[str, Measure], dict[Cell, list[float]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--work", default="work")
    parser.add_argument("--limit", type=int, default=None)
    arguments = parser.parse_args()
    settings = {"prepare.folder": arguments.folder, "prepare.limit": arguments.limit, "work.path": arguments.work}
    config = load_config(str(ROOT / "conf" / "datasets" / "eurlex57k.yaml"), settings)
    result = pipeline.run(get_session(config.spark), config)
    text = report(figures(result.metrics), result.notes["judged texts"])
    results = Path(__file__).parent / "results"
    results.mkdir(exist_ok=True)
    (results / "eurlex57k.md").write_text(text)
    print(text)


def figures(metrics: pa.Table) -> Folds:
    """The values of the folds, by label group, measure and cell."""
    found: Folds = defaultdict(lambda: defaultdict(list))
    for row in metrics.to_pylist():
        if row["ideal"] == "all":
            cell = Cell(row["normalization"], row["fusion"])
            found[row["label_group"], Measure(row["metric"], row["k"])][cell].append(row["value"])
    return found


def paper_means() -> dict[tuple[str, Measure], dict[Cell, float]]:
    """The paper's Eurlex-4K table."""
    means: dict[tuple[str, Measure], dict[Cell, float]] = defaultdict(dict)
    with (ROOT / "data" / "paper" / "results.csv").open() as stream:
        for row in csv.DictReader(stream):
            if row["dataset"] == "Eurlex-4K":
                cell = Cell(row["normalization"].lower(), row["fusion"].lower().replace("_", "-"))
                means[row["label_group"], Measure(row["metric"], int(row["k"]))][cell] = float(row["mean"])
    return means


def sound(cell: Cell) -> bool:
    """Whether the paper's figure for a cell can be right."""
    return cell.fusion != "condorcet" and not (cell.normalization == "borda" and FUSIONS[cell.fusion].reads == "ranks")


def winners(cells: dict[Cell, list[float]]) -> tuple[Cell, list[Cell]]:
    """The best cell, and those that a two-sided paired t-test over the folds (alpha 0.05) does not tell from it."""
    fused = {cell: values for cell, values in cells.items() if cell.normalization != SINGLE}
    best = max(fused, key=lambda cell: sum(fused[cell]))
    tied = [
        cell
        for cell, values in fused.items()
        if values == fused[best] or not ttest_rel(values, fused[best]).pvalue < 0.05
    ]
    return best, tied


def report(found: Folds, texts: int) -> str:
    """Tables in Markdown."""
    paper = paper_means()
    lines = [f"EURLEX57K, {texts:,} texts, 5 folds, values in percent as mean(std) over the folds.", ""]
    for group in ("tail", "head"):
        cells = found[group, MEASURES[0]]
        order = sorted(cells, key=lambda cell: -sum(found[group, Measure("ndcg", 10)][cell]))
        shown = [cell for cell in order if cell.normalization == SINGLE] + [
            c for c in order if c.normalization != SINGLE
        ]
        lines += [f"## {group} labels", "", "| normalization | fusion | " + " | ".join(map(str, MEASURES)) + " |"]
        lines.append("|---|---|" + "---|" * len(MEASURES))
        for cell in shown:
            values = " | ".join(str(spread(found[group, measure][cell])) for measure in MEASURES)
            lines.append(f"| {cell.normalization} | {cell.fusion} | {values} |")
        lines += ["", "| measure | Spearman with the paper | best cell | tied with it | zmuv+combmnz among them |"]
        lines.append("|---|---|---|---|---|")
        for measure in MEASURES:
            ours, theirs = found[group, measure], paper[group, measure]
            compared = [cell for cell in theirs if sound(cell) and cell in ours]
            agreement = spearmanr([sum(ours[c]) for c in compared], [theirs[c] for c in compared]).statistic
            best, tied = winners(ours)
            wins = "yes" if FAVOURITE in tied else "no"
            lines.append(f"| {measure} | {agreement:.2f} ({len(compared)} cells) | {best} | {len(tied)} | {wins} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
