"""Settings of `explain`, `report`, `tune`, the log and object stores."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from fusion.cells import Cell
from fusion.errors import ConfigError, unknown_name
from fusion.labels import ALL
from fusion.models.strategies import NEEDS, ON_REQUEST, STRATEGIES
from fusion.tuning.assignment import Aim, parse_aim
from fusion.tuning.search import Objective, parse_objective
from jobs.settings.base import File, Folder, NameList, Secret, Section, parse_cell, split_names

Test = Literal["folds", "queries", "randomization"]


def _two_folders(folders: object) -> object:
    names = split_names(folders)
    if isinstance(names, list | tuple) and len(names) != 2:
        raise ValueError(f"expected two folders of results, not {len(names)}")
    return names


AUTO = "auto"


class ExplainSettings(Section):
    """Which text is explained, and by which cell."""

    text: str | None = None
    """The id of the text to explain."""
    cell: str = "zmuv+combmnz"
    """The cell (a normalisation with a fusion) to explain."""
    model: str | None = None
    """A model file written by `tune`, to explain instead of a cell."""
    label_group: str = ALL
    """The labels that are ranked: a label group, such as tail or head, or all."""
    rows: int = Field(20, ge=1)
    """The number of candidates to show in the terminal."""

    @property
    def chosen(self) -> Cell:
        return parse_cell(self.cell)


class FitSettings(Section):
    """How a model that labels new texts is fitted."""

    objective: str = "f1"
    """What the threshold and the number of labels per text are chosen for, on validation texts: f1, precision=P or
    recall=R."""

    @property
    def aim(self) -> Aim:
        return parse_aim(self.objective)


class PredictSettings(Section):
    """Which texts a model labels, and how many labels they get."""

    model: Folder | None = None
    """The folder of a model written by `fit`."""
    texts: File | None = None
    """The texts: JSON lines ({"text_id": 1, "text": "..."}), CSV, TSV, Parquet, or a catalog table (table:NAME) with
    these columns."""
    format: Literal["auto", "jsonl", "csv", "trec", "parquet"] = "auto"
    """The format of the predictions: jsonl, one line per text; csv, trec and parquet, one row per text and label; auto,
    jsonl in a folder, and the rows of parquet in a catalog table."""
    top: int | None = Field(None, ge=1)
    """The largest number of labels per text. Without top and threshold, those that the model chose on validation texts
    apply."""
    threshold: float | None = Field(None, ge=0, le=1)
    """The smallest probability of a label that is assigned."""


class LogSettings(Section):
    """What jobs log."""

    format: Literal["text", "keyvalue"] = "text"
    """The format of the log in the terminal (standard error): text, sentences; keyvalue, key=value pairs, one line per
    stage."""
    file: File | None = None
    """A file to which one key=value line is appended per finished stage."""


class ReportSettings(Section):
    """What `report` reads and how it decides."""

    results: Annotated[list[Folder], BeforeValidator(split_names)] | None = None
    """Folders written by `evaluate`, `tune` or `run`, of one dataset or several; by default the results in the work
    folder."""
    compare: Annotated[tuple[Folder, Folder], BeforeValidator(_two_folders)] | None = None
    """Two folders of results to compare instead, such as [yesterday/results, today/results]: what rose and what fell,
    tested over the texts that both have."""
    title: str = "Rank fusion"
    """The title of the page."""
    test: Test = "folds"
    """The test that decides which cells tie with the best one and are bold: folds, queries or randomization. folds: the
    paper's paired t-test over the folds' means; queries: paired t-test over all texts, Holm-corrected; randomization:
    random signs over all texts, likewise."""
    alpha: float = Field(0.05, gt=0, lt=1)
    """The level of the tests."""
    figures: bool = False
    """Whether charts are also written as files for papers; needs the extra [report]."""


class StorageSettings(Section):
    """How to reach object stores, if the environment (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL and so on) or Spark's
    settings do not say it; see docs/storage.md. Credentials given here are never written to results, logs or
    fingerprints."""

    endpoint: str | None = None
    """An address such as http://127.0.0.1:9000, for stores that speak S3 and are not Amazon's."""
    region: str | None = None
    """The region of S3."""
    access_key: Secret | None = None
    """The access key of S3."""
    secret_key: Secret | None = None
    """The secret key of S3."""
    session_token: Secret | None = None
    """The session token of S3, where credentials are temporary."""
    azure_account_key: Secret | None = None
    """The key of the Azure account."""
    azure_sas_token: Secret | None = None
    """A shared access signature of Azure."""
    gcs_endpoint: str | None = None
    """An address for stores that speak Google's protocol and are not Google's."""
    attempts: int = Field(6, ge=1, le=20)
    """How often an operation that fails temporarily (a time-out, a store that asks to slow down) is tried."""


