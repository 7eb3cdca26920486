"""What can go wrong between a client and a store: a proxy on loopback that errs, a driver that dies between puts."""

from __future__ import annotations

import random
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest

from udfs.stores import cache, clients, objects

SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


class Faults:
    """How often requests fail, and how."""

    def __init__(self, share: float = 0.0, stalls: int = 0, stall_seconds: float = 0.0) -> None:
        self.share = share
        self.stalls = stalls
        self.stall_seconds = stall_seconds
        self.seen: dict[str, int] = {"requests": 0, "error": 0, "reset": 0, "stall": 0}
        self._random = random.Random(0)
        self._lock = threading.Lock()
        self.over = threading.Event()

    def next(self) -> str | None:
        """What happens to the next request."""
        with self._lock:
            self.seen["requests"] += 1
            fault = None
            if self.stalls:
                self.stalls -= 1
                fault = "stall"
            elif self._random.random() < self.share:
                fault = self._random.choice(["error", "reset"])
            if fault is not None:
                self.seen[fault] += 1
            return fault


@contextmanager
def proxy(endpoint: str, faults: Faults) -> Iterator[str]:
    """A proxy before a store; its address."""
    target = urlsplit(endpoint)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: Any) -> None:
            pass

        def forward(self) -> None:
            body = self.body()
            fault = faults.next()
            if fault == "stall":
                faults.over.wait(faults.stall_seconds)
                self.close_connection = True
                return
            if fault == "error":
                self.answer(503, {"Content-Type": "application/xml"}, SLOW_DOWN)
                return
            connection = HTTPConnection(target.hostname or "", target.port or 80, timeout=60)
            kept = {name: value for name, value in self.headers.items() if name.title() not in DROPPED}
            length = {"Content-Length": str(len(body))} if body or self.command == "PUT" else {}
            connection.request(self.command, self.path, body, {**kept, **length, "Connection": "close"})
            answer = connection.getresponse()
            content = answer.read()
            headers = {name: value for name, value in answer.getheaders() if name.title() not in DROPPED}
            if fault == "reset":
                # The store has done it, but the client hears half of it.
                self.answer(answer.status, headers, content, cut=len(content) // 2)
                linger = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                self.connection.close()
                self.close_connection = True
                return
            self.answer(answer.status, headers, content)

        def body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            chunks = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(chunks)

        def answer(self, status: int, headers: dict[str, str], content: bytes, cut: int | None = None) -> None:
            self.send_response_only(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if "Content-Length" not in headers:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[:cut] if cut is not None else content)
            self.wfile.flush()

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = forward  # noqa: N815

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        faults.over.set()
        server.shutdown()
        server.server_close()


DROPPED = {"Connection", "Server", "Date", "Transfer-Encoding", "Keep-Alive", "Expect"}


class KilledError(BaseException):
    """The driver is dead."""


class Killer:
    """Counts what changes a store, and dies before one of these steps. A dead driver changes nothing any more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps = 0
        self.dies_before: int | None = None
        real = clients.retried

        def counted(place: Any, doing: str, action: Callable[[], Any]) -> Any:
            if doing in ("write", "delete"):
                self.step()
            return real(place, doing, action)

        for module in (objects, cache):
            monkeypatch.setattr(module, "retried", counted)

    def step(self) -> None:
        """Before anything is changed."""
        if self.dies_before is not None and self.steps >= self.dies_before:
            raise KilledError
        self.steps += 1

    def live(self, dies_before: int | None = None) -> None:
        """Begin again."""
        self.steps, self.dies_before = 0, dies_before
