"""The inputs as Spark DataFrames: Parquet, catalog tables and TREC files anywhere Spark can read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from fusion.errors import InputError
from fusion.statistics.watchers import FEWEST_WORDS, UNKNOWN
from jobs.engines.errors import SPARK_ERRORS, spark_reason
from jobs.inputs.files import is_misnamed_gzip
from jobs.inputs.lines import is_wide
from jobs.inputs.local import Judgement, plain_types, repeated_judgements, type_name
from jobs.inputs.readers import read_trec
from jobs.inputs.sources import (
    JSON_SUFFIXES,
    NUMBER,
    QRELS_FIELDS,
    RUN_FIELDS,
    SHOWN_LINES,
    Source,
    bad_lines,
    check_columns,
    judgement_columns,
    require,
    run_columns,
    source_format,
    typed_ids,
)
from jobs.inputs.tables import FOLD, Frequencies, Placed, RowTypes
from jobs.storage.versions import resolve
from udfs.lists import JUDGEMENT, LabelGroups, number_labels
from udfs.run_tables import KINDS_SCHEMA, RANX_SCHEMA, line_kinds, line_rows, merged_kinds, ranx_rows, read_jsonl_run
from udfs.stores.addresses import for_spark
from udfs.text_files import encoding_error

VERIFIED = {"parquet.page.verify-checksum.enabled": "true"}
"""Pages that carry a checksum are checked: a flipped bit is an error, not another number."""
BLANKS, BLANK_ENDS = r"[ \t\x0B\f\r]+", r"^[ \t\x0B\f\r]+|[ \t\x0B\f\r]+$"


class SparkTables:
    """The inputs of the engines `arrays` and `windows`."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._read: dict[str, DataFrame] = {}

    def read(self, source: Source, name: str) -> DataFrame:
        """A Parquet path, a catalog table, an Arrow table or a DataFrame."""
        if isinstance(source, pa.Table):
            check_columns(source.column_names, name)
            return self.spark.createDataFrame(plain_types(source))
        if not isinstance(source, str):
            return source
        if source not in self._read:
            # Spark lists the files and starts a job that reads a schema, which once is enough.
            self._read[source] = read_table(self.spark, source)
        return self._read[source]

    def read_run(self, source: Source, name: str) -> DataFrame:
        if isinstance(source, str) and source_format(source)[0] == "trec":
            lines = _fields(self.spark, source, RUN_FIELDS, "score")
            return lines.select("text_id", "label_id", F.expr("try_cast(score AS double)").alias("score"))
        kind = source_format(source)[0] if isinstance(source, str) else ""
        table = read_json_run(self.spark, source, kind) if kind in JSON_SUFFIXES else self.read(source, name)
        require(self.columns(table), name, run_columns(self.columns(table)))
        return table

    def read_judgements(self, source: Source, name: str) -> DataFrame:
        if isinstance(source, str) and source_format(source)[0] == "trec":
            lines = _fields(self.spark, source, QRELS_FIELDS, "relevance")
            table = lines.select("text_id", "label_id", F.expr("try_cast(relevance AS double)").alias("grade"))
            if not table.groupBy("text_id", "label_id").count().where("count > 1").isEmpty():
                raise repeated_judgements(name, _repeated(self.spark, source))
        else:
            table = self.read(source, name)
        wanted = judgement_columns(self.columns(table))
        require(self.columns(table), name, wanted)
        if "label_ids" in wanted:
            return table.select(*wanted)
        # As structs, since collecting drops nulls, which are to be reported.
        pairs = table.groupBy("text_id").agg(F.collect_list(F.struct(*wanted[1:])).alias("pairs"))
        return pairs.select("text_id", *(F.col(f"pairs.{column}").alias(f"{column}s") for column in wanted[1:]))

    def has_grades(self, judgements: DataFrame) -> bool:
        if "grades" not in judgements.columns:
            return False
        other = F.exists("grades", lambda grade: F.coalesce(~grade.isin(0.0, 1.0), F.lit(True)))
        return not judgements.where(F.coalesce(other, F.lit(True))).isEmpty()

    def graded_from(self, judgements: DataFrame, lowest: float) -> DataFrame:
        # Grades that are no numbers stay, and so do labels that are judged twice, to be reported by the workers.
        repeated = F.size(F.array_distinct("label_ids")) < F.size("label_ids")

        def kept(pair: Column) -> Column:
            grade = pair["grades"]
            return repeated | F.coalesce((grade >= lowest) | (grade == float("-inf")), F.lit(True))

        pairs = F.filter(F.arrays_zip("label_ids", "grades"), kept)
        others = [name for name in judgements.columns if name not in ("label_ids", "grades")]
        rows = judgements.select(*others, pairs.alias("pairs"))
        return rows.select(*others, *(F.col(f"pairs.{name}").alias(name) for name in ("label_ids", "grades")))

    def relevant_only(self, judgements: DataFrame, relevant_from: float) -> DataFrame:
        if "grades" not in judgements.columns:
            return judgements
        return self.graded_from(judgements, relevant_from).drop("grades")

    def columns(self, table: DataFrame) -> dict[str, str]:
        return {field.name: field.dataType.simpleString() for field in table.schema.fields}

    def arrow(self, table: DataFrame, columns: Sequence[str]) -> pa.Table:
        return table.select(*columns).toArrow()

    def distinct(self, table: DataFrame, column: str) -> list[Any]:
        return [row[column] for row in table.select(column).distinct().collect()]

    def first_values(self, table: DataFrame, column: str, most: int) -> list[str]:
        return [str(row[column]) for row in table.select(column).distinct().orderBy(column).limit(most).collect()]

    def is_empty(self, table: DataFrame) -> bool:
        return table.isEmpty()

    def has_nulls(self, table: DataFrame, column: str) -> bool:
        return not table.where(F.col(column).isNull()).isEmpty()

    def first_repeated(self, table: DataFrame, columns: Sequence[str]) -> dict[str, Any] | None:
        twice = table.groupBy(*columns).count().where("count > 1").orderBy(*columns).select(*columns)
        return next((row.asDict() for row in twice.limit(1).collect()), None)

    def size(self, table: DataFrame) -> int:
        return table.count()

    def equal(self, table: DataFrame, column: str, value: str | int, nulls: bool = False) -> DataFrame:
        return table.where(F.coalesce(F.col(column) == value, F.lit(True)) if nulls else F.col(column) == value)

    def unequal(self, table: DataFrame, column: str, value: str) -> DataFrame:
        return table.where(F.col(column) != value)

    def without(self, table: DataFrame, column: str) -> DataFrame:
        return table.drop(column)

    def having(self, table: DataFrame, column: str, ids: Sequence[str]) -> DataFrame:
        # Compared in the column's own type, so that files and row groups can be skipped.
        return table.where(F.col(column).isin(typed_ids(self.columns(table)[column], ids)))

    def with_texts(self, table: DataFrame, others: Sequence[DataFrame], among: bool) -> DataFrame:
        # As strings, in which all ids can be compared.
        known = reduce(
            DataFrame.union, [other.select(F.col("text_id").cast("string").alias("known")) for other in others]
        )
        return table.join(
            known.distinct(), F.col("text_id").cast("string") == F.col("known"), "left_semi" if among else "left_anti"
        )

    def frequencies(self, judgements: DataFrame) -> Frequencies:
        """Counted by Spark; one row per label comes back."""
        labels = judgements.select(F.explode("label_ids").alias("label_id")).where("label_id is not null")
        counted = labels.groupBy("label_id").count().toArrow()
        ids = counted["label_id"].combine_chunks()
        order = pa.array(np.argsort(number_labels(ids)[0]))
        return Frequencies(ids.take(order), counted["count"].combine_chunks().take(order).to_numpy())

    def accented_labels(self, table: DataFrame) -> list[str]:
        label = F.explode("label_ids") if "label_ids" in table.columns else F.col("label_id")
        labels = table.select(label.alias("label")).where(F.octet_length("label") > F.length("label"))
        return [row["label"] for row in labels.distinct().collect()]

    def unseen_labels(self, judgements: DataFrame, roles: DataFrame) -> dict[int, pa.Array]:
        """Training texts are the many, so the others are counted: a label that they carry as often as all texts do has
        no training text."""
        pairs = judgements.select("text_id", F.explode("label_ids").alias("label_id")).where("label_id is not null")
        total = pairs.groupBy("label_id").agg(F.count("*").alias("total"))
        held_out = roles.where(F.col("role") != "train")
        counted = (
            held_out.select("fold", "text_id", (F.col("role") == "test").alias("test"))
            .join(pairs, "text_id")
            .groupBy("fold", "label_id")
            .agg(F.count("*").alias("held_out"), F.max("test").alias("tested"))
        )
        unseen = counted.join(total, "label_id").where("tested and held_out = total").toArrow()
        label_of, folds = unseen["label_id"].combine_chunks(), unseen["fold"].to_numpy()
        return {int(fold): label_of.filter(pa.array(folds == fold)) for fold in np.unique(folds)}

    def in_fold(self, table: DataFrame, folds: DataFrame | None) -> DataFrame:
        if folds is None:
            return table.withColumn("fold", F.lit(FOLD))
        if "fold" in table.columns:
            return table
        # A row without a text stays, to be reported by the workers.
        fold_of = folds.select(F.col("text_id").alias("known"), "fold")
        no_text = F.lit(None).cast(fold_of.schema["known"].dataType)
        nobody = self.spark.range(1).select(no_text.alias("known"), F.lit(FOLD).alias("fold"))
        return table.join(fold_of.union(nobody), F.col("text_id").eqNullSafe(F.col("known"))).drop("known")

    def list_rows(self, run: DataFrame, place: Placed, types: RowTypes) -> DataFrame:
        if "label_ids" not in run.columns or place.divided != ("label_group" in run.columns):
            run = self._as_lists(run, place.divided, place.groups)
        slot = F.lit(0)
        if place.divided:
            slot = F.array_position(F.array(*map(F.lit, place.slots)), F.col("label_group")) - 1
        rows = _cast(run.withColumn("list", slot + F.lit(place.first_code)), types)
        if not place.distances:
            return rows
        # Subtracted from 0, which stays 0 without a sign.
        return rows.withColumn("scores", F.transform("scores", lambda score: F.lit(0).cast(types.score) - score))

    def judgement_rows(self, judgements: DataFrame, types: RowTypes) -> DataFrame:
        scores = F.transform("label_ids", lambda _: F.lit(0.0))
        if "grades" in judgements.columns:
            scores = F.col("grades")
        code = F.lit(JUDGEMENT)
        if "words" in judgements.columns:
            words = F.coalesce(F.col("words"), F.lit(UNKNOWN))
            code = code - reduce(add, [(words >= fewest).cast("int") for fewest in FEWEST_WORDS])
        return _cast(judgements.withColumn("list", code).withColumn("scores", scores), types)

    def union(self, tables: Sequence[DataFrame]) -> DataFrame:
        return reduce(DataFrame.union, tables)

    def _as_lists(self, candidates: DataFrame, divided: bool, groups: LabelGroups | None) -> DataFrame:
        """Long rows, or lists that are not divided by label group as they should be, as one row per list."""
        if "label_ids" in candidates.columns:
            pair = F.explode(F.arrays_zip("label_ids", "scores"))
            kept = [name for name in ("text_id", "fold", "label_group") if name in candidates.columns]
            candidates = candidates.select(*kept, pair.alias("pair")).select(
                *kept, F.col("pair.label_ids").alias("label_id"), F.col("pair.scores").alias("score")
            )
        keys = ["text_id", "fold"]
        if divided:
            keys.append("label_group")
            if "label_group" not in candidates.columns:
                assert groups is not None
                # A label without a group goes to any list; the workers look every label up and report it.
                stray = groups.names[max(groups.unknown, 0)]
                known = self.spark.createDataFrame(
                    pa.table({"label_id": groups.ids, "label_group": pa.array(np.array(groups.names)[groups.codes])})
                )
                candidates = candidates.join(F.broadcast(known), "label_id", "left").fillna(stray, ["label_group"])
        pairs = F.collect_list(F.struct("label_id", "score"))
        lists = candidates.groupBy(*keys).agg(pairs.alias("pairs"))
        return lists.select(*keys, F.col("pairs.label_id").alias("label_ids"), F.col("pairs.score").alias("scores"))


