"""The tables of docs/algorithms.md, made from the registry: `python -m tests.algorithm_tables` writes them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from fusion import FUSIONS, NORMALIZATIONS
from fusion.registry import Fusion, Normalization

PAGE = Path(__file__).parents[1] / "docs" / "algorithms.md"


def tables() -> dict[str, str]:
    """By the mark that stands before them."""
    untrained = [entry for entry in FUSIONS if not entry.parameters.trained]
    return {
        "normalizations": _table(NORMALIZATIONS),
        "fusions of scores": _table(entry for entry in untrained if entry.reads == "scores"),
        "fusions of ranks": _table(entry for entry in untrained if entry.reads == "ranks"),
        "trained fusions": _table(entry for entry in FUSIONS if entry.parameters.trained),
    }


def written(text: str) -> str:
    """A page with the tables of the registry."""
    for mark, table in tables().items():
        pattern = rf"(<!-- {mark} -->\n).*?(<!-- end -->)"
        text, found = re.subn(pattern, lambda match, rows=table: f"{match[1]}{rows}{match[2]}", text, flags=re.DOTALL)
        assert found == (1 if table else found), mark
    return text


def _table(entries: Iterable[Normalization | Fusion]) -> str:
    rows = [
        f"| `{entry.usage}`{'' if entry.standard else ' +'} | {entry.formula} | {entry.citation} |\n"
        for entry in entries
    ]
    return "".join(["| name | score | source |\n|---|---|---|\n", *rows]) if rows else ""


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
