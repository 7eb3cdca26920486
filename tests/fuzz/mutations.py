"""What can be done to a file, each with what it means: the same data, other data, or nothing that may be used.

A mutation belongs to a stage: `ids` rename a text or a label everywhere, `rows` change what the file says, `text` and
`table` how it is written, `bytes` what is on the disk, and `packed` a compressed file.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pyarrow as pa

from tests.fuzz.hostile_data import WRITERS, Row, Truth, forms_of, rename

STAGES = ("ids", "rows", "text", "table", "bytes", "packed")


class Verdict(Enum):
    """What has to become of a file."""

    TAKEN = "taken"
    """It is read, and means what its rows say."""
    REFUSED = "refused"
    EITHER = "refused, or taken for what its rows say"
    AGREED = "the engines agree"


TAKEN, REFUSED, EITHER, AGREED = Verdict


@dataclass(frozen=True)
class Form:
    """A format of a file: what it holds, who writes it, its name, and words that mutations go by."""

    kind: str
    writer: str
    file: str
    words: frozenset[str]


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


# Ids, which may be any strings.
LISTED = ("eval",)
NAMES = {
    "accent": "é",
    "accent in two characters": "e\u0301",
    "emoji": "😀",
    "5,000 digits": "9" * 5000,
    "20,000 characters": "x" * 20_000,
    "leading zero": "007",
    "minus": "-5",
    "plus": "+5",
    "decimal point": "1.0",
    "null": "null",
    "NaN": "NaN",
    "true": "true",
    "2^31": str(2**31),
    "2^63": str(2**63),
    "2^64": str(2**64),
    "quote": 'a"b',
    "apostrophe": "a'b",
    "backslash": "a\\nb",
    "percent": "%s%d",
    "braces": "{0}",
    "comma": "a,b",
    "hash": "#1",
    "line separator": "a\u2028b",
    "next line": "a\x85b",
    "file separator": "a\x1cb",
    "unit separator": "a\x1fb",
    "no-break space": "a\u00a0b",
    "ideographic space": "a\u3000b",
    "escape": "\x1b[31mred",
    "delete": "a\x7fb",
    "mark inside": "a\ufeffb",
    "right to left": "\u202eabc",
    "full-width digits": "１２",  # noqa: RUF001
    "superscript": "²",
    "private use": "\ue000",
    "no character": "\uffff",
    "last character": "\U0010ffff",
}
SPACED = {"blank inside": "a b", "blank at the end": "ab ", "tab": "a\tb", "line break": "a\nb", "return": "a\rb"}
PAIRS = {
    "two forms of an accent": forms_of("é"),
    "two cases": ("A", "a"),
    "a zero more": ("1", "01"),
    "a decimal more": ("1", "1.0"),
    "an unseen character more": ("x", "x\u200b"),
    "a mark more": ("x", "x\ufeff"),
    "a ligature": ("ﬀ", "ff"),
    "UTF-16 order": ("\uffee", "😀"),
    "numbers by value": ("2", "10"),
    "large numbers by value": (str(2 * 10**30), str(10**31)),
    "numbers before words": ("10", "0x"),
}


def _renamed(*names: str) -> Apply:
    def apply(case: Case, truth: Truth) -> Truth:
        column = "label_id" if len(names) > 1 else case.rng.choice(["label_id", "text_id"])
        known = sorted({row[column] for row in truth.judgements} & {row[column] for row in truth.runs["a"]})
        for old, new in zip(case.rng.sample(known, len(names)), names, strict=True):
            rename(truth, column, old, new)
        return truth

    return apply


for _name, _id in NAMES.items():
    add(f"id: {_name}", "ids", TAKEN, LISTED, _renamed(_id))
for _name, _id in SPACED.items():
    add(f"id: {_name}", "ids", TAKEN, ["eval json", "eval table"], _renamed(_id))
for _name, _pair in PAIRS.items():
    add(f"ids: {_name}", "ids", TAKEN, LISTED, _renamed(*_pair))
add("id: NUL", "ids", EITHER, ["eval table", "eval trec"], _renamed("a\x00b"))
add("id: empty", "ids", EITHER, ["eval json", "eval table"], _renamed(""))
add("ids: a blank more", "ids", TAKEN, ["eval json", "eval table"], _renamed("x", "x "))


# Numbers, as each format writes them.
def _valued(value: Any) -> Apply:
    def apply(case: Case, rows: list[Row]) -> list[Row]:
        case.row[case.value] = value
        return rows

    return apply


NUMBERS = ["1E+2", "+2.", ".5", "-0.0", "1e-400", "0.1" + "0" * 400, "00012", "1" + "0" * 20, "0.30000000000000004"]
NO_NUMBERS = [
    "nan",
    "-NaN",
    "inf",
    "-Infinity",
    "1e400",
    "true",
    "None",
    "0x1p3",
    "1_000",
    "1,5",
    "\u0661",
    "--1",
    "1e",
    "1d",
]
JSON_NUMBERS = ["1E+2", "-0.0", "-0", "1e-400", "3", "1" + "0" * 20, "0.1" + "0" * 400, "0.30000000000000004"]
NO_JSON_NUMBERS = [
    "NaN",
    "-Infinity",
    "1e400",
    "1" + "0" * 400,
    "true",
    "false",
    "null",
    '"0.5"',
    '"high"',
    "[1]",
    "{}",
]
NO_JSON_NUMBERS += ["01", ".5", "+1", "0x10", "1_0", "1d", "NaN1", ""]
TREC, JSON_RUN = ("run trec", "judgements trec"), ("run json",)
for _number in NUMBERS:
    add(f"number {_number[:30]}", "rows", TAKEN, TREC, _valued(_number))
for _number in NO_NUMBERS:
    add(f"no number {_number}", "rows", REFUSED, TREC, _valued(_number))
for _number in JSON_NUMBERS:
    add(f"JSON number {_number[:30]}", "rows", TAKEN, JSON_RUN, _valued(_number))
for _number in NO_JSON_NUMBERS:
    add(f"no JSON number {_number[:30]}", "rows", REFUSED, JSON_RUN, _valued(_number))
for _value in (float("nan"), float("inf"), -float("inf"), None):
    add(f"value {_value}", "rows", REFUSED, ["run table", "judgements table"], _valued(_value))
for _grade in (-1, 0, 3, 60, 1023, 1024, 2000, 100_000):
    add(f"grade {_grade}", "rows", TAKEN, "judgements", _valued(_grade))
add("value -0.0", "rows", TAKEN, "run table", _valued(-0.0))


@mutation("giant scores", "rows", EITHER, "run")
def _(case: Case, rows: list[Row]) -> list[Row]:
    for row in rows:
        row["score"] = float(row["score"]) * 2.0**900
    return rows


# Rows.
@mutation("shuffled", "rows", TAKEN, "eval")
def _(case: Case, rows: list[Row]) -> list[Row]:
    case.rng.shuffle(rows)
    return rows


@mutation("all scores equal", "rows", TAKEN, "run")
def _(case: Case, rows: list[Row]) -> list[Row]:
    for row in rows:
        row["score"] = 0.5
    return rows


@mutation("a text less", "rows", TAKEN, "run")
def _(case: Case, rows: list[Row]) -> list[Row]:
    text = case.row["text_id"]
    rows[:] = [row for row in rows if row["text_id"] != text]
    return rows


@mutation("a text more", "rows", TAKEN, "run", "folds")
def _(case: Case, rows: list[Row]) -> list[Row]:
    rows.append({**rows[0], "text_id": "99"})
    return rows


@mutation("a row twice", "rows", REFUSED, "run", "judgements", "groups")
def _(case: Case, rows: list[Row]) -> list[Row]:
    rows.append(dict(case.row))
    return rows


@mutation("a row twice, with another value", "rows", REFUSED, "run", "judgements", "groups")
def _(case: Case, rows: list[Row]) -> list[Row]:
    row = case.row
    other = {"label_group": "head" if row.get("label_group") == "tail" else "tail"}
    rows.append({**row, case.value: other.get(case.value, 2.25)})
    return rows


@mutation("a fold's text twice", "rows", EITHER, "folds")
def _(case: Case, rows: list[Row]) -> list[Row]:
    return [*rows, dict(rows[0])]  # which the truth has once


@mutation("a text in two folds", "rows", TAKEN, "folds")
def _(case: Case, rows: list[Row]) -> list[Row]:
    rows.append({**rows[0], "fold": 1})
    return rows


for _role in ("Test", "test ", " test", "TEST", "tset", "", "dev", "train\u200b"):
    add(f"role {_role!r}", "rows", REFUSED, "folds", lambda case, rows, role=_role: case.row.update(role=role) or rows)
for _fold, _outcome in ((None, REFUSED), (2**40, EITHER), (-1, EITHER), (2**31 - 1, TAKEN)):
    add(f"fold {_fold}", "rows", _outcome, "folds", _valued(_fold))
add("no role", "rows", EITHER, "folds", lambda case, rows: [{**rows[0], "role": None}, *rows[1:]])
for _group in (None, "all"):
    add(f"group {_group}", "rows", REFUSED, "groups", _valued(_group))
for _group in ("Tail", "torso", "hé", "head\u2028"):
    add(f"group {_group!r}", "rows", TAKEN, "groups", _valued(_group))


@mutation("a label without a group", "rows", REFUSED, "groups")
def _(case: Case, rows: list[Row]) -> list[Row]:
    used = case.truth.runs["a"][0]["label_id"]
    return [row for row in rows if row["label_id"] != used]


# Tables.
def _lists(case: Case) -> bool:
    return "lists" in case.form.words


def _column(case: Case, singular: str) -> str:
    return f"{singular}s" if _lists(case) and singular != "text_id" else singular


def _cast(singular: str, kind: pa.DataType) -> Apply:
    """Another type of a column, where its values can have it."""

    def apply(case: Case, table: pa.Table) -> pa.Table | None:
        name = _column(case, case.value if singular == "value" else singular)
        place = table.schema.get_field_index(name)
        if place < 0:
            return None
        wanted = pa.list_(kind) if pa.types.is_list(table.schema.field(place).type) else kind
        try:
            return table.set_column(place, name, table[name].cast(wanted))
        except pa.ArrowException:
            return None

    return apply


ID_TYPES = {
    TAKEN: [
        pa.large_string(),
        pa.dictionary(pa.int32(), pa.string()),
        pa.int32(),
        pa.int16(),
        pa.uint32(),
        pa.uint64(),
    ],
    EITHER: [pa.decimal128(20, 0), pa.binary(), pa.float64(), pa.uint8(), pa.string_view()],
}
for _outcome, _kinds in ID_TYPES.items():
    for _kind in _kinds:
        add(f"text_id as {_kind}", "table", _outcome, "eval table", _cast("text_id", _kind))
        add(f"labels as {_kind}", "table", _outcome, "eval table", _cast("label_id", _kind))
for _kind, _outcome in {
    pa.float32(): TAKEN,
    pa.float64(): TAKEN,
    pa.float16(): EITHER,
    pa.decimal128(12, 3): EITHER,
    pa.string(): EITHER,
    pa.large_string(): EITHER,
}.items():
    add(f"values as {_kind}", "table", _outcome, ["run table", "judgements table"], _cast("value", _kind))


def _constant(value: Any) -> Apply:
    """A column in which every value is of a type that cannot be used."""

    def apply(case: Case, table: pa.Table) -> pa.Table:
        name = _column(case, case.rng.choice([*(n for n in ("text_id", "label_id") if n in case.rows[0]), case.value]))
        place = table.schema.get_field_index(name)
        nested = pa.types.is_list(table.schema.field(place).type)
        values = [
            [value] * len(row) if nested else value for row in (table[name].to_pylist() if nested else table[name])
        ]
        return table.set_column(place, name, pa.array(values))

    return apply


for _name, _value in {"true": True, "null": None, "bytes": b"\xff", "a list": ["x"], "an object": {"x": 1}}.items():
    add(f"a column of {_name}", "table", REFUSED, "eval table", _constant(_value))


@mutation("labels from 2^63 on", "table", EITHER, "eval table")
def _(case: Case, table: pa.Table) -> pa.Table | None:
    if "label_id" not in case.rows[0] or not case.row["label_id"].isdigit():
        return None
    rename(case.truth, "label_id", case.row["label_id"], str(2**63 + 5))
    return _cast("label_id", pa.uint64())(case, written(case, case.rows))


@mutation("a column twice", "table", REFUSED, "eval table")
def _(case: Case, table: pa.Table) -> pa.Table:
    name = case.rng.choice([n for n in table.column_names if n != "role"])
    return table.append_column(name, table[name].combine_chunks().take(pa.array(range(len(table)))[::-1]))


@mutation("a column of another case more", "table", EITHER, "eval table")
def _(case: Case, table: pa.Table) -> pa.Table:
    name = case.rng.choice(table.column_names)
    return table.append_column(name.upper(), table[name].combine_chunks().take(pa.array(range(len(table)))[::-1]))


@mutation("a column of another case", "table", EITHER, "eval table")
def _(case: Case, table: pa.Table) -> pa.Table:
    return table.rename_columns([name.title() for name in table.column_names])


@mutation("a column is missing", "table", REFUSED, "eval table")
def _(case: Case, table: pa.Table) -> pa.Table:
    optional = ("role", "grade", "grades")
    return table.drop_columns([case.rng.choice([name for name in table.column_names if name not in optional])])


@mutation("a null", "table", REFUSED, "eval table")
def _(case: Case, table: pa.Table) -> pa.Table:
    name = case.rng.choice([n for n in table.column_names if n != "role"])
    values = table[name].to_pylist()
    values[case.rng.randrange(len(values))] = None
    return table.set_column(table.schema.get_field_index(name), name, pa.array(values, table[name].type))


@mutation("a null in a list", "table", REFUSED, "run lists", "judgements lists")
def _(case: Case, table: pa.Table) -> pa.Table:
    name = case.rng.choice([name for name in table.column_names if name not in ("text_id", "retriever")])
    values = table[name].to_pylist()
    values[0] = [None, *values[0][1:]]
    return table.set_column(table.schema.get_field_index(name), name, pa.array(values, table[name].type))


@mutation("lists of unequal length", "table", REFUSED, "run lists")
def _(case: Case, table: pa.Table) -> pa.Table:
    values = table["scores"].to_pylist()
    values[0] = [*values[0], 0.5]
    return table.set_column(table.schema.get_field_index("scores"), "scores", pa.array(values))


add(
    "a list's text twice",
    "table",
    REFUSED,
    ["run lists", "judgements lists"],
    lambda case, table: pa.concat_tables([table, table.slice(0, 1)]),
)
add("no rows", "table", REFUSED, "eval table", lambda case, table: table.slice(0, 0))
add(
    "columns the other way round",
    "table",
    TAKEN,
    "eval table",
    lambda case, table: table.select(table.column_names[::-1]),
)
add(
    "a column more",
    "table",
    TAKEN,
    "eval table",
    lambda case, table: table.append_column("note", pa.array([[{"x": None}]] * len(table))),
)
for _options in (
    {"compression": "gzip"},
    {"compression": "zstd"},
    {"compression": "none", "use_dictionary": False},
    {"row_group_size": 1},
    {"data_page_version": "2.0"},
    {"version": "1.0", "write_statistics": False},
):
    add(
        f"Parquet with {_options}",
        "table",
        TAKEN,
        "eval table",
        lambda case, table, options=_options: case.parquet.update(options) or table,
    )


def written(case: Case, rows: list[Row]) -> Any:
    """The rows of the file in its format: text, or a table."""
    table = WRITERS[case.form.writer](rows)
    if "together" not in case.form.words:
        return table
    tables = [table, WRITERS[case.form.writer](case.truth.runs["b"])]
    return pa.concat_tables(
        [
            table.append_column("retriever", pa.array([name] * len(table)))
            for name, table in zip("ab", tables, strict=True)
        ],
        promote_options="permissive",
    )
