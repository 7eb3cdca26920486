"""Format `lines-ids`: a line of text, a line of label numbers, and a file of label names.

The form of the `xmc-base` collection: X.trn.txt, Y.trn.txt (numbers with commas or spaces between them) and
output-items.txt, whose n-th line names label n.
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs.datasets.readers.aligned import aligned_texts
from jobs.datasets.readers.base import RawDataset, reader
from jobs.datasets.readers.label_files import read_label_file
from jobs.datasets.readers.label_ids import Checked, checked_ids
from jobs.datasets.readers.lines import Lines
from jobs.settings.prepare import PrepareSettings


@reader("lines-ids", label_lines=True)
def lines_ids(spark: SparkSession, settings: PrepareSettings) -> RawDataset:
    names = read_label_file(spark, settings, "position")

    def parse(lines: Lines) -> Checked:
        words = F.filter(F.split("value", r"[\s,]+"), lambda word: word != "")
        known = names.count if names else None
        return checked_ids(words, F.col("place"), settings.first_label, known, names.source if names else "")

    texts = aligned_texts(spark, settings, parse)
    return RawDataset(texts, names.rows, names.source) if names else RawDataset(texts)
