"""The settings of the linear classifiers."""

from __future__ import annotations

from pydantic import Field

from jobs.settings.base import RetrieverSettings


class LinearSettings(RetrieverSettings):
    """One linear classifier (a support vector machine) per label over TF-IDF. Needs the extra [linear]."""

    cost: float = Field(1.0, gt=0)
    """The inverse strength of regularisation."""
