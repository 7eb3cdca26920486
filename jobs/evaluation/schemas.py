"""The tables that an evaluation leaves, and the other files of its folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

RUN_FILE = "run.json"
"""What made the results, next to the configuration: the version, and the counts."""
MODEL_FILE = "model.json"
"""The fusion that `tune` chose over all folds, for `fuse --model`."""
QUERY_METRICS = "query_metrics.parquet"
"""Every text's figures."""
TYPES = {
    name: kind
    for kind, names in (
        (pa.int32(), "fold k fewest most band place"),
        (
            pa.string(),
            "normalization fusion label_group metric ideal against_normalization against_fusion retriever quantity "
            "other outcome label_id name text_id excerpt list others strategy choice objective best_test_choice "
            "bands_lost",
        ),
        (
            pa.float64(),
            "value difference deviation statistic p low high effect p_randomization retriever_value p_holm "
            "others_value validation_value test_value best_test_value held_out_value baseline",
        ),
        (
            pa.int64(),
            "queries rarest commonest labels pairs more fewer found retriever_found watched most_unwatched "
            "validation_texts texts",
        ),
        (pa.list_(pa.string()), "cells label_ids label_names"),
        (pa.list_(pa.int64()), "sums fingerprints"),
        (pa.list_(pa.float64()), "scores"),
        (pa.list_(pa.bool_()), "relevant"),
        (pa.bool_(), "deployed tied"),
    )
    for name in names.split()
}
"""A column has the same type in every table."""


def _schema(names: str, **others: pa.DataType) -> pa.Schema:
    """Of columns by name, the type of which is that of TYPES unless another is given."""
    kinds = {**TYPES, **others}
    return pa.schema([(name, kinds[name]) for name in names.split()])


METRICS_SCHEMA = _schema("fold normalization fusion label_group metric k ideal value queries")
COMPARISONS_SCHEMA = _schema(
    "label_group metric k ideal normalization fusion against_normalization against_fusion queries difference "
    "deviation statistic p low high effect p_randomization"
)
PAIRS_SCHEMA = _schema(
    "label_group metric k ideal normalization fusion against_normalization against_fusion queries difference "
    "deviation p low high p_randomization"
)
TEXT_SIZES_SCHEMA = _schema(
    "label_group metric k ideal fewest most queries normalization fusion retriever value retriever_value difference "
    "deviation p low high"
)
"""Texts with `fewest` to `most` relevant labels (table text_sizes) or words (text_lengths); `most` is null where there
is no end."""
AGREEMENT_SCHEMA = _schema("label_group quantity retriever other metric k ideal value")
BANDS_SCHEMA = _schema("label_group band rarest commonest labels pairs normalization fusion k value low high")
BAND_TESTS_SCHEMA = _schema("label_group band k normalization fusion retriever pairs more fewer p p_holm")
"""Texts of which the cell has more, or fewer, relevant labels of a band among its first k than the single retriever.
Band 0: labels without a training text."""
BLOCK_SUMS_SCHEMA = _schema("label_group metric k cells sums")
"""The sum of a metric over the texts of each sign block, in whole numbers of 2^-18, under the ideal `all`. `cells`
share the figures."""
BLOCK_TEXTS_SCHEMA = _schema("label_group texts fingerprints", texts=pa.list_(pa.int64()))
"""The number of texts of each sign block, and the sum of their fingerprints modulo 2^64."""
LABELS_SCHEMA = _schema(
    "label_group normalization fusion retriever outcome place label_id name pairs k found retriever_found watched "
    "most_unwatched"
)
"""The labels that the recommended cell helps and hurts most against a retriever: how many of their relevant pairs each
of the two has among its first k. Chosen among the `watched` most frequent labels of the group; no other label has more
than `most_unwatched` pairs."""
EXAMPLES_SCHEMA = _schema(
    "label_group outcome place text_id fold excerpt metric k normalization fusion retriever value retriever_value "
    "list label_ids label_names scores relevant"
)
"""One row per list of a text that the recommended cell helps or hurts most against the best single retriever. `list`
names a retriever, `fused` or `relevant`; scores of relevant labels are fused ones, null where no list has the label."""
ADDITIONS_SCHEMA = _schema(
    "label_group metric k normalization fusion retriever others value others_value difference queries p low high "
    "p_randomization"
)
"""What a retriever adds to `others`: the cell over all of them and the cell over the others (if that is one, its own
list), both as means over the folds; the tests are over texts."""
CHOICES_SCHEMA = _schema(
    "fold label_group strategy choice objective validation_value validation_texts test_value best_test_choice "
    "best_test_value deployed held_out_value tied bands_lost"
)
"""What each strategy of `tune` chose on validation texts; `validation_value` is the objective there: of a learned
fusion, on texts that it had not learned from. Fold -1: over all folds. `deployed` marks, among those, what the model
file holds for the label group, which is what a report recommends. Also for those alone: the objective on validation
texts that had no part in the choice, whether it is not significantly different from that of the best strategy, and the
frequency bands, by training texts and with commas, that are lost to the best single retriever of the band. The best
test choice is the fixed cell that is best on the test texts, an optimistic figure that nothing depends on."""
LEARNING_CURVE_SCHEMA = _schema("label_group strategy texts fold value baseline")
"""The objective on a fold's test texts by the number of its validation texts that choices were made on. `baseline`: of
the fixed cell that was chosen on all of them."""
DETAILS = {
    "comparisons": COMPARISONS_SCHEMA,
    "pairs": PAIRS_SCHEMA,
    "text_sizes": TEXT_SIZES_SCHEMA,
    "text_lengths": TEXT_SIZES_SCHEMA,
    "agreement": AGREEMENT_SCHEMA,
    "bands": BANDS_SCHEMA,
    "band_tests": BAND_TESTS_SCHEMA,
    "block_sums": BLOCK_SUMS_SCHEMA,
    "block_texts": BLOCK_TEXTS_SCHEMA,
    "labels": LABELS_SCHEMA,
    "examples": EXAMPLES_SCHEMA,
    "additions": ADDITIONS_SCHEMA,
    "choices": CHOICES_SCHEMA,
    "learning_curve": LEARNING_CURVE_SCHEMA,
}
"""The tables next to the metrics, by name."""
NOT_AS_CSV = ("block_sums", "block_texts")
"""Tables that no person reads."""


def table_of(rows: Iterable[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """A table of the rows; what a row leaves out is null."""
    return pa.Table.from_pylist(list(rows), schema)


def table_of_groups(groups: Iterable[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """A table of groups of rows, which are given by column; of those, a table takes what its schema has. One value
    stands for all rows of its group, whose number is that of their fusions."""
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    for group in groups:
        for name, values in columns.items():
            given = group[name]
            if isinstance(given, np.ndarray):
                values += given.tolist()
            else:
                values += given if isinstance(given, list) else [given] * len(group["fusion"])
    return pa.table([pa.array(columns[field.name], field.type) for field in schema], schema=schema)
