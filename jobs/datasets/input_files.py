"""The files that a dataset is read from, and what stands for their content."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from pyspark.sql import SparkSession

from fusion.errors import SetupError
from jobs.datasets.readers.base import reading_error, source_of
from jobs.datasets.readers.lines import shown
from jobs.datasets.readers.records import TABLE
from jobs.runtime.spark_errors import SPARK_ERRORS
from jobs.runtime.stages import input_fingerprint
from jobs.settings.prepare import PrepareSettings, paths_of
from udfs.stores.addresses import for_spark
from udfs.stores.objects import Listed, content_digest


def input_fingerprints(spark: SparkSession, settings: PrepareSettings) -> dict[str, list[str]]:
    """By the names in the settings, so that another content is noticed and another folder is not.

    A file of the driver's machine is known by its bytes, one in a store by the store's tag, another by size and time. A
    catalog table is known by its name only.
    """
    wanted = [*(part.texts for part in settings.parts), *(part.labels for part in settings.parts), settings.label_file]
    names = [name for names in wanted if names for name in ([names] if isinstance(names, str) else names)]
    return {name: _fingerprint(spark, paths_of(settings, name)[0]) for name in names}


def _fingerprint(spark: SparkSession, path: str) -> list[str]:
    if path.startswith(TABLE):
        return [path]
    try:
        # Spark resolves patterns and addresses of any kind; the contents are not read.
        files = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(for_spark(path))
        rows = files.select("path", "length", "modificationTime").collect()
    except SPARK_ERRORS as error:
        raise reading_error(source_of([path]), error) from None
    digests = []
    for file, length, changed in sorted(tuple(row) for row in rows):
        local = Path(shown(file))
        digests.append(input_fingerprint(str(local)) if local.is_file() else _object_tag(file, length, str(changed)))
    return digests


def _object_tag(file: str, length: int, changed: str) -> str:
    """The store's own tag of an object; its size and time where only Spark reaches it."""
    with suppress(OSError, SetupError):
        return content_digest(shown(file), Listed("", length, 0.0))
    return f"{length} {changed}"
