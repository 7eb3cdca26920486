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
METRICS_SCHEMA = pa.schema(
    [
        ("fold", pa.int32()),
        ("normalization", pa.string()),
        ("fusion", pa.string()),
        ("label_group", pa.string()),
        ("metric", pa.string()),
        ("k", pa.int32()),
        ("ideal", pa.string()),
        ("value", pa.float64()),
        ("queries", pa.int64()),
    ]
)
COMPARISONS_SCHEMA = pa.schema(
    [
        ("label_group", pa.string()),
        ("metric", pa.string()),
        ("k", pa.int32()),
        ("ideal", pa.string()),
        ("normalization", pa.string()),
        ("fusion", pa.string()),
        ("against_normalization", pa.string()),
        ("against_fusion", pa.string()),
        ("queries", pa.int64()),
        ("difference", pa.float64()),
        ("deviation", pa.float64()),
        ("statistic", pa.float64()),
        ("p", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("effect", pa.float64()),
        ("p_randomization", pa.float64()),
    ]
)
PAIRS_SCHEMA = pa.schema(
    [
        ("label_group", pa.string()),
        ("metric", pa.string()),
        ("k", pa.int32()),
        ("ideal", pa.string()),
        ("normalization", pa.string()),
        ("fusion", pa.string()),
        ("against_normalization", pa.string()),
        ("against_fusion", pa.string()),
        ("queries", pa.int64()),
        ("difference", pa.float64()),
        ("deviation", pa.float64()),
        ("p", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("p_randomization", pa.float64()),
    ]
)
TEXT_SIZES_SCHEMA = pa.schema(
    [
        ("label_group", pa.string()),
        ("metric", pa.string()),
        ("k", pa.int32()),
        ("ideal", pa.string()),
        ("fewest", pa.int32()),
        ("most", pa.int32()),
        ("queries", pa.int64()),
        ("normalization", pa.string()),
        ("fusion", pa.string()),
        ("retriever", pa.string()),
        ("value", pa.float64()),
        ("retriever_value", pa.float64()),
        ("difference", pa.float64()),
        ("deviation", pa.float64()),
        ("p", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
    ]
)
"""Texts with `fewest` to `most` relevant labels (table text_sizes) or words (text_lengths); `most` is null where there
is no end."""
AGREEMENT_SCHEMA = pa.schema(
    [
        ("label_group", pa.string()),
        ("quantity", pa.string()),
        ("retriever", pa.string()),
        ("other", pa.string()),
        ("metric", pa.string()),
        ("k", pa.int32()),
        ("ideal", pa.string()),
        ("value", pa.float64()),
    ]
)
BANDS_SCHEMA = pa.schema(
    [
        ("label_group", pa.string()),
        ("band", pa.int32()),
        ("rarest", pa.int64()),
        ("commonest", pa.int64()),
        ("labels", pa.int64()),
        ("pairs", pa.int64()),
        ("normalization", pa.string()),
        ("fusion", pa.string()),
        ("k", pa.int32()),
        ("value", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
    ]
)
BAND_TESTS_SCHEMA = pa.schema(
    [
        ("label_group", pa.string()),
        ("band", pa.int32()),
        ("k", pa.int32()),
        ("normalization", pa.string()),
        ("fusion", pa.string()),
        ("retriever", pa.string()),
        ("pairs", pa.int64()),
        ("more", pa.int64()),
        ("fewer", pa.int64()),
        ("p", pa.float64()),
        ("p_holm", pa.float64()),
    ]
)
"""Texts of which the cell has more, or fewer, relevant labels of a band among its first k than the single retriever.
Band 0: labels without a training text."""
BLOCK_SUMS_SCHEMA = pa.schema(
    [
        ("label_group", pa.string()),
        ("metric", pa.string()),
        ("k", pa.int32()),
        ("cells", pa.list_(pa.string())),
        ("sums", pa.list_(pa.int64())),
    ]
)
"""The sum of a metric over the texts of each sign block, in whole numbers of 2^-18, under the ideal `all`. `cells`
share the figures."""
BLOCK_TEXTS_SCHEMA = pa.schema(
    [
        ("label_group", pa.string()),
        ("texts", pa.list_(pa.int64())),
        ("fingerprints", pa.list_(pa.int64())),
    ]
)
"""The number of texts of each sign block, and the sum of their fingerprints modulo 2^64."""
LABELS_SCHEMA = pa.schema(
    [
        ("label_group", pa.string()),
        ("normalization", pa.string()),
        ("fusion", pa.string()),
        ("retriever", pa.string()),
        ("outcome", pa.string()),
        ("place", pa.int32()),
        ("label_id", pa.string()),
        ("name", pa.string()),
        ("pairs", pa.int64()),
        ("k", pa.int32()),
        ("found", pa.int64()),
        ("retriever_found", pa.int64()),
        ("watched", pa.int64()),
        ("most_unwatched", pa.int64()),
    ]
)
"""The labels that the recommended cell helps and hurts most against a retriever: how many of their relevant pairs each
of the two has among its first k. Chosen among the `watched` most frequent labels of the group; no other label has more
than `most_unwatched` pairs."""
EXAMPLES_SCHEMA = pa.schema(
    [
        ("label_group", pa.string()),
        ("outcome", pa.string()),
        ("place", pa.int32()),
        ("text_id", pa.string()),
        ("fold", pa.int32()),
        ("excerpt", pa.string()),
        ("metric", pa.string()),
        ("k", pa.int32()),
        ("normalization", pa.string()),
        ("fusion", pa.string()),
        ("retriever", pa.string()),
        ("value", pa.float64()),
        ("retriever_value", pa.float64()),
        ("list", pa.string()),
        ("label_ids", pa.list_(pa.string())),
        ("label_names", pa.list_(pa.string())),
        ("scores", pa.list_(pa.float64())),
        ("relevant", pa.list_(pa.bool_())),
    ]
)
"""One row per list of a text that the recommended cell helps or hurts most against the best single retriever. `list`
names a retriever, `fused` or `relevant`; scores of relevant labels are fused ones, null where no list has the label."""
ADDITIONS_SCHEMA = pa.schema(
    [
        ("label_group", pa.string()),
        ("metric", pa.string()),
        ("k", pa.int32()),
        ("normalization", pa.string()),
        ("fusion", pa.string()),
        ("retriever", pa.string()),
        ("others", pa.string()),
        ("value", pa.float64()),
        ("others_value", pa.float64()),
        ("difference", pa.float64()),
        ("queries", pa.int64()),
        ("p", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("p_randomization", pa.float64()),
    ]
)
"""What a retriever adds to `others`: the cell over all of them and the cell over the others (if that is one, its own
list), both as means over the folds; the tests are over texts."""
CHOICES_SCHEMA = pa.schema(
    [
        ("fold", pa.int32()),
        ("label_group", pa.string()),
        ("strategy", pa.string()),
        ("choice", pa.string()),
        ("objective", pa.string()),
        ("validation_value", pa.float64()),
        ("validation_texts", pa.int64()),
        ("test_value", pa.float64()),
        ("best_test_choice", pa.string()),
        ("best_test_value", pa.float64()),
        ("deployed", pa.bool_()),
        ("held_out_value", pa.float64()),
        ("tied", pa.bool_()),
        ("bands_lost", pa.string()),
    ]
)
"""What each strategy of `tune` chose on validation texts; `validation_value` is the objective there: of a learned
fusion, on texts that it had not learned from. Fold -1: over all folds. `deployed` marks, among those, what the model
file holds for the label group, which is what a report recommends. Also for those alone: the objective on validation
texts that had no part in the choice, whether it is not significantly different from that of the best strategy, and the
frequency bands, by training texts and with commas, that are lost to the best single retriever of the band. The best
test choice is the fixed cell that is best on the test texts, an optimistic figure that nothing depends on."""
LEARNING_CURVE_SCHEMA = pa.schema(
    [
        ("label_group", pa.string()),
        ("strategy", pa.string()),
        ("texts", pa.int64()),
        ("fold", pa.int32()),
        ("value", pa.float64()),
        ("baseline", pa.float64()),
    ]
)
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
