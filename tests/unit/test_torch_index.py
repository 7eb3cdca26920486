"""Where `make` offers pip PyTorch's index of CPU builds, and where it does not."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / ".ci" / "torch_index.py"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere PyPI's torch is a CPU build")


class Index(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self.send_response(200 if self.path == "/whl/cpu/torch/" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Index) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def option(index: str, path: str) -> str:
    command = [sys.executable, str(SCRIPT), index]
    environment = {"PATH": path, "no_proxy": "127.0.0.1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=30).stdout


def test_an_index_that_answers_is_offered(address: str, tmp_path: Path) -> None:
    assert option(f"{address}/whl/cpu", str(tmp_path)) == f"--extra-index-url {address}/whl/cpu\n"


def test_a_machine_with_a_gpu_gets_the_usual_build(address: str, tmp_path: Path) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    assert option(f"{address}/whl/cpu", str(tmp_path)) == "\n"


def test_an_index_without_torch_is_not_offered(address: str, tmp_path: Path) -> None:
    assert option(f"{address}/empty", str(tmp_path)) == "\n"


def test_nobody_listens(tmp_path: Path) -> None:
    assert option("http://127.0.0.1:1/whl/cpu", str(tmp_path)) == "\n"


def test_silence_takes_a_few_seconds(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begin = time.monotonic()
        assert option(f"http://127.0.0.1:{silent.getsockname()[1]}/whl/cpu", str(tmp_path)) == "\n"
    assert time.monotonic() - begin < 10


def test_make_asks_only_when_it_installs(tmp_path: Path) -> None:
    """`make help` runs no probe; what installs passes its answer to pip."""
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\ncase "$1" in *torch_index.py) echo --extra-index-url ASKED;; esac\n')
    python.chmod(0o755)
    options = ["make", "--dry-run", "-C", str(ROOT), f"PYTHON={python}", f"VENV={tmp_path / 'none'}"]
    shown = {
        target: subprocess.run([*options, target], capture_output=True, text=True, check=True).stdout
        for target in ("help", "demo")
    }
    assert "ASKED" not in shown["help"]
    assert "--constraint constraints-cpu.txt --extra-index-url ASKED" in shown["demo"]
