"""The whole pipeline on EURLEX57K, and how the order of the cells compares with the paper's Eurlex-4K table.

    python -m benchmarks.eurlex57k --folder FOLDER [--work FOLDER] [--limit 20000] [--neighbours 256]
                                   [--retrievers bm25,dense,static]

FOLDER holds documents.parquet and labels.parquet (see conf/datasets/eurlex57k.yaml). Both datasets are EU law with
EuroVoc labels. With the benchmark's table the whole report is written, to WORK/eurlex57k/report. What each retriever
adds is measured by benchmarks.retrievers, in the same work folder.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from fusion import NORMALIZATIONS
from fusion.cells import Cell
from fusion.metrics import Aspect
from jobs.engines.session import get_session
from jobs.evaluation import pipeline as pipeline
from jobs.evaluation.result import read_results
from jobs.reporting import report as report_job
from jobs.reporting.dataset import DatasetReport, Report
from jobs.reporting.judge import paper_figures
from jobs.reporting.model import PaperFigures
from jobs.reporting.renderers import table_markdown
from jobs.reporting.tables import gain_table, grid_tables
from jobs.settings.config import load_config
from jobs.storage.workspace import Workspace

CONFIG = Path(__file__).parents[1] / "conf" / "datasets" / "eurlex57k.yaml"
FAVOURITE = Cell("zmuv", "combmnz")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--work", default="work")
    parser.add_argument("--limit", type=int, default=None)
    parser.add_argument("--neighbours", type=int, default=64, help="texts that BM25 takes labels from")
    parser.add_argument("--retrievers", default="bm25,dense", help="names of the registry, separated by commas")
    arguments = parser.parse_args()
    settings = {
        "prepare.folder": arguments.folder,
        "prepare.limit": arguments.limit,
        "work.path": arguments.work,
        "retrievers.bm25.neighbours": arguments.neighbours,
        "retrievers": arguments.retrievers,
    }
    config = load_config(str(CONFIG), settings)
    pipeline.run(get_session(config.spark), config)
    report_job.run(config)

    dataset = DatasetReport(read_results([f"{arguments.work}/{config.dataset}/results"])[0], "folds", 0.05)
    ours = {aspect: {row.cell: row.values[aspect].mean for row in dataset.rows} for aspect in dataset.aspects}
    paper = paper_figures("Eurlex-4K", ours)
    assert paper is not None
    lists = {name: Workspace.of(config).candidate_lists(name) for name in config.retrievers}
    text = "\n".join(told(dataset, paper, weights(lists))) + "\n"
    name = "eurlex57k" if arguments.neighbours == 64 else f"eurlex57k-{arguments.neighbours}-neighbours"
    if list(config.retrievers) != ["bm25", "dense"]:
        name += "-" + "-".join(config.retrievers)
    (Path(__file__).parent / "results" / f"{name}.md").write_text(text)
    print(text)


def weights(candidates: Mapping[str, str]) -> list[str]:
    """What the best label of a list gets under each normalisation: the weight that a retriever has in a sum."""
    names = ("min-max", "sum", "zmuv")
    lines = ["| labels | retriever | " + " | ".join(names) + " |", "|---|---|" + "---:|" * len(names)]
    for group in ("tail", "head"):
        for retriever, lists_path in candidates.items():
            table = pq.read_table(lists_path, columns=["label_group", "scores"], filters=[("role", "=", "test")])
            lists = [np.array(row["scores"]) for row in table.to_pylist() if row["label_group"] == group]
            best = {name: [NORMALIZATIONS[name].plain(of, 0)[0] for of in lists if len(of) > 2] for name in names}
            shown = " | ".join(f"{np.mean(values):.2f}" for values in best.values())
            lines.append(f"| {group} | {retriever} | {shown} |")
    return lines


def told(dataset: DatasetReport, paper: PaperFigures, weights: list[str]) -> list[str]:
    """The benchmark's tables in Markdown."""
    report = Report("EURLEX57K", (dataset,), "folds", 0.05, dataset.result.version)
    lines = [f"# EURLEX57K: {dataset.texts['all']:,} texts, {len(dataset.folds)} folds, 60 cells", ""]
    lengths = {of.label_group: of.candidates for of in dataset.agreement}
    told = (f"{group}: " + ", ".join(f"{name} {n:.1f}" for name, n in of.items()) for group, of in lengths.items())
    lines += [f"Mean length of the lists. {'; '.join(told)}.", ""]
    lines += ["Mean normalised score of a list's best label, that is, the weight of a retriever:", "", *weights, ""]
    lines += ["## Next to the paper's Eurlex-4K table", ""]
    lines += [f"Rank correlation over {paper.compared} cells. Left out: {paper.left_out}.", ""]
    lines += [
        "| labels | measure | Spearman with the paper | best cell | tied by folds | by texts | zmuv+combmnz is tied |"
    ]
    lines += ["|---|---|---:|---|---:|---:|---|"]
    lines += [_line(dataset, paper, aspect) for aspect in paper.rank_correlation]
    lines += ["", "## The best cell and the single retrievers", "", table_markdown(gain_table(dataset))]
    lines += ["", "## All cells", "", *map(table_markdown, grid_tables(report, dataset))]
    return lines


def _line(dataset: DatasetReport, paper: PaperFigures, aspect: Aspect) -> str:
    values = {row.cell: row.values[aspect] for row in dataset.rows if not row.single}
    best = next(cell for cell, value in values.items() if value.best)
    by_folds = {cell for cell, value in values.items() if value.bold}
    against_best = {cell: value.against_best for cell, value in values.items()}
    by_texts = {cell for cell, told in against_best.items() if told is None or (told.p_queries or 0) >= 0.05}
    says = [name for name, tied in (("folds", by_folds), ("texts", by_texts)) if FAVOURITE in tied]
    answer = "yes, by " + " and ".join(says) if says else "no"
    figures = f"{paper.rank_correlation[aspect]:.2f} | {best} | {len(by_folds)} | {len(by_texts)} | {answer}"
    return f"| {aspect.label_group} | {aspect.metric_at_k} | {figures} |"


if __name__ == "__main__":
    main()
