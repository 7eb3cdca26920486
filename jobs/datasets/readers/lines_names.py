"""Format `lines-names`: a line of text, and a line of label names.

The form of AttentionXML and its successors: train_raw_texts.txt (or train_texts.txt) and train_labels.txt. A label
file is optional; without one, the labels in use are all there are.
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs.datasets.readers.aligned import aligned_texts
from jobs.datasets.readers.base import RawDataset, reader
from jobs.datasets.readers.label_files import read_label_file
from jobs.datasets.readers.label_ids import Checked, checked_names, stripped
from jobs.datasets.readers.lines import Lines
from jobs.settings.prepare import PrepareSettings

SEPARATORS = {"space": r"\s+", "tab": r"\t", "comma": ","}


@reader("lines-names", label_lines=True)
def lines_names(spark: SparkSession, settings: PrepareSettings) -> RawDataset:
    def parse(lines: Lines) -> Checked:
        words = F.split("value", SEPARATORS[settings.label_separator])
        names = F.filter(F.transform(words, stripped), lambda name: name != "")
        return checked_names(names, F.col("place"))

    labels = read_label_file(spark, settings, "label")
    texts = aligned_texts(spark, settings, parse)
    return RawDataset(texts, labels.rows, labels.source) if labels else RawDataset(texts)
