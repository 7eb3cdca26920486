"""Files and objects in stores: addresses, retries, errors, and what is fetched to a machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fusion.errors import ConfigError, SetupError
from jobs.engines.credentials import configure_storage, without_secrets
from jobs.settings.config import load_config
from jobs.storage.stages import input_fingerprint
from tests.storage.conftest import BUCKET, KEY, SECRET, keys
from udfs.stores import cache as index_cache
from udfs.stores import clients
from udfs.stores.addresses import for_spark, locate
from udfs.stores.cache import readable_folder, writable_folder
from udfs.stores.clients import StoreAccess, StoreError, current_access, from_hadoop, is_transient, retried
from udfs.stores.objects import children, delete_folder, exists, files_below, put, read_bytes, send_file

AZURE = "abfss://box@account.dfs.core.windows.net/a/b"


@pytest.mark.parametrize(
    ("written", "kind", "path", "spark"),
    [
        ("s3://bucket/a/b/", "s3", "bucket/a/b", "s3a://bucket/a/b"),
        ("s3a://bucket/a", "s3", "bucket/a", "s3a://bucket/a"),
        ("gs://bucket/a", "gs", "bucket/a", "gs://bucket/a"),
        (AZURE, "abfss", "box/a/b", AZURE),
        ("hdfs://name:8020/a/b", "hdfs", "/a/b", "hdfs://name:8020/a/b"),
        ("hdfs:///a", "hdfs", "/a", "hdfs:///a"),
        ("dbfs:/a/b", "file", "/dbfs/a/b", "dbfs:/a/b"),
        ("dbfs:/Volumes/a/b", "file", "/Volumes/a/b", "/Volumes/a/b"),
        ("/Volumes/a/b", "file", "/Volumes/a/b", "/Volumes/a/b"),
        ("/a/b", "file", "/a/b", "file:///a/b"),
        ("file:/a/b%20 c", "file", "/a/b%20 c", "file:///a/b%20 c"),
    ],
)
def test_one_address_two_clients(written: str, kind: str, path: str, spark: str) -> None:
    place = locate(written)
    assert (place.kind, place.path, place.spark) == (kind, path, spark)
    # What Spark is given is understood here, too.
    assert locate(place.spark).path == path


def test_addresses_that_name_nothing() -> None:
    with pytest.raises(ConfigError, match="no bucket"):
        locate("s3:///a")
    with pytest.raises(ConfigError, match="CONTAINER@ACCOUNT"):
        locate("abfss://box/a")
    assert for_spark("runs/a.trec") == "runs/a.trec"
    with pytest.raises(SetupError, match="nothing here can open nosuch://"):
        exists("nosuch://host/a")


def test_put_read_list_delete(s3: Any) -> None:
    for name in ("a/b.txt", "a/c/d.txt", "e.txt"):
        put(f"s3://{BUCKET}/{name}", name.encode())
    assert read_bytes(f"s3a://{BUCKET}/a/b.txt") == b"a/b.txt"
    assert read_bytes(f"s3://{BUCKET}/gone") is None
    assert children(f"s3://{BUCKET}/a") == ["b.txt", "c"]
    assert [listed.name for listed in files_below(f"s3://{BUCKET}/a")] == ["b.txt", "c/d.txt"]
    assert [listed.name for listed in files_below(f"s3://{BUCKET}/e.txt")] == [""]
    delete_folder(f"s3://{BUCKET}/a")
    assert keys(s3) == ["e.txt"]


def test_bytes_stay_what_they_are(s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the name says: pyarrow would compress what is called .gz."""
    monkeypatch.setenv(index_cache.CACHE_VARIABLE, str(tmp_path / "cache"))
    (tmp_path / "a.gz").write_bytes(b"content")
    send_file(tmp_path / "a.gz", f"s3://{BUCKET}/folder/a.gz")
    put(f"s3://{BUCKET}/folder/b.gz", b"content")
    for name in ("a.gz", "b.gz"):
        assert s3.get_object(Bucket=BUCKET, Key=f"folder/{name}")["Body"].read() == b"content"
        assert read_bytes(f"s3://{BUCKET}/folder/{name}") == b"content"
        assert (readable_folder(f"s3://{BUCKET}/folder", "1") / name).read_bytes() == b"content"


