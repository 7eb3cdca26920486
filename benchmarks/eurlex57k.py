"""The whole pipeline on EURLEX57K, and how the order of the cells compares with the paper's Eurlex-4K table.

    python -m benchmarks.eurlex57k --folder FOLDER [--work FOLDER] [--limit 20000]

FOLDER holds documents.parquet and labels.parquet (see conf/datasets/eurlex57k.yaml). Both datasets are EU law with
EuroVoc labels. Beside the benchmark's table the whole report is written, to WORK/eurlex57k/report.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fusion.grid import Cell
from jobs import pipeline
from jobs import report as report_job
from jobs.config import load_config
from jobs.reporting.assemble import assemble
from jobs.reporting.data import Column, Dataset, PaperFigures, Report
from jobs.reporting.paper import paper_figures
from jobs.reporting.printing import markdown
from jobs.reporting.results import read_results
from jobs.reporting.tables import gain_table, grid_tables
from jobs.session import get_session

CONFIG = Path(__file__).parents[1] / "conf" / "datasets" / "eurlex57k.yaml"
FAVOURITE = Cell("zmuv", "combmnz")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--work", default="work")
    parser.add_argument("--limit", type=int, default=None)
    arguments = parser.parse_args()
    settings = {"prepare.folder": arguments.folder, "prepare.limit": arguments.limit, "work.path": arguments.work}
    config = load_config(str(CONFIG), settings)
    pipeline.run(get_session(config.spark), config)
    report_job.run(config)

    dataset = assemble(read_results([f"{arguments.work}/{config.dataset}/results"])[0], "folds", 0.05)
    ours = {column: {row.cell: row.values[column].mean for row in dataset.rows} for column in dataset.columns}
    paper = paper_figures("Eurlex-4K", ours)
    assert paper is not None
    text = "\n".join(told(dataset, paper)) + "\n"
    (Path(__file__).parent / "results" / "eurlex57k.md").write_text(text)
    print(text)


def told(dataset: Dataset, paper: PaperFigures) -> list[str]:
    """The benchmark's tables in Markdown."""
    report = Report("EURLEX57K", (dataset,), "folds", 0.05, dataset.version)
    lines = [f"# EURLEX57K: {dataset.queries['all']:,} texts, {len(dataset.folds)} folds, 60 cells", ""]
    lines += ["## Beside the paper's Eurlex-4K table", ""]
    lines += [f"Rank correlation over {paper.compared} cells. Left out: {paper.left_out}.", ""]
    lines += [
        "| labels | measure | Spearman with the paper | best cell | tied by folds | by texts | zmuv+combmnz is tied |"
    ]
    lines += ["|---|---|---:|---|---:|---:|---|"]
    lines += [_line(dataset, paper, column) for column in paper.rank_correlation]
    lines += ["", "## The best cell and the single retrievers", "", markdown(gain_table(report, dataset))]
    lines += ["", "## All cells", "", *map(markdown, grid_tables(report, dataset))]
    return lines


def _line(dataset: Dataset, paper: PaperFigures, column: Column) -> str:
    values = {row.cell: row.values[column] for row in dataset.rows if not row.single}
    best = next(cell for cell, value in values.items() if value.best)
    by_folds = {cell for cell, value in values.items() if value.bold}
    by_texts = {
        cell for cell, value in values.items() if not value.against_best or value.against_best.p_queries >= 0.05
    }
    says = [name for name, tied in (("folds", by_folds), ("texts", by_texts)) if FAVOURITE in tied]
    answer = "yes, by " + " and ".join(says) if says else "no"
    figures = f"{paper.rank_correlation[column]:.2f} | {best} | {len(by_folds)} | {len(by_texts)} | {answer}"
    return f"| {column.label_group} | {column.measure} | {figures} |"


if __name__ == "__main__":
    main()
