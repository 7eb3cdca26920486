"""Reading what users bring: Parquet, catalog tables and TREC files, as DataFrames of one shape."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, IntegerType, LongType, StringType

from fusion.errors import InputError
from jobs.runtime.spark_errors import SPARK_ERRORS, spark_reason

TREC_SUFFIXES = (".trec", ".run", ".txt", ".qrels", ".qrel", ".tsv", ".res")
VERIFIED = {"parquet.page.verify-checksum.enabled": "true"}
"""Pages that carry a checksum are checked: a flipped bit is an error, not another number."""
RUN_FIELDS = ("text_id", "q0", "label_id", "rank", "score", "tag")
QRELS_FIELDS = ("text_id", "iteration", "label_id", "relevance")
BLANKS, BLANK_ENDS = r"[ \t\x0B\f\r]+", r"^[ \t\x0B\f\r]+|[ \t\x0B\f\r]+$"
NUMBER = r"(?i)^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?$|^[+-]?(nan|inf|infinity)$"
"""NaN and infinities are numbers here, so that they are reported as such, with the text they belong to."""


def source_format(source: str) -> tuple[str, str]:
    """How a source is read, and its path or name: an explicit prefix decides, then the looks of the name."""
    for prefix in ("table", "trec", "parquet"):
        if source.startswith(prefix + ":"):
            return prefix, source.removeprefix(prefix + ":")
    bare = source.removesuffix(".gz")
    if bare.endswith(TREC_SUFFIXES) or bare != source:
        return "trec", source
    if "/" not in source and "\\" not in source and "." in source and not bare.endswith(".parquet"):
        return "table", source
    return "parquet", source


def read_table(spark: SparkSession, source: str) -> DataFrame:
    """A Parquet path or a catalog table."""
    kind, name = source_format(source)
    try:
        table = spark.table(name) if kind == "table" else spark.read.options(**VERIFIED).parquet(name)
        _ = table.columns
    except SPARK_ERRORS as error:
        raise InputError(f"cannot read {source}: {spark_reason(error)}") from None
    return table


def read_run(spark: SparkSession, source: str) -> DataFrame:
    """Candidates in long form (text_id, label_id, score) or list form (text_id, label_ids, scores)."""
    if source_format(source)[0] == "trec":
        lines = _fields(spark, source, RUN_FIELDS, "score")
        return lines.select("text_id", "label_id", F.expr("try_cast(score AS double)").alias("score"))
    table = read_table(spark, source)
    wanted = ["text_id", "label_ids", "scores"] if "label_ids" in table.columns else ["text_id", "label_id", "score"]
    require(table, source, wanted)
    return table


def read_judgements(spark: SparkSession, source: str) -> DataFrame:
    """The relevant labels of each text, one row a text: text_id, label_ids. Judged texts may have none."""
    if source_format(source)[0] == "trec":
        lines = _fields(spark, source, QRELS_FIELDS, "relevance")
        relevant = F.expr("try_cast(relevance AS double) > 0")
        found = F.collect_list(F.when(relevant, F.col("label_id")))
        return lines.groupBy("text_id").agg(found.alias("label_ids"))
    table = read_table(spark, source)
    if "label_ids" in table.columns:
        require(table, source, ["text_id", "label_ids"])
        return table.select("text_id", "label_ids")
    require(table, source, ["text_id", "label_id"])
    # As structs, since collecting drops nulls, which are to be reported.
    pairs = table.groupBy("text_id").agg(F.collect_list(F.struct("label_id")).alias("pairs"))
    return pairs.select("text_id", F.col("pairs.label_id").alias("label_ids"))


def require(table: DataFrame, source: str, columns: Sequence[str]) -> None:
    """Refuse a table that lacks a column, or whose ids and scores are of no use as such."""
    missing = [column for column in columns if column not in table.columns]
    if missing:
        raise InputError(
            f"{source}: missing column{'s' * (len(missing) > 1)} {', '.join(map(repr, missing))}; "
            f"it has {', '.join(table.columns) or 'none'}"
        )
    for column in columns:
        kind = table.schema[column].dataType
        if not isinstance(_inner(kind) if column in LISTS else kind, ALLOWED.get(column, DataType)):
            raise InputError(f"{source}: column {column!r} is {kind.simpleString()}, expected {EXPECTED[column]}")


IDS = (IntegerType, LongType, StringType)
ALLOWED = {
    "text_id": IDS,
    "label_id": IDS,
    "label_ids": IDS,
    "score": (FloatType, DoubleType),
    "scores": (FloatType, DoubleType),
    "label_group": (StringType,),
    "retriever": (StringType,),
    "fold": (IntegerType, LongType),
    "role": (StringType,),
}
LISTS = ("label_ids", "scores")
EXPECTED = {
    column: ("an array of " if column in LISTS else "") + " or ".join(kind().simpleString() for kind in kinds)
    for column, kinds in ALLOWED.items()
}


def common_type(tables: Sequence[DataFrame], column: str) -> DataType:
    """The narrowest type that holds a column of several tables."""
    order: list[type[DataType]] = [IntegerType, LongType, FloatType, DoubleType, StringType]
    kinds = [_inner(table.schema[column].dataType) for table in tables]
    return max(kinds, key=lambda kind: order.index(type(kind)))


def _inner(kind: DataType) -> DataType:
    return kind.elementType if isinstance(kind, ArrayType) else kind


def _fields(spark: SparkSession, source: str, names: Sequence[str], number: str) -> DataFrame:
    """The lines of a TREC file, split at white space. A line that does not fit is an error."""
    path = source_format(source)[1]
    try:
        lines = spark.read.text(path)
        _ = lines.columns
    except SPARK_ERRORS as error:
        raise InputError(f"cannot read {source}: {spark_reason(error)}") from None
    words = split_lines(lines, names, number)
    first = words.where("not fits").select("value").limit(5).collect()
    if first:
        raise InputError(
            f"{source}: expected lines of {len(names)} columns ({' '.join(names)}) with a number as {number}; found\n"
            + "\n".join(f"  {row['value'][:200]!r}" for row in first)
        )
    if words.isEmpty():
        raise InputError(f"{source} is empty")
    return words.select(*(F.col("words")[i].alias(name) for i, name in enumerate(names)))


def split_lines(lines: DataFrame, names: Sequence[str], number: str) -> DataFrame:
    """The words of every line (column `value`) that has some, and whether they are what they should be."""
    words = lines.select("value", F.split(F.regexp_replace("value", BLANK_ENDS, ""), BLANKS).alias("words"))
    value = F.try_element_at("words", F.lit(names.index(number) + 1))
    # Not all that Java takes for a number is one to people: 1d, 0x1p3.
    numeric = F.coalesce(value.rlike(NUMBER), F.lit(False))
    return words.where("words[0] <> ''").withColumn("fits", (F.size("words") == len(names)) & numeric)
