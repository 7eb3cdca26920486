"""Settings of job `nightly`, its gate and its alerts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from fusion.cells import Cell
from fusion.errors import ConfigError, unknown_name
from fusion.labels import ALL
from fusion.metrics import Metric, label_metrics, parse_metrics
from fusion.models.strategies import STRATEGIES
from jobs.settings.base import File, Folder, NameList, Secret, Section, checked_name, parse_cell, split_names


def _one_address(urls: object) -> object:
    """A single address stands for a list of one; it may hold commas, so it is not split."""
    return [urls] if isinstance(urls, str) else urls


def _named(name: object) -> object:
    """YAML takes 2026-03-02 for a date, and 7 for a number."""
    return name if name is None or isinstance(name, bool) else checked_name(str(name))


NightName = Annotated[str, BeforeValidator(_named)]


class AlertSettings(Section):
    """Who is told about a night. Addresses are secrets: env:NAME reads one from the environment."""

    when: Literal["alarm", "always"] = "alarm"
    """alarm: only if there is an alarm; always: every night."""
    webhook: Secret | None = None
    """An address (https) that gets the summary as JSON."""
    apprise: Annotated[list[Secret], BeforeValidator(_one_address)] = Field(default_factory=list)
    """Addresses of apprise, such as mailtos://, slack:// or workflows:// (Teams); needs the extra [alerts]."""
    junit: File | None = None
    """A file of JUnit XML for CI systems, written every night."""


STRATEGY_NAMES = {str(cell): cell for cell in STRATEGIES}
TEXTS, LABELS, PAIRS, UNLABELLED = "texts", "labels", "pairs", "texts_without_labels"
GONE, NEW = "gone_texts", "new_texts"
LISTS, EMPTY, AGE = "lists", "empty_rows", "age"
QUANTITIES = (TEXTS, LABELS, PAIRS, UNLABELLED, GONE, NEW, LISTS, EMPTY, AGE)
"""What is counted about the data of a night."""
PER_INPUT = (LISTS, EMPTY, AGE)
"""What is counted about every input, as in `lists:bm25`."""


class WatchSettings(Section):
    """The figures that must not fall."""

    cells: NameList = Field(["zmuv+combmnz"], min_length=1)
    """Cells of the grid, or strategies that choose again every night: tuned+cell, tuned+weights, learned+logistic and
    so on. If tonight's data would choose a different cell from the baseline's, the night says so, without an alarm."""
    retrievers: bool = True
    """Whether single retrievers are watched as well: a fusion hides much of what one of them loses."""
    metrics: NameList = Field(["ndcg@10", "precision@1"], min_length=1)
    """Metrics that have a figure per text; `xmtc-fusion nightly --help` lists them."""
    label_groups: Literal["auto"] | Annotated[NameList, Field(min_length=1)] = "auto"
    """auto: every label group, or all labels where there are none. Or a list, such as [tail, all]."""

    def groups(self, known: set[str]) -> list[str]:
        """The label groups to watch of those that there are; all labels together if it is none of them."""
        wanted = known - {ALL} if self.label_groups == "auto" else known & set(self.label_groups)
        return sorted(wanted) or [ALL]

    def unknown_groups(self, known: Iterable[str]) -> list[str]:
        """The label groups to watch that there are not."""
        return [] if self.label_groups == "auto" else sorted(set(self.label_groups) - set(known))

    @property
    def watched(self) -> list[Cell]:
        return [*map(parse_cell, self.fixed), *self.strategies]

    @property
    def fixed(self) -> list[str]:
        """The cells that are the same every night."""
        return [name for name in self.cells if name not in STRATEGY_NAMES]

    @property
    def strategies(self) -> list[Cell]:
        """What is chosen or learned anew every night, such as `tuned+cell`."""
        return [STRATEGY_NAMES[name] for name in self.cells if name in STRATEGY_NAMES]

    @property
    def parsed_metrics(self) -> list[Metric]:
        metrics = parse_metrics(self.metrics)
        if per_label := label_metrics(metrics):
            raise ConfigError(f"{per_label[0]} is a mean over labels: without a figure per text it cannot be watched")
        return metrics


class DriftSettings(Section):
    """Changes of the data above which there is an alarm; null: not checked."""

    labels: float | None = Field(0.1, ge=0, le=1)
    """Total variation distance of the label frequencies."""
    overlap: float | None = Field(0.05, ge=0, le=1)
    """Change of the overlap of two retrievers' candidates."""
    empty_lists: float | None = Field(0.02, ge=0, le=1)
    """Change of the share of texts that a retriever returned nothing for."""
    assigned: float | None = Field(0.2, ge=0, le=1)
    """Change of the labels assigned to new texts (nightly.predict): the mean number of labels, by its ratio; the share
    of texts without a label, and of each label group, by their difference."""


