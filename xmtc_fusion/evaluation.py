"""The result of `evaluate`, to look at, to draw and to keep."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from fusion import __version__
from fusion.cells import SINGLE, Cell
from fusion.errors import unknown_name
from fusion.labels import ALL
from fusion.metrics import Measure, parse_measures
from jobs.evaluation.result import Result
from jobs.settings.base import OutputSettings
from jobs.settings.config import Config
from jobs.storage.folders import escape

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from jobs.reporting.dataset import Dataset
    from jobs.reporting.dataset import Report as ReportData
    from jobs.reporting.model import Aspect, Value


class Best(NamedTuple):
    """The best cell of a measure, beside the better single retriever."""

    cell: Cell
    mean: float
    std: float | None
    """Over the folds; None for one fold."""
    retriever: str
    retriever_mean: float

    def __str__(self) -> str:
        return f"{self.cell} {100 * self.mean:.1f} ({self.retriever} alone {100 * self.retriever_mean:.1f})"


class Evaluation:
    """The figures of every cell and of every retriever alone, with what is needed to compare them."""

    def __init__(self, result: Result, config: Config) -> None:
        self._result = result
        self.config = config

    @property
    def metrics(self) -> pa.Table:
        """One row per figure: fold, normalization, fusion, label_group, metric, k, ideal, value, queries."""
        return self._result.metrics

    @property
    def details(self) -> Mapping[str, pa.Table]:
        """The tables of the report: every comparison text by text, agreement of the retrievers, label frequencies."""
        return self._result.details

    @property
    def queries(self) -> Any:
        """Every text's figures, if `per_query` was set."""
        return self._result.queries

    @property
    def input_counts(self) -> dict[str, int]:
        """Counts about the input: judged texts, texts without candidates, and so on."""
        return self._result.input_counts

    @property
    def engine(self) -> str:
        """The engine that did the work."""
        return self._result.engine

    def to_pandas(self) -> pd.DataFrame:
        """The metrics as a pandas table."""
        return self.metrics.to_pandas()

    def best(self, measure: str | None = None, label_group: str = ALL) -> Best:
        """The best cell by a measure, by default the deepest nDCG."""
        aspect = self._aspect(measure, label_group)
        values = {row.cell: row.values[aspect] for row in self._dataset.rows if aspect in row.values}
        fused = {cell: value for cell, value in values.items() if cell.normalization != SINGLE}
        singles = {cell: value for cell, value in values.items() if cell.normalization == SINGLE}
        cell, single = (max(group, key=lambda cell: group[cell].mean) for group in (fused, singles))
        return Best(cell, fused[cell].mean, fused[cell].std, single.fusion, singles[single].mean)

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

    def save(self, path: str, *, overwrite: bool = False) -> str:
        """Write all tables to a folder, which `report` and `xmtc-fusion report` can read."""
        from jobs.evaluation.evaluate import write
        from jobs.storage.folders import result_folder

        with result_folder(output_settings(path, overwrite), self.config) as folder:
            write(self._result, folder)
        return str(path)

    def report(self, path: str, *, overwrite: bool = False) -> str:
        """Write the report: one page, Markdown, LaTeX, CSV and charts. Returns the path of the page."""
        from jobs.reporting import report as job
        from jobs.storage.folders import result_folder

        with result_folder(output_settings(path, overwrite), self.config) as folder:
            job.write(self._report, folder, job.can_draw(self.config.report))
        return f"{path}/{job.PAGE}"

    def __repr__(self) -> str:
        groups = ", ".join(f"{texts:,} texts ({group})" for group, texts in self._dataset.queries.items())
        return f"<Evaluation of {len(self._dataset.rows)} cells and retrievers: {groups}>"

    def _repr_html_(self) -> str:
        """The retrievers and the best cells, for notebooks."""
        return "".join(self._group_html(group) for group in self._dataset.queries)

    def _group_html(self, group: str, best: int = 10) -> str:
        aspects = [aspect for aspect in self._dataset.aspects if aspect.label_group == group and aspect.ideal == ALL]
        decisive = self._aspect(None, group)
        rows = sorted(
            (row for row in self._dataset.rows if decisive in row.values), key=lambda row: -row.values[decisive].mean
        )
        shown = [*(row for row in rows if row.single), *[row for row in rows if not row.single][:best]]
        header = "".join(f"<th>{escape(str(aspect.measure))}</th>" for aspect in aspects)
        lines = [
            f"<tr><th>{escape(row.cell.normalization)}</th><th>{escape(row.cell.fusion)}</th>"
            + "".join(f"<td>{_figure_html(row.values.get(aspect))}</td>" for aspect in aspects)
            + "</tr>"
            for row in shown
        ]
        texts = f"{self._dataset.queries[group]:,} texts, in percent"
        return (
            f"<table><caption>{escape(group)} labels, {texts}</caption><thead><tr><th>normalization</th>"
            f"<th>fusion</th>{header}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
        )

    @cached_property
    def _dataset(self) -> Dataset:
        from jobs.evaluation.result import Results
        from jobs.reporting.judge import assemble

        result = self._result
        stored = Results(
            (),
            self.config,
            result.metrics,
            result.details,
            result.input_counts,
            __version__,
            "now",
            tuple(result.notes),
        )
        return assemble(stored, self.config.report.test, self.config.report.alpha)

    @property
    def _report(self) -> ReportData:
        from jobs.reporting.dataset import Report

        settings = self.config.report
        return Report(settings.title, (self._dataset,), settings.test, settings.alpha, __version__)

    def _aspect(self, measure: str | None, label_group: str) -> Aspect:
        from jobs.reporting.tables import decisive

        groups = list(self._dataset.queries)
        if label_group not in groups:
            raise unknown_name("label group", label_group, groups)
        aspects = [aspect for aspect in self._dataset.aspects if aspect.label_group == label_group]
        if measure is None:
            return decisive(aspects)
        wanted: Measure = parse_measures(measure)[0]
        for aspect in aspects:
            if aspect.measure == wanted and aspect.ideal == ALL:
                return aspect
        raise unknown_name("metric", measure, dict.fromkeys(str(aspect.measure) for aspect in aspects))


def _figure_html(value: Value | None) -> str:
    if value is None:
        return ""
    deviation = "" if value.std is None else f" ({100 * value.std:.1f})"
    text = f"{100 * value.mean:.1f}{deviation}"
    return f"<b>{text}</b>" if value.bold else text


def output_settings(path: str, overwrite: bool) -> OutputSettings:
    return OutputSettings(path=str(path), mode="overwrite" if overwrite else "error")
