"""A look at a Python process: the driver, or a worker wherever Spark starts it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

Describe = Callable[[], dict[str, Any]]
Probe = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
PROBE_SCHEMA = "about string"


def make_probe(packages: tuple[str, ...]) -> tuple[Describe, Probe]:
    """What describes this process, and the same for `mapInArrow`, which gives one row of JSON per task.

    Both are nested, and import what they need when they run: so they travel by value, and work where this package is
    missing or another one.
    """

    def describe() -> dict[str, Any]:
        import os
        import platform
        import socket
        import sys
        import time
        from importlib.metadata import PackageNotFoundError, version

        versions: dict[str, str | None] = {}
        for name in packages:
            try:
                versions[name] = version(name)
            except PackageNotFoundError:
                versions[name] = None
        about: dict[str, Any] = {
            "host": socket.gethostname(),
            "process": os.getpid(),
            "python": platform.python_version(),
            "executable": sys.executable,
            "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else None,
            "packages": versions,
        }
        try:
            import numpy as np

            from fusion import __file__ as place
            from fusion.kernel.code_cache import cache_folder
            from fusion.kernel.compiled import code_version
            from fusion.kernel.ranking import relevant_ranks

            begin = time.monotonic()
            offsets = np.array([0, 2], np.int64), np.array([1], np.int64), np.array([0, 1], np.int64)
            relevant_ranks(np.array([2, 1], np.float32), *offsets)
            about["kernel_seconds"] = time.monotonic() - begin
            about["code"], about["place"] = code_version("fusion", "udfs"), place
            about["cache"] = str(cache_folder()) if cache_folder() else None
        except Exception as error:
            about["error"] = f"{type(error).__name__}: {error}"
        return about

    def probe(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import json
        import time

        import pyarrow as pa

        for _ in batches:
            pass
        # Long enough for the other tasks to start elsewhere.
        time.sleep(0.2)
        yield pa.RecordBatch.from_pydict({"about": pa.array([json.dumps(describe())], pa.string())})

    return describe, probe