def _cast(rows: DataFrame, types: RowTypes) -> DataFrame:
    return rows.select(
        F.col("text_id").cast(types.text),
        F.col("fold").cast("int"),
        F.col("list").cast("int"),
        F.col("label_ids").cast(f"array<{types.label}>"),
        F.col("scores").cast(f"array<{types.score}>"),
    )


def require_columns(table: DataFrame, source: str, wanted: Sequence[str]) -> None:
    """Refuse a DataFrame that lacks a column, or in which one is of another type than its name requires."""
    require({field.name: field.dataType.simpleString() for field in table.schema.fields}, source, wanted)


def read_table(spark: SparkSession, source: str) -> DataFrame:
    """A Parquet path or a catalog table."""
    kind, name = source_format(source)
    try:
        table = spark.table(name) if kind == "table" else spark.read.options(**VERIFIED).parquet(spark_path(name))
        _ = table.columns
    except SPARK_ERRORS as error:
        raise InputError(f"cannot read {source}: {spark_reason(error)}") from None
    return table


def read_json_run(spark: SparkSession, source: str, kind: str) -> DataFrame:
    """A run of one JSON object per line, or of one object as ranx writes it; parsed as in this process."""
    path = spark_path(source_format(source)[1])
    return _jsonl_run(spark, path, source) if kind == "jsonl" else _ranx_run(spark, path, source)


