"""Files of indexes and models: mapped where they are on a file system, fetched once per machine from a store.

A folder counts once its list of files, put last, names every file with its size and digest. It is checked when a
process first uses it: a folder that another user has planted, or a file that has changed, is fetched again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from fusion.errors import SetupError
from udfs.stores.addresses import in_volume, local_folder, locate
from udfs.stores.clients import file_system, retried
from udfs.stores.objects import BLOCK, files_below, send_file

CACHE_VARIABLE, LIMIT_VARIABLE = "XMTC_FUSION_CACHE", "XMTC_FUSION_CACHE_GB"
LIMIT_GB = 20.0
"""Of fetched folders per machine and user; the one used longest ago goes first."""
IN_USE = 3600.0
"""Seconds since a folder was last opened in which it is not removed."""
FILE_LIST = ".fetched.json"

_checked: set[Path] = set()


def fetched_folder(uri: str, fingerprint: str) -> Path:
    """The files of a folder in a store, on this machine."""
    root = private_folder()
    kept = root / hashlib.sha256(f"{uri} {fingerprint}".encode()).hexdigest()[:24]
    if kept not in _checked:
        if not _is_whole(kept):
            _fetch(uri, kept)
        _checked.add(kept)
        _bound(root, kept)
    os.utime(kept)
    return kept


def private_folder() -> Path:
    """A folder of this user that nobody else can write to."""
    given = os.environ.get(CACHE_VARIABLE)
    folder = Path(given) if given else Path(tempfile.gettempdir()) / f"xmtc-fusion-{os.getuid()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    # In a folder that everybody writes to, anybody may have made this one first.
    if folder.is_symlink() or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise SetupError(
            f"{folder} is not a folder that only this user can write to, so fetched indexes are not safe there: "
            f"remove it, or set {CACHE_VARIABLE} to another folder"
        )
    return folder


def _is_whole(folder: Path) -> bool:
    """Whether a folder has all the files that it was fetched with, and they are what they were."""
    try:
        if folder.lstat().st_uid != os.getuid():
            return False
        listed = json.loads((folder / FILE_LIST).read_text(encoding="utf-8"))
        return all(_digest(folder / name) == digest for name, digest in listed.items())
    except (OSError, ValueError, AttributeError):
        return False


def _digest(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _fetch(uri: str, kept: Path) -> None:
    """Fetch next to the place, and move the folder there when it is complete: this is a disk, which can do that."""
    scratch = kept.with_name(f"{kept.name}.{uuid.uuid4().hex[:12]}")
    scratch.mkdir(mode=0o700)
    try:
        digests = {}
        for listed in files_below(uri):
            target = scratch / listed.name
            target.parent.mkdir(parents=True, exist_ok=True)
            _fetch_file(f"{uri.rstrip('/')}/{listed.name}", target, listed.size)
            digests[listed.name] = _digest(target)
        (scratch / FILE_LIST).write_text(json.dumps(digests), encoding="utf-8")
        if kept.exists() and not _is_whole(kept):
            shutil.rmtree(kept)
        try:
            scratch.rename(kept)
        except OSError:
            # Another worker of this machine was faster.
            if not _is_whole(kept):
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _fetch_file(uri: str, target: Path, size: int) -> None:
    place = locate(uri)

    def fetch() -> None:
        with file_system(place).open_input_stream(place.path, compression=None) as source, target.open("wb") as sink:
            while block := source.read(8 * BLOCK):
                sink.write(block)
        if target.stat().st_size != size:
            raise pa.ArrowException(f"connection reset: {target.stat().st_size} of {size} bytes came")

    retried(place, "read", fetch)


def _bound(root: Path, newest: Path) -> None:
    """Remove the folders used longest ago while all together are above the limit."""
    limit = float(os.environ.get(LIMIT_VARIABLE) or LIMIT_GB) * 1e9
    folders = sorted((path for path in root.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime)
    sizes = {path: sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) for path in folders}
    total = sum(sizes.values())
    for path in folders:
        if total <= limit:
            return
        if path != newest and time.time() - path.stat().st_mtime > IN_USE:
            shutil.rmtree(path, ignore_errors=True)
            total -= sizes[path]


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
    """A local folder with the files of `uri`. `fingerprint` is that of their content: with another one they are fetched
    again."""
    local = local_folder(uri)
    return local if local is not None else fetched_folder(uri, fingerprint)


def client_of(uri: str) -> tuple[fs.FileSystem, str]:
    """The file system of an address, and the path in it, as functions of pyarrow want them."""
    place = locate(uri)
    return file_system(place), place.path
