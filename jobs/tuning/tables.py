"""The tables of `tune`: choices with their figures, and the learning curve."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from fusion.grid import Cell
from fusion.learning import ANY_FOLD
from fusion.tuning.objective import Objective
from fusion.tuning.strategies import CELL
from jobs.results.schemas import CHOICES_SCHEMA, LEARNING_CURVE_SCHEMA, table_of
from jobs.tuning.choosing import Choice
from jobs.tuning.learning import variant
from jobs.tuning.tried import best_of


@dataclass(frozen=True)
class TestFigures:
    """The objective of cells on the test texts of a fold, by fold and view."""

    values: Mapping[tuple[int, str], Mapping[Cell, float]]
    fixed: Sequence[Cell]

    def of(self, fold: int, view: str, cell: Cell) -> float | None:
        return self.values.get((fold, view), {}).get(cell)

    def best(self, fold: int, view: str) -> tuple[Cell | None, float | None]:
        """The fixed cell that is best there."""
        values = self.values.get((fold, view), {})
        if not values or not self.fixed:
            return None, None
        cell = best_of(values, self.fixed)
        return cell, values[cell]

    def mean_best(self, view: str) -> tuple[Cell | None, float | None]:
        """The fixed cell with the best mean over the folds."""
        folds = [values for (_, of), values in self.values.items() if of == view]
        if not folds or not self.fixed:
            return None, None
        means = {cell: sum(values[cell] for values in folds) / len(folds) for cell in self.fixed}
        cell = best_of(means, self.fixed)
        return cell, means[cell]


def choices_table(
    choices: Sequence[Choice],
    together: Mapping[str, tuple[str, ...]],
    texts: Mapping[tuple[int, str], int],
    figures: TestFigures,
    objective: Objective,
    deployed: Mapping[str, Choice],
) -> pa.Table:
    """One row per fold, label group and strategy. `texts`: validation texts by fold and view; `deployed`: by view, the
    choice that the model file holds."""

    def rows() -> Iterator[dict[str, Any]]:
        for choice in choices:
            for view in together[choice.name]:
                overall = choice.fold == ANY_FOLD
                best, best_value = figures.mean_best(view) if overall else figures.best(choice.fold, view)
                yield {
                    "fold": choice.fold,
                    "label_group": view,
                    "strategy": str(choice.strategy),
                    "choice": str(choice.model),
                    "objective": str(objective),
                    "validation_value": choice.value,
                    "validation_texts": texts[choice.fold, view],
                    "test_value": None if overall else figures.of(choice.fold, view, choice.strategy),
                    "best_test_choice": None if best is None else str(best),
                    "best_test_value": best_value,
                    "deployed": choice is deployed[view],
                }

    order = {str(choice.strategy): n for n, choice in enumerate(choices)}
    ordered = sorted(rows(), key=lambda row: (row["fold"], row["label_group"], order[row["strategy"]]))
    return table_of(ordered, CHOICES_SCHEMA)


def curve_table(
    strategies: Sequence[Cell], sizes: Mapping[int, Mapping[int, int]], figures: TestFigures, views: Sequence[str]
) -> pa.Table:
    """One row per label group, strategy, number of texts and fold. `sizes`: by number of texts that was asked for (0:
    all of them) and fold, the number of texts."""

    def rows() -> Iterator[dict[str, Any]]:
        for view in views:
            for strategy in strategies:
                for size, by_fold in sizes.items():
                    for fold, texts in by_fold.items():
                        value = figures.of(fold, view, variant(strategy, size) if size else strategy)
                        baseline = figures.of(fold, view, CELL)
                        if value is not None:
                            yield {
                                "label_group": view,
                                "strategy": str(strategy),
                                "texts": texts,
                                "fold": fold,
                                "value": value,
                                "baseline": baseline,
                            }

    return table_of(rows(), LEARNING_CURVE_SCHEMA)
