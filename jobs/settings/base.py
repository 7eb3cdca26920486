"""The sections of the configuration that most jobs share, secrets, and names that become parts of paths."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    ValidationInfo,
    field_serializer,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from fusion.cells import Cell
from fusion.errors import ConfigError
from fusion.grid.grid import Grid, all_subsets, cross, parse_cells
from fusion.kernel.candidates import Constant, Missing, Policies, Tied
from fusion.labels import PROPENSITY_MODELS
from fusion.metrics import Metric, parse_metrics
from fusion.models.strategies import Strategy
from fusion.names import split
from fusion.worth import GradeGain, Rules, Ties

Names = str | list[str]
TABLE = "table:"
"""What the name of a catalog table has before it."""
SECRET_NAME = re.compile(r"secret|password|token|access[._-]?key|account[._-]?key|credential", re.IGNORECASE)
"""Names of Spark's settings whose values are secret."""


def split_names(names: object) -> object:
    """Names separated by commas stand for a list of them."""
    return [name.strip() for name in split(names, ",") if name.strip()] if isinstance(names, str) else names


NameList = Annotated[list[str], BeforeValidator(split_names)]


class Place(NamedTuple):
    """Marks a setting as a place: in a configuration file, a relative one starts at the file."""

    metavar: str
    word: bool = False
    """Whether the value may be something else, such as a name; it is a place if there is something, or if it has a
    slash."""


Folder = Annotated[str, Place("FOLDER")]
File = Annotated[str, Place("FILE")]
Source = Annotated[str, Place("SOURCE", word=True)]
"""A Parquet path, a catalog table or a TREC file."""
Model = Annotated[str, Place("MODEL", word=True)]
"""A model's folder, its name on the hub, or that of one in a package."""


class Section(BaseModel):
    """Settings, each with a type, a default and a docstring; files, reference and options are made of these."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_value(cls, value: Any, info: ValidationInfo) -> Any:
        """Python takes true for 1. Nobody who writes `tolerance: true` means one point."""
        field = cls.model_fields.get(info.field_name or "")
        if field is not None and _has_truth_value(value) and not _takes_truth_value(field.annotation):
            raise ValueError("true and false are not numbers or names")
        return value


def _has_truth_value(value: Any) -> bool:
    inner = value.values() if isinstance(value, dict) else value
    return isinstance(value, bool) or (isinstance(value, list | tuple | dict) and any(map(_has_truth_value, inner)))


def _takes_truth_value(annotation: Any) -> bool:
    """Whether true may be a value of this type, or somewhere in it."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return any(isinstance(value, bool) for value in inner)
    if origin is Annotated:
        return _takes_truth_value(inner[0])
    return any(map(_takes_truth_value, inner)) if inner else annotation not in (int, float, str, NoneType)


class RetrieverSettings(Section):
    """What every retriever has."""

    top: int = Field(64, ge=1)
    """The length of the lists, per label group."""

    @property
    def reads(self) -> str:
        """How much of a text is read."""
        return "all words"


class Inputs(Section):
    """What is fused and evaluated. Job `run` fills this section in from the stages before.

    A source is a Parquet path, a catalog table (table:catalog.schema.name, or just the dotted name) or a TREC run file
    (.trec, .run, .txt, also .gz; or trec:path). Tables hold one row per list (text_id, label_ids, scores) or one row
    per candidate (text_id, label_id, score); the columns fold, role (of which `test` counts; a row without one is that
    of a test text) and label_group are optional.
    """

    candidates: Source | dict[str, Source] | None = None
    """The ranked lists: one table with a column `retriever`, or one source per retriever, as in
    {bm25: runs/bm25.parquet, dense: runs/dense.trec.gz}."""
    judgements: Source | None = None
    """The relevant labels of each text: a table (text_id with label_ids, or with label_id), or a TREC qrels file.
    Labels may have grades: a column `grades` with label_ids, `grade` with label_id, or those of the qrels file. With a
    column `words` next to label_ids, the number of words of the text, the report looks at short and long texts
    separately."""
    label_groups: Source = "auto"
    """Which labels are head and which are tail: a table (label_id, label_group), pareto, none or auto. pareto: the most
    frequent share of the judged labels is head (head_share); auto: pareto if the candidates have label groups, none
    otherwise."""
    head_share: float = Field(0.2, gt=0, lt=1)
    """The share of labels that are head, with pareto."""
    folds: Source | None = None
    """The folds of the texts: a table (fold, text_id, and optionally role; only `test` is evaluated). Without one, all
    texts are one fold."""
    training: Source | None = None
    """The labels of the training texts, in the same forms as the judgements, with a column `fold` if folds have
    different training texts. Without it, those of texts with role `train` in the folds are taken from the judgements.
    Read by metrics with propensities (psp, psndcg) and by learned fusions that use label frequencies."""
    higher_is_better: dict[str, bool] = Field(default_factory=dict)
    """Retrievers whose scores are distances, where lower is better: {dense: false}. Their scores are negated."""

    @property
    def distances(self) -> frozenset[str]:
        """The retrievers of whose scores the lowest is the best."""
        return frozenset(name for name, higher in self.higher_is_better.items() if not higher)


