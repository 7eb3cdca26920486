"""The settings of the dense retriever."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from fusion.retrieval.contrastive import Training
from fusion.retrieval.neighbours import Aggregation
from jobs.settings.base import Model, RetrieverSettings, split_names

LabelPart = Literal["name", "alt_names", "description", "train_texts"]


class DenseSettings(RetrieverSettings):
    """A bi-encoder: how texts and labels become vectors, how it is trained, how vectors are searched. Needs the extra
    [dense]."""

    model: Model = "bundled:minilm"
    """A sentence-transformers model: its folder, its name on the hub, or bundled:minilm. The last one comes with the
    extra and needs no network."""
    max_length: int = Field(96, ge=2)
    """The number of tokens that are read of a text."""
    batch_size: int = Field(32, ge=1)
    """Texts encoded together."""
    precision: Literal["float32", "bfloat16", "auto"] = "float32"
    """How products of matrices are rounded when texts are encoded. bfloat16 is 1.8 times as fast on a machine that
    multiplies in it; auto takes the faster of the two on this machine, and the log names it."""

    label_text: Annotated[list[LabelPart], BeforeValidator(split_names)] = Field(["name", "train_texts"], min_length=1)
    """What makes a label's vector; train_texts is the mean of its training texts."""

    train: Literal["none", "projection", "full"] = "projection"
    """What is trained. projection: heads over the encoder's vectors, for a CPU; full: the whole encoder, for a GPU."""
    temperature: float = Field(0.07, gt=0)
    """The temperature of NT-Xent."""
    learning_rate_low: float = Field(5e-5, gt=0)
    """The lower bound of the triangular cyclical learning rate."""
    learning_rate_high: float = Field(5e-3, gt=0)
    """The upper bound of the learning rate. The paper's suits projections; full fine-tuning of most models collapses
    above about 5e-5."""
    epochs: int = Field(5, ge=1)
    """Passes over the training texts, at most."""
    patience: int = Field(3, ge=1)
    """Epochs without a better MRR on validation texts after which training stops."""
    train_batch: int = Field(512, ge=2)
    """Pairs of text and label that are contrasted together."""
    checkpoint_seconds: float = Field(60, ge=0)
    """Seconds between two saved states of full fine-tuning: what a kill may cost at most."""

    search: Literal["auto", "exact", "hnsw"] = "auto"
    """How labels are searched. auto: exact below 200,000 labels in a group, HNSW above."""
    neighbours: int = Field(64, ge=1)
    """The number of similar training texts that a label's score comes from (dense-texts)."""
    aggregation: Aggregation = "max"
    """How the scores of a label's texts become one (dense-texts)."""

    @model_validator(mode="after")
    def _fits(self) -> DenseSettings:
        if self.train == "full" and not self.words:
            raise ValueError("train: full compares texts with the words of labels; label_text has only train_texts")
        if self.learning_rate_low > self.learning_rate_high:
            raise ValueError("learning_rate_low is above learning_rate_high")
        return self

    @property
    def reads(self) -> str:
        return f"the first {self.max_length} tokens"

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
        return Training(
            temperature=self.temperature,
            learning_rate_low=self.learning_rate_low,
            learning_rate_high=self.learning_rate_high,
            epochs=self.epochs,
            patience=self.patience,
            train_batch=self.train_batch,
        )
