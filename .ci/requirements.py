"""What an executor needs next to Spark: the requirements of this package and of some extras, without PySpark, which
Spark brings itself.

    python .ci/requirements.py [EXTRA,EXTRA]
"""

import sys
from importlib.metadata import requires

from packaging.requirements import Requirement


def needed(extras: list[str]) -> list[str]:
    """The requirements as pip reads them, of the installed package."""
    known = map(Requirement, requires("xmtc-fusion") or [])
    wanted = [need for need in known if need.name != "pyspark"]
    return [
        str(need).partition(";")[0].strip()
        for need in wanted
        if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in ["", *extras])
    ]


if __name__ == "__main__":
    print("\n".join(needed(sys.argv[1].split(",") if sys.argv[1:] else [])))
