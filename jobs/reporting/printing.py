"""The tables of a report as files for articles and spreadsheets: LaTeX and CSV."""

from __future__ import annotations

import csv
import io

from fusion.labels import ALL
from fusion.metrics import Aspect
from jobs.reporting.dataset import DatasetReport, Report
from jobs.reporting.formats import MINUS, NOTHING
from jobs.reporting.parts import BEST, Entry, Table
from jobs.reporting.strategies import strategy_table
from jobs.reporting.tables import file_names, gain_table, grid_tables
from jobs.storage.folders import csv_cells, one_line

LATEX = {sign: f"\\{sign}" for sign in "&%$#_{}"} | {sign: f"${sign}$" for sign in "<>|"}
LATEX |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
# At the start of a line these two would be read as options of the line break.
LATEX |= {sign: f"{{{sign}}}" for sign in "[*"}
LATEX |= {MINUS: "$-$", NOTHING: "--", BEST: "underlined"}


def dataset_csv(dataset: DatasetReport) -> str:
    """One line per cell, shares of 1 in full precision: tail_ndcg@10_mean, tail_ndcg@10_std and so on."""
    aspects: dict[Aspect, str] = {}
    for aspect in dataset.aspects:
        ideal = "" if aspect.ideal == ALL else f"_ideal-{aspect.ideal}"
        aspects[aspect] = f"{aspect.label_group}_{aspect.metric_at_k}{ideal}"
    fields = ["mean", "std", "best", "bold", *(["paper_mean", "paper_std"] if dataset.paper else [])]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [f"{name}_{field}" for name in aspects.values() for field in fields]
    writer.writerow(csv_cells(["dataset", "normalization", "fusion", *names]))
    for row in dataset.rows:
        line: list[object] = [dataset.name, *row.cell]
        for aspect in aspects:
            value = row.values.get(aspect)
            line += [value.mean, value.std, int(value.best), int(value.bold)] if value else [None] * 4
            if dataset.paper:
                line += dataset.paper.values.get((row.cell, aspect), (None, None))
        writer.writerow(csv_cells(line))
    return text.getvalue()


def latex(table: Table, label: str) -> str:
    """A float that needs the package booktabs.

    In small type and with narrow gaps the paper's table is 7 inches wide; it is centred even on a narrower text.
    """
    lines = [r"\begin{table*}[p]", r"\scriptsize\setlength{\tabcolsep}{2pt}"]
    caption = _tex(table.caption) + "".join(rf" \textbf{{Warning: {_tex(warning)}.}}" for warning in table.warnings)
    lines += [rf"\caption{{{caption}}}\label{{tab:{label}}}\smallskip"]
    lines += [rf"\makebox[\linewidth]{{\begin{{tabular}}{{@{{}}{table.align}@{{}}}}", r"\toprule"]
    for headings in table.upper_headings():
        spans, rules, at = [], [], 1
        for heading, width in headings:
            spans.append(rf"\multicolumn{{{width}}}{{c}}{{{_tex(heading)}}}")
            rules += [rf"\cmidrule(lr){{{at}-{at + width - 1}}}"] if heading else []
            at += width
        lines += [" & ".join(spans) + r" \\", "".join(rules)]
    lines.append(" & ".join(_tex(names[-1]) for names in table.header) + r" \\")
    for block in table.blocks:
        lines.append(r"\midrule")
        above = ""
        for first, *rest in block:
            # A name that the line above has too is not said again.
            entries = [Entry("") if first.text == above else first, *rest]
            lines.append(" & ".join(map(_tex_entry, entries)) + r" \\")
            above = first.text
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}}", r"\end{table*}", ""])


def _tex(text: str) -> str:
    return "".join(LATEX.get(sign, sign) for sign in one_line(text))


def _tex_entry(entry: Entry) -> str:
    # Bold type is wide: the standard deviation stays plain.
    mean, bracket, rest = _tex(entry.text).partition("(")
    mean = rf"\textbf{{{mean}}}" if entry.bold else mean
    return (rf"\underline{{{mean}}}" if entry.best else mean) + bracket + rest


def dataset_latex(report: Report, dataset: DatasetReport) -> str:
    """The tables of a dataset, for \\input in an article."""
    name = file_names(other.name for other in report.datasets)[dataset.name]
    tables = [*grid_tables(report, dataset), *([gain_table(report, dataset)] if dataset.gains else [])]
    tables += [strategy_table(dataset)] if dataset.strategies else []
    labels = file_names(f"{name}-{table.name}" for table in tables)
    printed = (latex(table, labels[f"{name}-{table.name}"]) for table in tables)
    return "% Needs \\usepackage{booktabs}.\n" + "\n".join(printed)


def latex_document(report: Report) -> str:
    """The tables of all datasets as a document to compile."""
    lines = [r"\documentclass{article}", r"\usepackage[a4paper,margin=15mm]{geometry}", r"\usepackage{booktabs}"]
    lines += [r"\begin{document}"]
    lines += [dataset_latex(report, dataset) + r"\clearpage" for dataset in report.datasets]
    return "\n".join([*lines, r"\end{document}", ""])
