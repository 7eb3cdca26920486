"""Why a text gets its labels, on the terminal and in notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fusion.models.features import OTHER
from jobs.prediction.explain import ExplainedLabels
from jobs.reporting.terminal import formulas, html_table, number, shortened, wrapped
from jobs.storage.folders import as_table, escape
from udfs.fuse import column_names

EXCERPT = 300
"""Characters of the text that are shown."""
NO_LABEL = "The text gets no label."


def terminal(explained: ExplainedLabels) -> str:
    """The labels with what each retriever says, how that is fused, and the nearest training texts."""
    if not len(explained.table):
        return "\n\n".join([wrapped(_excerpt(explained)), NO_LABEL])
    near = list(_neighbour_lines(explained))
    parts = [
        wrapped(_excerpt(explained)),
        as_table(_header(explained), _lines(explained)),
        "\n".join(map(wrapped, formulas(explained.cell, explained.how))),
        as_table(NEIGHBOURS, near) if near else "",
    ]
    return "\n\n".join(part for part in parts if part)


def notebook(explained: ExplainedLabels) -> str:
    """The same as HTML."""
    excerpt = f"<p>{escape(_excerpt(explained))}</p>"
    if not len(explained.table):
        return f"{excerpt}<p>{NO_LABEL}</p>"
    formula_lines = "".join(f"<p>{escape(line)}</p>" for line in formulas(explained.cell, explained.how))
    labels = html_table("Labels, best first", _header(explained), _lines(explained))
    near = html_table("The nearest training texts that carry them", NEIGHBOURS, _neighbour_lines(explained))
    return f"{excerpt}{labels}{formula_lines}{near if len(explained.neighbours) else ''}"


def _excerpt(explained: ExplainedLabels) -> str:
    text = explained.text
    return f'"{text}"' if len(text) <= EXCERPT else f'"{text[:EXCERPT]}\N{HORIZONTAL ELLIPSIS}"'


def _header(explained: ExplainedLabels) -> list[str]:
    value = "part" if explained.how else "normalised"
    words = [f"{name} {word}" for name in explained.retrievers for word in ("rank", "score", value)]
    other = [OTHER] if OTHER in explained.table.column_names else []
    return ["rank", "label", "probability", "fused", *words, *other]


def _lines(explained: ExplainedLabels) -> Iterator[list[str]]:
    for row in explained.table.to_pylist():
        line = [str(row["rank"]), shortened(row["name"] or row["label"]), _percent(row), number(row["score"])]
        for retriever in explained.retrievers:
            rank, score, normalized = (row[column] for column in column_names(retriever))
            imputed = rank is None and normalized is not None and not explained.how
            value = f"({number(normalized)})" if imputed else number(normalized)
            line += ["" if rank is None else str(rank), number(score), value]
        yield [*line, number(row[OTHER])] if OTHER in row else line


def _percent(row: dict[str, Any]) -> str:
    return "" if row["probability"] is None else f"{row['probability']:.2f}"


NEIGHBOURS = ["label", "nearest training texts that carry it"]


def _neighbour_lines(explained: ExplainedLabels) -> Iterator[list[str]]:
    """A line per label and retriever: its nearest training texts, each with its score."""
    names = {row["label"]: row["name"] or row["label"] for row in explained.table.to_pylist()}
    texts: dict[tuple[str, str], list[str]] = {}
    for row in explained.neighbours.to_pylist():
        texts.setdefault((row["label"], row["retriever"]), []).append(f"{row['text_id']} ({number(row['score'])})")
    for (label, retriever), some in texts.items():
        yield [shortened(names[label]), f"{retriever}: {', '.join(some)}"]