def _ranx_run(spark: SparkSession, path: str, source: str) -> DataFrame:
    try:
        files = spark.read.format("binaryFile").load(path).select("content")
        rows = files.mapInArrow(ranx_rows(source), RANX_SCHEMA)
        problems = rows.where("problem is not null").select("problem").limit(1).collect()
    except SPARK_ERRORS as error:
        raise InputError(f"cannot read {source}: {spark_reason(error)}") from None
    for row in problems:
        raise InputError(row["problem"])
    return rows.drop("problem")


def _jsonl_run(spark: SparkSession, path: str, source: str) -> DataFrame:
    from jobs.inputs.lines import read_lines

    if is_misnamed_gzip(path):
        return spark.createDataFrame(read_jsonl_run(path, source))
    _text_lines(spark, path, source)
    lines = read_lines(spark, [path]).rows.where(F.trim("value") != "")
    given = lines.select("place", F.col("value").cast("binary").alias("value"))
    try:
        found = given.mapInArrow(line_kinds, KINDS_SCHEMA).distinct().collect()
    except SPARK_ERRORS as error:
        raise InputError(f"cannot read {source}: {spark_reason(error)}") from None
    for problem in sorted((row["problem"] for row in found if row["problem"]), key=_line_number):
        raise InputError(problem)
    if not found:
        raise InputError(f"{source} is empty")
    kinds = merged_kinds([pa.ipc.read_schema(pa.py_buffer(row["kinds"])) for row in found], source)
    require({field.name: type_name(field.type) for field in kinds}, source, ["text_id"])
    schema = ", ".join(f"{field.name} {type_name(field.type)}" for field in kinds)
    return given.mapInArrow(line_rows(kinds), schema)


