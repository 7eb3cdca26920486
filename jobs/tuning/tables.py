"""The tables of `tune`: choices with their figures, and the learning curve."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import pyarrow as pa

from fusion.cells import ANY_FOLD, Cell
from fusion.models.models import ChosenCell, Model
from fusion.models.strategies import CELL, Strategy
from fusion.tuning.search import Objective
from fusion.types import Array
from jobs.evaluation.schemas import CHOICES_SCHEMA, LEARNING_CURVE_SCHEMA, table_of
from jobs.tuning.choosing import Choice, Families, HeldOut
from jobs.tuning.learning import Learner, variant
from jobs.tuning.validation import Texts, Tried, Validation, best_in
from udfs.tuning import FeatureRows


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
        cell = best_in(values, self.fixed)
        return cell, values[cell]

    def mean_best(self, view: str) -> tuple[Cell | None, float | None]:
        """The fixed cell with the best mean over the folds."""
        folds = [values for (_, of), values in self.values.items() if of == view]
        if not folds or not self.fixed:
            return None, None
        means = {cell: sum(values[cell] for values in folds) / len(folds) for cell in self.fixed}
        cell = best_in(means, self.fixed)
        return cell, means[cell]


def choices_table(
    choices: Sequence[Choice],
    together: Mapping[str, tuple[str, ...]],
    texts: Mapping[tuple[int, str], int],
    figures: TestFigures,
    objective: Objective,
    *,
    deployed: Mapping[str, Choice],
    held: Mapping[str, Mapping[Cell, HeldOut]],
) -> pa.Table:
    """One row per fold, label group and strategy. `texts`: validation texts by fold and view; `deployed`: by view, the
    choice that the model file holds; `held`: by set of views, how strategies did on texts that had no part in them."""

    def rows() -> Iterator[dict[str, Any]]:
        for choice in choices:
            for view in together[choice.name]:
                overall = choice.fold == ANY_FOLD
                of_choice = held.get(choice.name, {}).get(choice.strategy) if overall else None
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
                    "held_out_value": None if of_choice is None else of_choice.value,
                    "tied": None if of_choice is None else of_choice.tied,
                    "bands_lost": None if of_choice is None or of_choice.lost is None else ", ".join(of_choice.lost),
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


Models = dict[Cell, dict[str, dict[int, Model]]]
"""By strategy (as a variant of so many texts), view and fold."""


def curve_sizes(validation: Validation, wanted: Sequence[int]) -> list[int]:
    """The numbers of texts per fold for which there are enough of them in every fold."""
    fewest = min(map(validation.texts, validation.serving))
    return sorted({size for size in wanted if size < fewest})


def class_limits(validation: Validation, sizes: Sequence[int]) -> dict[int, list[int]]:
    """By fold (or part), the places at which classes of texts end: class c ends with the texts of size c."""
    serving = len(next(iter(validation.serving.values())))
    return {
        base: [int(places[min(-(-size // serving), len(places) - 1)]) for size in sizes]
        for base, places in validation.places.items()
    }


def add_tuned(
    models: Models,
    tried: Tried,
    families: Families,
    validation: Validation,
    together: Mapping[str, tuple[str, ...]],
    sizes: Sequence[int],
) -> None:
    """What tuned strategies choose on the first texts of each fold."""
    for number, size in enumerate(sizes):
        for fold, bases in validation.serving.items():
            for views in together.values():
                values = tried.values(Texts(bases, last_class=number), views)
                for strategy, family in families.cells.items():
                    of_size = models.setdefault(variant(strategy, size), {})
                    for view in views:
                        of_size.setdefault(view, {})[fold] = ChosenCell(best_in(values, family))


def add_learned(
    models: Models,
    learner: Learner,
    lists: pa.Table,
    fold: int,
    limits: Mapping[int, Sequence[int]],
    sizes: Sequence[int],
) -> None:
    """What learned fusions learn from the first texts of a fold, with the usual option: the best one on all validation
    texts would know more than the curve says. Where no candidate is relevant, the curve has no point."""
    for reading in learner.readings:
        kinds = [kind for kind in learner.kinds if kind.reading == reading]
        rows = learner.rows(lists, reading)
        for (number, size), (name, of_views) in product(enumerate(sizes), rows.items()):
            part = of_views.of_texts(before(of_views, limits, number))
            if not part.relevant.any() or part.relevant.all():
                continue
            for kind in kinds:
                model = learner.trained(kind, part, kind.usual)
                of_size = models.setdefault(variant(kind.cell, size), {})
                for view in learner.together[name]:
                    of_size.setdefault(view, {})[fold] = model


def before(rows: FeatureRows, limits: Mapping[int, Sequence[int]], number: int) -> Array:
    """Which texts come before the limit of a class, each in its own fold."""
    chosen = rows.place < 0
    for base, places in limits.items():
        chosen |= (rows.base == base) & (rows.place < places[number])
    return chosen


def complete(models: Models, views: Sequence[str], folds: Sequence[int]) -> dict[Cell, Strategy]:
    """Those that have a model in every view and fold."""
    return {
        cell: Strategy(by_view)
        for cell, by_view in models.items()
        if all(view in by_view and set(by_view[view]) >= set(folds) for view in views)
    }
