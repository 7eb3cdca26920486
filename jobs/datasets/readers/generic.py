"""Formats `jsonl` and `parquet`: records whose columns the settings name.

A text has a list of labels, as names or as numbers. The optional label file has a column with the same labels, and
names, alternative names and descriptions; lines of names without columns are labels by their numbers.
"""

from __future__ import annotations

from pyspark.sql import Column, SparkSession

from jobs.datasets.readers.base import RawDataset, reader
from jobs.datasets.readers.label_files import is_plain, read_label_file
from jobs.datasets.readers.label_ids import Checked, checked_ids, checked_names
from jobs.datasets.readers.record_texts import record_texts
from jobs.datasets.readers.records import ReadRecords, json_records, parquet_records
from jobs.settings.prepare import PrepareSettings


@reader("jsonl", columns=True)
def jsonl(spark: SparkSession, settings: PrepareSettings) -> RawDataset:
    return _generic(spark, settings, json_records)


@reader("parquet", columns=True)
def parquet(spark: SparkSession, settings: PrepareSettings) -> RawDataset:
    return _generic(spark, settings, parquet_records)


def _generic(spark: SparkSession, settings: PrepareSettings, read: ReadRecords) -> RawDataset:
    numbered = settings.label_file is not None and is_plain(settings.label_file)
    known = read_label_file(spark, settings, "position" if numbered else "label")
    if known is None:
        return RawDataset(record_texts(spark, settings, settings.columns, read, checked_names))

    def check(labels: Column, place: Column) -> Checked:
        return checked_ids(labels, place, settings.first_label, known.count, known.source)

    texts = record_texts(spark, settings, settings.columns, read, check if numbered else checked_names)
    return RawDataset(texts, known.rows, known.source)
