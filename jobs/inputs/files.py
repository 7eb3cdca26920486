"""What a file is, by its first bytes: names are what people make of them."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from fusion.errors import InputError
from udfs.stores.addresses import has_scheme, locate
from udfs.stores.clients import file_system, retried
from udfs.text_files import GZIP, LOOKED_AT, NO_TEXT, PARQUET, other_encoding, wide_text


def file_kind(path: str) -> str | None:
    """`parquet` or `trec`; None for a folder, and where nothing is there to be looked at."""
    first = first_bytes(path)
    if first is None:
        return None
    if first.startswith(PARQUET):
        return "parquet"
    for magic, what in NO_TEXT.items():
        if first.startswith(magic):
            raise InputError(f"{path} is {what}; expected Parquet, or a TREC file as plain text or gzip")
    if (encoding := other_encoding(first)) is not None:
        raise wide_text(path, encoding)
    # A stray NUL is for the reader to report, with its line.
    if 4 * first.count(0) > len(first) and not first.startswith(GZIP):
        raise InputError(f"{path} is neither Parquet nor text (plain or gzip): it begins with {first[:8]!r}")
    return "trec"


def first_bytes(path: str) -> bytes | None:
    """The beginning of a file, None if it is no file or cannot be opened; who reads it then hears why."""
    if not has_scheme(path) or path.startswith("file:"):
        with suppress(OSError, ValueError):
            file = Path(locate(path).path)
            if file.is_file():
                with file.open("rb") as stream:
                    return stream.read(LOOKED_AT)
        return None
    return _first_bytes_of_object(path)


@lru_cache(maxsize=256)
def _first_bytes_of_object(path: str) -> bytes | None:
    """Asked once: every look at a store is a request."""
    place = locate(path)

    def look() -> bytes:
        with file_system(place).open_input_file(place.path) as stream:
            return bytes(stream.read(LOOKED_AT))

    with suppress(OSError):
        return retried(place, "read", look)
    return None
