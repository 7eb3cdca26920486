"""Training that goes on after a kill: its state in one file, replaced as a whole every so often."""

from __future__ import annotations

import io
import time
from dataclasses import dataclass, field
from typing import Any

from fusion.retrieval.contrastive import dense_package
from udfs.stores.objects import put, read_bytes

STATE_FILE = "state.pt"


@dataclass
class Checkpoints:
    """The folder of a training's state, and how many seconds may be lost."""

    uri: str
    seconds: float
    _saved: float = field(default_factory=time.monotonic)

    def load(self) -> dict[str, Any] | None:
        """The state that was saved last; None if there is none."""
        content = read_bytes(f"{self.uri}/{STATE_FILE}")
        if content is None:
            return None
        state: dict[str, Any] = dense_package("torch").load(io.BytesIO(content), weights_only=True)
        return state

    @property
    def due(self) -> bool:
        return time.monotonic() - self._saved >= self.seconds

    def save(self, state: dict[str, Any]) -> None:
        """Replace the state. Whoever is killed meanwhile leaves the earlier one."""
        content = io.BytesIO()
        dense_package("torch").save(state, content)
        put(f"{self.uri}/{STATE_FILE}", content.getvalue())
        self._saved = time.monotonic()