class GridSettings(Section):
    """Which cells (a normalisation with a fusion) are computed, and how."""

    normalizations: NameList = Field(["all"])
    """Normalisations: all (the paper's six), everything, or names, such as zmuv,min-max. `xmtc-fusion evaluate --help`
    lists them, docs/algorithms.md explains them. Several values of a parameter, in brackets, give several
    normalisations: softmax(temperature=[1,2])."""
    fusions: NameList = Field(["all"])
    """Fusions: all (the paper's ten), everything (all that need no training), or names, such as isr,'rrf(k=[10,60])'.
    Weights per retriever are written wsum(bm25=0.3,dense=0.7); a retriever that is not named has weight 1. Trained
    fusions need texts to learn from (see train_share)."""
    cells: list[str] | None = None
    """Single cells instead of all combinations: zmuv+combmnz,'bm25+dense: rrf(k=10)'. A fusion that reads only ranks
    needs no normalisation, and a cell may fuse only some of the retrievers."""
    subsets: Literal["all"] | None = None
    """all: every cell also over every subset of two or more retrievers, in the same pass. A table then says what each
    retriever adds to the others (additions)."""
    missing_labels: Missing = "skip"
    """The score of a label that is missing from a list. skip: none; zero: 0; minimum: the list's lowest normalised
    score. Normalisations with their own rule (borda) keep it."""
    constant_lists: Constant = "formula"
    """The scores of a list whose scores are all equal, under min-max, sum, zmuv and dbsf. formula: what the formula
    gives, with a denominator of 1e-9; zero, half, one: that number."""
    tied_labels: Tied = "by_id"
    """The ranks of labels with equal scores in a list, for fusions that read ranks. by_id: consecutive, by label id;
    mean_rank: all get the mean of their ranks."""
    train_share: float = Field(0.0, ge=0, lt=1)
    """The share of texts that trained fusions learn from and that are not evaluated, chosen by a hash of their ids. 0:
    in each fold, the texts with the role validation in inputs.folds."""
    scope: Literal["group", "joint"] = "group"
    """group: fuse within each label group; joint: fuse all candidates of a text, then look at each group."""
    engine: Literal["auto", "local", "arrays", "windows"] = "auto"
    """Where to compute: auto, local (in this process), arrays or windows (both on Spark). All give the same bytes. The
    engine arrays is fast at any size; windows normalises with SQL window functions, for inspection and cross-checks.
    With auto it is local for data in memory and for files on this machine up to local_limit; arrays for everything
    else, and whenever a session is given."""
    local_limit: int = Field(100, ge=0)
    """Megabytes of files up to which auto is local."""

    @field_validator("cells", mode="before")
    @classmethod
    def _cells(cls, cells: object) -> object:
        """YAML takes `bm25+dense: zmuv+combmnz` for a mapping."""
        if isinstance(cells, str):
            return split(cells, ",")
        if not isinstance(cells, list):
            return cells
        listed = ([f"{key}: {it}" for key, it in cell.items()] if isinstance(cell, dict) else [cell] for cell in cells)
        return [name for names in listed for name in names]

    @property
    def policies(self) -> Policies:
        return Policies(self.missing_labels, self.constant_lists, self.tied_labels)

    @property
    def chosen(self) -> list[Cell]:
        """The cells as they are named, whatever the retrievers."""
        if self.cells is None:
            return cross(self.normalizations, self.fusions)
        return [cell for name in self.cells for cell in parse_cells(name)]

    def grid(self, retrievers: Sequence[str], strategies: Mapping[Cell, Strategy] | None = None) -> Grid:
        """The grid over the lists of some retrievers, with what was tuned and learned."""
        cells = all_subsets(self.chosen, retrievers) if self.subsets == "all" else self.chosen
        return Grid(cells, retrievers, self.policies, strategies=strategies)


