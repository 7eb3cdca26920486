"""The settings of the built-in retrievers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from fusion.retrieval.contrastive import Training
from fusion.retrieval.label_trees import Growing, Kind
from fusion.retrieval.neighbours import Aggregation
from fusion.retrieval.static import StaticTraining
from fusion.retrieval.tokens import Tokenizer
from jobs.settings.base import Model, RetrieverSettings, Section, split_names


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
    epochs: int = Field(6, ge=1)
    """Passes over the training texts, at most."""
    patience: int = Field(3, ge=1)
    """Epochs without a better MRR on validation texts after which training stops."""
    train_batch: Literal["auto"] | Annotated[int, Field(ge=2)] = "auto"
    """Texts that are contrasted together, each with all its labels. auto: a hundredth of the training texts, at least
    128 and at most 256."""
    extra_labels: Literal["auto"] | Annotated[int, Field(ge=0)] = "auto"
    """Labels drawn at random for every batch, with which its texts are contrasted as well. auto: none where training
    texts carry fewer than 1,000 labels, otherwise an eighth of them, at most 2,048."""

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
            train_batch=None if self.train_batch == "auto" else self.train_batch,
            extra_labels=None if self.extra_labels == "auto" else self.extra_labels,
        )


class LinearSettings(RetrieverSettings):
    """One linear classifier (a support vector machine) per label over TF-IDF. Needs the extra [linear]."""

    cost: float = Field(1.0, gt=0)
    """The inverse strength of regularisation."""


class TreeSettings(RetrieverSettings):
    """Label trees over TF-IDF: how they are grown, and how texts go down."""

    kind: Kind = "parabel"
    """parabel: a node has two halves of its labels below it; bonsai: up to a hundred clusters of them, in three levels,
    which takes longer."""
    trees: int = Field(3, ge=1)
    """How many trees, whose probabilities are averaged."""
    leaf: int = Field(100, ge=2)
    """A node with fewer labels is not divided any further."""
    cost: float = Field(1.0, gt=0)
    """The inverse strength of regularisation."""
    most_terms: int = Field(300_000, ge=1)
    """Words that count, at most: the most frequent ones of those in two training texts or more."""
    beam: int = Field(10, ge=1)
    """Branches that a text follows at once, in each tree. All labels of the leaves it reaches are ranked."""

    @property
    def growing(self) -> Growing:
        return Growing(kind=self.kind, trees=self.trees, leaf=self.leaf, cost=self.cost)
