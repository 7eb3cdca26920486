"""An S3 endpoint on loopback: moto's server, in this process."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from udfs.stores import clients
from udfs.stores import clients as access

KEY, SECRET = "AKIATESTKEY0STORAGE", "s3cr3t/Never+Shown/0123456789abcdef"
BUCKET = "bucket"
VARIABLES = [name for names in access.ENVIRONMENT.values() for name in names]


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    """The address of the store."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield f"http://127.0.0.1:{server.get_host_and_port()[1]}"
    server.stop()


@pytest.fixture
def s3(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client of the store with an empty bucket, and the environment that AWS's tools read."""
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(access, "_configured", None)
    # A wait between two attempts tests nothing.
    monkeypatch.setattr(clients, "FIRST_WAIT", 0.01)
    client = boto3.client("s3", endpoint_url=endpoint)
    client.create_bucket(Bucket=BUCKET)
    yield client
    while left := keys(client, folders=True)[:1000]:
        client.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": name} for name in left]})


def keys(client: Any, prefix: str = "", folders: bool = False) -> list[str]:
    """The objects of the bucket, without the empty ones that stand for folders unless these are wanted, too."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
    names = [item["Key"] for page in pages for item in page.get("Contents", [])]
    return [name for name in names if folders or not name.endswith("/")]


def content(client: Any, key: str) -> bytes:
    return bytes(client.get_object(Bucket=BUCKET, Key=key)["Body"].read())


def plain_objects(client: Any, prefix: str) -> dict[str, bytes]:
    """What people see of results: objects that are not housekeeping, by their name below the prefix."""
    names = [name.removeprefix(prefix) for name in keys(client, prefix)]
    shown = [name for name in names if not any(step.startswith(".") for step in name.split("/"))]
    return {name: content(client, prefix + name) for name in shown}
