"""Text files of any store as UTF-8: unpacked within a limit, without a byte order mark. Other encodings are refused."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from fusion.errors import InputError
from udfs.stores.addresses import FILE, Address, locate
from udfs.stores.clients import file_system, retried

GZIP, MARK = b"\x1f\x8b", b"\xef\xbb\xbf"
BLOCK = 4 << 20
FREELY_UNPACKED, LARGEST_RATIO = 64 << 20, 200
"""Bytes that any file may unpack to, and those that each of its bytes may: rankings shrink to a tenth, not to a
thousandth, and a few bytes can unpack to more than any memory."""
LOOKED_AT = 512
"""Bytes at the head of a file, or of a line, that tell its encoding."""
WIDE = {"utf-32-le": "UTF-32", "utf-32-be": "UTF-32", "utf-16-le": "UTF-16", "utf-16-be": "UTF-16"}
MARKS = {b"\xff\xfe\0\0": "UTF-32", b"\0\0\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}

PARQUET = b"PAR1"
NO_TEXT = {
    b"PK\x03\x04": "a zip archive",
    b"BZh": "compressed by bzip2",
    b"\xfd7zXZ": "compressed by xz",
    b"\x28\xb5\x2f\xfd": "compressed by zstd",
    b"\x89HDF": "an HDF5 file",
    b"ARROW1": "an Arrow file",
}
"""What a file is that begins with some bytes."""

Split = Callable[[bytes], list[bytes]]


def read_text(uri: str, source: str) -> str:
    """The whole of a text file; `source` is its name in messages."""
    return text_of(opened(uri, source), source)


def text_of(stream: IO[bytes], source: str) -> str:
    """The whole of a stream that may be packed."""
    return b"".join(lines_of(stream, source, lambda block: [block])).decode()


def read_lines(uri: str, source: str, split: Split = bytes.splitlines) -> Iterator[bytes]:
    """The lines of a text file without what ends them."""
    return lines_of(opened(uri, source), source, split)


def lines_of(stream: IO[bytes], source: str, split: Split = bytes.splitlines) -> Iterator[bytes]:
    """The lines of a stream that may be packed, all of them UTF-8."""
    before = 0
    for block in whole_lines(unpacked(stream, source)):
        try:
            block.decode()
        except UnicodeDecodeError as error:
            raise encoding_error(source, before + block.count(b"\n", 0, error.start) + 1, block) from None
        before += block.count(b"\n")
        yield from split(block)


def other_encoding(first: bytes) -> str | None:
    """The encoding of text that is not UTF-8, by its first bytes: by its byte order mark, or by its many NULs."""
    marked = next((name for mark, name in MARKS.items() if first.startswith(mark)), None)
    head = first[:LOOKED_AT]
    if marked is not None or 4 * head.count(0) <= len(head):
        return marked
    for encoding, name in WIDE.items():
        try:
            text = head[: len(head) // 4 * 4].decode(encoding)
        except UnicodeDecodeError:
            continue
        if text and all(character.isprintable() or character.isspace() for character in text):
            return name
    return None


def check_head(first: bytes, source: str) -> None:
    """Refuse what is not text, by its first bytes, unless it is gzip."""
    for magic, what in {PARQUET: "a Parquet file", **NO_TEXT}.items():
        if first.startswith(magic):
            raise InputError(f"{source} is {what}; expected text, plain or packed by gzip")
    if (encoding := other_encoding(first)) is not None:
        raise wide_text(source, encoding)


def encoding_error(source: str, line: int, content: bytes) -> InputError:
    """The error for text in another encoding: ids that differ by an accent only would become one."""
    name = other_encoding(content)
    if name is not None:
        return wide_text(source, name)
    return InputError(f"{source} line {line}: not UTF-8; convert the file, as in: iconv -f latin1 -t utf-8")


def wide_text(source: str, encoding: str) -> InputError:
    """The error for a file in UTF-16 or UTF-32."""
    return InputError(
        f"{source} is text in {encoding}, expected UTF-8; convert the file, as in: iconv -f {encoding} -t utf-8"
    )


def opened(uri: str, source: str) -> IO[bytes]:
    """A file of any store, to be read from any place; `source` is its name in messages."""
    place = locate(uri)
    try:
        return Path(place.path).open("rb") if place.kind == FILE else io.BufferedReader(_Object(place), BLOCK)
    except FileNotFoundError:
        raise InputError(f"cannot read {source}: it does not exist") from None
    except OSError as error:
        raise InputError(f"cannot read {source}: {error}") from None


class _Object(io.RawIOBase):
    """A file in a store, read range by range, so that a store that fails on the way is asked again for one of them."""

    def __init__(self, place: Address) -> None:
        self._place, self._at = place, 0
        self._stream: Any = retried(place, "read", self._open)
        self._size: int = self._stream.size()

    def _open(self) -> Any:
        return file_system(self._place).open_input_file(self._place.path)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        def read() -> bytes:
            if self._stream is None:
                self._stream = self._open()
            try:
                return bytes(self._stream.read_at(len(buffer), self._at))
            except (OSError, pa.ArrowException):
                # What has failed once may stay broken.
                self._stream = None
                raise

        content = retried(self._place, "read", read)
        buffer[: len(content)] = content
        self._at += len(content)
        return len(content)


def unpacked(stream: IO[bytes], source: str) -> Iterator[bytes]:
    """The content of a stream in blocks, without its byte order mark."""
    try:
        with stream:
            packed = stream.read(len(GZIP)) == GZIP
            size = stream.seek(0, io.SEEK_END)
            stream.seek(0)
            content: IO[bytes] = gzip.GzipFile(fileobj=stream) if packed else stream  # type: ignore[assignment]
            most, total = FREELY_UNPACKED + LARGEST_RATIO * size, 0
            while block := content.read(BLOCK):
                total += len(block)
                if packed and total > most:
                    raise InputError(f"{source} has {size:,} bytes and unpacks to more than {most:,}: unpack it first")
                if total == len(block):
                    check_head(block, source)
                    block = block.removeprefix(MARK)
                yield block
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot read {source}: {error}") from None


def whole_lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The same content in blocks that end where a line ends."""
    pieces: list[bytes] = []
    for block in blocks:
        end = block.rfind(b"\n") + 1
        if end:
            yield b"".join([*pieces, block[:end]])
            pieces = [block[end:]]
        else:
            pieces.append(block)
    if last := b"".join(pieces):
        yield last
