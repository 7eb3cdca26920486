"""How long the two commands of the README take, in a checkout whose environment is made.

    python -m benchmarks.times [demo] [test]

Run it on a machine with 2 cores and nothing else to do; it writes benchmarks/results/times.md, and `make figures` then
writes README and docs.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks" / "results" / "times.md"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="*", default=["demo", "test"], choices=["demo", "test"])
    text = RESULT.read_text(encoding="utf-8")
    for command in parser.parse_args().commands:
        if command == "demo":
            # From the texts on: what an earlier run has left would be used again.
            shutil.rmtree(ROOT / "work" / "debtags", ignore_errors=True)
        started = time.monotonic()
        subprocess.run(["make", command], cwd=ROOT, check=True)
        text = with_time(text, command, time.monotonic() - started)
        RESULT.write_text(text, encoding="utf-8")


def with_time(text: str, command: str, seconds: float) -> str:
    """The table with the time of one command, to the half minute."""
    minutes = max(round(seconds / 30) / 2, 0.5)
    shown = f"about {minutes:g} minute{'s' * (minutes != 1)}"
    changed, found = re.subn(rf"^(\| `make {command}` \|).*$", rf"\1 {shown} |", text, flags=re.MULTILINE)
    if not found:
        raise ValueError(f"{RESULT} has no row for make {command}")
    return changed


if __name__ == "__main__":
    main()
