"""The settings of the dense retriever."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from fusion.retrieval.contrastive import Training
from fusion.retrieval.neighbours import Aggregation
from jobs.settings.base import RetrieverSettings

LabelPart = Literal["name", "alt_names", "description", "train_texts"]


class DenseSettings(RetrieverSettings):
    """A bi-encoder: how texts and labels become vectors, how it is trained, how vectors are searched."""

    model: str = "bundled:minilm"
    max_length: int = Field(96, ge=2)
    batch_size: int = Field(32, ge=1)
    chunk_texts: int = Field(4_000, ge=1)
    threads: int = Field(1, ge=1)
    precision: Literal["float32", "bfloat16", "auto"] = "float32"

    label_text: list[LabelPart] = Field(default_factory=lambda: list[LabelPart](["name", "train_texts"]))

    train: Literal["none", "projection", "full"] = "projection"
    temperature: float = Field(0.07, gt=0)
    learning_rate_low: float = Field(5e-5, gt=0)
    learning_rate_high: float = Field(5e-3, gt=0)
    epochs: int = Field(5, ge=1)
    patience: int = Field(3, ge=1)
    train_batch: int = Field(512, ge=2)
    dimension: int | None = Field(None, ge=1)
    validation_texts: int = Field(5000, ge=1)
    checkpoint_seconds: float = Field(60, ge=0)
    seed: int = Field(0, ge=0)

    search: Literal["auto", "exact", "hnsw"] = "auto"
    hnsw_threshold: int = Field(200_000, ge=1)
    hnsw_links: int = Field(32, ge=2)
    hnsw_build: int = Field(100, ge=1)
    hnsw_search: int = Field(256, ge=1)
    recall_texts: int = Field(200, ge=1)
    neighbours: int = Field(64, ge=1)
    aggregation: Aggregation = "max"

    @field_validator("label_text", mode="before")
    @classmethod
    def _split(cls, parts: object) -> object:
        return [part.strip() for part in parts.split(",")] if isinstance(parts, str) else parts

    @model_validator(mode="after")
    def _fits(self) -> DenseSettings:
        if not self.label_text:
            raise ValueError("label_text: name at least one of name, alt_names, description, train_texts")
        if self.train == "full" and not self.words:
            raise ValueError("train: full compares texts with the words of labels; label_text has only train_texts")
        if self.learning_rate_low > self.learning_rate_high:
            raise ValueError("learning_rate_low is above learning_rate_high")
        return self

    @property
    def words(self) -> list[LabelPart]:
        """The parts of a label that are written words, in the order in which they are read."""
        return [part for part in ("name", "alt_names", "description") if part in self.label_text]

    @property
    def train_texts(self) -> bool:
        """Whether the mean of a label's training texts is a part of it."""
        return "train_texts" in self.label_text

    @property
    def training(self) -> Training:
        return Training(**{name: getattr(self, name) for name in Training.__dataclass_fields__})