def _line_number(problem: str) -> int:
    """The first line that a message names."""
    number = re.search(r" line ([0-9]+)", problem)
    return int(number[1]) if number else 0


def spark_path(path: str) -> str:
    """Where Spark reads a path: in the version of the folder that is read, by the name that Spark has for the store."""
    return for_spark(resolve(path))


def _fields(spark: SparkSession, source: str, names: Sequence[str], number: str) -> DataFrame:
    """The lines of a TREC file, split at white space. A line that does not fit is an error."""
    path = spark_path(source_format(source)[1])
    if is_misnamed_gzip(path):
        # Spark goes by the name; this process goes by the bytes.
        return spark.createDataFrame(read_trec(path, source, names, number))
    words = split_lines(_text_lines(spark, path, source), names, number)
    if not words.where("not fits or not valid").isEmpty():
        raise _unfit(spark, path, source, names, number)
    if words.isEmpty():
        raise InputError(f"{source} is empty")
    return words.select(*(F.col("words")[i].alias(name) for i, name in enumerate(names)))


def _text_lines(spark: SparkSession, path: str, source: str) -> DataFrame:
    try:
        lines = spark.read.text(path)
        _ = lines.columns
    except SPARK_ERRORS as error:
        raise InputError(f"cannot read {source}: {spark_reason(error)}") from None
    return lines


