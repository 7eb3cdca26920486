"""Job `report`: tables, charts and one page from the results of one or several evaluations. Needs no Spark.

The tables are also files for articles and spreadsheets: LaTeX and CSV.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from importlib.util import find_spec

from fusion import __version__
from fusion.errors import SetupError
from fusion.labels import ALL
from fusion.metrics import Aspect
from jobs.engines.credentials import job
from jobs.evaluation.result import read_results
from jobs.reporting import charts
from jobs.reporting.compare import SideBySide, side_by_side
from jobs.reporting.compare_words import change_markdown, change_page, changes_csv
from jobs.reporting.dataset import DatasetReport, Report
from jobs.reporting.formats import MINUS, NOTHING
from jobs.reporting.page import page
from jobs.reporting.parts import BEST, Entry, Table
from jobs.reporting.renderers import report_markdown
from jobs.reporting.strategies import strategy_table
from jobs.reporting.tables import file_names, gain_table, grid_tables
from jobs.settings.base import OutputSettings
from jobs.settings.config import Config
from jobs.settings.sections import ReportSettings
from jobs.storage.folders import ResultFolder, check_output, csv_cells, one_line, read_object, result_folder, stage_line
from jobs.storage.workspace import Workspace

PAGE = "index.html"


@job
def run(config: Config) -> str:
    """Write the report; where its page is."""
    if config.report.compare:
        return compare(config)[0]
    check_charts(config.report)
    output = config.output if config.output.path else place(config)
    check_output(output)
    with stage_line("report", output.path) as counts, result_folder(output, config) as folder:
        report = assembled(config)
        write(report, folder, config.report.figures)
        counts["datasets"] = len(report.datasets)
    return f"{output.path}/{PAGE}"


def compare(config: Config) -> tuple[str, SideBySide]:
    """Write two results side by side; where the page is, and what it shows."""
    first, second = config.report.compare or ("", "")
    output = config.output if config.output.path else _beside(second)
    with stage_line("report", output.path) as counts, result_folder(output, config) as folder:
        settings = config.report
        compared = side_by_side((first, second), settings.title, settings.test, settings.alpha, __version__)
        folder.write_text(PAGE, change_page(compared))
        folder.write_text("report.md", change_markdown(compared))
        folder.write_text("changes.csv", changes_csv(compared))
        counts["figures"] = len(compared.changes)
    return f"{output.path}/{PAGE}", compared


def _beside(results: str) -> OutputSettings:
    """A comparison belongs to the second result, which is compared with an earlier one."""
    return OutputSettings(path=f"{results.rstrip('/')}/comparison", mode="overwrite")


def place(config: Config) -> OutputSettings:
    """The report belongs to the results it shows: it goes into their folder, and replaces only its own earlier self.
    Results in the work folder have theirs there, too; one of several results must not replace another."""
    work = Workspace.of(config)
    results = [path.rstrip("/") for path in config.report.results or [work.results]]
    if len(results) > 1:
        return OutputSettings(path=work.report, mode=config.output.mode)
    path = work.report if results == [work.results] else f"{results[0]}/report"
    return OutputSettings(path=path, mode="overwrite")


def check_charts(settings: ReportSettings) -> None:
    """Refuse charts as files where they cannot be drawn."""
    if settings.figures and find_spec("matplotlib") is None:
        raise SetupError("report.figures needs Matplotlib, which is not installed: pip install '.[report]'")


def assembled(config: Config) -> Report:
    """All that the configured results have to show."""
    settings = config.report
    every = read_results(settings.results or [Workspace.of(config).results])
    datasets = tuple(
        DatasetReport(result, settings.test, settings.alpha, fitted=read_object(Workspace.of(result.config).fitted))
        for result in every
    )
    return Report(settings.title, datasets, settings.test, settings.alpha, __version__)


def write(report: Report, folder: ResultFolder, with_charts: bool, beside: Sequence[tuple[str, str]] = ()) -> None:
    """The page, with links to pages next to it, the charts and the tables."""
    folder.write_text(PAGE, page(report, beside))
    paths: dict[str, str] = {}
    for name, chart in charts.charts(report) if with_charts else ():
        folder.write_bytes(f"figures/{name}.svg", charts.save(chart, "svg"))
        folder.write_bytes(f"figures/{name}.png", charts.save(chart, "png"))
        paths[name] = f"figures/{name}.png"
    folder.write_text("report.md", report_markdown(report, paths))
    folder.write_text("all-tables.tex", latex_document(report))
    names = file_names(dataset.name for dataset in report.datasets)
    for dataset in report.datasets:
        folder.write_text(f"{names[dataset.name]}.tex", dataset_latex(report, dataset))
        folder.write_text(f"{names[dataset.name]}.csv", dataset_csv(dataset))


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
    tables = [*grid_tables(report, dataset), *([gain_table(dataset)] if dataset.gains else [])]
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
