"""The settings of the linear classifiers."""

from __future__ import annotations

from pydantic import Field

from jobs.settings.base import RetrieverSettings


class LinearSettings(RetrieverSettings):
    """One linear classifier per label: how terms count, how it is trained, how many labels are listed."""

    min_texts: int = Field(2, ge=1)
    cost: float = Field(1.0, gt=0)
    prune: float = Field(0.01, ge=0)
    seed: int = Field(0, ge=0)
