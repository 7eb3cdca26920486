"""Receivers of alerts on loopback: real servers that keep what they are sent."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Inbox:
    """What a receiver was sent."""

    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)


def answer_204(handler: BaseHTTPRequestHandler, count: int) -> None:
    handler.send_response(204)
    handler.end_headers()


def slowly(handler: BaseHTTPRequestHandler, count: int) -> None:
    """An answer that comes byte by byte, each in time for a timeout that starts anew with every byte."""
    for byte in b"HTTP/1.1 200 OK\r\n" * 10:
        handler.wfile.write(bytes([byte]))
        handler.wfile.flush()
        time.sleep(0.2)


@contextmanager
def http_receiver(inbox: Inbox, answer: Callable[[BaseHTTPRequestHandler, int], None] = answer_204) -> Iterator[str]:
    """A web server; `answer` gets the request and how many came before it."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            inbox.bodies.append(json.loads(body))
            inbox.headers.append(dict(self.headers))
            inbox.paths.append(self.path)
            try:
                answer(self, len(inbox.bodies) - 1)
            except OSError:
                # Whoever asked has gone.
                self.close_connection = True

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook/s3cret-token"
    finally:
        server.shutdown()
        server.server_close()
