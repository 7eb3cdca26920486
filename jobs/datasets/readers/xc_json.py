"""Format `xc-json`: the JSON lines of the extreme classification repository.

trn.json.gz and tst.json.gz hold objects with `title`, `content` and `target_ind` (the numbers of the labels). The
label file is lbl.json.gz, whose n-th object has the `title` of label n, or lines of names (Yf.txt).
"""

from __future__ import annotations

from pyspark.sql import Column, SparkSession

from jobs.datasets.readers.base import RawDataset, reader
from jobs.datasets.readers.label_files import read_label_file
from jobs.datasets.readers.label_ids import Checked, checked_ids
from jobs.datasets.readers.record_texts import record_texts
from jobs.datasets.readers.records import json_records
from jobs.settings.prepare import Columns, PrepareSettings

TEXTS = Columns(text=["title", "content"], labels="target_ind")
LABELS = Columns(label="uid", name="title", description="content")


@reader("xc-json", columns=True)
def xc_json(spark: SparkSession, settings: PrepareSettings) -> RawDataset:
    names = read_label_file(spark, settings, "position", LABELS)

    def check(labels: Column, place: Column) -> Checked:
        known = names.count if names else None
        return checked_ids(labels, place, settings.first_label, known, names.source if names else "")

    texts = record_texts(spark, settings, TEXTS, json_records, check)
    return RawDataset(texts, names.rows, names.source) if names else RawDataset(texts)
