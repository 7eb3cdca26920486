"""Training that goes on after a kill: its state in one file, replaced as a whole every so often."""

from __future__ import annotations

import io
import time
from dataclasses import dataclass, field
from typing import Any

from pyarrow import fs

from fusion.retrieval.contrastive import dense_package
from udfs.storage import local_folder

STATE_FILE = "state.pt"


@dataclass
class Checkpoints:
    """The folder of a training's state, and how many seconds may be lost."""

    uri: str
    seconds: float
    _saved: float = field(default_factory=time.monotonic)

    @property
    def _place(self) -> tuple[fs.FileSystem, str]:
        local = local_folder(self.uri)
        return (fs.LocalFileSystem(), str(local)) if local is not None else fs.FileSystem.from_uri(self.uri)

    def load(self) -> dict[str, Any] | None:
        """The state that was saved last; None if there is none."""
        filesystem, path = self._place
        if filesystem.get_file_info(f"{path}/{STATE_FILE}").type == fs.FileType.NotFound:
            return None
        with filesystem.open_input_stream(f"{path}/{STATE_FILE}") as stream:
            state: dict[str, Any] = dense_package("torch").load(io.BytesIO(stream.read()), weights_only=True)
        return state

    @property
    def due(self) -> bool:
        return time.monotonic() - self._saved >= self.seconds

    def save(self, state: dict[str, Any]) -> None:
        """Replace the state. Whoever is killed meanwhile leaves the earlier one."""
        content = io.BytesIO()
        dense_package("torch").save(state, content)
        filesystem, path = self._place
        filesystem.create_dir(path, recursive=True)
        with filesystem.open_output_stream(f"{path}/{STATE_FILE}.new") as stream:
            stream.write(content.getvalue())
        filesystem.move(f"{path}/{STATE_FILE}.new", f"{path}/{STATE_FILE}")
        self._saved = time.monotonic()
