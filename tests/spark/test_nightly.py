"""Job `nightly` on Spark: the same figures as in this process, a history in catalog tables, fingerprints of tables."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from fusion.errors import OutputError
from jobs.nights.datasets import rows_fingerprint
from jobs.nights.history import History
from jobs.nights.lease import held_lease
from jobs.nights.tables import TABLES, FencedError
from tests.nights import Site, good_texts


def test_a_night_on_spark_follows_one_without(spark: SparkSession, tmp_path: Path) -> None:
    """Another engine is no change: every figure, check and digest is the same."""
    site = Site(tmp_path, good_texts(120))
    first = site.run("local")
    site.work.joinpath("sample", "nightly").rename(tmp_path / "away")
    second = site.run("spark", spark, grid__engine="arrays")
    assert second["sample"].results.built
    assert (second.exit_code, second.problems) == (0, ())
    assert second["sample"].figures == first["sample"].figures
    changes = {one.change for one in second["sample"].compared}
    assert {(change.difference, change.new, change.gone) for change in changes} == {(0.0, 0, 0)}
    counted = [
        {name: value for name, value in night["sample"].counts.quantities.items() if not name.startswith("age")}
        for night in (first, second)
    ]
    assert counted[0] == counted[1]
    judged = [night["sample"].counts.judged.sort_by("text_id") for night in (first, second)]
    assert judged[0].equals(judged[1])


@pytest.mark.drill
def test_history_in_catalog_tables(spark: SparkSession, tmp_path: Path) -> None:
    site = Site(tmp_path, good_texts(60))
    place = "table:nights.xmtc"
    spark.sql("create database if not exists nights")
    try:
        for run_id in ("a", "b", "b"):
            night = site.run(run_id, nightly__history=place)
        assert night["sample"].against == "a"
        history = History(place, spark)
        assert [(row["run_id"], row["verdict"]) for row in history.runs()] == [("a", "ok"), ("b", "ok")]
        assert [row["attempt"] for row in history.attempts()] == [1, 2, 3]
        counted = spark.sql("select run_id, count(*) as attempts from nights.xmtc_runs group by run_id order by run_id")
        assert [tuple(row) for row in counted.collect()] == [("a", 1), ("b", 2)]
        answer = history.sql("SELECT run_id, count(*) AS attempts FROM runs GROUP BY run_id ORDER BY run_id")
        assert answer["attempts"].to_pylist() == [1, 2]
        with held_lease(history.storage, "c", 60) as lease:
            with pytest.raises(OutputError, match=r"night c .* has been running"), held_lease(history.storage, "d", 60):
                pass
            other = History(place, spark)
            with held_lease(other.storage, "d", 60, broken="c"), pytest.raises(FencedError, match="night d"):
                history.commit([{**history.runs()[0], "run_id": "c", "attempt": lease.number}])
        with held_lease(history.storage, "e", 60) as lease:
            history.forget(["a"], lease.number)
        for name in set(TABLES) - {"choices", "predictions"}:  # nothing is tuned or labelled here
            left = spark.table(f"nights.xmtc_{name}").select("run_id").distinct().collect()
            assert [row["run_id"] for row in left] == ["b"]
    finally:
        spark.sql("drop database nights cascade")


def test_fingerprints_see_equal_rows_and_nulls(spark: SparkSession) -> None:
    def fingerprint(rows: list[tuple[object, ...]]) -> list[object]:
        return rows_fingerprint(spark.createDataFrame(rows, "a string, b string, c array<string>"))

    first, second = ("x", "y", ["z"]), ("p", "q", ["r"])
    # In an exclusive or, two equal rows cancel each other out, whatever they are.
    assert fingerprint([first, first]) != fingerprint([second, second])
    assert fingerprint([first, second]) == fingerprint([second, first])
    # Spark's hashes pass over nulls: where they are made no difference.
    assert fingerprint([("x", None, ["z"])]) != fingerprint([(None, "x", ["z"])])
    assert fingerprint([("x", "y", [None, "z"])]) != fingerprint([("x", "y", ["z", None])])
    assert fingerprint([("x", "y", None)]) != fingerprint([("x", "y", [])])


def test_an_arrow_table_becomes_a_table_of_the_catalog(spark: SparkSession) -> None:
    history = History("table:empty_nights", spark)
    assert history.runs() == [] and history.read("watched") is None
    history.append("label_counts", pa.table({"label": ["a"], "texts": [1]}), "n", "données", 1)
    try:
        assert history.read_attempts("label_counts", {("n", "données", 1)})["texts"].to_pylist() == [1]  # type: ignore[index]
    finally:
        spark.sql("drop table empty_nights_label_counts")
