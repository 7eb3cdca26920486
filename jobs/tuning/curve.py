"""The learning curve: what choices and learned fusions are worth after fewer validation texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fusion.grid import Cell
from fusion.tuning.models import ChosenCell, Model
from fusion.tuning.strategies import Strategy
from fusion.types import Array
from jobs.tuning.choosing import Families
from jobs.tuning.learning import Learner, variant
from jobs.tuning.tried import Texts, Tried, best_of
from jobs.tuning.validation import Validation
from udfs.tuning import FeatureRows

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
                        of_size.setdefault(view, {})[fold] = ChosenCell(best_of(values, family))


def add_learned(
    models: Models,
    learner: Learner,
    rows: Mapping[str, FeatureRows],
    fold: int,
    limits: Mapping[int, Sequence[int]],
    sizes: Sequence[int],
) -> None:
    """What learned fusions learn from the first texts of a fold, with the usual option: the best one on all validation
    texts would know more than the curve says. Where no candidate is relevant, the curve has no point."""
    for number, size in enumerate(sizes):
        for name, of_views in rows.items():
            part = of_views.of_texts(before(of_views, limits, number))
            if not part.relevant.any() or part.relevant.all():
                continue
            for kind in learner.kinds:
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
