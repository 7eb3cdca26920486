"""What Spark's own errors say, without the stack."""

from __future__ import annotations

import re

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

SPARK_ERRORS = (PySparkException, Py4JJavaError)
"""What Spark raises, directly or out of the JVM."""


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