class TuneSettings(Section):
    """What is chosen and learned on the validation texts of each fold and applied to its test texts."""

    strategies: Literal["auto"] | NameList = "auto"
    """The strategies to try: auto (all that can be learned, without platt, isotonic and logodds), or names, such as
    tuned+cell,learned+logistic. tuned+cell: one of the grid's cells; tuned+weights: a weighted fusion with the weights
    of the retrievers; tuned+parameters: a fusion or normalisation with parameters (k of rrf, temperature of softmax,
    ...); learned+logistic: logistic regression over features of candidates; learned+lambdamart: boosted trees (needs
    the extra [learned]); learned+bands: safe for labels of every frequency (needs training texts); learned+platt,
    learned+isotonic, learned+logodds: scores as probabilities (the last one needs training texts)."""
    objective: str = "ndcg@10"
    """What choices maximise: a metric, or a weighted sum of several, such as 0.5*ndcg@10+0.5*precision@1."""
    shared: bool = False
    """Whether all label groups share one choice."""
    settings: int = Field(500, ge=1)
    """Cells that one pass over the candidates tries, at most."""
    passes: int = Field(2, ge=1, le=10)
    """Passes over the candidates; each searches around the best cells of the one before, at half the distance."""
    texts: int = Field(10_000, ge=2)
    """Validation texts per fold that fusions learn from, at most, chosen by a hash of their ids."""
    parts: int = Field(5, ge=2, le=100)
    """Without validation texts, the parts into which texts are divided by a hash of their ids. The choice for each part
    is made on the others."""
    l2: list[float] = Field([0.1, 1.0, 10.0, 100.0], min_length=1)
    """Strengths of the L2 penalty of logistic regression, of which the best one is found on held-out validation
    texts."""
    trees: list[tuple[int, int]] = Field([(7, 100), (15, 50)], min_length=1)
    """Sizes of the boosted trees, likewise: [leaves of a tree, number of trees]."""
    curve: list[int] = Field([50, 100, 200, 500, 1000, 2000, 5000])
    """Numbers of validation texts for which the learning curve is drawn; [] for none."""
    deploy: str = AUTO
    """The strategy in the model file: one of the above, or auto. auto: of those that are not significantly different
    from the best one, the best that loses to a single retriever in no band of label frequency, if there is one; all on
    held-out validation texts."""
    seed: int = Field(0, ge=0)
    """The seed of everything that is drawn at random."""

    @property
    def goal(self) -> Objective:
        return parse_objective(self.objective)

    @property
    def chosen(self) -> list[Cell]:
        """The strategies by their names; `auto` stands for the usual ones whose packages are installed."""
        if self.strategies == AUTO:
            usual = [cell for cell in STRATEGIES if cell not in ON_REQUEST]
            return [cell for cell in usual if cell not in NEEDS or find_spec(NEEDS[cell])]
        return [_strategy(name) for name in dict.fromkeys(self.strategies)]

    @property
    def deployed(self) -> Cell | None:
        """The strategy that the model file holds; None: the best one."""
        if self.deploy == AUTO:
            return None
        if (wanted := _strategy(self.deploy)) not in self.chosen:
            tried = ", ".join(map(str, self.chosen))
            raise ConfigError(
                f"{wanted} is not among the strategies that are tried, {tried}; add it to tune.strategies"
            )
        return wanted


def _strategy(name: str) -> Cell:
    known = {str(cell): cell for cell in STRATEGIES}
    if name not in known:
        raise unknown_name("strategy", name, known)
    return known[name]
