"""One address, two clients: what Spark calls a place in storage, and what Python calls it.

| written as | Spark reads | Python opens |
|---|---|---|
| `work/x`, `/data/x`, `file:/data/x` | `file:///data/x` | the file of this machine |
| `/Volumes/x`, `dbfs:/Volumes/x` | `/Volumes/x` | the file at `/Volumes/x` |
| `dbfs:/x` | `dbfs:/x` | the file at `/dbfs/x` |
| `s3://b/x`, `s3a://b/x`, `s3n://b/x` | `s3a://b/x` | object `b/x` of S3 |
| `gs://b/x` | `gs://b/x` | object `b/x` of Google's store |
| `abfss://c@account.dfs.core.windows.net/x` | the same | object `c/x` of the Azure account |
| `hdfs://host:port/x` | the same | `/x` of that HDFS |
| any other `scheme://` | the same | whatever fsspec knows by that scheme |
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from pathlib import Path

from fusion.errors import ConfigError

VOLUMES = "/Volumes/"
"""Where Databricks mounts volumes: folders for Python, in which files are written from beginning to end or not at all.
Spark knows them by that name, and not as files of a machine."""
FILE, S3, GCS, AZURE, HDFS = "file", "s3", "gs", "abfss", "hdfs"
SCHEMES = {
    "file": FILE,
    "s3": S3,
    "s3a": S3,
    "s3n": S3,
    "gs": GCS,
    "gcs": GCS,
    "abfs": AZURE,
    "abfss": AZURE,
    "hdfs": HDFS,
    "viewfs": HDFS,
}
"""The kind of store behind a scheme. Schemes that are not here are left to fsspec."""


@dataclass(frozen=True)
class Address:
    """A place in storage: the kind of store, which of its kind (host, bucket or account), and the path inside."""

    kind: str
    host: str
    path: str
    """As the store's client wants it: absolute for files, `bucket/key` or `container/key` for object stores."""
    spark: str
    """The same place for Spark."""

    @property
    def is_file(self) -> bool:
        return self.kind == FILE

    def below(self, name: str) -> Address:
        """A place inside this one."""
        return Address(self.kind, self.host, f"{self.path.rstrip('/')}/{name}", f"{self.spark.rstrip('/')}/{name}")

    def __str__(self) -> str:
        """As people read it: files without a scheme."""
        return self.path if self.is_file else self.spark


def in_volume(folder: Path) -> bool:
    """Whether a folder is in a volume of Databricks."""
    return str(folder).startswith(VOLUMES)


def has_scheme(uri: str) -> bool:
    """Whether an address names a store, rather than a path of this machine."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", uri) is not None


def local_folder(uri: str) -> Path | None:
    """The path of a folder on this machine or a mounted volume; None if it is in an object store."""
    if has_scheme(uri) and not uri.startswith("file:"):
        return None
    if uri.startswith("dbfs:/"):
        inside = "/" + uri.removeprefix("dbfs:").lstrip("/")
        return Path(inside if inside.startswith(VOLUMES) else f"/dbfs{inside}")
    if uri.startswith("file:"):
        # As Hadoop reads it: nothing in it is encoded.
        return Path("/" + uri.removeprefix("file:").lstrip("/"))
    return Path(uri)


def locate(uri: str) -> Address:
    """The place that an address names."""
    local = local_folder(uri)
    if local is not None:
        path = str(local.absolute())
        if uri.startswith("dbfs:/") and not in_volume(local):
            return Address(FILE, "", path, "dbfs:/" + uri.removeprefix("dbfs:").strip("/"))
        return Address(FILE, "", path, path if in_volume(local) else f"file://{path}")
    scheme, _, rest = uri.partition("://")
    kind = SCHEMES.get(scheme.lower(), scheme.lower())
    host, _, inside = rest.partition("/")
    inside = inside.strip("/")
    if kind == HDFS:
        return Address(kind, f"{scheme}://{host}", f"/{inside}", f"{scheme}://{host}/{inside}")
    if not host:
        raise ConfigError(f"{uri}: no bucket is named; expected {scheme}://BUCKET/PATH")
    if kind == AZURE:
        container, at, account = host.partition("@")
        if not at:
            raise ConfigError(f"{uri}: expected {scheme}://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH")
        return Address(kind, account, f"{container}/{inside}".rstrip("/"), f"{scheme}://{host}/{inside}".rstrip("/"))
    written = "s3a" if kind == S3 else scheme
    return Address(kind, host, f"{host}/{inside}".rstrip("/"), f"{written}://{host}/{inside}".rstrip("/"))


def for_spark(uri: str) -> str:
    """An address or path as Spark should be given it. Paths without a scheme are left to Spark's default file system,
    which is HDFS on some clusters."""
    return locate(uri).spark if has_scheme(uri) and not uri.startswith("file:") else uri


def absolute(uri: str) -> str:
    """The same folder as an absolute path, so that a worker that started elsewhere finds it."""
    local = local_folder(uri)
    return uri if local is None else str(local.absolute())


def without_dots(address: str) -> str:
    """An address in which `..` has been followed."""
    scheme, separator, path = address.rpartition("://")
    return f"{scheme}{separator}{posixpath.normpath(path)}"
