"""What a terminal shows after an evaluation: the lines that matter."""

from __future__ import annotations

from collections import defaultdict

from fusion.grid import SINGLE, Cell
from fusion.label_groups import ALL
from fusion.metrics import Measure
from fusion.registry import FUSIONS
from fusion.summary import Spread, as_table, spread
from jobs.config import Config
from jobs.evaluate import Result

BEST = 10
ANY = "(any)"
"""Stands for all normalisations in the row of a fusion that reads only ranks: they give one result."""


def summary(result: Result, config: Config) -> str:
    """For each label group the single retrievers and the best cells, in percent, as mean(std) over the folds."""
    measures = config.evaluate.measures
    decisive = max(measures, key=lambda measure: (measure.metric == "ndcg", measure.k))
    figures: dict[tuple[str, Cell, Measure], dict[int, float]] = defaultdict(dict)
    queries: dict[str, int] = defaultdict(int)
    for row in result.metrics.to_pylist():
        if row["ideal"] == ALL and row["value"] is not None:
            cell, measure = _shown(Cell(row["normalization"], row["fusion"])), Measure(row["metric"], row["k"])
            figures[row["label_group"], cell, measure][row["fold"]] = row["value"]
    for row in result.metrics.group_by(["fold", "label_group"]).aggregate([("queries", "max")]).to_pylist():
        queries[row["label_group"]] += row["queries_max"]

    parts = []
    for group in dict.fromkeys(result.metrics["label_group"].to_pylist()):
        spreads: dict[Cell, list[Spread]] = {}
        for cell in dict.fromkeys(cell for of, cell, _ in figures if of == group):
            spreads[cell] = [spread(list(figures[group, cell, measure].values())) for measure in measures]
        column = measures.index(decisive)
        ranked = sorted(spreads, key=lambda cell: -spreads[cell][column].mean)
        shown = [cell for cell in ranked if cell.normalization == SINGLE]
        cells = [cell for cell in ranked if cell.normalization != SINGLE]
        rest = f"; {len(cells) - BEST} more below" if len(cells) > BEST else ""
        parts.append(f"{group} labels, {queries[group]:,} texts, best by {decisive}{rest}")
        header = ["normalization", "fusion", *map(str, measures)]
        parts.append(as_table(header, [[*cell, *map(str, spreads[cell])] for cell in shown + cells[:BEST]]) + "\n")
    notes = [f"  {count:,} {what}" for what, count in result.notes.items() if count]
    parts.append("Counts:\n" + "\n".join(notes))
    if config.output.path is not None:
        parts.append(f"Written to {config.output.path}")
    return "\n".join(parts)


def _shown(cell: Cell) -> Cell:
    ranks_only = cell.normalization != SINGLE and FUSIONS[cell.fusion].reads == "ranks"
    return Cell(ANY, cell.fusion) if ranks_only else cell
