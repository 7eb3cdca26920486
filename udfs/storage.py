"""Folders of indexes and models: mapped where they are on a file system, fetched once per machine from a store."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyarrow import fs

from udfs.stores.addresses import absolute, in_volume, local_folder, locate
from udfs.stores.clients import file_system
from udfs.stores.index_cache import fetched_folder
from udfs.stores.objects import send_file

__all__ = ["absolute", "client_of", "in_volume", "local_folder", "readable_folder", "writable_folder"]


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
        for file in sorted(path for path in Path(scratch).rglob("*") if path.is_file()):
            send_file(file, f"{uri.rstrip('/')}/{file.relative_to(scratch).as_posix()}")


def readable_folder(uri: str, fingerprint: str) -> Path:
    """A local folder with the files of `uri`. `fingerprint` stands for their content: another one is fetched again."""
    local = local_folder(uri)
    return local if local is not None else fetched_folder(uri, fingerprint)


def client_of(uri: str) -> tuple[fs.FileSystem, str]:
    """The file system of an address, and the path in it, as functions of pyarrow want them."""
    place = locate(uri)
    return file_system(place), place.path