def test_an_input_is_known_by_the_stores_own_tag(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    put(f"s3://{BUCKET}/in/a.txt", b"one")
    before = input_fingerprint(f"s3://{BUCKET}/in")
    put(f"s3://{BUCKET}/in/a.txt", b"one")
    assert input_fingerprint(f"s3://{BUCKET}/in") == before
    put(f"s3://{BUCKET}/in/a.txt", b"two")
    assert input_fingerprint(f"s3://{BUCKET}/in") != before


def test_what_will_not_get_better_fails_at_once(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients.time, "sleep", lambda seconds: pytest.fail("tried again"))
    with pytest.raises(StoreError, match=r"s3a://nobody-has-this/x.*check the name of the bucket"):
        put("s3://nobody-has-this/x", b"")


@pytest.mark.parametrize(
    ("message", "transient"),
    [
        ("AWS Error SLOW_DOWN during PutObject operation: Please reduce your request rate.", True),
        ("AWS Error NETWORK_CONNECTION during GetObject operation: curlCode: 56, Connection reset by peer", True),
        ("AWS Error UNKNOWN (HTTP status 503) during HeadObject operation: No response body.", True),
        ("AWS Error ACCESS_DENIED during PutObject operation: Access Denied", False),
        ("AWS Error NO_SUCH_BUCKET during PutObject operation", False),
        ("AWS Error INVALID_ACCESS_KEY_ID during ListObjectsV2 operation", False),
        ("curlCode: 6, Could not resolve hostname", False),
    ],
)
def test_what_is_worth_another_try(message: str, transient: bool) -> None:
    assert is_transient(OSError(message)) is transient


def test_attempts_end(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(clients.time, "sleep", waits.append)
    monkeypatch.setattr(clients, "current_access", lambda: StoreAccess(attempts=4))

    def fail() -> None:
        raise OSError("503 SlowDown")

    with pytest.raises(StoreError, match=r"s3a://b/x.*4 attempts"):
        retried(locate("s3://b/x"), "write", fail)
    assert len(waits) == 3
    assert waits[2] > waits[0]


def test_settings_come_before_sparks_and_those_before_the_environment(s3: Any, endpoint: str) -> None:
    of_spark = {"spark.hadoop.fs.s3a.endpoint": "http://spark", "fs.s3a.secret.key": "of spark"}
    settings = {"spark.conf": of_spark, "storage.endpoint": endpoint, "storage.region": "eu-west-1"}
    config = load_config(settings=settings)
    configure_storage(config)
    access = current_access()
    assert (access.endpoint, access.region, access.secret_key) == (endpoint, "eu-west-1", "of spark")
    # Keys come in pairs: the environment's half does not belong to Spark's.
    assert access.access_key is None
    assert from_hadoop({"fs.s3a.access.key": "k"}).access_key == "k"
    with pytest.raises(ConfigError, match="together"):
        put(f"s3://{BUCKET}/x", b"")
    configure_storage(load_config(settings={"storage.access_key": "k", "storage.secret_key": "s"}))
    put(f"s3://{BUCKET}/x", b"written")
    assert keys(s3) == ["x"]


def test_an_index_is_fetched_once(s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(index_cache.CACHE_VARIABLE, str(tmp_path / "cache"))
    uri = f"s3://{BUCKET}/index"
    with writable_folder(uri) as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "postings.npy").write_bytes(b"\1" * 100_000)
        (folder / "about.json").write_text("{}")
    fetched = readable_folder(uri, "1")
    assert (fetched / "inner" / "postings.npy").read_bytes() == b"\1" * 100_000
    put(f"{uri}/about.json", b"changed")
    assert (readable_folder(uri, "1") / "about.json").read_text() == "{}"
    assert (readable_folder(uri, "2") / "about.json").read_text() == "changed"


def test_a_planted_index_is_not_used(s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv(index_cache.CACHE_VARIABLE, str(cache))
    uri = f"s3://{BUCKET}/index"
    put(f"{uri}/about.json", b"good")
    fetched = readable_folder(uri, "1")
    assert cache.stat().st_mode & 0o777 == 0o700
    # Another process looks at the bytes before it trusts them.
    (fetched / "about.json").write_text("evil")
    monkeypatch.setattr(index_cache, "_checked", set())
    assert (readable_folder(uri, "1") / "about.json").read_text() == "good"
    assert json.loads((fetched / index_cache.FILE_LIST).read_text()).keys() == {"about.json"}
    # A folder that others can write to is not used at all, nor is a link to elsewhere.
    cache.chmod(0o777)
    with pytest.raises(SetupError, match="only this user"):
        index_cache.private_folder()
    monkeypatch.setenv(index_cache.CACHE_VARIABLE, str(tmp_path / "link"))
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(SetupError, match="only this user"):
        index_cache.private_folder()


def test_the_cache_is_bounded(s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(index_cache.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setenv(index_cache.LIMIT_VARIABLE, "0.00001")
    monkeypatch.setattr(index_cache, "IN_USE", -1.0)
    for name in ("one", "two"):
        put(f"s3://{BUCKET}/{name}/index.bin", b"\0" * 8_000)
        folder = readable_folder(f"s3://{BUCKET}/{name}", "1")
        assert [path.name for path in tmp_path.iterdir()] == [folder.name]


def test_spark_is_started_without_credentials() -> None:
    conf = {
        "spark.hadoop.fs.s3a.secret.key": SECRET,
        "fs.azure.account.key.x": SECRET,
        "spark.authenticate.secret": "own",
    }
    # Spark's own secrets are needed from the beginning.
    assert without_secrets({**conf, "spark.ui.enabled": False}) == {
        "spark.authenticate.secret": "own",
        "spark.ui.enabled": False,
    }


def test_credentials_are_not_shown(s3: Any) -> None:
    config = load_config(
        settings={"storage.secret_key": SECRET, "storage.access_key": KEY, "spark.conf": {"fs.s3a.secret.key": SECRET}}
    )
    for text in (repr(config), config.to_yaml(), str(config.model_dump(mode="json")), repr(current_access())):
        assert SECRET not in text
        assert KEY not in text
    with pytest.raises(ConfigError) as error:
        load_config(settings={"storage.secret_key": [SECRET], "spark.conf": {"fs.s3a.secret.key": [SECRET]}})
    assert SECRET not in str(error.value)
