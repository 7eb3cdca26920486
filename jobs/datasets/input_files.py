"""The files that a dataset is read from, and what stands for their content."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from jobs.datasets.readers.base import reading_error, source_of
from jobs.datasets.readers.lines import shown
from jobs.datasets.readers.records import TABLE
from jobs.runtime.spark_errors import SPARK_ERRORS
from jobs.runtime.stages import input_fingerprint
from jobs.settings.prepare import PrepareSettings, paths_of


def input_fingerprints(spark: SparkSession, settings: PrepareSettings) -> dict[str, list[str]]:
    """By the names in the settings, so that another content is noticed and another folder is not.

    A file that the driver can open is known by its bytes, another by its size and time. A catalog table is known by
    its name only.
    """
    wanted = [*(part.texts for part in settings.parts), *(part.labels for part in settings.parts), settings.label_file]
    names = [name for names in wanted if names for name in ([names] if isinstance(names, str) else names)]
    return {name: _fingerprint(spark, paths_of(settings, name)[0]) for name in names}


def _fingerprint(spark: SparkSession, path: str) -> list[str]:
    if path.startswith(TABLE):
        return [path]
    try:
        # Spark resolves patterns and addresses of any kind; the contents are not read.
        files = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(path)
        rows = files.select("path", "length", "modificationTime").collect()
    except SPARK_ERRORS as error:
        raise reading_error(source_of([path]), error) from None
    digests = []
    for file, length, changed in sorted(tuple(row) for row in rows):
        local = Path(shown(file))
        digests.append(input_fingerprint(str(local)) if local.is_file() else f"{length} {changed}")
    return digests
