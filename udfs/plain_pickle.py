"""Pickles of plain values, read without running what they may carry and without growing beyond what they hold.

A pickle is a program. A few bytes of it can ask for gigabytes, or build a value that takes minutes to hash; so this one
is run in Python, with the instructions that plain values need and a budget for each.
"""

from __future__ import annotations

import pickle
import pickletools
from collections.abc import Callable
from itertools import islice
from typing import IO, Any, ClassVar

from fusion.errors import InputError

PLAIN = {"set": set, "frozenset": frozenset}
"""The containers that old pickles name; all others have an opcode of their own."""
BLOCK = 1 << 20
"""Bytes that are asked for at a time: a length that the file does not have must not be reserved."""
MOST_BYTES = 32 << 30
MOST_VALUES = 200_000_000
LONGEST_LINE = 1 << 24
LONGEST_NUMBER = 100
"""Digits of a whole number."""
LONGEST_LONG = 40
"""Bytes of a whole number: about as many digits."""
DEEPEST = 32
"""Containers within containers."""
LARGEST_SHARED, MOST_SHARED = 10_000, 50_000_000
"""Values in one container that is used again, and in all of them together: sharing lets values grow without bytes."""
ALLOWED = frozenset(
    """MARK STOP POP POP_MARK PROTO FRAME NONE NEWTRUE NEWFALSE INT BININT BININT1 BININT2 LONG LONG1 LONG4
    FLOAT BINFLOAT STRING BINSTRING SHORT_BINSTRING BINBYTES SHORT_BINBYTES BINBYTES8 UNICODE BINUNICODE
    SHORT_BINUNICODE BINUNICODE8 EMPTY_LIST APPEND APPENDS LIST EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_DICT DICT
    SETITEM SETITEMS EMPTY_SET ADDITEMS FROZENSET GET BINGET LONG_BINGET PUT BINPUT LONG_BINPUT MEMOIZE GLOBAL
    STACK_GLOBAL REDUCE PERSID BINPERSID""".split()  # noqa: SIM905
)
"""The instructions that plain values need."""
HASHING = ("SETITEM", "SETITEMS", "DICT", "ADDITEMS", "FROZENSET", "REDUCE")
NAMES = {ord(opcode.code): opcode.name for opcode in pickletools.opcodes}
SCALARS = (str, bytes, int, float, bool, type(None))


