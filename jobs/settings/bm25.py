"""The settings of BM25 and of its tokens."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from fusion.retrieval.neighbours import Aggregation
from fusion.retrieval.tokens import Tokenizer
from jobs.settings.base import RetrieverSettings, Section


class TokenizerSettings(Section):
    """How a text becomes tokens."""

    lowercase: bool = True
    """Whether upper and lower case are the same."""
    stop_words: Literal["none", "english"] = "none"
    """Words that are left out."""
    stemmer: Literal["none", "english"] = "none"
    """What cuts off endings; needs the package PyStemmer."""
    min_length: int = Field(1, ge=1)
    """The shortest token, in characters."""

    @property
    def tokenizer(self) -> Tokenizer:
        return Tokenizer(self.lowercase, self.stop_words, self.stemmer, self.min_length)


class Bm25Settings(RetrieverSettings):
    """How BM25 reads texts, scores and adds up."""

    k1: float = Field(1.5, ge=0)
    """How much further occurrences of a term count."""
    b: float = Field(0.75, ge=0, le=1)
    """How much the length of a document counts against it."""
    neighbours: int = Field(64, ge=1)
    """The number of similar training texts that a label's score comes from (not for bm25-labels)."""
    aggregation: Aggregation = "max"
    """How the scores of a label's texts become one (not for bm25-labels)."""
    tokenizer: TokenizerSettings = TokenizerSettings()
