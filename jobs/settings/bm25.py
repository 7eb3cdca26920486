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
    stop_words: Literal["none", "english"] = "none"
    stemmer: Literal["none", "english"] = "none"
    min_length: int = Field(1, ge=1)

    @property
    def tokenizer(self) -> Tokenizer:
        return Tokenizer(self.lowercase, self.stop_words, self.stemmer, self.min_length)


class Bm25Settings(RetrieverSettings):
    """How BM25 reads texts, scores and adds up."""

    k1: float = Field(1.5, ge=0)
    b: float = Field(0.75, ge=0, le=1)
    neighbours: int = Field(64, ge=1)
    aggregation: Aggregation = "max"
    tokenizer: TokenizerSettings = TokenizerSettings()
