"""Job `report`: tables, charts and one page from the results of one or several evaluations. Needs no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from fusion import __version__
from fusion.errors import SetupError
from jobs.engines.credentials import job
from jobs.evaluation.result import read_results
from jobs.reporting import charts, printing
from jobs.reporting.compare import SideBySide, side_by_side
from jobs.reporting.compare_words import change_markdown, change_page, changes_csv
from jobs.reporting.dataset import DatasetReport, Report
from jobs.reporting.markdown import report_markdown
from jobs.reporting.page import page
from jobs.reporting.tables import file_names
from jobs.settings.base import OutputSettings
from jobs.settings.config import Config
from jobs.settings.sections import ReportSettings
from jobs.storage.folders import ResultFolder, check_output, read_object, result_folder, stage_line
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
    folder.write_text("all-tables.tex", printing.latex_document(report))
    names = file_names(dataset.name for dataset in report.datasets)
    for dataset in report.datasets:
        folder.write_text(f"{names[dataset.name]}.tex", printing.dataset_latex(report, dataset))
        folder.write_text(f"{names[dataset.name]}.csv", printing.dataset_csv(dataset))
