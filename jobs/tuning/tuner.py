"""From validation texts to strategies: choices, learned fusions, their figures on test texts, and the model file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from fusion.cells import ANY_FOLD, Cell
from fusion.errors import ConfigError, InputError
from fusion.labels import ALL
from fusion.models.models import Model
from fusion.models.strategies import Strategy
from fusion.registry import FUSIONS
from jobs.evaluation.model_file import model_json
from jobs.evaluation.plan import chosen_views
from jobs.inputs.labels import training_propensities, training_texts
from jobs.inputs.lists import load_lists
from jobs.inputs.roles import tested_folds
from jobs.inputs.sources import source_name
from jobs.inputs.tables import InputTables
from jobs.runtime.log import log
from jobs.settings.config import Config, with_settings
from jobs.settings.sections import AUTO
from jobs.tuning.choosing import (
    Choice,
    Families,
    HeldOut,
    best_choice,
    choose,
    held_out,
    strategy_models,
    try_cells,
    views_together,
)
from jobs.tuning.learning import Kind, Learned, Learner, best_option, kinds_of
from jobs.tuning.tables import (
    Models,
    TestFigures,
    add_learned,
    add_tuned,
    choices_table,
    class_limits,
    complete,
    curve_sizes,
    curve_table,
)
from jobs.tuning.validation import Texts, Tried, Validation, count_cells, load_validation
from udfs.plan import EvaluationPlan
from udfs.tuning import TrainTexts, Tuning


@dataclass(frozen=True)
class Tuned:
    """What came out: strategies to be evaluated, tables, and the text of the model file."""

    tuning: Tuning
    choices: pa.Table
    curve: pa.Table
    model: str
    deployed: Mapping[str, str]
    """The strategy that the model file holds, by view."""
    by_fold: Sequence[Choice]


@dataclass(frozen=True)
class Tuner:
    """Everything that choices are made from."""

    tables: InputTables[Any]
    config: Config
    validation: Validation
    evaluation: EvaluationPlan
    """Of the objective: layout, views and metrics, without cells."""
    train_texts: TrainTexts | None
    together: Mapping[str, tuple[str, ...]]
    families: Families

    @classmethod
    def of(cls, tables: InputTables[Any], config: Config) -> Tuner:
        settings, goal = config.tune, config.tune.goal
        validation = load_validation(tables, config.evaluate, settings, goal.metrics)
        layout = validation.lists.layout.of_read
        joint = config.grid.scope == "joint"
        views = (ALL,) if joint else chosen_views(config.evaluate.label_groups, layout.views)
        measured = with_settings(config, {"evaluate.metrics": list(map(str, goal.metrics))}).evaluate
        grid = config.grid.grid(layout.retrievers)
        evaluation = EvaluationPlan(
            layout,
            (),
            views,
            config.grid.scope,
            goal.metrics,
            rules=measured.rules._replace(graded=layout.relevant_from is not None),
            propensities=training_propensities(tables, measured, goal.metrics),
            policies=grid.policies,
        )
        _check_folds(tables, validation)
        families = Families.of(settings.chosen, grid.cells, layout.retrievers, settings.settings)
        together = views_together(evaluation, settings.shared)
        train_texts = _train_texts(tables, config, validation)
        return cls(
            tables,
            config,
            validation,
            evaluation=evaluation,
            train_texts=train_texts,
            together=together,
            families=families,
        )

    def tune(self) -> Tuned:
        settings = self.config.tune
        sizes = curve_sizes(self.validation, settings.curve)
        limits = class_limits(self.validation, sizes)
        parting = replace(self.validation.parting, limits=limits)
        tried = try_cells(self.validation, self.evaluation, self.families, self.together, parting, settings)
        choices = choose(tried, self.families, self.validation, self.together)
        curve: Models = {}
        add_tuned(curve, tried, self.families, self.validation, self.together, sizes)
        choices += self._learned(curve, limits, sizes)
        order = [str(cell) for cell in settings.chosen]
        choices = sorted(choices, key=lambda choice: order.index(str(choice.strategy)))
        # The choice over all folds has seen the labels of every fold's test texts: it is never evaluated.
        of_folds = [choice for choice in choices if choice.fold != ANY_FOLD]
        strategies = {cell: Strategy(models) for cell, models in strategy_models(of_folds, self.together).items()}
        figures = self._test_figures(strategies, complete(curve, self.evaluation.views, list(self.validation.serving)))
        texts = self._texts(tried)
        held = self._held_out(choices)
        deployed = self._deployed(choices, held)
        by_size = {size: dict.fromkeys(self.validation.serving, size) for size in sizes}
        by_size[0] = {fold: self.validation.texts(fold) for fold in self.validation.serving}
        curves = curve_table(list(strategies), by_size if settings.curve else {}, figures, self.evaluation.views)
        return Tuned(
            Tuning(strategies, self.train_texts, self.validation.test_parting),
            choices_table(choices, self.together, texts, figures, settings.goal, deployed=deployed, held=held),
            curves,
            self._model(choices, deployed, held),
            {view: str(choice.strategy) for view, choice in deployed.items()},
            choices,
        )

    def _learned(self, curve: Models, limits: Mapping[int, Sequence[int]], sizes: Sequence[int]) -> list[Choice]:
        """The learned fusions of each fold, and over all folds."""
        settings, validation = self.config.tune, self.validation
        kinds = self._kinds()
        if not kinds:
            return []
        learner = Learner(self.evaluation, settings.goal, self.together, self.train_texts, validation.parting, kinds)
        learned: dict[int, dict[tuple[Cell, str], Learned]] = {}
        for fold, bases in validation.serving.items():
            log(f"fold {fold}: learning from {min(validation.texts(fold), settings.texts):,} validation texts")
            lists = self.validation.collected(bases, settings.texts)
            learned[fold] = learner.learn(lists, bases)
            if sizes:
                add_learned(curve, learner, lists.collect(), fold, limits, sizes)
        choices = [
            Choice(
                strategy=cell,
                fold=fold,
                name=name,
                model=found.model,
                value=_best(found),
                held_out=_best(found),
                option=found.option,
            )
            for fold, of_fold in learned.items()
            for (cell, name), found in of_fold.items()
        ]
        return choices + self._over_all_folds(learner, learned)

    def _kinds(self) -> list[Kind]:
        """The learned strategies, without those that must know training texts where none are known."""
        settings = self.config.tune
        texts = 0.0 if self.train_texts is None else self.train_texts.texts
        kinds = kinds_of(settings.chosen, settings, self.evaluation.layout.retrievers, texts)
        unable = [kind.cell for kind in kinds if kind.needs_training and self.train_texts is None]
        if unable and settings.strategies != AUTO:
            raise ConfigError(
                f"{unable[0]} reads how many training texts carry a label, and that is not known: give folds "
                "(inputs.folds) with a column 'role' in which training texts are called 'train' and those to "
                "learn from 'validation', or leave it out of tune.strategies"
            )
        return [kind for kind in kinds if kind.cell not in unable]

    def _over_all_folds(
        self, learner: Learner, learned: Mapping[int, Mapping[tuple[Cell, str], Learned]]
    ) -> list[Choice]:
        """Models that learn from the validation texts of all folds, with the option that did best in the folds."""
        lists = self.validation.collected(tuple(self.validation.places), self.config.tune.texts).collect()
        rows = {reading: learner.rows(lists, reading) for reading in learner.readings}
        choices = []
        for kind in learner.kinds:
            for name, of_views in rows[kind.reading].items():
                found = [of_fold[kind.cell, name] for of_fold in learned.values()]
                values = [of_fold.held_out for of_fold in found if of_fold.held_out is not None]
                means = [sum(column) / len(values) for column in zip(*values, strict=True)]
                option = best_option(means) if means else kind.usual
                value = means[option] if means else None
                model = learner.trained(kind, of_views, option)
                # Where several folds learned from a text's other half, any of them will do.
                halves = {code: held for of in found if of.halves for code, held in of.halves[option].items()}
                choices.append(
                    Choice(
                        strategy=kind.cell,
                        fold=ANY_FOLD,
                        name=name,
                        model=model,
                        value=value,
                        held_out=value,
                        option=option,
                        halves=halves,
                    )
                )
        return choices

    def _test_figures(self, strategies: Mapping[Cell, Strategy], curve: Mapping[Cell, Strategy]) -> TestFigures:
        """The objective on test texts, which nothing depends on: of fixed cells, strategies and the learning curve."""
        evaluate = self.config.evaluate
        lists = load_lists(self.tables, True, evaluate.relevant_from, self.evaluation.metrics)
        fixed = [cell for cell in self.config.grid.grid(lists.layout.retrievers).cells if _is_plain(cell)]
        evaluation = replace(self.evaluation, cells=tuple(fixed), strategies={**strategies, **curve})
        parting = self.validation.test_parting
        tallies = count_cells(lists, evaluation, parting, self.train_texts)
        values = {}
        for fold, tally in tallies.items():
            for v, view in enumerate(evaluation.views):
                found = self.config.tune.goal.values(tally, v)
                values[fold, view] = {cell: float(found[c]) for cell, c in evaluation.grid.column_of.items()}
        return TestFigures(values, fixed)

    def _texts(self, tried: Tried) -> dict[tuple[int, str], int]:
        """Validation texts that count, by fold and view."""
        served = self.validation.served
        if not tried.passes:
            every = {fold: sum(len(self.validation.places[base]) for base in bases) for fold, bases in served.items()}
            return {(fold, view): texts for fold, texts in every.items() for view in self.evaluation.views}
        return {
            (fold, view): tried.texts(Texts(bases), view)
            for fold, bases in served.items()
            for view in self.evaluation.views
        }

    def _held_out(self, choices: Sequence[Choice]) -> dict[str, dict[Cell, HeldOut]]:
        """By set of views, how each strategy does on texts that had no part in its choice."""
        overall = [choice for choice in choices if choice.fold == ANY_FOLD and choice.halves]
        if not overall:
            return {}
        lists = self.validation.collected(tuple(self.validation.places), self.config.tune.texts).collect()
        return held_out(
            lists=lists,
            evaluation=self.evaluation,
            parting=self.validation.parting.halves,
            train_texts=self.train_texts,
            objective=self.config.tune.goal,
            together=self.together,
            choices=overall,
        )

    def _deployed(self, choices: Sequence[Choice], held: Mapping[str, Mapping[Cell, HeldOut]]) -> dict[str, Choice]:
        """By view, the choice over all folds of the strategy that is asked for, or of the best on held-out texts."""
        wanted = self.config.tune.deployed
        deployed = {}
        for name, views in self.together.items():
            mine = [c for c in choices if c.fold == ANY_FOLD and c.name == name and wanted in (None, c.strategy)]
            deployed.update(dict.fromkeys(views, best_choice(mine, held.get(name, {}))))
        return deployed

    def _model(
        self,
        choices: Sequence[Choice],
        deployed: Mapping[str, Choice],
        held: Mapping[str, Mapping[Cell, HeldOut]],
    ) -> str:
        grid = self.config.grid
        models: dict[str, tuple[Cell, Model]] = {
            view: (choice.strategy, choice.model) for view, choice in deployed.items()
        }
        evidence: dict[str, list[dict[str, Any]]] = {view: [] for view in deployed}
        for choice in choices:
            if choice.fold == ANY_FOLD:
                for view in self.together[choice.name]:
                    described = {"strategy": str(choice.strategy), "choice": str(choice.model)}
                    of_choice = held.get(choice.name, {}).get(choice.strategy)
                    lost = None if of_choice is None or of_choice.lost is None else list(of_choice.lost)
                    evidence[view].append(
                        {
                            **described,
                            "validation": choice.value,
                            "held_out": choice.held_out,
                            "bands_lost": lost,
                        }
                    )
        about = {
            "dataset": self.config.dataset,
            "objective": str(self.config.tune.goal),
            "validation": self.validation.words,
            "validation_texts": sum(map(len, self.validation.places.values())),
            "folds": len(self.validation.serving),
            "retrievers": list(self.evaluation.layout.retrievers),
            "scope": grid.scope,
            "missing_labels": grid.missing_labels,
            "constant_lists": grid.constant_lists,
            "tied_labels": grid.tied_labels,
        }
        return model_json(models, evidence, about)


def _check_folds(tables: InputTables[Any], validation: Validation) -> None:
    """Refuse test texts of folds in which nothing can be chosen."""
    missing = sorted(tested_folds(tables) - set(validation.serving))
    if missing and validation.kind == "roles":
        source = source_name(tables.sources.folds, "folds")
        raise InputError(
            f"{source}: no judged validation text in fold {', '.join(map(str, missing))}; with few texts, set "
            "prepare.validation_share higher (0.3) and prepare.folds lower (3)"
        )


def _best(found: Learned) -> float | None:
    return None if found.held_out is None else found.held_out[found.option]


def _is_plain(cell: Cell) -> bool:
    return not FUSIONS[cell.fusion].parameters.trained


def _train_texts(tables: InputTables[Any], config: Config, validation: Validation) -> TrainTexts | None:
    """How frequent labels are among training texts. In cross-fitting over folds, the training texts of the others hold
    the test texts of each, so that their labels must not be counted."""
    found = training_texts(tables, config.evaluate.relevant_from)
    known = found is not None and (validation.kind == "roles" or found.folds[0] == ANY_FOLD)
    if not known:
        log("learned fusions do not know how frequent labels are: no training texts are told apart")
    return found if known else None
