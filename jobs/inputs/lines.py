"""Text files as numbered lines, whatever the number of files, blocks and partitions.

Spark reads a file in blocks, and rows carry no line numbers. But all lines of a block are read in order by one task,
and the rows say which block they come from. So lines are counted by block first; a line's number is then the number
of lines in all blocks before its own, plus its place within the block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from fusion.errors import InputError
from jobs.engines.errors import SPARK_ERRORS, spark_reason
from jobs.settings.prepare import Encoding
from udfs.stores.addresses import for_spark

BLOCKS = ["file", "block", "first_row", "block_lines", "first_line", "file_line", "file_name"]
NOT_UTF8 = "not UTF-8; set prepare.encoding or prepare.label_encoding, or convert it"
WIDE = "text in UTF-16 or UTF-32; convert the file, as in: iconv -f utf-16 -t utf-8"
CHANGED = "the files were divided differently when read again (did they change, or the cluster?); run the job once more"


@dataclass
class Lines:
    """The lines of one or several files, in the order of the files' names.

    rows: line long (from 0, over all files), value string (without its line break), unreadable string (why it could
    not be decoded; null if it could), place string (file and line, for messages).
    """

    rows: DataFrame
    count: int
    source: str

    @property
    def problem(self) -> Column:
        """What is wrong with a line as such."""
        return F.concat("place", F.lit(": "), "unreadable")


def read_lines(spark: SparkSession, paths: list[str], encoding: Encoding = "utf-8") -> Lines:
    """Numbered lines. A line ends with \\n or \\r\\n; the last one need not end at all."""
    source = source_of(paths)
    try:
        # Only \n ends a line: with Spark's default a stray \r would shift every line after it.
        raw = spark.read.option("lineSep", "\n").text(list(map(for_spark, paths)))
        rows = raw.select(
            "value",
            F.col("_metadata.file_path").alias("file"),
            F.col("_metadata.file_block_start").alias("block"),
            F.monotonically_increasing_id().alias("row"),
        )
        counts = rows.groupBy("file", "block").agg(F.min("row"), F.count("*")).collect()
    except SPARK_ERRORS as error:
        raise reading_error(source, error) from None
    if not counts:
        raise InputError(f"{source} is empty")

    blocks = []
    lines, before, last = 0, 0, None
    for file, block, first_row, block_lines in sorted(tuple(row) for row in counts):
        if file != last:
            before, last = lines, file
        blocks.append((file, block, first_row, block_lines, lines, before, shown(file)))
        lines += block_lines

    known = F.broadcast(local_table(spark, BLOCKS, blocks))
    place = F.col("row") - F.col("first_row")
    # Both passes must have seen the same blocks at the same places, or numbers would be wrong without a sign.
    same = F.col("first_row").isNotNull() & (place >= 0) & (place < F.col("block_lines"))
    line = F.when(same, F.col("first_line") + place).otherwise(F.raise_error(F.lit(CHANGED)))
    value, valid = F.col("value"), F.is_valid_utf8("value")
    if encoding != "utf-8":
        value, valid = F.decode(value.cast("binary"), "ISO-8859-1"), F.lit(True)
    unreadable = F.when(is_wide(F.col("value")), F.lit(WIDE)).when(~valid, F.lit(NOT_UTF8))
    bare = F.when(value.endswith("\r"), F.left(value, F.length(value) - 1)).otherwise(value)
    numbered = rows.join(known, ["file", "block"], "left").select(
        line.alias("line"), bare.alias("value"), unreadable.alias("unreadable"), "file_name", "file_line"
    )
    where = F.concat("file_name", F.lit(" line "), F.col("line") - F.col("file_line") + 1)
    return Lines(numbered.select("line", "value", "unreadable", where.alias("place")), lines, source)


def shown(file: str) -> str:
    """A file's address as people write it."""
    return "/" + unquote(file).removeprefix("file:").lstrip("/") if file.startswith("file:") else unquote(file)


def same_length(texts: Lines, labels: Lines, header: int = 0) -> None:
    """Refuse files that cannot belong together, line by line."""
    if texts.count != labels.count - header:
        after = " after its header" if header else ""
        raise InputError(
            f"{texts.source} has {texts.count:,} lines and {labels.source} has {labels.count - header:,}{after}: "
            "line n of the one belongs to line n of the other, so they must have the same number"
        )


def source_of(paths: list[str]) -> str:
    """Some files as messages name them."""
    return ", ".join(paths)


def reading_error(source: str, error: BaseException) -> InputError:
    """What Spark says about a file that it cannot read, in one line."""
    remedy = "; check prepare.folder and the names of the files" if isinstance(error, AnalysisException) else ""
    return InputError(f"cannot read {source}: {spark_reason(error)}{remedy}")


def local_table(spark: SparkSession, names: list[str], rows: Sequence[tuple[Any, ...]]) -> DataFrame:
    """A small table from Python values. By way of Arrow, since plain rows would start Python workers."""
    return spark.createDataFrame(pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows]))


def is_wide(line: Column) -> Column:
    """Whether a line is one of UTF-16 or UTF-32: by a byte order mark, or by its many NULs."""
    marked = ~F.is_valid_utf8(line) & F.hex(F.substring(line.cast("binary"), 1, 2)).isin("FFFE", "FEFF")
    return marked | (4 * F.length(F.translate(line, "\0", "")) < 3 * F.length(line))