class NewTextsSettings(Section):
    """New texts that a night labels with the model in use, if it finds nothing wrong. The labels are in the table
    `predictions` of the history."""

    model: Folder | None = None
    """The folder of a model written by `fit`."""
    texts: File | None = None
    """The texts, as for `predict`: JSON lines, Parquet, or a catalog table (table:NAME)."""
    registered: str | None = None
    """The registered model in MLflow (nightly.mlflow); after a night without an alarm, the model becomes a version of
    it."""

    @model_validator(mode="after")
    def _whole(self) -> NewTextsSettings:
        if self.texts is not None and self.model is None:
            raise ValueError("texts are labelled with a model; set nightly.predict.model as well")
        return self


class CheckSettings(Section):
    """What the data must be like before they are evaluated; null: not checked."""

    texts: float | None = Field(0.1, ge=0)
    """The share by which the number of judged texts may differ from the baseline's."""
    labels: float | None = Field(0.2, ge=0)
    """The same for the number of labels."""
    pairs: float | None = Field(0.2, ge=0)
    """The same for pairs of text and label."""
    lists: float | None = Field(0.1, ge=0)
    """The same for texts that a retriever has candidates for."""
    gone_texts: float | None = Field(0.2, ge=0, le=1)
    """The share of the baseline's texts that may be gone."""
    new_texts: float | None = Field(0.5, ge=0, le=1)
    """The share of tonight's texts that may be new."""
    nulls: float | None = Field(0.01, ge=0, le=1)
    """How much larger the share of texts without a label, or of rows without a candidate or score, may be."""
    oldest: float | None = Field(None, gt=0)
    """The largest age of an input, in hours."""
    bounds: dict[str, tuple[float | None, float | None]] = Field(default_factory=dict)
    """Smallest and largest values, by quantity: {texts: [1000, null], "lists:bm25": [900, null]}."""

    def check_bounds(self, inputs: Sequence[str] | None = None) -> None:
        """Refuse bounds of what is never counted. `inputs` names the runs and the judgements, where that is known."""
        for name in self.bounds:
            kind, colon, of_input = name.partition(":")
            known = [*QUANTITIES, *(f"{kind}:{one}" for kind in PER_INPUT for one in inputs or ())]
            open_name = inputs is None and kind in PER_INPUT and colon and of_input
            if name not in known and not open_name:
                raise unknown_name("quantity", name, known)
        for name, (least, most) in self.bounds.items():
            if least is not None and most is not None and least > most:
                raise ConfigError(
                    f"{name}: nothing is at least {least:g} and at most {most:g}; the smaller one is first"
                )


class CostSettings(Section):
    """How much more a dataset may take than in the baseline, as a factor; null: not checked."""

    seconds: float | None = Field(None, gt=0)
    """How many times the baseline's seconds a dataset may take."""
    memory: float | None = Field(None, gt=0)
    """How many times the baseline's peak memory a dataset may take."""


class NightlySettings(Section):
    """What is evaluated every night, and when there is an alarm."""

    datasets: Annotated[list[File], BeforeValidator(split_names)] = Field(default_factory=list)
    """Configuration files, one per dataset, each applied over this one. What has not changed since the last night is
    not done again."""
    run_id: NightName | None = None
    """The name of the night; by default the date (UTC). The same name again is a further attempt of the same night."""
    history: Folder | None = None
    """Where the history of nights is kept; by default <work.path>/history. A folder or an address in an object store
    (Delta tables; needs the extra [nightly]), or table:catalog.schema.prefix."""
    baseline: NightName | None = None
    """The night to compare tonight with; by default the last one without an alarm."""
    watch: WatchSettings = WatchSettings()
    tolerance: float = Field(0.5, ge=0, le=100)
    """How far a figure may fall, in points (of percent)."""
    alpha: float = Field(0.01, gt=0, lt=1)
    """The chance of any false alarm in a night. A dataset's file may have a tolerance and an alpha of its own."""
    checks: CheckSettings = CheckSettings()
    drift: DriftSettings = DriftSettings()
    cost: CostSettings = CostSettings()
    predict: NewTextsSettings = NewTextsSettings()
    keep: int = Field(0, ge=0)
    """Nights that are kept; 0: all. The baseline is never removed."""
    wait: float = Field(0, ge=0)
    """Seconds to wait for another night that is running; 0: refuse at once."""
    lease: float = Field(300, gt=0)
    """Seconds without a sign of life after which a night on another machine counts as dead."""
    break_lock: NightName | None = None
    """The name of a night that you know to be dead, whose lease is to be taken over."""
    alerts: AlertSettings = AlertSettings()
    mlflow: Secret | None = None
    """An MLflow tracking address (needs the extra [mlflow]); also a secret."""
