"""The rows of the demo's files, as they are shipped."""

from __future__ import annotations

import gzip
import json
from itertools import islice
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data" / "debtags"


def demo_rows(name: str, first: int | None = None) -> list[dict[str, Any]]:
    """Of `texts` or `labels`; the first ones of them."""
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in islice(lines, first)]
