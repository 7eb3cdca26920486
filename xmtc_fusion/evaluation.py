"""The results of `evaluate`, `tune` and `explain`, to look at, to draw and to keep."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fusion import __version__
from fusion.cells import SINGLE, Cell
from fusion.errors import ConfigError, OutputError, unknown_name
from fusion.labels import ALL
from fusion.metrics import Metric, decisive_aspect, parse_metrics
from fusion.statistics.significance import best_of, mean_std
from jobs.evaluation.result import Result
from jobs.settings.base import OutputSettings
from jobs.settings.config import Config
from jobs.storage.folders import escape

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from fusion.metrics import Aspect
    from jobs.evaluation.examples import ExplainedText
    from jobs.reporting.dataset import DatasetReport
    from jobs.reporting.dataset import Report as ReportData
    from jobs.reporting.model import Value

SHOWN = 10
"""Fused cells of a label group in a notebook."""


@dataclass(frozen=True)
class Best:
    """The best cell of a metric, next to the best single retriever."""

    cell: Cell
    mean: float
    std: float | None
    """Over the folds; None for one fold."""
    retriever: str
    retriever_mean: float
    _verdict: Callable[[], str] = field(repr=False, compare=False)

    @property
    def verdict(self) -> str:
        """Whether the cell is better than the retriever, which is tested when it is asked for."""
        return self._verdict()

    def __str__(self) -> str:
        from jobs.reporting.formats import short_name

        alone = f"{self.retriever} alone {100 * self.retriever_mean:.1f}"
        return f"{short_name(self.cell)} {100 * self.mean:.1f} ({alone}): {self.verdict}"


class Evaluation:
    """The figures of every cell and of every retriever alone, with what is needed to compare them."""

    def __init__(self, result: Result, config: Config, detailed: Callable[[], Result] | None = None) -> None:
        """`detailed` counts what the tables of the report need, where `result` comes without them."""
        self._figures = replace(result, config=config)
        self._detailed = detailed

    @property
    def config(self) -> Config:
        return self._figures.config

    @cached_property
    def _result(self) -> Result:
        return replace(self._detailed(), config=self.config) if self._detailed else self._figures

    @property
    def metrics(self) -> pa.Table:
        """One row per figure: fold, normalization, fusion, label_group, metric, k, ideal, value, queries."""
        return self._figures.metrics

    @property
    def details(self) -> Mapping[str, pa.Table]:
        """The tables of the report: every comparison text by text, agreement of the retrievers, label frequencies."""
        return self._result.details

    @property
    def queries(self) -> Any:
        """Every text's figures, if `per_query` was set."""
        return self._figures.queries

    @property
    def input_counts(self) -> dict[str, int]:
        """Counts about the input: judged texts, texts without candidates, and so on."""
        return self._result.input_counts

    @property
    def engine(self) -> str:
        """The engine that did the work."""
        return self._figures.engine

    def to_pandas(self) -> pd.DataFrame:
        """The metrics as a pandas table."""
        return self.metrics.to_pandas()

    def best(self, metric: str | None = None, label_group: str = ALL) -> Best:
        """The best cell by a metric, by default the deepest nDCG."""
        aspect = self._aspect(metric, label_group)
        means = {cell: mean_std([*folds.values()]) for cell, folds in self._figures.figures[aspect].items()}
        singles = {cell: mean for cell, mean in means.items() if cell.normalization == SINGLE}
        cell = best_of({cell: mean.mean for cell, mean in means.items() if cell not in singles})
        single = best_of({cell: mean.mean for cell, mean in singles.items()})
        std = means[cell].std if len(self._figures.figures[aspect][cell]) > 1 else None
        return Best(cell, means[cell].mean, std, single.fusion, singles[single].mean, partial(self._verdict, aspect))

    def _verdict(self, aspect: Aspect) -> str:
        from jobs.reporting.formats import verdict

        return verdict(next(gain.verdict for gain in self._dataset.gains if gain.aspect == aspect))

    def table(self) -> str:
        """For each label group the retrievers and the best cells, and whether the best one is better, as text."""
        from jobs.reporting.terminal import summary

        return summary(self._result, self.config)

    def plot(self, kind: str = "grid", label_group: str = ALL) -> Figure:
        """A chart: grid, gain, frequency, ranks, additions, agreement, or curve for what was tuned. Needs the extra
        [report]."""
        from jobs.reporting.charts import charts

        drawn = {name.partition("_")[2]: chart for name, chart in charts(self._report)}
        wanted = kind if kind in drawn else f"{kind}-{label_group}"
        if wanted not in drawn:
            raise unknown_name("chart", wanted, drawn)
        return drawn[wanted]

    def save(self, path: str | PathLike[str], *, overwrite: bool = False) -> str:
        """Write all tables, and the model file where fusions were tuned, to a folder that `report` and
        `xmtc-fusion report` can read."""
        from jobs.evaluation.evaluate import write
        from jobs.storage.folders import result_folder

        with result_folder(_output_settings(path, overwrite), self.config) as folder:
            write(self._result, folder)
        return str(path)

    def report(self, path: str | PathLike[str], *, overwrite: bool = False) -> str:
        """Write the report: one page, Markdown, LaTeX, CSV and charts. Returns the path of the page."""
        from jobs.reporting import report as job
        from jobs.storage.folders import result_folder

        with result_folder(_output_settings(path, overwrite), self.config) as folder:
            job.write(self._report, folder, self.config.report.figures)
        return f"{path}/{job.PAGE}"

    def __repr__(self) -> str:
        groups = ", ".join(f"{texts:,} texts ({group})" for group, texts in self._figures.texts.items())
        cells = {cell for cells in self._figures.figures.values() for cell in cells}
        return f"<Evaluation of {len(cells)} cells and retrievers: {groups}>"

    def _repr_html_(self) -> str:
        """The retrievers and the best cells, for notebooks."""
        return "".join(self._group_html(group) for group, texts in self._figures.texts.items() if texts)

    def _group_html(self, group: str) -> str:
        aspects = [aspect for aspect in self._figures.figures if aspect.label_group == group and aspect.ideal == ALL]
        decisive = self._aspect(None, group)
        rows = sorted(
            (row for row in self._dataset.rows if decisive in row.values), key=lambda row: -row.values[decisive].mean
        )
        shown = [*(row for row in rows if row.single), *[row for row in rows if not row.single][:SHOWN]]
        header = "".join(f"<th>{escape(str(aspect.metric_at_k))}</th>" for aspect in aspects)
        lines = [
            f"<tr><th>{escape(row.cell.normalization)}</th><th>{escape(row.cell.fusion)}</th>"
            + "".join(f"<td>{_figure_html(row.values.get(aspect))}</td>" for aspect in aspects)
            + "</tr>"
            for row in shown
        ]
        texts = f"{self._figures.texts[group]:,} texts, in percent"
        return (
            f"<table><caption>{escape(group)} labels, {texts}</caption><thead><tr><th>normalization</th>"
            f"<th>fusion</th>{header}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
        )

    @cached_property
    def _dataset(self) -> DatasetReport:
        from jobs.reporting.dataset import DatasetReport

        return DatasetReport(self._result, self.config.report.test, self.config.report.alpha)

    @property
    def _report(self) -> ReportData:
        from jobs.reporting.dataset import Report

        settings = self.config.report
        return Report(settings.title, (self._dataset,), settings.test, settings.alpha, __version__)

    def _aspect(self, metric: str | None, label_group: str) -> Aspect:
        groups = dict.fromkeys(aspect.label_group for aspect in self._figures.figures)
        if label_group not in groups:
            raise unknown_name("label group", label_group, list(groups))
        aspects = [aspect for aspect in self._figures.figures if aspect.label_group == label_group]
        if metric is None:
            return decisive_aspect(aspects)
        wanted: Metric = parse_metrics(metric)[0]
        for aspect in aspects:
            if aspect.metric_at_k == wanted and aspect.ideal == ALL:
                return aspect
        raise unknown_name("metric", metric, dict.fromkeys(str(aspect.metric_at_k) for aspect in aspects))


