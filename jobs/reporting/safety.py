"""What validation texts say about the strategy that is deployed: in which bands of label frequency it loses, and what
it costs to lose nowhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fusion.cells import Cell
from jobs.reporting.formats import cell_name, joined, objective_name, percent
from jobs.reporting.model import Safety

NO_COST = 0.00005
"""What is less is shown as 0.00 points."""


def safety_of(choices: Sequence[Mapping[str, Any]], group: str) -> Safety | None:
    """From the rows of the table `choices`; None where it is not known which bands were lost."""
    tested = [row for row in choices if row["label_group"] == group and row.get("bands_lost") is not None]
    deployed = next((row for row in tested if row["deployed"]), None)
    if deployed is None:
        return None
    lost = tuple(filter(None, deployed["bands_lost"].split(", ")))
    safe = [row for row in tested if not row["bands_lost"]]
    best = max(safe, key=lambda row: row["held_out_value"], default=None) if lost else deployed
    return Safety(
        lost=lost,
        objective=str(deployed["objective"]),
        safe=None if best is None else Cell(*best["strategy"].split("+", 1)),
        cost=0.0 if best is None else deployed["held_out_value"] - best["held_out_value"],
    )


def safety_line(safety: Safety, name: str) -> str:
    """What a reader should know before deploying: `name` is that of the deployed strategy."""
    texts = "on held-out validation texts"
    if not safety.lost:
        return f"{texts}, {name} loses to the best single retriever in no band of label frequency"
    bands = f"{joined(list(safety.lost))} training texts"
    said = f"{texts}, {name} finds fewer of the labels with {bands} than the best single retriever does"
    if safety.safe is None:
        return f"{said}, and no strategy loses nowhere"
    points_lost = f"{percent(safety.cost, 2)} points of {objective_name(safety.objective)}"
    cost = points_lost if safety.cost > NO_COST else "nothing"
    return f"{said}; losing nowhere costs {cost} there, with {cell_name(safety.safe)} (tune.deploy)"
