"""The settings of the static bi-encoder."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from fusion.retrieval.neighbours import Aggregation
from fusion.retrieval.static import StaticTraining
from jobs.settings.base import Model, RetrieverSettings, split_names

WORDS = "words"
"""The model of static that starts from the training texts alone."""
LabelWord = Literal["name", "alt_names", "description"]


class StaticSettings(RetrieverSettings):
    """Token vectors and token weights: where they start, how they are trained, how labels are searched."""

    model: Model = WORDS
    """What token vectors start from. words: the training texts alone, in any language and without another package.
    Otherwise a pretrained model, which needs the extra [dense]: its folder (with tokenizer.json and model.safetensors),
    its name on the hub, or bundled:minilm."""
    max_length: int = Field(512, ge=2)
    """The number of tokens that are read of a text, where a pretrained model says what a token is; words are all
    read."""
    label_text: Annotated[list[LabelWord], BeforeValidator(split_names)] = Field(["name"], min_length=1)
    """What a label is called."""

    learning_rate: float = Field(2e-3, gt=0)
    """The highest learning rate. It rises to this peak and falls to nothing over the epochs."""
    epochs: int = Field(5, ge=1)
    """Passes over the training texts, at most."""
    patience: int = Field(3, ge=1)
    """Epochs without a better MRR on validation texts after which training stops."""
    train_batch: int = Field(512, ge=2)
    """Pairs of text and label that are contrasted together."""
    extra_labels: int = Field(0, ge=0)
    """Labels drawn at random for every batch, with which its texts are contrasted as well. They help where there are
    thousands of labels (EURLEX57K), and not where there are hundreds (the demo): choose the number on validation
    texts."""

    frequency_bias: float = Field(0.01, ge=0)
    """What is added to a label's cosine, times ln(its training texts + 1). Choose it on validation texts: 0.02 is a
    lot, and harms labels without training texts."""
    neighbours: int = Field(64, ge=1)
    """The number of similar training texts that a label's score comes from (static-texts)."""
    aggregation: Aggregation = "max"
    """How the scores of a label's texts become one (static-texts)."""

    @property
    def reads(self) -> str:
        return super().reads if self.model == WORDS else f"the first {self.max_length} tokens"

    @property
    def training(self) -> StaticTraining:
        return StaticTraining(
            learning_rate=self.learning_rate,
            epochs=self.epochs,
            patience=self.patience,
            train_batch=self.train_batch,
            extra_labels=self.extra_labels,
        )