class Tuned(Evaluation):
    """The figures of fixed cells and of strategies, what these chose, and the model to deploy."""

    @property
    def choices(self) -> pa.Table:
        """What each strategy chose by fold (-1: over all folds) and label group, with its figures."""
        return self._result.details["choices"]

    @property
    def learning_curve(self) -> pa.Table | None:
        """The objective on test texts by number of validation texts; None where there were too few for a curve."""
        return self._result.details.get("learning_curve")

    @property
    def model(self) -> dict[str, Any]:
        """The content of the model file, for `fuse`."""
        found: dict[str, Any] = json.loads(self._result.model or "{}")
        return found

    def save_model(self, path: str | PathLike[str]) -> str:
        """Write the model file alone."""
        try:
            Path(path).write_text(self._result.model or "", encoding="utf-8")
        except OSError as error:
            raise OutputError(f"cannot write {path}: {error}") from None
        return str(path)


class Explanation:
    """The candidates of one text in the fused order, with what every list gave them."""

    def __init__(self, explained: ExplainedText, rows: int) -> None:
        self._explained = explained
        self._rows = rows

    @property
    def table(self) -> pa.Table:
        """One row per candidate: rank, label_id, name, relevant, fused, and per retriever NAME_rank, NAME_score and
        NAME_normalized. A normalised score without a rank was imputed."""
        return self._explained.table

    @property
    def lists(self) -> pa.Table:
        """One row per retriever: size, min, max, mean and std of its list, as the normalisation reads them."""
        return self._explained.lists

    @property
    def cell(self) -> Cell:
        return self._explained.cell

    @property
    def text(self) -> str:
        """The lists, the formulas and the first candidates, as the terminal shows them."""
        from jobs.reporting.terminal import terminal

        return terminal(self._explained, self._rows)

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        from jobs.reporting.terminal import notebook

        return notebook(self._explained, self._rows)


def _figure_html(value: Value | None) -> str:
    if value is None:
        return ""
    deviation = "" if value.std is None else f" ({100 * value.std:.1f})"
    text = f"{100 * value.mean:.1f}{deviation}"
    return f"<b>{text}</b>" if value.bold else text


def _output_settings(path: str | PathLike[str], overwrite: bool) -> OutputSettings:
    if not path:
        raise ConfigError("give a folder to write to")
    return OutputSettings(path=str(path), mode="overwrite" if overwrite else "error")
