"""What is wrong with a line of JSON: broken, not an object, a key that is missing or null, a value of the wrong kind.

The lines are read with `from_json`, which takes whatever fits and cannot say what did not. So a line that is wanting is
looked at again: as a variant, which knows the kind of each value, and by its keys.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

LIST, TEXT = "a list", "a string or a number"
QUOTED = 80
"""So much of a line that is no JSON is quoted."""


def json_problem(
    corrupt: Column, lists: Sequence[str], texts: Sequence[str], required: Sequence[str], any_of: Sequence[str]
) -> Column:
    """The first problem of a line (columns `value`, `place` and `record`), null if there is none.

    `corrupt` says whether `from_json` found something amiss.
    """
    expected = {**dict.fromkeys(texts, TEXT), **dict.fromkeys(lists, LIST)}
    return F.coalesce(
        F.when(corrupt, _no_object()),
        *(F.when(corrupt, _wrong_list(name)) for name in lists),
        *(F.when(_field(name).rlike(r"^[\[{]"), _wrong_text(name)) for name in texts),
        F.when(corrupt, _message(F.lit(f"not a JSON object with the keys {', '.join(expected)}"))),
        *(F.when(_field(name).isNull(), _absent(name, expected[name])) for name in required),
        _all_absent(any_of, expected),
    )


def _no_object() -> Column:
    """The problem of a line that is broken, or valid JSON but no object."""
    document = F.try_parse_json("value")
    quoted = F.concat(F.lit("broken JSON: "), F.left("value", F.lit(QUOTED)))
    other = F.concat(_kind(F.schema_of_variant(document)), F.lit(", expected a JSON object"))
    return F.when(document.isNull(), _message(quoted)).when(_keys().isNull(), _message(other))


def _wrong_list(name: str) -> Column:
    schema = _schema(name)
    return F.when(~schema.startswith("ARRAY") & (schema != "VOID"), _wrong_kind(name, LIST))


def _wrong_text(name: str) -> Column:
    """A string may well begin with a bracket: the variant knows whether it is one."""
    return F.when(_schema(name).rlike("^(ARRAY|OBJECT)"), _wrong_kind(name, TEXT))


def _wrong_kind(name: str, expected: str) -> Column:
    return _message(F.lit(f"the key {name!r} is "), _kind(_schema(name)), F.lit(f", expected {expected}"))


def _absent(name: str, expected: str) -> Column:
    """The problem of a key that has no value."""
    missing = F.concat(F.lit(f"the key {name!r} is missing; it has "), F.array_join(_keys(), ", "))
    null = F.lit(f"the key {name!r} is null, expected {expected}")
    return _message(F.when(F.array_contains(_keys(), name), null).otherwise(missing))


def _all_absent(names: Sequence[str], expected: dict[str, str]) -> Column:
    """The problem of a line that has none of some keys."""
    if not names:
        return F.lit(None).cast("string")
    absent = F.lit(True)
    for name in names:
        absent = absent & _field(name).isNull()
    if len(names) == 1:
        return F.when(absent, _absent(names[0], expected[names[0]]))
    keys = ", ".join(map(repr, names))
    return F.when(absent, _message(F.lit(f"all of the keys {keys} are missing or null")))


def _message(*words: Column) -> Column:
    return F.concat(F.col("place"), F.lit(": "), *words)


def _field(name: str) -> Column:
    return F.col("record").getField(name)


def _keys() -> Column:
    return F.json_object_keys("value")


def _schema(name: str) -> Column:
    """The type of a key's value as Spark calls it, VOID for null; null if the key is missing."""
    quote = "'" if '"' in name else '"'
    return F.schema_of_variant(F.try_variant_get(F.try_parse_json("value"), f"$[{quote}{name}{quote}]", "variant"))


def _kind(schema: Column) -> Column:
    """A type in plain words."""
    return (
        F.when(schema.startswith("ARRAY"), F.lit(LIST))
        .when(schema.startswith("OBJECT"), F.lit("an object"))
        .when(schema == "STRING", F.lit("a string"))
        .when(schema == "BOOLEAN", F.lit("true or false"))
        .when(schema == "VOID", F.lit("null"))
        .otherwise(F.lit("a number"))
    )
