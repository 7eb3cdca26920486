"""The report of one dataset, and of several together. Everything is computed on first use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from fusion.cells import Cell
from fusion.metrics import Aspect
from jobs.evaluation.result import Result
from jobs.reporting.findings import Contribution, Example, read_additions, read_examples, read_labels
from jobs.reporting.formats import joined
from jobs.reporting.judge import (
    Judged,
    Pairs,
    agreement_of,
    compared_pairs,
    deciding_test,
    judged,
    paper_figures,
)
from jobs.reporting.model import (
    Agreement,
    Band,
    By,
    Gain,
    LabelChange,
    NightBanner,
    PaperFigures,
    Ranking,
    Recommendation,
    Row,
    Value,
)
from jobs.reporting.recommend import frequency_bands, rankings, recommendation, unseen_labels
from jobs.reporting.tuned import GroupStrategies, read_strategies
from jobs.settings.sections import Test


@dataclass(frozen=True, eq=False)
class DatasetReport:
    """What a report shows of one dataset."""

    result: Result
    asked: Test
    """The test that is asked for."""
    alpha: float
    look_at: str = ""
    """On a night with an alarm, what to look at: it is in place of a recommendation."""
    fitted: Mapping[str, Any] = field(default_factory=dict)
    """How the model that was last fitted on the dataset did on validation texts; empty if none was."""

    @cached_property
    def name(self) -> str:
        return self.result.config.dataset

    @cached_property
    def config(self) -> str:
        """The resolved configuration, as YAML."""
        return self.result.config.to_yaml()

    @cached_property
    def folds(self) -> tuple[int, ...]:
        return self.result.folds

    @cached_property
    def missing_folds(self) -> tuple[int, ...]:
        return self.result.missing_folds

    @cached_property
    def test(self) -> Test:
        """What decides the bold face here: as asked for, but with one fold a test over texts."""
        return deciding_test(self.asked, len(self.folds))

    @cached_property
    def texts(self) -> dict[str, int]:
        """Those that count, by label group."""
        return self.result.texts

    @cached_property
    def aspects(self) -> tuple[Aspect, ...]:
        return tuple(self.result.figures)

    @cached_property
    def _judged(self) -> Judged:
        return judged(self.result, self.test, self.alpha)

    @cached_property
    def values(self) -> Mapping[Aspect, Mapping[Cell, Value]]:
        return self._judged.values

    @cached_property
    def gains(self) -> tuple[Gain, ...]:
        return tuple(self._judged.gains)

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """Single retrievers first, then the cells in the order of the grid."""
        cells = dict.fromkeys(cell for of_aspect in self.values.values() for cell in of_aspect)
        rows = (
            Row(cell, {aspect: values[cell] for aspect, values in self.values.items() if cell in values})
            for cell in cells
        )
        return tuple(sorted(rows, key=lambda row: not row.single))

    @cached_property
    def bands(self) -> dict[str, tuple[Band, ...]]:
        """By label group; empty where the results hold no such counts."""
        return frequency_bands(self.result)

    @cached_property
    def unseen(self) -> dict[str, Band] | None:
        """By label group, the pairs whose label has no training text; None where training texts are not known."""
        return unseen_labels(self.result)

    @cached_property
    def pairs(self) -> Pairs:
        """Every two distinct results, compared over all texts."""
        return compared_pairs(self.result)

    @cached_property
    def recommendation(self) -> Recommendation | None:
        """None without a fused cell, and on a night with an alarm."""
        return None if self.look_at else self._recommended

    def in_doubt(self, look_at: str) -> DatasetReport:
        """The same without a recommendation."""
        other = replace(self, look_at=look_at)
        # What has been computed stays.
        vars(other).update(
            {name: part for name, part in vars(self).items() if name not in ("look_at", "recommendation")}
        )
        return other

    @cached_property
    def _recommended(self) -> Recommendation | None:
        sizes: dict[By, list[dict[str, Any]]] = {
            "text labels": self.result.rows("text_sizes"),
            "text words": self.result.rows("text_lengths"),
        }
        return recommendation(
            self._judged,
            self.bands,
            sizes,
            self.test,
            self.alpha,
            unseen=self.unseen,
            choices=self.result.rows("choices"),
        )

    @cached_property
    def rankings(self) -> tuple[Ranking, ...]:
        return rankings(self.values, self.pairs, self.alpha)

    @cached_property
    def agreement(self) -> tuple[Agreement, ...]:
        return agreement_of(self.result)

    @cached_property
    def paper(self) -> PaperFigures | None:
        means = {aspect: {cell: value.mean for cell, value in cells.items()} for aspect, cells in self.values.items()}
        return paper_figures(self.name, means)

    @cached_property
    def examples(self) -> tuple[Example, ...]:
        """By label group, those most helped first."""
        return read_examples(self.result.rows("examples"))

    @cached_property
    def labels(self) -> tuple[LabelChange, ...]:
        """By label group and retriever, those most helped first."""
        return read_labels(self.result.rows("labels"))

    @cached_property
    def strategies(self) -> tuple[GroupStrategies, ...]:
        """By label group, what was chosen and learned on validation texts; none where nothing was."""
        choices, curve = self.result.rows("choices"), self.result.rows("learning_curve")
        return read_strategies(choices, curve, self.values, self.pairs, self.test, self.alpha)

    @cached_property
    def additions(self) -> tuple[Contribution, ...]:
        """By label group, what each retriever adds to the others, where a cell was evaluated over several subsets."""
        rows = self.result.rows("additions")
        return read_additions(rows, self.result.figures, self._recommended, self.test, self.alpha) if rows else ()


@dataclass(frozen=True)
class Report:
    """Everything a report shows."""

    title: str
    datasets: tuple[DatasetReport, ...]
    test: Test
    """What decides the bold face where there is more than one fold."""
    alpha: float
    version: str
    night: NightBanner | None = None
    """Of the night that the report belongs to."""

    @property
    def heading(self) -> str:
        """The datasets that it is about."""
        names = [dataset.name for dataset in self.datasets]
        return joined(names) if names else self.title
