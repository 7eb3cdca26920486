"""The formats of published datasets: one function per format, registered under the name that users write.

Formats `jsonl` and `parquet`: records whose columns the settings name.

A text has a list of labels, as names or as numbers. The optional label file has a column with the same labels, and
names, alternative names and descriptions; lines of names without columns are labels by their numbers.

Format `lines-ids`: a line of text, a line of label numbers, and a file of label names.

The form of the `xmc-base` collection: X.trn.txt, Y.trn.txt (numbers with commas or spaces between them) and
output-items.txt, whose n-th line names label n.

Format `lines-names`: a line of text, and a line of label names.

The form of AttentionXML and its successors: train_raw_texts.txt (or train_texts.txt) and train_labels.txt. A label
file is optional; without one, the labels in use are all there are.

Format `samples-pkl`: the pickled samples of the paper's authors.

A list of dicts with idx, text_idx, text, labels_ids and labels. `idx` numbers the samples and becomes the text_id;
`text_idx` numbers the distinct texts, so texts that occur twice share it.

Format `xc-json`: the JSON lines of the extreme classification repository.

trn.json.gz and tst.json.gz hold objects with `title`, `content` and `target_ind` (the numbers of the labels). The
label file is lbl.json.gz, whose n-th object has the `title` of label n, or lines of names (Yf.txt).

Format `xc-sparse`: labels from the extreme classification repository's sparse text format, texts from raw lines.

The file of labels opens with a header `N D L` (texts, features, labels); then each line holds the labels of a text,
with commas between them, and its features, which are passed over: `l1,l2 f:v f:v`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from fusion.errors import ConfigError, InputError
from jobs.datasets.labels import is_plain, read_label_file
from jobs.datasets.readers import (
    LABEL_COLUMNS,
    READERS,
    TEXT_COLUMNS,
    TEXT_KEY,
    Checked,
    RawDataset,
    Reader,
    checked_ids,
    checked_names,
    file_parts,
    first_problem,
    reader,
    stripped,
    union,
)
from jobs.datasets.records import ReadRecords, json_records, parquet_records, record_texts
from jobs.inputs.lines import Lines, local_table, read_lines, same_length, source_of
from jobs.settings.prepare import Columns, PrepareSettings, paths_of
from udfs.retrieval.pickles import SAMPLES_SCHEMA, read_samples


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


Parse = Callable[[Lines], Checked]
"""From the lines of a label file (columns value and place) to the labels of each."""


def aligned_texts(spark: SparkSession, settings: PrepareSettings, parse: Parse, header: int = 0) -> DataFrame:
    """The texts of all parts, numbered on from part to part. `header` lines open each file of labels."""
    parts, offset = [], 0
    for part, paths in file_parts(settings):
        texts = read_lines(spark, paths, settings.encoding)
        labels = read_lines(spark, paths_of(settings, part.labels or []), settings.encoding)
        same_length(texts, labels, header)
        parts.append(_joined(texts, labels, parse(labels), header, offset))
        offset += texts.count
    return union(parts)


def _joined(texts: Lines, labels: Lines, checked: Checked, header: int, offset: int) -> DataFrame:
    left = texts.rows.select("line", F.col("value").alias("text"), texts.problem.alias("text_problem"))
    right = labels.rows.where(F.col("line") >= header).select(
        (F.col("line") - header).alias("line"),
        checked.labels.alias("labels"),
        F.coalesce(labels.problem, checked.problem).alias("label_problem"),
    )
    rows = left.join(right, "line").select(
        (F.col("line") + offset).alias("text_id"),
        (F.col("line") + offset).alias("position"),
        "text",
        "labels",
        F.lit(None).cast("string").alias("key"),
        first_problem(F.col("text_problem"), F.col("label_problem")),
    )
    return rows.select(*TEXT_COLUMNS)


@reader("lines-ids", label_lines=True)
def lines_ids(spark: SparkSession, settings: PrepareSettings) -> RawDataset:
    names = read_label_file(spark, settings, "position")

    def parse(lines: Lines) -> Checked:
        words = F.filter(F.split("value", r"[\s,]+"), lambda word: word != "")
        known = names.count if names else None
        return checked_ids(words, F.col("place"), settings.first_label, known, names.source if names else "")

    texts = aligned_texts(spark, settings, parse)
    return RawDataset(texts, names.rows, names.source) if names else RawDataset(texts)


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


@reader("samples-pkl")
def samples_pkl(spark: SparkSession, settings: PrepareSettings) -> RawDataset:
    paths = [path for _, paths in file_parts(settings) for path in paths]
    # A pickle cannot be read in pieces: one task per file, in a worker, so that the driver holds none of it.
    files = local_table(spark, ["path"], [(path,) for path in paths]).repartition(len(paths), "path")
    samples = files.mapInArrow(read_samples, SAMPLES_SCHEMA)
    added = {"key": F.lit(None).cast("string"), "position": F.col("text_id")}
    texts = samples.withColumns(added).select(*TEXT_COLUMNS)
    names = samples.select(F.explode(F.arrays_zip("labels", "names")).alias("pair"))
    labels = names.select(F.col("pair.labels").alias("label"), F.col("pair.names").alias("name")).distinct()
    rows = labels.select(
        F.col("label").cast("bigint").alias("position"),
        "label",
        "name",
        F.array().cast("array<string>").alias("alt_names"),
        F.lit("").alias("description"),
        F.lit(None).cast("string").alias("problem"),
    )
    return RawDataset(texts, rows.select(*LABEL_COLUMNS, "problem"), source_of(paths))


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


@reader("xc-sparse", label_lines=True)
def xc_sparse(spark: SparkSession, settings: PrepareSettings) -> RawDataset:
    names = read_label_file(spark, settings, "position")
    sizes: dict[str, int] = {names.source: names.count} if names else {}

    def parse(lines: Lines) -> Checked:
        labels = _header(lines)
        sizes[lines.source] = labels
        if len(set(sizes.values())) > 1:
            counts = "; ".join(f"{source}: {size:,}" for source, size in sizes.items())
            raise InputError(f"the files differ in the number of labels: {counts}")
        # A text without labels is a line that begins with a space, or with a feature.
        first = F.element_at(F.split("value", r"\s"), 1)
        words = F.filter(F.split(F.when(first.contains(":"), "").otherwise(first), ","), lambda word: word != "")
        return checked_ids(words, F.col("place"), settings.first_label, labels, lines.source)

    texts = aligned_texts(spark, settings, parse, header=1)
    if names:
        return RawDataset(texts, names.rows, names.source)
    source, size = next(iter(sizes.items()))
    numbers = spark.range(size).select(
        F.col("id").alias("position"),
        (F.col("id") + settings.first_label).cast("string").alias("label"),
        F.lit("").alias("name"),
        F.array().cast("array<string>").alias("alt_names"),
        F.lit("").alias("description"),
        F.lit(None).cast("string").alias("problem"),
    )
    return RawDataset(texts, numbers.select(*LABEL_COLUMNS, "problem"), source)


def _header(lines: Lines) -> int:
    """The number of labels that the header states."""
    first_line = lines.rows.where("line = 0").select("value").collect()[0]["value"]
    header = re.fullmatch(r"\s*(\d+)\s+(\d+)\s+(\d+)\s*", first_line)
    if header is None:
        raise InputError(
            f"{lines.source} line 1: expected a header 'N D L' (texts, features, labels), found {first_line[:80]!r}"
        )
    texts, labels = int(header[1]), int(header[3])
    if texts != lines.count - 1:
        raise InputError(f"{lines.source}: the header says {texts:,} texts, but {lines.count - 1:,} lines follow it")
    return labels


def check_settings(settings: PrepareSettings) -> Reader:
    """The reader of the format, if the settings say all that it needs."""
    if settings.format is None:
        raise ConfigError(
            "no dataset: choose one with --config conf/datasets/NAME.yaml, or set prepare.format and prepare.parts "
            f"(formats: {', '.join(READERS.names())})"
        )
    chosen = READERS[settings.format]
    if not settings.parts:
        raise ConfigError(f"prepare.parts is empty: name the files of the dataset (format {chosen.name})")
    for part in settings.parts:
        if chosen.label_lines and not part.labels:
            raise ConfigError(f"prepare.parts: part {part.name!r} needs a file of labels (format {chosen.name})")
        if part.labels and not chosen.label_lines:
            raise ConfigError(
                f"prepare.parts: part {part.name!r} names a file of labels, but in the format {chosen.name} "
                "labels are in the same file as their texts"
            )
    if settings.group_key not in (None, TEXT_KEY) and not chosen.columns:
        raise ConfigError(
            f"prepare.group_key is {settings.group_key!r}, but the format {chosen.name} has no columns; "
            f"only {TEXT_KEY!r} can group its texts"
        )
    return chosen
