"""The tables that an evaluation leaves, and the files beside them."""

from __future__ import annotations

import pyarrow as pa

RUN_FILE = "run.json"
"""What made the results beside the configuration: the version, and the counts."""
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
    ]
)