class BoundedStream:
    """A stream that gives what is there, however much is asked for, and no more than a limit in all."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._left = MOST_BYTES

    def read(self, size: int) -> bytes:
        blocks = []
        while size > 0 and (block := self._stream.read(min(size, BLOCK))):
            blocks.append(block)
            size -= len(block)
            self._count(len(block))
        return b"".join(blocks)

    def readline(self) -> bytes:
        line = bytearray()
        while not line.endswith(b"\n") and (byte := self._stream.read(1)):
            line += byte
            if len(line) > LONGEST_LINE:
                raise InputError(f"a line of the pickle has more than {LONGEST_LINE:,} bytes")
        self._count(len(line))
        return bytes(line)

    def _count(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise InputError(f"the pickle has more than {MOST_BYTES:,} bytes: split it")


class PlainUnpickler(pickle._Unpickler):
    """Admits plain containers, numbers and strings. Anything else a pickle asks for is refused by its name."""

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {}
    stack: list[Any]
    metastack: list[Any]
    append: Callable[[Any], None]
    read: Callable[[int], bytes]
    readline: Callable[[], bytes]

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__(BoundedStream(stream))
        self._values = 0
        self._shared = 0

    def find_class(self, module: str, name: str) -> Any:
        if module in ("builtins", "__builtin__") and name in PLAIN:
            return PLAIN[name]
        raise InputError(
            f"the pickle asks for {module}.{name}, which is refused: only lists, tuples, dicts, sets, numbers and "
            "strings are read. Save the samples again as plain Python values"
        )

    def persistent_load(self, pid: Any) -> Any:
        raise InputError(f"the pickle asks for the outside object {str(pid)[:100]!r}, which is refused")

    def step(self) -> None:
        """Count a value that is made."""
        self._values += 1
        if self._values > MOST_VALUES:
            raise InputError(f"the pickle makes more than {MOST_VALUES:,} values: split it")
        if len(self.metastack) > DEEPEST:
            raise InputError(f"the pickle has containers within containers more than {DEEPEST} deep")

    def share(self) -> None:
        """Weigh a container that is used again."""
        value = self.stack[-1]
        if isinstance(value, SCALARS) or value in PLAIN.values():
            return
        self._shared += _weight(value)
        if self._shared > MOST_SHARED:
            raise InputError(f"containers that the pickle uses again hold more than {MOST_SHARED:,} values")

    def hashed(self, kind: str) -> None:
        """Weigh the keys and elements that are about to be hashed: Python would follow them to any depth."""
        values = self.stack
        if kind == "SETITEM":
            values = self.stack[-2:-1]
        elif kind in ("SETITEMS", "DICT"):
            values = self.stack[::2]
        elif kind == "REDUCE" and isinstance(values[-1], tuple) and values[-1] and isinstance(values[-1][0], list):
            values = values[-1][0]
        for value in values:
            if not isinstance(value, SCALARS):
                _weight(value)

    def number(self, kind: str) -> None:
        """A whole number, unless it is longer than any that matters."""
        size = {"LONG1": 1, "LONG4": 4}.get(kind)
        if size is not None:
            length = int.from_bytes(self.read(size), "little")
            if length > LONGEST_LONG:
                raise InputError(f"a whole number of the pickle has {length:,} bytes")
            self.append(pickle.decode_long(self.read(length)))
            return
        line = self.readline()[:-1]
        if len(line) > LONGEST_NUMBER:
            raise InputError(f"a whole number of the pickle has {len(line):,} digits")
        if kind == "INT" and line in (b"00", b"01"):
            self.append(line == b"01")
        else:
            self.append(int(line.rstrip(b"L"), 0 if kind == "INT" else 10))

    def reduce(self) -> None:
        """Call one of the plain containers on one list."""
        arguments = self.stack.pop()
        container = self.stack[-1]
        if container not in PLAIN.values() or not isinstance(arguments, tuple) or len(arguments) > 1:
            raise InputError("the pickle calls something in a way that plain values do not need")
        self.stack[-1] = container(*arguments)


def _weight(value: Any) -> int:
    """The number of values in a container, those of its containers included; too many are refused."""
    waiting, weight = [(value, 0)], 0
    while waiting:
        inner, depth = waiting.pop()
        weight += 1
        if depth > DEEPEST:
            raise InputError(f"the pickle has containers within containers more than {DEEPEST} deep")
        if weight > LARGEST_SHARED:
            raise InputError(f"a container that the pickle uses again holds more than {LARGEST_SHARED:,} values")
        if isinstance(inner, dict):
            waiting += [(each, depth + 1) for pair in inner.items() for each in pair]
        elif isinstance(inner, list | tuple | set | frozenset):
            # More than these are refused anyhow.
            waiting += [(each, depth + 1) for each in islice(inner, LARGEST_SHARED + 1)]
    return weight


def _limited(name: str, load: Callable[[Any], None]) -> Callable[[Any], None]:
    """An instruction of Python's own unpickler, within the budget."""

    def step(reader: PlainUnpickler) -> None:
        reader.step()
        if name in HASHING:
            reader.hashed(name)
        if name in ("LONG1", "LONG4", "LONG", "INT"):
            reader.number(name)
        elif name == "REDUCE":
            reader.reduce()
        else:
            load(reader)
            if name in ("GET", "BINGET", "LONG_BINGET"):
                reader.share()

    return step


def _refused(name: str) -> Callable[[Any], None]:
    def refuse(reader: PlainUnpickler) -> None:
        raise InputError(f"the pickle has the instruction {name}, which plain values do not need, and is refused")

    return refuse


PlainUnpickler.dispatch.update(
    {
        code: _limited(NAMES[code], load) if NAMES[code] in ALLOWED else _refused(NAMES[code])
        for code, load in pickle._Unpickler.dispatch.items()
    }
)
