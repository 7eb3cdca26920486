"""What a terminal shows after an evaluation: the lines that matter."""

from __future__ import annotations

import math

from fusion.grid import SINGLE, Cell
from fusion.registry import FUSIONS
from fusion.statistics.summary import MeanStd, as_table
from jobs.config import Config
from jobs.reporting.assemble import assemble
from jobs.reporting.data import Dataset, Gain, Value
from jobs.reporting.formats import input_count_text
from jobs.results.result import Result
from jobs.results.stored import Results

BEST = 10
ANY = "(any)"
"""Stands for all normalisations in the row of a fusion that reads only ranks: they give one result."""


def summary(result: Result, config: Config) -> str:
    """For each label group the single retrievers and the best cells, in percent, as mean(std) over the folds."""
    results = Results((), config, result.metrics, result.details, result.input_counts, "", "")
    dataset = assemble(results, config.report.test, config.report.alpha)
    parts = [_group(dataset, group) for group in dataset.queries]
    counts = [f"  {count:,} {input_count_text(key)}" for key, count in result.input_counts.items() if count]
    parts.append("Counts:\n" + "\n".join(counts))
    if config.output.path is not None:
        parts.append(f"Written to {config.output.path}")
    return "\n".join(parts)


def _group(dataset: Dataset, group: str) -> str:
    columns = [column for column in dataset.columns if column.label_group == group and column.ideal == "all"]
    decisive = max(columns, key=lambda column: (column.metric == "ndcg", column.k))
    cells = {_shown(row.cell): row.values for row in dataset.rows if decisive in row.values}
    ranked = sorted(cells, key=lambda cell: -cells[cell][decisive].mean)
    singles = [cell for cell in ranked if cell.normalization == SINGLE]
    fused = [cell for cell in ranked if cell.normalization != SINGLE]
    rest = f"; {len(fused) - BEST} more below" if len(fused) > BEST else ""
    title = f"{group} labels, {dataset.queries[group]:,} texts, best by {decisive.measure}{rest}"
    header = ["normalization", "fusion", *(str(column.measure) for column in columns)]
    rows = [[*cell, *(_spread(cells[cell].get(column)) for column in columns)] for cell in singles + fused[:BEST]]
    gains = [_gain(gain) for gain in dataset.gains if gain.column == decisive]
    return "\n".join([title, as_table(header, rows), *gains, ""])


def _gain(gain: Gain) -> str:
    """The best cell against the better single retriever, and whether that can be trusted."""
    change = gain.comparison
    interval = (
        "" if change.low is None or change.high is None else f" [{100 * change.low:+.1f}, {100 * change.high:+.1f}]"
    )
    p = {"folds": change.p_folds, "texts": change.p_queries, "random signs": change.p_randomization}
    tests = ", ".join(f"{name} p {_p(value)}" for name, value in p.items() if value is not None)
    verdict = f"{gain.verdict} ({tests})" if tests else gain.verdict
    moved = f"{gain.column.measure} {100 * change.difference:+.1f}{interval}"
    return f"{gain.best} against {gain.better_single}: {moved}, {verdict}"


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _spread(value: Value | None) -> str:
    return "-" if value is None else str(MeanStd(value.mean, math.nan if value.std is None else value.std))


def _shown(cell: Cell) -> Cell:
    ranks_only = cell.normalization != SINGLE and FUSIONS[cell.fusion].reads == "ranks"
    return Cell(ANY, cell.fusion) if ranks_only else cell
