"""Runs as JSON, read in this process: one object per line with a list each, or one object as ranx writes it."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa

from fusion.errors import InputError
from jobs.inputs.in_memory import run_table

GZIP = b"\x1f\x8b"


def read_jsonl_run(path: str, source: str) -> pa.Table:
    """Lines such as {"text_id": "t1", "label_ids": ["l1", "l2"], "scores": [2.5, 1.0]}."""
    rows = []
    for number, line in enumerate(_content(path, source).splitlines(), start=1):
        if line.strip():
            row = _parsed(line, f"{source} line {number}")
            if not isinstance(row, dict):
                raise InputError(f"{source} line {number}: expected an object with text_id, label_ids and scores")
            rows.append(row)
    if not rows:
        raise InputError(f"{source} is empty")
    try:
        return with_double_scores(pa.Table.from_pylist(rows))
    except (pa.ArrowException, TypeError) as error:
        raise InputError(f"{source}: the lines do not agree on their types: {error}") from None


def read_ranx_run(path: str, source: str) -> pa.Table:
    """{"t1": {"l1": 2.5, "l2": 1.0}}, which ranx saves as `.json`."""
    run = _parsed(_content(path, source), source)
    if not isinstance(run, dict) or not run:
        raise InputError(f"{source}: expected scores by label for each text, as in {{'t1': {{'l1': 7.1}}}}")
    return run_table(run, source)


def with_double_scores(table: pa.Table) -> pa.Table:
    """Whole numbers are scores, too."""
    kinds = {"scores": pa.list_(pa.float64()), "score": pa.float64()}
    fields = [pa.field(field.name, kinds.get(field.name, field.type)) for field in table.schema]
    return table.cast(pa.schema(fields))


def _content(path: str, source: str) -> bytes:
    try:
        content = Path(path).read_bytes()
        return gzip.decompress(content) if content.startswith(GZIP) else content
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot read {source}: {error}") from None


def _parsed(text: bytes, place: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise InputError(f"{place} is not JSON: {error}") from None
