"""The inputs that a user names: what they are, and what they may look like."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from fusion.errors import ConfigError, InputError
from fusion.labels import ALL
from jobs.settings.base import Inputs
from udfs.run_tables import id_array, list_array, run_table
from udfs.stores.addresses import has_scheme, locate
from udfs.stores.clients import file_system, retried
from udfs.text_files import GZIP, LOOKED_AT, NO_TEXT, PARQUET, other_encoding, wide_text


def file_kind(path: str) -> str | None:
    """`parquet` or `trec`; None for a folder, and where nothing is there to be looked at."""
    first = first_bytes(path)
    if first is None:
        return None
    if first.startswith(PARQUET):
        return "parquet"
    for magic, what in NO_TEXT.items():
        if first.startswith(magic):
            raise InputError(f"{path} is {what}; expected Parquet, or a TREC file as plain text or gzip")
    if (encoding := other_encoding(first)) is not None:
        raise wide_text(path, encoding)
    # A stray NUL is for the reader to report, with its line.
    if 4 * first.count(0) > len(first) and not first.startswith(GZIP):
        raise InputError(f"{path} is neither Parquet nor text (plain or gzip): it begins with {first[:8]!r}")
    return "trec"


def first_bytes(path: str) -> bytes | None:
    """The beginning of a file, None if it is no file or cannot be opened; who reads it then hears why."""
    if not has_scheme(path) or path.startswith("file:"):
        with suppress(OSError, ValueError):
            file = Path(locate(path).path)
            if file.is_file():
                with file.open("rb") as stream:
                    return stream.read(LOOKED_AT)
        return None
    return _first_bytes_of_object(path)


@lru_cache(maxsize=256)
def _first_bytes_of_object(path: str) -> bytes | None:
    """Asked once: every look at a store is a request."""
    place = locate(path)

    def look() -> bytes:
        with file_system(place).open_input_file(place.path) as stream:
            return bytes(stream.read(LOOKED_AT))

    with suppress(OSError):
        return retried(place, "read", look)
    return None


Source: TypeAlias = Any
"""A path, the name of a catalog table, an Arrow table, or a Spark DataFrame."""

TREC_SUFFIXES = (".trec", ".run", ".txt", ".qrels", ".qrel", ".tsv", ".res")
JSON_SUFFIXES = {"jsonl": ".jsonl", "ranx": ".json"}
"""Runs as JSON: one list per line, or one object per run, as ranx writes it."""
FILE_SUFFIXES = (".parquet", ".pq", ".csv", ".arrow", ".feather", ".orc", ".avro", ".xlsx", ".pkl", ".zip", ".yaml")
"""Names that end like this are files, not catalog tables, whether or not they can be read here."""

IDS, SCORES, NAMES = ("int", "bigint", "string"), ("float", "double"), ("string",)
GRADES = ("int", "bigint", *SCORES)
ALLOWED: dict[str, tuple[str, ...]] = {
    "text_id": IDS,
    "label_id": IDS,
    "label_ids": IDS,
    "score": SCORES,
    "scores": SCORES,
    "grade": GRADES,
    "grades": GRADES,
    "words": ("int", "bigint"),
    "label_group": NAMES,
    "retriever": NAMES,
    "fold": ("int", "bigint"),
    "role": NAMES,
}
"""The types of columns, as Spark calls them; of the elements, for the columns that hold lists."""
LIST_COLUMNS = ("label_ids", "scores", "grades")
LONG_RUN, LIST_RUN = ("text_id", "label_id", "score"), ("text_id", "label_ids", "scores")


@dataclass(frozen=True)
class Sources:
    """What `fuse` and `evaluate` read. `label_groups` may also be one of the words auto, pareto and none."""

    candidates: Source | Mapping[str, Source]
    judgements: Source | None = None
    label_groups: Source = "auto"
    folds: Source | None = None
    head_share: float = 0.2
    training: Source | None = None
    """The labels of training texts, for metrics that weigh labels by their frequency there."""
    distances: frozenset[str] = frozenset()
    """The retrievers of whose scores the lowest is the best."""

    @classmethod
    def of(cls, inputs: Inputs) -> Sources:
        return cls(
            candidates=inputs.candidates,
            judgements=inputs.judgements,
            label_groups=inputs.label_groups,
            folds=inputs.folds,
            head_share=inputs.head_share,
            training=inputs.training,
            distances=inputs.distances,
        )

    def require(self, judged: bool) -> None:
        """Refuse what lacks candidates, or judgements where they are needed."""
        if self.candidates is None:
            raise ConfigError(
                "no candidates: give --run NAME=PATH for each retriever, set inputs.candidates, or do "
                "'xmtc-fusion run' first, with the same work.path and dataset"
            )
        if judged and self.judgements is None:
            raise ConfigError("no judgements: give --qrels PATH, or set inputs.judgements")

    def all(self) -> Iterator[Source]:
        """Every source that is there to be read."""
        yield from self.candidates.values() if isinstance(self.candidates, Mapping) else [self.candidates]
        groups = None if self.groups_word else self.label_groups
        yield from (source for source in (self.judgements, groups, self.folds, self.training) if source is not None)

    def places(self) -> dict[str, str]:
        """By what they are, the paths and catalog tables (`table:NAME`) of those that are not in memory."""
        runs = self.candidates if isinstance(self.candidates, Mapping) else {"candidates": self.candidates}
        groups = None if self.groups_word else self.label_groups
        others = {"judgements": self.judgements, "label groups": groups, "folds": self.folds, "training": self.training}
        named = {name: source for name, source in {**runs, **others}.items() if isinstance(source, str)}
        return {name: source_address(source) for name, source in named.items()}

    @property
    def in_memory(self) -> bool:
        """Whether nothing has to be read from elsewhere."""
        return all(isinstance(source, pa.Table) for source in self.all())

    def paths(self) -> Iterator[str]:
        """Those that are files or folders."""
        for source in self.all():
            if isinstance(source, str):
                kind, path = source_format(source)
                if kind != "table":
                    yield path

    def addresses(self) -> list[Any]:
        """Every source as an engine reads it, but for the Arrow tables, which any engine can read."""
        return [source_address(source) for source in self.all() if not isinstance(source, pa.Table)]

    @property
    def groups_word(self) -> str | None:
        """The word given instead of a table of label groups, None if there is a table."""
        words = ("auto", "pareto", "none")
        return self.label_groups if isinstance(self.label_groups, str) and self.label_groups in words else None


def source_name(source: Source, what: str) -> str:
    """A source as messages name it; `what` stands for one in memory."""
    return source if isinstance(source, str) else what


def source_format(source: str) -> tuple[str, str]:
    """How a source is read, and its path or name: an explicit prefix decides, then the first bytes of a file, then the
    looks of the name."""
    for prefix in ("table", "trec", "parquet", *JSON_SUFFIXES):
        if source.startswith(prefix + ":"):
            return prefix, source.removeprefix(prefix + ":")
    bare = source.removesuffix(".gz")
    # A look into a store is a request, which a plain name saves.
    told_by_name = has_scheme(source) and source.endswith((".parquet", ".gz", *TREC_SUFFIXES))
    kind = None if told_by_name else file_kind(source)
    if kind != "parquet":
        for json_kind, suffix in JSON_SUFFIXES.items():
            if bare.endswith(suffix):
                return json_kind, source
    if kind is not None:
        return kind, source
    if bare.endswith(TREC_SUFFIXES) or bare != source:
        return "trec", source
    if "/" not in source and "\\" not in source and "." in source and not bare.endswith(FILE_SUFFIXES):
        return "table", source
    return "parquet", source


def source_address(source: Source) -> Any:
    """A source as an engine reads it: catalog tables have the prefix `table:`, and files none."""
    if not isinstance(source, str):
        return source
    kind, name = source_format(source)
    return f"table:{name}" if kind == "table" else name


def run_columns(columns: Mapping[str, str]) -> Sequence[str]:
    """What a run must have: lists, or one row per candidate."""
    return LIST_RUN if "label_ids" in columns else LONG_RUN


def judgement_columns(columns: Mapping[str, str]) -> list[str]:
    """What is read of judgements: lists, or one row per judgement; grades where there are some, and with lists the
    number of words of the text where it is given."""
    wanted, more = (
        (["text_id", "label_ids"], ["grades", "words"])
        if "label_ids" in columns
        else (["text_id", "label_id"], ["grade"])
    )
    return [*wanted, *(column for column in more if column in columns)]


def require(columns: Mapping[str, str], source: str, wanted: Sequence[str]) -> None:
    """Refuse a table (its columns with their types) that lacks a column, or whose ids and scores are of no use."""
    missing = [column for column in wanted if column not in columns]
    if missing:
        raise InputError(
            f"{source}: missing column{'s' * (len(missing) > 1)} {', '.join(map(repr, missing))}; "
            f"it has {', '.join(columns) or 'none'}"
        )
    for column in (column for column in wanted if column in ALLOWED):
        kind = columns[column]
        of_lists = column in LIST_COLUMNS
        if (element_type(kind) if of_lists else kind) not in ALLOWED[column] or of_lists > kind.startswith("array<"):
            array = "an array of " if of_lists else ""
            raise InputError(f"{source}: column {column!r} is {kind}, expected {array}{' or '.join(ALLOWED[column])}")


def check_columns(names: Iterable[str], source: str) -> None:
    """Refuse a table with a column twice; Spark does not distinguish upper and lower case."""
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise InputError(f"cannot read {source}: the column {name!r} is there twice (in upper or lower case)")
        seen.add(name.lower())


def element_type(kind: str) -> str:
    """The type of the elements of a list; any other type itself."""
    return kind.removeprefix("array<").removesuffix(">") if kind.startswith("array<") else kind


def widest(kinds: Sequence[str]) -> str:
    """The narrowest type that holds values of all types."""
    order = (*IDS[:2], *SCORES, IDS[2])
    return max(map(element_type, kinds), key=order.index)


def typed_ids(kind: str, ids: Sequence[str]) -> list[Any]:
    """Ids as values of a column of some type; a string that is no such value has no row."""
    if kind == "string":
        return list(ids)
    bits = 31 if kind == "int" else 63
    whole = [int(name) for name in ids if re.fullmatch(r"-?[0-9]{1,19}", name)]
    return [number for number in whole if -(2**bits) <= number < 2**bits]


def checked_label_groups(table: pa.Table, source: str) -> pa.Table:
    """A table of label groups (label_id, label_group) in which every label stands once."""
    for name in ("label_id", "label_group"):
        if table[name].null_count:
            raise InputError(f"{source}: column {name!r} holds {table[name].null_count:,} nulls")
    ids = table["label_id"].combine_chunks()
    if not len(ids):
        raise InputError(f"{source} holds no labels")
    if len(ids.unique()) < len(ids):
        repeated = [row["values"] for row in ids.value_counts().to_pylist() if row["counts"] > 1][:5]
        raise InputError(f"{source}: column 'label_id' holds labels twice, first: {', '.join(map(str, repeated))}")
    if ALL in table["label_group"].unique().to_pylist():
        raise InputError(f"{source}: column 'label_group': 'all' means all labels together and cannot be a group")
    return table


Kind = Literal["dict", "pandas", "polars", "arrow", "spark", "path"]


def kind_of(value: Any) -> Kind:
    """What a run, or a table of judgements, comes as."""
    if isinstance(value, str | PurePath):
        return "path"
    if isinstance(value, Mapping):
        return "dict"
    package = type(value).__module__.partition(".")[0]
    if package in ("pandas", "polars"):
        return "pandas" if package == "pandas" else "polars"
    return "spark" if package == "pyspark" else "arrow"


def runs_source(runs: Any) -> Source | dict[str, Source]:
    """All runs: one source per retriever, or one table with a column `retriever`."""
    if not isinstance(runs, Mapping):
        return source_of(runs, "runs", run_table)
    if unnamed := [name for name in runs if name is None or not str(name).strip()]:
        raise InputError(f"runs: {unnamed[0]!r} is no name for a run; call it as in {{'bm25': ..., 'dense': ...}}")
    return {str(name): source_of(run, f"run {name!r}", run_table) for name, run in runs.items()}


def source_of(value: Any, name: str, of_mapping: Callable[[Mapping[Any, Any], str], pa.Table]) -> Source:
    """A path, a table as Arrow holds it, or a Spark DataFrame; of a dictionary, the table that it stands for."""
    kind = kind_of(value)
    if kind == "path":
        if not str(value).strip():
            raise InputError(f"{name}: the path is empty")
        return str(value)
    if kind == "dict":
        return of_mapping(value, name)
    if kind == "spark" or isinstance(value, pa.Table):
        return value
    is_table = (
        kind in ("pandas", "polars") or hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__")
    )
    if not is_table or type(value).__name__ == "Series":
        kind_name = type(value).__name__
        found = "nothing (None)" if value is None else f"a{'n' * (kind_name[0] in 'aeiouAEIOU')} {kind_name}"
        order = ". Judgements come first, then runs by name: {'bm25': ..., 'dense': ...}"
        raise InputError(
            f"{name}: expected a dictionary, a table (pandas, polars, Arrow or Spark) or a path; found {found}"
            + order * name.startswith(("run", "judgements"))
        )
    try:
        if kind == "pandas":
            return pa.Table.from_pandas(value, preserve_index=False)
        if kind == "polars":
            return (value.collect() if hasattr(value, "collect") else value).to_arrow()
        return pa.table(value)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(f"{name}: a {type(value).__name__} is not a table that Arrow can read: {error}") from None


def judgement_table(judgements: Mapping[Any, Any], name: str) -> pa.Table:
    """Judged labels by text: a list of relevant labels, or labels with grades."""
    for text, labels in judgements.items():
        if isinstance(labels, str | bytes) or not isinstance(labels, Iterable):
            raise InputError(f"{name}: expected a list of labels for text {text!r}; found {labels!r}")
    lists = list_array((list(labels) for labels in judgements.values()), name)
    table = pa.table({"text_id": id_array(judgements, f"{name}: text ids"), "label_ids": lists})
    if not any(isinstance(labels, Mapping) for labels in judgements.values()):
        return table
    flat = [
        grade
        for labels in judgements.values()
        for grade in (labels.values() if isinstance(labels, Mapping) else [1] * len(list(labels)))
    ]
    try:
        grades = pa.array(map(float, flat), pa.float64(), size=len(flat))
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: grades must be numbers: {error}") from None
    return table.append_column("grades", pa.ListArray.from_arrays(lists.offsets, grades))


def fold_table(folds: Mapping[Any, Any], name: str) -> pa.Table:
    """The fold of each text."""
    _check_values(folds, int | np.integer, f"{name}: expected the number of a fold for each text")
    numbers = pa.array(list(folds.values()), pa.int32())
    return pa.table({"text_id": id_array(folds, f"{name}: text ids"), "fold": numbers})


def group_table(groups: Mapping[Any, Any], name: str) -> pa.Table:
    """The group of each label."""
    _check_values(groups, str, f"{name}: expected the name of a group for each label")
    names = pa.array(list(groups.values()), pa.string())
    return pa.table({"label_id": id_array(groups, f"{name}: label ids"), "label_group": names})


def _check_values(values: Mapping[Any, Any], kinds: Any, expected: str) -> None:
    for key, value in values.items():
        if value is not None and (not isinstance(value, kinds) or isinstance(value, bool)):
            raise InputError(f"{expected}; {key!r} has {value!r}")
