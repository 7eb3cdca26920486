"""How long the two commands of the README take.

    python -m benchmarks.times [demo] [test] [fresh-demo]

`demo` and `test` run in this checkout, once its environment is made and the code compiled; `fresh-demo` in a new clone
of its last commit, where the command first makes an environment and compiles. Run it on a machine with 2 cores and
nothing else to do; it writes benchmarks/results/times.md, and `make figures` then writes README and docs.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks" / "results" / "times.md"
FRESH = "fresh-demo"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", nargs="*", default=["demo", "test"], choices=["demo", "test", FRESH])
    for measured in parser.parse_args().measured:
        row = "`make demo` in a fresh clone" if measured == FRESH else f"`make {measured}`"
        seconds = fresh_seconds("demo") if measured == FRESH else warm_seconds(measured)
        RESULT.write_text(with_time(RESULT.read_text(encoding="utf-8"), row, seconds), encoding="utf-8")


def warm_seconds(command: str) -> float:
    if command == "demo":
        # From the texts on: what an earlier run has left would be used again.
        shutil.rmtree(ROOT / "work" / "debtags", ignore_errors=True)
    return made(command, ROOT, dict(os.environ))


def fresh_seconds(command: str) -> float:
    """In a clone, with empty caches: neither compiled code nor downloaded packages are there."""
    with tempfile.TemporaryDirectory(prefix="fresh-") as folder:
        clone = Path(folder, "clone")
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        return made(command, clone, {**os.environ, "XDG_CACHE_HOME": str(Path(folder, "cache"))})


def made(command: str, checkout: Path, environment: dict[str, str]) -> float:
    """The seconds that making something takes."""
    started = time.monotonic()
    subprocess.run(["make", command], cwd=checkout, env=environment, check=True)
    return time.monotonic() - started


def with_time(text: str, row: str, seconds: float) -> str:
    """The table with the time of one row, to the half minute."""
    minutes = max(round(seconds / 30) / 2, 0.5)
    shown = f"about {minutes:g} minute{'s' * (minutes != 1)}"
    changed, found = re.subn(rf"^(\| {re.escape(row)} \|).*$", rf"\1 {shown} |", text, flags=re.MULTILINE)
    if not found:
        raise ValueError(f"{RESULT} has no row for {row}")
    return changed


if __name__ == "__main__":
    main()
