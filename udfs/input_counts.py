"""What is counted about the input beside the hits. A key names each count; the report has the words for them."""

from __future__ import annotations

from collections.abc import Sequence

JUDGED = "judged_texts"
WITHOUT_CANDIDATES = "judged_texts_without_candidates"
UNJUDGED = "unjudged_texts"
EMPTY_LISTS, NONPOSITIVE_LISTS = "empty_lists", "nonpositive_lists"
"""One count per retriever: judged texts that it returned nothing for, and lists whose best score is not positive."""

UNSEEN_PAIRS = "pairs_without_training_text"
"""Relevant pairs of text and label whose label no training text carries; only where training texts are known."""


def per_retriever(kind: str, retriever: str) -> str:
    """The key of a count that every retriever has."""
    return f"{kind}:{retriever}"


def split_key(key: str) -> tuple[str, str]:
    """The kind of a count and its retriever, which is empty where there is none."""
    kind, _, retriever = key.partition(":")
    return kind, retriever


def count_keys(retrievers: Sequence[str]) -> list[str]:
    """All counts, in the order in which they are kept."""
    each = [per_retriever(kind, name) for kind in (EMPTY_LISTS, NONPOSITIVE_LISTS) for name in retrievers]
    return [JUDGED, WITHOUT_CANDIDATES, UNJUDGED, *each]
