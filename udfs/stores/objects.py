"""What is done with files and objects of any store: read, put, list, copy, delete."""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from pyarrow import fs

from udfs.stores.addresses import AZURE, FILE, GCS, S3, in_volume, locate
from udfs.stores.clients import file_system, retried

BLOCK = 1 << 20
COPIES_AT_ONCE = 8
APPEARS_WHOLE = (S3, GCS, AZURE)
"""Stores that show an object when it is complete, and need no folders. HDFS shows a file from its first byte on."""
AT_HAND = (FILE, *APPEARS_WHOLE)
"""Where this process can list and read files without a cluster's own client."""


class Listed(NamedTuple):
    """A file below a folder."""

    name: str
    size: int
    modified: float
    """Seconds since 1970."""


def read_bytes(uri: str) -> bytes | None:
    """The content of a file, None if there is none."""
    place = locate(uri)
    if place.kind == FILE:
        try:
            return Path(place.path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read() -> bytes | None:
        client = file_system(place)
        try:
            with client.open_input_file(place.path) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    return retried(place, "read", read)


def put(uri: str, content: bytes) -> None:
    """Write a small file that is there whole or not at all, and on disk when this returns."""
    place = locate(uri)
    if place.kind == FILE:
        _put_file(Path(place.path), content)
        return
    appears_whole = place.kind in APPEARS_WHOLE
    written = place.path if appears_whole else f"{place.path}.{uuid.uuid4().hex[:12]}.tmp"

    def write() -> None:
        client = file_system(place)
        if not appears_whole:
            client.create_dir(written.rpartition("/")[0], recursive=True)
        with client.open_output_stream(written, compression=None) as stream:
            stream.write(content)
        if not appears_whole:
            client.move(written, place.path)

    retried(place, "write", write)


def _put_file(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Volumes show a file when it is closed, and know no rename of files.
    written = path if in_volume(path) else path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.tmp")
    try:
        with written.open("wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if written != path:
            written.replace(path)
            flush(path.parent)
    except BaseException:
        if written != path:
            written.unlink(missing_ok=True)
        raise


def flush(path: Path) -> None:
    """See that a file, or the names in a folder, are on disk."""
    # Some mounted file systems do not know what that is.
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def flush_folder(uri: str) -> None:
    """See that all that was written below a folder is on disk. Stores of objects have seen to it themselves."""
    place = locate(uri)
    if place.kind != FILE or in_volume(Path(place.path)):
        return
    for folder, _, names in os.walk(place.path):
        for name in names:
            # Checksums that Spark writes next to its files are not read if they are missing.
            if not name.endswith(".crc"):
                flush(Path(folder, name))
        flush(Path(folder))
    flush(Path(place.path).parent)


def type_of(uri: str) -> fs.FileType:
    """Whether a place holds a file, a folder or nothing."""
    place = locate(uri)
    if place.kind == FILE:
        path = Path(place.path)
        return fs.FileType.Directory if path.is_dir() else fs.FileType.File if path.exists() else fs.FileType.NotFound
    return retried(place, "look at", lambda: file_system(place).get_file_info(place.path).type)


def exists(uri: str) -> bool:
    return bool(type_of(uri) != fs.FileType.NotFound)


def children(uri: str) -> list[str]:
    """The names of the files and folders in a folder, sorted; none if it is not there."""
    place = locate(uri)
    if place.kind == FILE:
        folder = Path(place.path)
        return sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    selector = fs.FileSelector(place.path, allow_not_found=True)
    entries = retried(place, "list", lambda: file_system(place).get_file_info(selector))
    return sorted(info.base_name for info in entries if info.base_name)


def files_below(uri: str) -> list[Listed]:
    """All files below a folder, by name; the file itself under the name '' if it is one."""
    place = locate(uri)
    if place.kind == FILE:
        return list(_local_files(Path(place.path)))
    client = file_system(place)
    selector = fs.FileSelector(place.path, recursive=True, allow_not_found=True)

    def listing() -> list[fs.FileInfo]:
        # What some stores say of a file.
        with suppress(NotADirectoryError):
            return list(client.get_file_info(selector))
        return []

    listed = retried(place, "list", listing)
    if not listed:
        listed = [retried(place, "look at", lambda: client.get_file_info(place.path))]
    prefix = place.path.rstrip("/")
    return sorted(
        Listed(info.path[len(prefix) :].strip("/"), info.size or 0, info.mtime.timestamp() if info.mtime else 0.0)
        for info in listed
        if info.type == fs.FileType.File
    )


def _local_files(path: Path) -> Iterator[Listed]:
    paths = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    for file in paths:
        status = file.stat()
        yield Listed("" if file == path else file.relative_to(path).as_posix(), status.st_size, status.st_mtime)


def delete_folder(uri: str) -> None:
    """Delete a folder with all that is in it, if it is there."""
    place = locate(uri)
    if place.kind == FILE:
        with suppress(FileNotFoundError):
            shutil.rmtree(place.path)
        return

    def delete() -> None:
        with suppress(FileNotFoundError):
            file_system(place).delete_dir(place.path)

    retried(place, "delete", delete)


def delete_file(uri: str) -> None:
    """Delete a file, if it is there."""
    place = locate(uri)
    if place.kind == FILE:
        Path(place.path).unlink(missing_ok=True)
        return

    def delete() -> None:
        with suppress(FileNotFoundError):
            file_system(place).delete_file(place.path)

    retried(place, "delete", delete)


def copy_files(source: str, target: str, names: Iterable[str]) -> None:
    """Put files of one folder into another of the same store, each of them at once and over what is there.

    On a local disk both names are of the same bytes, so that a copy costs neither time nor space. Stores of objects
    copy by themselves: nothing passes through this machine.
    """
    with ThreadPoolExecutor(COPIES_AT_ONCE) as threads:
        for _ in threads.map(lambda name: _copy(f"{source}/{name}", f"{target}/{name}"), names):
            pass


def _copy(source: str, target: str) -> None:
    place, goal = locate(source), locate(target)
    if place.kind == FILE:
        _link(Path(place.path), Path(goal.path))
        return

    def copy() -> None:
        client = file_system(place)
        if place.kind not in APPEARS_WHOLE:
            client.create_dir(goal.path.rpartition("/")[0], recursive=True)
        client.copy_file(place.path, goal.path)

    retried(goal, "write", copy)


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if in_volume(target):
        shutil.copyfile(source, target)
        return
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}.tmp")
    try:
        os.link(source, temporary)
    except OSError:
        # Not every file system has links.
        shutil.copyfile(source, temporary)
        flush(temporary)
    temporary.replace(target)


def send_file(file: Path, uri: str) -> None:
    """Put a file of this machine into a store. It is there when it is whole."""
    place = locate(uri)

    def send() -> None:
        client = file_system(place)
        if place.kind not in APPEARS_WHOLE:
            client.create_dir(place.path.rpartition("/")[0], recursive=True)
        with file.open("rb") as source, client.open_output_stream(place.path, compression=None) as sink:
            while block := source.read(8 * BLOCK):
                sink.write(block)

    retried(place, "write", send)


def content_digest(uri: str, listed: Listed) -> str:
    """A digest of the content of a file below a folder: of its bytes where they are at hand, the store's own tag of
    the object otherwise, its size and time where the store has no tag."""
    place = locate(f"{uri}/{listed.name}" if listed.name else uri)
    if place.kind == FILE:
        digest = hashlib.sha256()
        with Path(place.path).open("rb") as stream:
            while block := stream.read(BLOCK):
                digest.update(block)
        return digest.hexdigest()

    def tag() -> str:
        with file_system(place).open_input_file(place.path) as stream:
            return bytes((stream.metadata() or {}).get("ETag", b"")).decode()

    return f"{listed.size} {retried(place, 'read', tag) or listed.modified}"
