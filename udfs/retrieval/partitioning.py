"""How rows are spread for work that takes longer than its bytes suggest."""

from __future__ import annotations

from pyspark.sql import DataFrame


def repartitioned(rows: DataFrame, column: str, partitions: int | None) -> DataFrame:
    """Rows by a column in a stated number of partitions, by default as many as Spark shuffles into.

    Left to itself Spark would merge partitions of few bytes, and cores would stand idle.
    """
    number = str(partitions or rows.sparkSession.conf.get("spark.sql.shuffle.partitions"))
    # Some platforms say `auto`.
    return rows.repartition(int(number), column) if number.isdigit() else rows.repartition(column)
