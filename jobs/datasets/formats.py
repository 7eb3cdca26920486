"""The formats of published datasets: one function per format, registered under the name that users write.

Formats `jsonl`, `csv` and `parquet`: records whose columns the settings name.

A text has a list of labels, as names or as numbers, or a string of them. The optional label file has a column with the
same labels, and names, alternative names and descriptions; lines of names without columns are labels by their numbers.

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
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fusion.errors import ConfigError, InputError
from jobs.datasets.labels import LabelFile, is_plain, read_label_file
from jobs.datasets.readers import (
    READERS,
    REMEDY,
    TEXT_KEY,
    LineFiles,
    RawDataset,
    Reader,
    ReadRecords,
    aligned_texts,
    all_parts,
    json_records,
    parquet_records,
    reader,
    record_texts,
    separated_records,
)
from jobs.engines.engine import Engine
from jobs.settings.prepare import Columns, Part, PrepareSettings, paths_of
from udfs.datasets.pickles import SAMPLE_LABELS, sample_texts_step
from udfs.datasets.records import LABELS, SEPARATORS, elements
from udfs.datasets.texts import Text, checked_ids, checked_names
from udfs.splits import files_of


@reader("jsonl", columns=True)
def jsonl(engine: Engine[Any], settings: PrepareSettings) -> RawDataset:
    return _generic(engine, settings, json_records)


@reader("csv", columns=True)
def separated(engine: Engine[Any], settings: PrepareSettings) -> RawDataset:
    return _generic(engine, settings, separated_records)


@reader("parquet", columns=True)
def parquet(engine: Engine[Any], settings: PrepareSettings) -> RawDataset:
    return _generic(engine, settings, parquet_records)


def _generic(engine: Engine[Any], settings: PrepareSettings, read: ReadRecords) -> RawDataset:
    are_numbers = settings.label_file is not None and is_plain(settings.label_file)
    names = read_label_file(engine, settings, "position" if are_numbers else "label")
    check = _numbers(settings, names) if are_numbers else checked_names
    return _dataset(record_texts(engine, settings, settings.columns, read, check), names)


def _dataset(texts: Any, names: LabelFile | None) -> RawDataset:
    return RawDataset(texts, names.rows, names.source) if names else RawDataset(texts)


def _numbers(settings: PrepareSettings, names: LabelFile | None) -> Callable[[Iterable[str | None]], list[str]]:
    """The check of label numbers, which a label file limits."""
    first, count, source = settings.first_label, names.count if names else None, names.source if names else ""
    return lambda words: checked_ids(words, first, count, source)


@reader("lines-ids", label_lines=True)
def lines_ids(engine: Engine[Any], settings: PrepareSettings) -> RawDataset:
    names = read_label_file(engine, settings, "position")
    check = _numbers(settings, names)

    def parse(line: str) -> Text:
        return Text(None, check(word for word in re.split(r"[\s,]+", line, flags=re.ASCII) if word))

    return _dataset(aligned_texts(engine, settings, lambda labels: parse), names)


@reader("lines-names", label_lines=True)
def lines_names(engine: Engine[Any], settings: PrepareSettings) -> RawDataset:
    separator = SEPARATORS[settings.label_separator or "space"]

    def parse(line: str) -> Text:
        return Text(None, checked_names(elements(line, separator)))

    names = read_label_file(engine, settings, "label")
    return _dataset(aligned_texts(engine, settings, lambda labels: parse), names)


@reader("samples-pkl")
def samples_pkl(engine: Engine[Any], settings: PrepareSettings) -> RawDataset:
    def files(part: Part) -> pa.Table:
        return pa.table({"path": [file.name for file in files_of(paths_of(settings, part.texts), REMEDY)]})

    # A pickle cannot be read in pieces: one call per file, in a worker, so that the driver holds none of it.
    texts = all_parts(engine, settings, lambda part, _: (engine.files(files(part), sample_texts_step(part.role)), 0))
    every = pa.concat_tables(map(files, settings.parts))
    named = engine.collect(engine.files(every, SAMPLE_LABELS)).group_by(["label", "name"]).aggregate([])
    numbered = named.append_column("position", pc.cast(named["label"], pa.int64()))
    labels = numbered.sort_by([("position", "ascending"), ("name", "ascending")])
    source = ", ".join(path for part in settings.parts for path in paths_of(settings, part.texts))
    return RawDataset(texts, _as_labels(labels), source)


def _as_labels(table: pa.Table) -> pa.Table:
    """The columns of labels; those that are not there are null."""
    fields = [field for field in LABELS if field.name != "problem"]
    columns = [table[f.name] if f.name in table.column_names else pa.nulls(len(table), f.type) for f in fields]
    return pa.table(columns, schema=pa.schema(fields))


TEXTS = Columns(text=["title", "content"], labels="target_ind")
LABEL_RECORDS = Columns(label="uid", name="title", description="content")


@reader("xc-json", columns=True)
def xc_json(engine: Engine[Any], settings: PrepareSettings) -> RawDataset:
    names = read_label_file(engine, settings, "position", LABEL_RECORDS)
    return _dataset(record_texts(engine, settings, TEXTS, json_records, _numbers(settings, names)), names)


@reader("xc-sparse", label_lines=True)
def xc_sparse(engine: Engine[Any], settings: PrepareSettings) -> RawDataset:
    names = read_label_file(engine, settings, "position")
    sizes: dict[str, int] = {names.source: names.count} if names else {}

    def parser(lines: LineFiles) -> Callable[[str], Text]:
        first, labels, source = settings.first_label, _header(lines), lines.source
        sizes[source] = labels
        if len(set(sizes.values())) > 1:
            counts = "; ".join(f"{source}: {size:,}" for source, size in sizes.items())
            raise InputError(f"the files differ in the number of labels: {counts}")

        def parse(line: str) -> Text:
            # A text without labels is a line that begins with a space, or with a feature.
            word = re.split(r"\s", line, maxsplit=1, flags=re.ASCII)[0]
            words = [] if ":" in word else [label for label in word.split(",") if label]
            return Text(None, checked_ids(words, first, labels, source))

        return parse

    texts = aligned_texts(engine, settings, parser, header=1)
    if names:
        return _dataset(texts, names)
    source, size = next(iter(sizes.items()))
    position = pa.array(range(size), pa.int64())
    numbers = pa.table({"position": position, "label": pc.add(position, settings.first_label).cast(pa.string())})
    return RawDataset(texts, _as_labels(numbers), source)


def _header(lines: LineFiles) -> int:
    """The number of labels that the header states."""
    first_line = lines.first_line()
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
    _check_split(settings, chosen)
    return chosen


def _check_split(settings: PrepareSettings, chosen: Reader) -> None:
    """Refuse roles that nothing reads, and a published split that nothing describes."""
    roles = [part.name for part in settings.parts if part.role is not None]
    column = settings.columns.role
    if settings.split != "published":
        if roles or column:
            what = f"part {roles[0]!r} has a role" if roles else f"prepare.columns.role is {column!r}"
            raise ConfigError(f"{what}, but prepare.split is {settings.split}: set it to published")
    elif column is not None:
        if roles or not chosen.columns:
            reason = f"the format {chosen.name} has no columns" if not chosen.columns else "parts have roles, too"
            raise ConfigError(f"prepare.columns.role is {column!r}, but {reason}: give roles in one of the two ways")
    elif len(roles) < len(settings.parts):
        without = next(part.name for part in settings.parts if part.role is None)
        raise ConfigError(
            f"prepare.split is published, but part {without!r} has no role: train, validation or test; or name the "
            "column that says it (prepare.columns.role)"
        )