class EvaluateSettings(Section):
    """What `evaluate` reports."""

    metrics: NameList = Field([f"{name}@{k}" for name in ("ndcg", "precision") for k in (1, 5, 10)])
    """Metrics, with cut-offs from 1 to 1,000 where they have one: ndcg@10,map,recall@100. `xmtc-fusion evaluate --help`
    lists them, docs/metrics.md explains them."""
    label_groups: Literal["auto"] | NameList = "auto"
    """auto: every label group, and all labels together. Or a list, such as [tail, all]."""
    compat: Literal["trec_eval", "ranx"] | None = None
    """Order equal scores, and round scores, as this tool does."""
    relevant_from: float = Field(1, gt=0)
    """Labels of this grade or above are relevant."""
    gain: GradeGain = "linear"
    """What a grade counts in nDCG: linear, the grade itself; exponential, 2^grade - 1."""
    ties: Literal["auto", "ascending", "descending", "expected"] = "auto"
    """How labels with equal scores are ranked; auto: ascending, or what compat sets. ascending: by label id;
    descending: as in trec_eval, by the characters of the id, last first, scores in single precision; expected: in no
    fixed order, the figure is the mean over all orders."""
    propensity: Literal["standard", "wikipedia", "amazon"] | tuple[float, float] = "standard"
    """The propensity model of psp and psndcg: standard (A 0.55, B 1.5), wikipedia (0.5, 0.4), amazon (0.6, 2.6) or
    [A, B]."""
    label_cells: Literal["auto"] | NameList = "auto"
    """Cells with figures per label (coverage, macro-...), next to every single retriever; at most 8. auto: zmuv+combmnz
    if that is evaluated, or else the first cell."""
    per_query: bool = False
    """Whether the figures of every text are written as well (query_metrics.parquet)."""
    details: bool = True
    """Whether cells are also compared text by text, which the report needs. The overlap of the retrievers, and how well
    labels of each frequency are found, are counted too."""
    examples: int = Field(5, ge=0, le=100)
    """Example texts per label group: those most helped and most hurt by the recommended fusion, with their lists (only
    with details). 0: none."""
    randomizations: int = Field(100_000, ge=0, le=1_000_000)
    """Sign vectors of the randomisation test, rounded up to a multiple of `blocks`. Its p cannot fall below
    1 / (1 + randomizations), and Holm's correction over 40 cells multiplies that by 40. 0: no such test."""
    blocks: int = Field(1024, ge=2, le=65_536)
    """Sign blocks that texts are hashed into by id, each of which has one sign in a sign vector."""
    seed: int = Field(0, ge=0)
    """The seed of the randomisation test."""

    @model_validator(mode="after")
    def _fits(self) -> EvaluateSettings:
        if self.compat is not None and self.ties != "auto":
            raise ValueError(f"compat: {self.compat} says how ties are ordered; leave ties at auto")
        if isinstance(self.propensity, tuple) and min(self.propensity) <= 0:
            raise ValueError("propensity: A and B must be above 0")
        return self

    @property
    def parsed_metrics(self) -> list[Metric]:
        if not self.metrics:
            raise ConfigError("name at least one metric, as in ndcg@10")
        return parse_metrics(self.metrics)

    @property
    def rules(self) -> Rules:
        """How judgements and equal scores are read."""
        of_tool: dict[str | None, Ties] = {"trec_eval": "descending", "ranx": "ranx"}
        ties: Ties = "ascending" if self.ties == "auto" else self.ties
        return Rules(self.relevant_from, self.gain, of_tool.get(self.compat, ties))

    @property
    def propensity_constants(self) -> tuple[float, float]:
        """A and B of the propensity model."""
        return PROPENSITY_MODELS[self.propensity] if isinstance(self.propensity, str) else self.propensity


class FuseSettings(Section):
    """What `fuse` writes."""

    model: File | None = None
    """A model file written by `tune`, whose fusion is applied instead of the grid's cells."""
    format: Literal["parquet", "trec", "jsonl", "ranx"] = "parquet"
    """The format of the fused lists. parquet: one table, with a folder per cell; trec, jsonl, ranx: one file per cell.
    trec: run files; jsonl: one object per list; ranx: JSON as ranx saves it. All of them can be read again as runs."""
    top: int = Field(64, ge=1)
    """The length of the fused lists."""
    label_groups: Literal["auto"] | NameList = "auto"
    """auto: every label group and all labels together; for trec and ranx, which hold one list per text, all labels."""


