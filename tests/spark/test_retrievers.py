"""Every retriever gives the same lists in this process and on Spark, on any number of partitions and with any ids."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from jobs.engines.spark import SparkEngine
from jobs.settings.config import with_settings
from tests.retrieval_data import make_data, tiny_bert, write_prepared
from tests.unit.test_retrievers import NAMES, OWN, Lists, configure, retrieved, small_buckets

__all__ = ["small_buckets"]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return tiny_bert(tmp_path_factory.mktemp("tiny-bert"))


@pytest.fixture(scope="module")
def here(model, tmp_path_factory) -> Lists:
    work = tmp_path_factory.mktemp("here")
    write_prepared(work, make_data())
    return retrieved(configure(work, model))


@pytest.fixture(scope="module", params=[pytest.param(1, marks=pytest.mark.drill), 8])
def on_spark(request, spark, model, tmp_path_factory) -> Lists:
    work = tmp_path_factory.mktemp("spark")
    write_prepared(work, make_data())
    return retrieved(configure(work, model), SparkEngine(spark, request.param))


@pytest.mark.parametrize("name", NAMES)
def test_the_same_lists(here, on_spark, name: str) -> None:
    assert on_spark[name] == here[name]


def test_ids_that_are_strings(spark, model, here, tmp_path) -> None:
    """In the order of the numbers they were, so that equal neighbours come in the same order."""
    write_prepared(tmp_path, make_data())
    (prepared,) = (path for path in (tmp_path / "made/prepared").glob("*-*") if path.is_dir())
    for name in ("samples", "folds"):
        table = pq.read_table(prepared / f"{name}.parquet")
        ids = pc.binary_join_element_wise("t", pc.utf8_lpad(table["text_id"].cast(pa.string()), 4, "0"), "")
        place = table.column_names.index("text_id")
        pq.write_table(table.set_column(place, "text_id", ids), prepared / f"{name}.parquet")
    # The vectors of transformers depend on which texts are encoded together, in their last bits.
    compared = [name for name in NAMES if not name.startswith("dense")]
    chosen = [str(OWN) if name == "name-words" else name for name in compared]
    config = with_settings(configure(tmp_path, model), {"retrievers": chosen})
    for name, lists in retrieved(config, SparkEngine(spark, 2)).items():
        assert sorted((*row[:2], int(row[2][1:]), *row[3:]) for row in lists) == sorted(here[name])
