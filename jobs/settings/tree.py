"""The settings of the label trees."""

from __future__ import annotations

from pydantic import Field

from fusion.retrieval.label_trees import Growing, Kind
from jobs.settings.base import RetrieverSettings


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
