"""Spark's lines, numbered, against plain Python."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.inputs.lines import read_lines


@pytest.fixture
def small_blocks(spark: SparkSession) -> Iterator[None]:
    """Files are divided into blocks of 97 bytes, so that tiny ones have many."""
    settings = {"spark.sql.files.maxPartitionBytes": "97", "spark.sql.files.openCostInBytes": "1"}
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


def write(folder: Path, name: str, lines: list[str], end: str = "\n", last: bool = True) -> Path:
    data = "".join(line + end for line in lines)
    data = data if last else data.removesuffix(end)
    path = folder / name
    path.write_bytes(gzip.compress(data.encode()) if name.endswith(".gz") else data.encode())
    return path


def plain_lines(path: Path) -> list[str]:
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    lines = text.split("\n")
    return [line.removesuffix("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]


def random_lines(seed: int, count: int) -> list[str]:
    rng = random.Random(seed)
    words = ["", "a", "ü€", "a longer line of words", "stray \r inside", "tab\t", "x" * 90]
    return [f"{rng.choice(words)}{n if rng.random() < 0.8 else ''}" for n in range(count)]


FILES = [
    # Of other sizes than their order: Spark reads the largest blocks first.
    ("a.txt", 3, "\n", True),
    ("b-no-last-break.txt", 30, "\n", False),
    ("c-crlf.txt", 20, "\r\n", True),
    ("d-crlf-no-last-break.txt", 1, "\r\n", False),
    ("e.txt.gz", 40, "\n", True),
    ("f with space and ü.txt", 25, "\n", True),
]


def test_lines_are_numbered_as_python_numbers_them(spark, small_blocks, tmp_path) -> None:
    paths = [
        write(tmp_path, name, [*random_lines(n, size), "end"], end, last)
        for n, (name, size, end, last) in enumerate(FILES)
    ]
    expected = [(value, f"{path} line {n + 1}") for path in paths for n, value in enumerate(plain_lines(path))]
    lines = read_lines(spark, [str(tmp_path / "*")])
    rows = lines.rows.orderBy("line").collect()
    assert lines.count == len(expected) == sum(size + 1 for _, size, _, _ in FILES)
    assert [row["line"] for row in rows] == list(range(lines.count))
    assert [(row["value"], row["place"]) for row in rows] == expected
    tasks = spark.read.text(str(tmp_path / "*")).rdd.getNumPartitions()
    assert tasks > 15, "the files are not divided, so this proves nothing"


def test_files_that_change_between_the_passes_are_noticed(spark, tmp_path) -> None:
    path = write(tmp_path, "lines.txt", ["a", "b", "c"])
    lines = read_lines(spark, [str(path)])
    path.write_text("a\nb\nc\nd\n")
    with pytest.raises(Exception, match="divided differently"):
        lines.rows.collect()


def test_lines_that_are_not_utf8(spark, tmp_path) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes("one\ncafé\r\nthree\n".encode("latin-1"))
    lines = read_lines(spark, [str(path)])
    rows = lines.rows.select(lines.problem.alias("problem")).collect()
    assert [row["problem"] is not None for row in rows] == [False, True, False]
    assert rows[1]["problem"].startswith(f"{path} line 2: not UTF-8")
    assert [row["value"] for row in read_lines(spark, [str(path)], "latin-1").rows.collect()] == [
        "one",
        "café",
        "three",
    ]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("expected", ["utf-8", "latin-1"])
def test_lines_of_wide_characters(spark, tmp_path, encoding, expected) -> None:
    path = tmp_path / "wide.txt"
    path.write_bytes("one\ntwo\n".encode(encoding))
    lines = read_lines(spark, [str(path)], expected)
    first = lines.rows.orderBy("line").select(lines.problem.alias("problem")).first()
    assert first["problem"].startswith(f"{path} line 1: text in UTF-16 or UTF-32; convert the file")


def test_a_byte_order_mark_is_no_text(spark, tmp_path) -> None:
    (tmp_path / "bom.txt").write_bytes(b"\xef\xbb\xbfone\ntwo\n")
    assert [row["value"] for row in read_lines(spark, [str(tmp_path / "bom.txt")]).rows.collect()] == ["one", "two"]
