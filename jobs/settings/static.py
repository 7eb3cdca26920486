"""The settings of the static bi-encoder."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from fusion.retrieval.neighbours import Aggregation
from fusion.retrieval.static import StaticTraining
from jobs.settings.base import RetrieverSettings

LabelWord = Literal["name", "alt_names", "description"]


class StaticSettings(RetrieverSettings):
    """Token vectors and token weights: where they start, how they are trained, how labels are searched."""

    model: str = "bundled:minilm"
    max_length: int = Field(512, ge=2)
    label_text: list[LabelWord] = Field(default_factory=lambda: list[LabelWord](["name"]), min_length=1)

    temperature: float = Field(0.07, gt=0)
    learning_rate: float = Field(2e-3, gt=0)
    epochs: int = Field(5, ge=1)
    patience: int = Field(3, ge=1)
    train_batch: int = Field(512, ge=2)
    extra_labels: int = Field(0, ge=0)
    validation_texts: int = Field(5000, ge=1)
    seed: int = Field(0, ge=0)

    frequency_bias: float = Field(0.01, ge=0)
    neighbours: int = Field(64, ge=1)
    aggregation: Aggregation = "max"

    @field_validator("label_text", mode="before")
    @classmethod
    def _split(cls, words: object) -> object:
        return [word.strip() for word in words.split(",")] if isinstance(words, str) else words

    @property
    def training(self) -> StaticTraining:
        return StaticTraining(**{name: getattr(self, name) for name in StaticTraining.__dataclass_fields__})
