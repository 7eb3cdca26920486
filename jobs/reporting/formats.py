"""How a figure, a p-value, a gain, a cell and a count are written, for terminal, Markdown, LaTeX and page alike."""

from __future__ import annotations

from udfs.input_counts import EMPTY_LISTS, JUDGED, NONPOSITIVE_LISTS, UNJUDGED, WITHOUT_CANDIDATES, split_key

INPUT_COUNTS = {
    JUDGED: "judged texts",
    WITHOUT_CANDIDATES: "judged texts without candidates",
    UNJUDGED: "texts with candidates but without judgements",
    EMPTY_LISTS: "judged texts that {} returned nothing for",
    NONPOSITIVE_LISTS: "lists of {} whose best score is not positive ('max' has no meaning there)",
}


def input_count_text(key: str) -> str:
    """What a count about the input counts."""
    kind, retriever = split_key(key)
    return INPUT_COUNTS[kind].format(retriever) if kind in INPUT_COUNTS else key
