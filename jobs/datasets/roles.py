"""What a text can be in a fold."""

from __future__ import annotations

TRAIN, VALIDATION, TEST = "train", "validation", "test"
