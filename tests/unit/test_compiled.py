"""Compiled code is kept for the machine: another process, another place of the sources, and a zip find it again."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from contextlib import suppress
from fcntl import LOCK_EX, flock
from importlib import import_module
from pathlib import Path

import pytest

from fusion import code_cache
from fusion.compiled import compiled

ROOT = Path(__file__).parents[2]
MODULE = """
from fusion.compiled import compiled
STEP = 3

@compiled
def _next(x):
    return x + STEP

@compiled
def after(x):
    return _next(x) * 2
"""
# What is compiled: both functions the first time; later only the caller is loaded, with the other one in it.
CALL = """
import kernels
print(kernels.after(4), sum(f.stats.cache_misses.total() for f in (kernels.after, kernels._next)))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "kernels.py").write_text(MODULE)
    return tmp_path


def start(folder: Path, place: str) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(folder / place), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path, "NUMBA_CACHE_DIR": str(folder / "kept")}
    return subprocess.Popen([sys.executable, "-c", CALL], env=environment, stdout=subprocess.PIPE, text=True)


def call(folder: Path, place: str) -> tuple[int, int]:
    """What the function returns, and how many functions were compiled for it."""
    value, misses = start(folder, place).communicate(timeout=120)[0].split()
    return int(value), int(misses)


def test_one_of_several_processes_compiles(folder: Path) -> None:
    together = [start(folder, "a") for _ in range(3)]
    answers = [process.communicate(timeout=120)[0].split() for process in together]
    assert [value for value, _ in answers] == ["14"] * 3
    assert sum(int(misses) for _, misses in answers) == 2


def test_a_function_waits_for_itself_alone(folder: Path) -> None:
    assert call(folder, "a") == (14, 2)
    (place,) = (folder / "kept").iterdir()
    for name, seconds in (("another", 120), ("after", 4)):
        for kept in place.glob("*.code"):
            kept.unlink()
        with (place / f"kernels.{name}.lock").open("ab") as file:
            flock(file, LOCK_EX)
            process = start(folder, "a")
            with suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=seconds)
            assert (process.poll() is None) == (name == "after")
        assert process.wait(120) == 0


def test_it_is_found_from_another_place_and_compiled_again_when_it_must_be(folder: Path) -> None:
    assert call(folder, "a") == (14, 2)
    shutil.move(folder / "a", folder / "b")
    shutil.make_archive(str(folder / "c"), "zip", folder / "b")
    assert call(folder, "c.zip") == (14, 0)
    # A file that a crash left incomplete.
    for kept in (folder / "kept").rglob("*.code"):
        kept.write_bytes(kept.read_bytes()[:100])
    assert call(folder, "b") == (14, 2)
    assert call(folder, "b") == (14, 0)
    (folder / "b" / "kernels.py").write_text(MODULE.replace("STEP = 3", "STEP = 4"))
    assert call(folder, "b") == (16, 2)


def test_without_a_place_to_write_it_still_works(folder: Path) -> None:
    (folder / "kept").write_text("a file where the folder should be")
    assert call(folder, "a") == (14, 2)


def test_numba_has_the_private_parts_that_the_cache_uses(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails with a new numba: adapt fusion/code_cache.py, then raise the bound in setup.py."""
    monkeypatch.setattr(code_cache, "cache_folder", lambda: folder)
    monkeypatch.syspath_prepend(folder)
    (folder / "shifting.py").write_text("def shifted(x):\n    return x + 5\n")
    dispatcher = code_cache.make_dispatcher(import_module("shifting").shifted)
    assert dispatcher(1) == 6
    ((signature, result),) = dispatcher.overloads.items()
    assert dispatcher._cache.holds(signature, dispatcher.targetctx), "the dispatcher has not saved what it compiled"
    assert code_cache._Cache.__abstractmethods__ <= vars(code_cache._KeptCode).keys()
    # What `load_overload` does, without its suppressing of errors.
    kept = pickle.loads(code_cache.dumps(result._reduce()))
    assert code_cache.CompileResult._rebuild(dispatcher.targetctx, *kept).signature.args == signature
    assert hasattr(code_cache.config, "CACHE_DIR")


def test_functions_of_a_notebook_work() -> None:
    """Their module has no source that could be told apart, so nothing is kept."""
    space: dict[str, object] = {"compiled": compiled, "__name__": "__main__"}
    exec("@compiled\ndef double(x):\n    return 2 * x", space)
    assert space["double"](3) == 6  # type: ignore[operator]
