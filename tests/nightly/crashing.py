"""Nights in processes that can be killed at any change of a folder. Started with the library `kill_at` preloaded.

Takes commands, one per line: the number of the fatal change (0: none), the work folder and the night's settings as
JSON. Each night runs in a fork of this process, which has everything loaded; the answer says how it ended.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import traceback
from typing import Any

from jobs.evaluation import evaluate
from jobs.nights import nightly
from jobs.settings.config import load_config, overlaid


def night(fatal: int, under: str, settings: dict[str, Any]) -> None:
    library = ctypes.CDLL(None)
    library.kill_at(under.encode(), ctypes.c_long(fatal))
    found = nightly.run(None, load_config(None, settings))
    library.changes_seen.restype = ctypes.c_long
    seen = library.changes_seen()
    library.kill_at(b"", ctypes.c_long(0))
    told = {"changes": seen, "exit_code": found.exit_code, "problems": found.problems}
    os.write(3, json.dumps(told).encode())


def main() -> None:
    ready = False
    for line in sys.stdin:
        fatal, under, settings = json.loads(line)
        if not ready:
            # Compile what nights need; the history's library must not have started before a fork.
            config = load_config(None, settings)
            evaluate.compute(None, overlaid(config, config.nightly.datasets[0]))
            ready = True
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.dup2(writing, 3)
            try:
                night(fatal, under, settings)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        os.close(writing)
        _, status = os.waitpid(child, 0)
        with os.fdopen(reading) as stream:
            answer = stream.read()
        print(json.dumps([os.WIFSIGNALED(status), json.loads(answer or "null")]), flush=True)


if __name__ == "__main__":
    main()