class OutputSettings(Section):
    """Where the results go."""

    path: Folder | None = None
    """The folder for the results. It is written completely or not at all. Without one, results are only printed. For
    predict, it may also be a catalog table (table:catalog.schema.name)."""
    mode: Literal["error", "overwrite"] = "error"
    """If the output exists: error, refuse; overwrite, replace it."""

    @property
    def table(self) -> str | None:
        """The name of the catalog table that the results are to be; None for a folder."""
        path = self.path or ""
        return path.removeprefix(TABLE) if path.startswith(TABLE) else None


class SparkSettings(Section):
    """The Spark session. Used only where no session exists."""

    master: str | None = None
    """The Spark master; by default that of spark-submit, or this machine's cores."""
    remote: str | None = None
    """A Spark Connect address, such as sc://host:15002."""
    partitions: int | None = Field(None, ge=1)
    """The number of partitions; by default that of spark.sql.shuffle.partitions."""
    quick_java: bool = False
    """For short jobs on one machine: Java compiles quickly rather than well, and collects garbage in one thread. The
    demo up to BM25's candidates then takes 40% less processor time. It was not tried with large data."""
    conf: dict[str, str | int | float | bool] = Field(default_factory=dict, repr=False)
    """Settings of Spark itself, by name."""

    @field_serializer("conf", when_used="json")
    def _without_secrets(self, conf: dict[str, str | int | float | bool]) -> dict[str, str | int | float | bool]:
        """Written configurations hold no credentials."""
        return {key: value for key, value in conf.items() if not SECRET_NAME.search(key)}


def parse_cell(name: str) -> Cell:
    """One cell, such as `zmuv+combmnz`."""
    cells = parse_cells(name)
    if len(cells) > 1:
        raise ConfigError(f"cell {name!r} stands for {len(cells)} cells where one is expected")
    return cells[0]


HIDDEN = "**********"
REFERENCE = "env:"


class Secret:
    """A setting that is printed as stars, or as the reference to the environment that it is (`env:NAME`)."""

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The secret itself; the environment is asked only now."""
        if self._value == HIDDEN:
            raise ConfigError("a secret was written out as stars: give it again, or as env:NAME")
        if not self._value.startswith(REFERENCE):
            return self._value
        name = self._value.removeprefix(REFERENCE)
        if not os.environ.get(name):
            raise ConfigError(f"a setting refers to {self._value}, but the environment has no {name}")
        return os.environ[name]

    def __str__(self) -> str:
        return self._value if self._value.startswith(REFERENCE) else HIDDEN

    def __repr__(self) -> str:
        return f"Secret({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def read(value: Any) -> Secret:
            return value if isinstance(value, Secret) else cls(value)

        text = core_schema.union_schema([core_schema.is_instance_schema(cls), core_schema.str_schema(min_length=1)])
        # JSON is for files and people. Python's own form keeps the secret, for the next layer of settings.
        written = core_schema.plain_serializer_function_ser_schema(str, when_used="json")
        return core_schema.no_info_after_validator_function(read, text, serialization=written)


LONGEST = 100
SIGNS = " ._+-"


def checked_name(name: str) -> str:
    """A name that is safe as a folder's: letters and digits of any script, and a few signs within. The same name may
    be written in several ways in Unicode; here it always comes out in one."""
    name = unicodedata.normalize("NFC", name)
    if not name or len(name.encode()) > LONGEST:
        raise ValueError(f"it becomes part of a path: 1 to {LONGEST} bytes")
    if not all(sign.isalnum() or sign in SIGNS for sign in name):
        raise ValueError("letters, digits, space, '.', '_', '+' and '-' only: it becomes part of a path")
    if not name[0].isalnum() or name[-1] in " .":
        raise ValueError("it becomes part of a path: it should begin with a letter or digit, and not end with a dot")
    return name


RESERVED = ("nightly", "history")
"""Folders that all datasets of a work folder share."""


def checked_dataset(name: str) -> str:
    """The name of a dataset, which has a folder in the work folder."""
    name = checked_name(name)
    if name.lower() in RESERVED:
        raise ValueError(f"a dataset cannot be called {name!r}: the work folder has a folder of that name")
    return name
