"""Folders of index files: mapped where they are if storage is a file system, fetched once per machine if not."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyarrow import fs

VOLUMES = "/Volumes/"
"""Where Databricks mounts volumes: folders for Python, in which files are written from beginning to end or not at all.
Spark knows them by that name, and not as files of a machine."""


def in_volume(folder: Path) -> bool:
    """Whether a folder is in a volume of Databricks."""
    return str(folder).startswith(VOLUMES)


def local_folder(uri: str) -> Path | None:
    """The path of a folder on this machine or a mounted volume; None if it is in an object store."""
    if "://" in uri and not uri.startswith("file:"):
        return None
    return Path(uri.removeprefix("file://").removeprefix("file:").replace("dbfs:/", "/dbfs/", 1))


def absolute(uri: str) -> str:
    """The same folder as an absolute path, so that a worker that started elsewhere finds it."""
    local = local_folder(uri)
    return uri if local is None else str(local.absolute())


@contextmanager
def writable_folder(uri: str) -> Iterator[Path]:
    """A local folder to write files in; at the end of the block they are at `uri`."""
    local = local_folder(uri)
    if local is not None and not in_volume(local):
        local.mkdir(parents=True, exist_ok=True)
        yield local
        return
    with tempfile.TemporaryDirectory(prefix="xmtc-fusion-") as scratch:
        yield Path(scratch)
        filesystem, path = fs.FileSystem.from_uri(uri) if local is None else (fs.LocalFileSystem(), str(local))
        fs.copy_files(scratch, path, source_filesystem=fs.LocalFileSystem(), destination_filesystem=filesystem)


def readable_folder(uri: str, fingerprint: str) -> Path:
    """A local folder with the files of `uri`. `fingerprint` stands for their content: another one is fetched again."""
    local = local_folder(uri)
    if local is not None:
        return local
    digest = hashlib.sha256(f"{uri} {fingerprint}".encode()).hexdigest()[:16]
    kept = Path(tempfile.gettempdir()) / f"xmtc-fusion-{digest}"
    if not kept.exists():
        filesystem, path = fs.FileSystem.from_uri(uri)
        scratch = kept.with_name(f"{kept.name}.{uuid.uuid4().hex[:12]}")
        scratch.mkdir()
        fs.copy_files(path, str(scratch), source_filesystem=filesystem, destination_filesystem=fs.LocalFileSystem())
        try:
            scratch.rename(kept)
        except OSError:
            # Another worker of this machine was faster.
            shutil.rmtree(scratch)
    return kept
