"""What can be done to a file, each with what it means: the same data, other data, or nothing that may be used.

A mutation belongs to a stage: `ids` rename a text or a label everywhere, `rows` change what the file says, `text` and
`table` how it is written, `bytes` what is on the disk, and `packed` a compressed file.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pyarrow as pa

from tests.fuzz.hostile_data import WRITERS, Form, Row, Truth, forms_of, ids, rename

STAGES = ("ids", "rows", "text", "table", "bytes", "packed")


class Verdict(Enum):
    """What has to become of a file."""

    TAKEN = "taken"
    """It is read, and means what its rows say."""
    REFUSED = "refused"
    EITHER = "refused, or taken for what its rows say"
    AGREED = "treated alike by the engines"
    ANY = "refused by name, or taken for something"


TAKEN, REFUSED, EITHER, AGREED, ANY = Verdict


@dataclass
class Case:
    """A file on its way."""

    form: Form
    rng: random.Random
    truth: Truth
    parquet: dict[str, Any] = field(default_factory=dict)
    """Options of the Parquet file."""

    @property
    def rows(self) -> list[Row]:
        return self.truth.rows(self.form.kind)

    @property
    def value(self) -> str:
        return {"run": "score", "judgements": "grade", "groups": "label_group", "folds": "fold"}[self.form.kind]

    @property
    def row(self) -> Row:
        return self.rng.choice(self.rows)


Apply = Callable[[Case, Any], Any]


@dataclass(frozen=True)
class Mutation:
    """`on`: words of which a form must have all, for one of several alternatives. `apply` returns None where it does
    not fit."""

    name: str
    stage: str
    verdict: Verdict
    on: tuple[str, ...]
    apply: Apply

    def fits(self, form: Form) -> bool:
        return any(set(words.split()) <= form.words for words in self.on)


MUTATIONS: dict[str, Mutation] = {}


def add(name: str, stage: str, verdict: Verdict, on: str | Iterable[str], apply: Apply) -> None:
    assert name not in MUTATIONS, name
    MUTATIONS[name] = Mutation(name, stage, verdict, (on,) if isinstance(on, str) else tuple(on), apply)


def mutation(name: str, stage: str, verdict: Verdict, *on: str) -> Callable[[Apply], Apply]:
    def register(apply: Apply) -> Apply:
        add(name, stage, verdict, on, apply)
        return apply

    return register


# Ids, which may be any strings; files of lines cannot hold those with white space.
ANY_FILE, NO_LINES = ("eval",), ("eval json", "eval table")
NAMES = (
    "é e\u0301 😀 007 -5 +5 1.0 null NaN true a\"b a'b a\\nb %s%d {0} a,b #1 \x1b[31m \uff11 ² \ue000 \uffff \U0010ffff"
)
INSIDE = "\u2028 \x85 \x1c \x1f \u00a0 \u3000 \x7f \ufeff \u202e"
NEAR = "A:a 1:01 1:1.0 x:x\u200b x:x\ufeff ﬀ:ff \uffee:😀 2:10 10:0x"
LARGE = [str(2**31), str(2**63), str(2**64), "9" * 5000, "x" * 20_000]


def _renamed(*names: str) -> Apply:
    """A text or a label, or two labels, called something else everywhere."""

    def apply(case: Case, truth: Truth) -> Truth:
        column = "label_id" if len(names) > 1 else case.rng.choice(["label_id", "text_id"])
        known = sorted({row[column] for row in truth.judgements} & {row[column] for row in truth.runs["a"]})
        for old, new in zip(case.rng.sample(known, len(names)), names, strict=True):
            rename(truth, column, old, new)
        return truth

    return apply


for _id in (*NAMES.split(" "), *(f"a{character}b" for character in INSIDE.split(" ")), *LARGE):
    add(f"id {_id[:9]!a} of {len(_id)}", "ids", TAKEN, ANY_FILE, _renamed(_id))
for _id in ("a b", "ab ", "a\tb", "a\nb", "a\rb"):
    add(f"id {_id!a}", "ids", TAKEN, NO_LINES, _renamed(_id))
for _pair in (*(pair.split(":") for pair in NEAR.split(" ")), (str(2 * 10**30), str(10**31)), forms_of("é")):
    add(f"ids {_pair[0]!a} and {_pair[1]!a}", "ids", TAKEN, ANY_FILE, _renamed(*_pair))
add("ids 'x' and 'x '", "ids", TAKEN, NO_LINES, _renamed("x", "x "))
add("id with a NUL", "ids", EITHER, ["eval table", "eval trec"], _renamed("a\x00b"))
add("id of no characters", "ids", EITHER, NO_LINES, _renamed(""))


# Numbers, as each format writes them.
def _valued(value: Any) -> Apply:
    def apply(case: Case, rows: list[Row]) -> list[Row]:
        case.row[case.value] = value
        return rows

    return apply


NUMBERS = f"1E+2 -0.0 1e-400 0.1{'0' * 400} 0.30000000000000004"
NO_NUMBERS = "NaN -Infinity 1e400 true None 0x1p3 1_000 1,5 \u0661 --1 1e 1d"
NO_JSON = f'null false "0.5" "high" [1] {{}} 01 .5 +1 NaN1 1{"0" * 400}'
TREC, JSON_RUN, VALUES = ("run trec", "judgements trec"), ("run json",), ("run table", "judgements table")
for _outcome, _numbers, _forms in (
    (TAKEN, NUMBERS, (*TREC, *JSON_RUN)),
    (TAKEN, "+2. .5 00012 1e+02", TREC),
    (TAKEN, f"1{'0' * 20}", ("run trec", *JSON_RUN)),
    (TAKEN, "-0 3", JSON_RUN),
    (REFUSED, NO_NUMBERS, (*TREC, *JSON_RUN)),
    (REFUSED, "nan inf -NaN", TREC),
    (REFUSED, NO_JSON, JSON_RUN),
):
    for _number in _numbers.split(" "):
        _word = "number" if _outcome is TAKEN else "no number"
        add(f"{_word} {_number[:20]!a} for {_forms[-1]}", "rows", _outcome, _forms, _valued(_number))
for _value in (float("nan"), float("inf"), -float("inf"), None):
    add(f"value {_value}", "rows", REFUSED, VALUES, _valued(_value))
for _grade in (-1, 0, 3, 60, 1023, 1024, 2000, 100_000, 1e20):
    add(f"grade {_grade}", "rows", TAKEN if _grade < 1000 else EITHER, "judgements", _valued(_grade))
add("value -0.0", "rows", TAKEN, "run table", _valued(-0.0))


@mutation("giant scores", "rows", EITHER, "run")
def _(case: Case, rows: list[Row]) -> list[Row]:
    for row in rows:
        row["score"] = float(row["score"]) * 2.0**900
    return rows


# Rows. What is done in place changes what the file means.
def _without(rows: list[Row], **of: Any) -> list[Row]:
    rows[:] = [row for row in rows if not of.items() <= row.items()]
    return rows


def _other(case: Case, row: Row) -> Any:
    return ("head" if row[case.value] == "tail" else "tail") if case.form.kind == "groups" else 2.25


ONCE = ("run", "judgements", "groups")
add("shuffled", "rows", TAKEN, "eval", lambda case, rows: case.rng.shuffle(rows) or rows)
add("all scores equal", "rows", TAKEN, "run", lambda case, rows: [row.update(score=0.5) for row in rows] and rows)
add("a text less", "rows", TAKEN, "run", lambda case, rows: _without(rows, text_id=case.row["text_id"]))
add(
    "a text more", "rows", TAKEN, ["run", "folds"], lambda case, rows: rows.append({**rows[0], "text_id": "99"}) or rows
)
add("a row twice", "rows", REFUSED, ONCE, lambda case, rows: [*rows, case.row])
add(
    "a row contradicted",
    "rows",
    REFUSED,
    ONCE,
    lambda case, rows: [*rows, {**rows[0], case.value: _other(case, rows[0])}],
)
add(
    "a label of grade 0 and 2",
    "rows",
    REFUSED,
    "judgements",
    lambda case, rows: [{**rows[0], "grade": 0}, {**rows[0], "grade": 2}, *rows[1:]],
)
add("a fold's text twice", "rows", EITHER, "folds", lambda case, rows: [*rows, rows[0]])
add("a text in two folds", "rows", TAKEN, "folds", lambda case, rows: rows.append({**rows[0], "fold": 1}) or rows)
add(
    "a label without a group",
    "rows",
    REFUSED,
    "groups",
    lambda case, rows: _without(list(rows), label_id=case.truth.runs["a"][0]["label_id"]),
)
for _role in ("Test", "test ", " test", "TEST", "tset", "", "dev", "train\u200b"):
    add(f"role {_role!r}", "rows", REFUSED, "folds", lambda case, rows, role=_role: case.row.update(role=role) or rows)
for _fold, _outcome in ((None, REFUSED), (2**40, EITHER), (-1, EITHER), (2**31 - 1, TAKEN)):
    add(f"fold {_fold}", "rows", _outcome, "folds", _valued(_fold))
add("a fold's text without a role", "rows", EITHER, "folds", lambda case, rows: [{**rows[0], "role": None}, *rows[1:]])
for _group in (None, "all"):
    add(f"group {_group}", "rows", REFUSED, "groups", _valued(_group))
for _group in ("Tail", "torso", "hé", "head\u2028"):
    add(f"group {_group!r}", "rows", TAKEN, "groups", _valued(_group))


# Tables. Names of columns are in the singular here, as in tables of one row per pair.
def _values(
    table: pa.Table, name: str, change: Callable[[list[Any]], Any], kind: pa.DataType | None = None
) -> pa.Table:
    """A column with other values."""
    values = table[name].to_pylist()
    return table.set_column(table.schema.get_field_index(name), name, pa.array(change(values) or values, kind))


def _column(case: Case, singular: str) -> str:
    return f"{singular}s" if "lists" in case.form.words and singular not in ("text_id", "retriever") else singular


def _needed(case: Case) -> list[str]:
    """The columns that a table cannot do without."""
    names = [name for name in case.rows[0] if name not in ("role", "grade")]
    return [_column(case, name) for name in names] + ["retriever"] * ("together" in case.form.words)


def _cast(singular: str, kind: pa.DataType, parsed: bool = False) -> Apply:
    """Another type of a column, where its values can have it. Strings are parsed only on demand: 1 is not 01."""

    def apply(case: Case, table: pa.Table) -> pa.Table | None:
        name = _column(case, case.value if singular == "value" else singular)
        place = table.schema.get_field_index(name)
        if place < 0:
            return None
        now = table.schema.field(place).type
        if not parsed and "string" in str(now) and not re.search("string|binary", str(kind)):
            return None
        wanted = pa.list_(kind) if pa.types.is_list(now) else kind
        try:
            return table.set_column(place, name, table[name].cast(wanted))
        except pa.ArrowException:
            return None

    return apply


def _constant(value: Any) -> Apply:
    """A column in which every value is of a type that cannot be used."""

    def apply(case: Case, table: pa.Table) -> pa.Table:
        name = case.rng.choice(_needed(case))
        return _values(table, name, lambda of: [[value] * len(v) if isinstance(v, list) else value for v in of])

    return apply


def _null(values: list[Any]) -> None:
    values[len(values) // 2] = None


TABLE, LISTS = "eval table", ("run lists", "judgements lists")
ID_TYPES = {
    TAKEN: (
        *(pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.int32(), pa.int16()),
        *(pa.uint32(), pa.uint64(), pa.decimal128(20, 0)),
    ),
    EITHER: (pa.decimal128(12, 0), pa.binary(), pa.float64(), pa.uint8(), pa.string_view()),
}
VALUE_TYPES = {
    TAKEN: (pa.float32(), pa.float64()),
    EITHER: (pa.float16(), pa.decimal128(12, 3), pa.string(), pa.large_string()),
}
for _outcome, _kinds in ID_TYPES.items():
    for _kind in _kinds:
        add(f"text_id as {_kind}", "table", _outcome, TABLE, _cast("text_id", _kind))
        add(f"labels as {_kind}", "table", _outcome, TABLE, _cast("label_id", _kind))
for _outcome, _kinds in VALUE_TYPES.items():
    for _kind in _kinds:
        add(f"values as {_kind}", "table", _outcome, VALUES, _cast("value", _kind))
for _name, _value in {"true": True, "null": None, "bytes": b"\xff", "a list": ["x"], "an object": {"x": 1}}.items():
    add(f"a column of {_name}", "table", REFUSED, TABLE, _constant(_value))
for _role, _outcome in {"test": TAKEN, None: TAKEN, "Test": REFUSED, "test ": REFUSED, "": REFUSED}.items():
    add(
        f"a run's role {_role!r}",
        "table",
        _outcome,
        "run table",
        lambda case, t, role=_role: t.append_column("role", pa.array([role, *["test"] * (len(t) - 1)])),
    )


@mutation("labels from 2^63 on", "table", TAKEN, TABLE)
def _(case: Case, table: pa.Table) -> pa.Table | None:
    labels = [row["label_id"] for rows in case.truth.tables() for row in rows if "label_id" in row]
    # A label must not be renamed if the column cannot be cast then.
    if "label_id" not in case.rows[0] or not pa.types.is_integer(ids(labels).type):
        return None
    rename(case.truth, "label_id", case.row["label_id"], str(2**63 + 5))
    return _cast("label_id", pa.uint64(), parsed=True)(case, written(case, case.rows))


@mutation("a null", "table", REFUSED, TABLE)
def _(case: Case, table: pa.Table) -> pa.Table:
    name = case.rng.choice(_needed(case))
    return _values(table, name, _null, table[name].type)


@mutation("a null in a list", "table", REFUSED, *LISTS)
def _(case: Case, table: pa.Table) -> pa.Table:
    name = case.rng.choice([_column(case, "label_id"), _column(case, case.value)])
    return _values(table, name, lambda lists: _null(lists[0]), table[name].type)


def _again(table: pa.Table, name: str, called: str) -> pa.Table:
    """A column once more, its rows the other way round."""
    return table.append_column(called, table[name].combine_chunks().take(pa.array(range(len(table)))[::-1]))


add(
    "a column twice",
    "table",
    REFUSED,
    TABLE,
    lambda case, t: (lambda n: _again(t, n, n))(case.rng.choice(_needed(case))),
)
add(
    "a text's column twice",
    "table",
    REFUSED,
    "texts table",
    lambda case, t: _again(t, t.column_names[-1], t.column_names[-1]),
)
add("another in capitals", "table", EITHER, TABLE, lambda case, t: _again(t, (n := t.column_names[0]), n.upper()))
add(
    "columns in capitals", "table", EITHER, TABLE, lambda case, t: t.rename_columns([n.upper() for n in t.column_names])
)
add("a column is missing", "table", REFUSED, TABLE, lambda case, t: t.drop_columns([case.rng.choice(_needed(case))]))
add(
    "unequal lists",
    "table",
    REFUSED,
    LISTS[0],
    lambda case, t: _values(t, "scores", lambda lists: lists[0].append(0.5)),
)
add("a list twice", "table", REFUSED, LISTS, lambda case, t: pa.concat_tables([t, t.slice(0, 1)]))
add("no rows", "table", REFUSED, TABLE, lambda case, t: t.slice(0, 0))
add("columns turned round", "table", TAKEN, TABLE, lambda case, t: t.select(t.column_names[::-1]))
add("a column more", "table", TAKEN, TABLE, lambda case, t: t.append_column("x", pa.array([[{"y": None}]] * len(t))))
for _options in (
    {"compression": "gzip"},
    {"compression": "none", "use_dictionary": False},
    {"row_group_size": 1, "compression": "zstd"},
    {"data_page_version": "2.0"},
    {"version": "1.0", "write_statistics": False},
):
    add(f"Parquet with {_options}", "table", TAKEN, TABLE, lambda case, t, of=_options: case.parquet.update(of) or t)


def written(case: Case, rows: list[Row]) -> Any:
    """The rows of the file in its format: text, or a table."""
    write = WRITERS[case.form.writer]
    if "together" not in case.form.words:
        return write(rows)
    tables = {"a": write(rows), "b": write(case.truth.runs["b"])}
    named = [table.append_column("retriever", pa.array([name] * len(table))) for name, table in tables.items()]
    if not named[0].schema.equals(named[1].schema):
        kinds = [pa.string(), pa.list_(pa.string()), pa.list_(pa.float64()), pa.string()]
        named = [table.cast(pa.schema(zip(table.column_names, kinds, strict=True))) for table in named]
    return pa.concat_tables(named)
