"""Text files of any store as UTF-8: unpacked within a limit, without a byte order mark. Other encodings are refused."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

from fusion.errors import InputError
from udfs.stores.addresses import FILE, locate
from udfs.stores.objects import read_bytes

GZIP, MARK = b"\x1f\x8b", b"\xef\xbb\xbf"
BLOCK = 4 << 20
FREELY_UNPACKED, LARGEST_RATIO = 64 << 20, 200
"""Bytes that any file may unpack to, and those that each of its bytes may: rankings shrink to a tenth, not to a
thousandth, and a few bytes can unpack to more than any memory."""
LOOKED_AT = 512
"""Bytes at the head of a file, or of a line, that tell its encoding."""
WIDE = {"utf-32-le": "UTF-32", "utf-32-be": "UTF-32", "utf-16-le": "UTF-16", "utf-16-be": "UTF-16"}
MARKS = {b"\xff\xfe\0\0": "UTF-32", b"\0\0\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}

Split = Callable[[bytes], list[bytes]]


def read_text(uri: str, source: str) -> str:
    """The whole of a text file; `source` is its name in messages."""
    return text_of(_opened(uri, source), source)


def text_of(stream: IO[bytes], source: str) -> str:
    """The whole of a stream that may be packed."""
    return b"".join(lines_of(stream, source, lambda block: [block])).decode()


def read_lines(uri: str, source: str, split: Split = bytes.splitlines) -> Iterator[bytes]:
    """The lines of a text file without what ends them."""
    return lines_of(_opened(uri, source), source, split)


def lines_of(stream: IO[bytes], source: str, split: Split = bytes.splitlines) -> Iterator[bytes]:
    """The lines of a stream that may be packed, all of them UTF-8."""
    before = 0
    for block in _whole_lines(_unpacked(stream, source)):
        try:
            block.decode()
        except UnicodeDecodeError as error:
            raise encoding_error(source, before + block.count(b"\n", 0, error.start) + 1, block) from None
        before += block.count(b"\n")
        yield from split(block)


def json_lines(block: bytes) -> list[bytes]:
    """Split at \\n alone: any other white space may stand inside a line of JSON."""
    return block.removesuffix(b"\n").split(b"\n")


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


def _opened(uri: str, source: str) -> IO[bytes]:
    place = locate(uri)
    try:
        if place.kind == FILE:
            return Path(place.path).open("rb")
        # In one piece, so that a store that fails on the way is asked again.
        content = read_bytes(uri)
    except FileNotFoundError:
        content = None
    except OSError as error:
        raise InputError(f"cannot read {source}: {error}") from None
    if content is None:
        raise InputError(f"cannot read {source}: it does not exist")
    return io.BytesIO(content)


def _unpacked(stream: IO[bytes], source: str) -> Iterator[bytes]:
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
                    if (encoding := other_encoding(block)) is not None:
                        raise wide_text(source, encoding)
                    block = block.removeprefix(MARK)
                yield block
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot read {source}: {error}") from None


def _whole_lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
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