def _unfit(spark: SparkSession, path: str, source: str, names: Sequence[str], number: str) -> InputError:
    """The error for lines that do not fit, with their numbers: a second look, since Spark's lines have none."""
    from jobs.inputs.lines import read_lines

    lines = split_lines(read_lines(spark, [path]).rows, names, number, "line")
    raw = F.col("value").cast("binary").alias("raw")
    for row in lines.where("not valid").orderBy("line").select("line", raw).limit(1).collect():
        return encoding_error(source, row["line"] + 1, bytes(row["raw"]))
    rows = lines.where("not fits").orderBy("line").select("line", "value").limit(SHOWN_LINES).collect()
    return bad_lines(source, names, number, [(row["line"] + 1, row["value"]) for row in rows])


def _repeated(spark: SparkSession, source: str) -> list[Judgement]:
    """The lines of a qrels file that judge a label of a text twice: the first few labels."""
    from jobs.inputs.lines import read_lines

    words = split_lines(read_lines(spark, [source_format(source)[1]]).rows, QRELS_FIELDS, "relevance", "line")
    fields = {name: F.col("words")[i] for i, name in enumerate(QRELS_FIELDS)}
    lines = words.select((F.col("line") + 1).alias("line"), *(field.alias(name) for name, field in fields.items()))
    pair = ["text_id", "label_id"]
    twice = lines.groupBy(*pair).agg(F.count("*").alias("lines"), F.min("line").alias("first")).where("lines > 1")
    rows = lines.join(twice.orderBy("first").limit(SHOWN_LINES), pair).orderBy("line").collect()
    return [Judgement(row["line"], row["text_id"], row["label_id"], float(row["relevance"])) for row in rows]


def split_lines(lines: DataFrame, names: Sequence[str], number: str, *kept: str) -> DataFrame:
    """The words of every line (column `value`) that has some, and whether they are what they should be."""
    valid = (F.is_valid_utf8("value") & ~is_wide(F.col("value"))).alias("valid")
    stripped = F.regexp_replace("value", BLANK_ENDS, "")
    words = lines.select(*kept, "value", valid, F.split(stripped, BLANKS).alias("words"))
    value = F.try_element_at("words", F.lit(names.index(number) + 1))
    # Not all that Java takes for a number is one to people: 1d, 0x1p3.
    numeric = F.coalesce(value.rlike(NUMBER), F.lit(False))
    return words.where("words[0] <> ''").withColumn("fits", (F.size("words") == len(names)) & numeric)
