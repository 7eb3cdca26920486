"""What Spark's own errors say, without the stack, and errors of ours on their way from workers."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import fusion.errors
from fusion.errors import InputError, XmtcError

RAISED = {"pyspark.errors": "PySparkException", "py4j.protocol": "Py4JJavaError"}
"""The modules of what Spark raises, directly or out of the JVM."""
FAILED, END = "xmtc-error:", ":xmtc-end"
"""What surrounds an error of ours in the message of Spark's error."""


def spark_errors() -> tuple[type[BaseException], ...]:
    """What Spark raises; nothing as long as nobody has imported Spark."""
    loaded = {module: sys.modules[module] for module in RAISED if module in sys.modules}
    return tuple(getattr(module, RAISED[name]) for name, module in loaded.items() if hasattr(module, RAISED[name]))


def spark_reason(error: BaseException) -> str:
    """The sentence that tells what went wrong: Spark's error with its condition, or the last cause."""
    text = str(error)
    known = re.search(r"\[[A-Z_]+(?:\.[A-Z_]+)*\] [^\n]+", text)
    if known:
        return known.group(0).split(" SQLSTATE")[0].strip()
    causes = re.findall(r"Caused by: ([^\n]+)", text)
    return (causes[-1] if causes else text.split("\n")[0]).strip()


def unreadable(reason: str) -> bool:
    """Whether what went wrong is a file that cannot be read: truncated, corrupt, or changed under its table."""
    return reason.startswith(("[FAILED_READ_FILE", "[CANNOT_READ_FILE", "[PATH_NOT_FOUND"))


def carried(error: XmtcError) -> str:
    """An error of ours in a form that survives the way to the driver."""
    return f"{FAILED}{json.dumps([type(error).__name__, str(error)])}{END}"


@contextmanager
def step_errors() -> Iterator[None]:
    """Raise an error of ours that ended a worker as what it was there."""
    try:
        yield
    except spark_errors() as error:
        found = re.search(f"{FAILED}(.*?){END}", str(error), re.DOTALL)
        if found is None:
            raise
        kind, message = json.loads(found[1])
        raise getattr(fusion.errors, kind, InputError)(message) from None
