"""The figures of the paper's four tables, which ship with the project (conf/paper)."""

from __future__ import annotations

import csv
from collections.abc import Mapping

from fusion.grid import Cell
from fusion.registry import FUSIONS
from jobs.reporting.data import Aspect, PaperFigures
from jobs.settings.conf_files import conf_file

LEFT_OUT = (
    "Condorcet, and the Borda normalisation with methods that read ranks: there the paper's figures depend on the "
    "order in which a hash table was read"
)


def paper_figures(table: str, ours: Mapping[Aspect, Mapping[Cell, float]]) -> PaperFigures | None:
    """The paper's table of that name (in any case), and how far the order of its cells agrees with ours."""
    values: dict[tuple[Cell, Aspect], tuple[float, float]] = {}
    with conf_file("paper/results.csv").open(encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            if row["dataset"].lower() == table.lower():
                cell = Cell(row["normalization"].lower(), row["fusion"].lower().replace("_", "-"))
                aspect = Aspect(row["label_group"], row["metric"], int(row["k"]))
                values[cell, aspect] = float(row["mean"]) / 100, float(row["std"]) / 100
    if not values:
        return None
    # Half a second to import, which every other report would wait for.
    from scipy.stats import spearmanr

    compared = [cell for cell in dict.fromkeys(cell for cell, _ in values) if sound(cell)]
    correlation = {}
    for aspect in dict.fromkeys(aspect for _, aspect in values):
        both = [cell for cell in compared if cell in ours.get(aspect, {})]
        if len(both) > 2:
            agreement = spearmanr([ours[aspect][cell] for cell in both], [values[cell, aspect][0] for cell in both])
            correlation[aspect] = float(agreement.statistic)
    return PaperFigures(table, values, correlation, len(compared), LEFT_OUT)


def sound(cell: Cell) -> bool:
    """Whether the paper's figure for a cell can be right."""
    return cell.fusion != "condorcet" and not (cell.normalization == "borda" and FUSIONS[cell.fusion].reads == "ranks")
