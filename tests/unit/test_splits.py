"""Splits of files: every line and row belongs to exactly one, whatever their size, and knows its number."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fusion.errors import InputError
from jobs.engines.local import LocalEngine
from udfs import splits, text_files
from udfs.splits import (
    Lines,
    Split,
    count_step,
    files_of,
    line_splits,
    lines_step,
    numbered,
    parquet_splits,
    read_lines,
    read_row_groups,
    splits_of,
    table_of,
)

SCHEMA = pa.schema([("row", pa.int64()), ("value", pa.binary()), ("place", pa.string())])


def with_places(lines: Lines) -> pa.RecordBatch:
    rows = [{"row": row, "value": line, "place": lines.place(n)} for row, n, line in lines.rows()]
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def all_lines(paths: list[str], counted: bool = True) -> pa.Table:
    engine = LocalEngine()
    found = line_splits(files_of(paths))
    if counted:
        counts = engine.collect(engine.files(table_of(found), count_step()))
        found = numbered(splits_of(iter(counts.to_batches())))
    return engine.collect(engine.files(table_of(found), lines_step(with_places, SCHEMA)))


@pytest.mark.parametrize("size", [1, 7, 97, 10_000])
@pytest.mark.parametrize("block", [3, 50, 1 << 20])
def test_lines_are_numbered_as_python_numbers_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, block: int
) -> None:
    monkeypatch.setattr(splits, "SMALLEST", size)
    monkeypatch.setattr(splits, "LARGEST", size)
    monkeypatch.setattr(splits, "BLOCK", block)
    rng = random.Random(f"{size} {block}")
    monkeypatch.setattr(splits, "MOST_LINES", rng.choice([1, 3, 1000]))
    words = ["", "a", "ü€", "a longer line of words", "stray \r inside", "tab\t", "x" * 90]
    expected = []
    for n in range(8):
        end = rng.choice(["\n", "\r\n"])
        lines = [rng.choice(words) for _ in range(rng.randint(1, 30))]
        content = end.join(lines) + rng.choice([end, ""])
        path = tmp_path / f"{n} ü{rng.choice(['', '.gz'])}"
        mark = rng.choice(["", "\ufeff"]) if content else ""
        data = (mark + content).encode()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
        plain = content.split("\n")
        kept = plain[:-1] if plain[-1] == "" else plain
        expected += [(line.removesuffix("\r").encode(), f"{path} line {i + 1}") for i, line in enumerate(kept)]
    table = all_lines([str(tmp_path)])
    assert table["row"].to_pylist() == list(range(len(expected)))
    assert list(zip(table["value"].to_pylist(), table["place"].to_pylist(), strict=True)) == expected
    # Without a first pass the places are right as well.
    assert all_lines([str(tmp_path)], counted=False)["place"].equals(table["place"])


def test_short_lines_come_in_pieces(tmp_path: Path) -> None:
    """A packed file of a few bytes may hold millions of blank lines, and each takes some hundred bytes of memory."""
    path = tmp_path / "blank"
    path.write_bytes(b"one\n" + b"\n" * (2 * splits.MOST_LINES))
    found = [len(lines.values()) for lines in read_lines(Split(str(path), 0, None))]
    assert found == [splits.MOST_LINES, splits.MOST_LINES, 1]


def test_files_by_patterns_and_folders(tmp_path: Path) -> None:
    for name in (
        "b.txt",
        "a.txt",
        "_hidden.txt",
        ".a.txt.crc",
        "in/c.txt",
        "in/_temporary/d.txt",
        "x[1].txt",
        "x{1,2}.txt",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("12")
    every = [f"{tmp_path}/{name}" for name in ("a.txt", "b.txt", "in/c.txt", "x[1].txt", "x{1,2}.txt")]
    assert [file.name for file in files_of([str(tmp_path)])] == every
    assert [file.name for file in files_of([f"{tmp_path}/{{b,a}}.t?t", f"{tmp_path}/a*"])] == every[:2]
    for name in every[3:]:
        assert [file[:2] for file in files_of([name])] == [(name, 2)]
    with pytest.raises(InputError, match=r"cannot read .*/c\*: it does not exist; check"):
        files_of([f"{tmp_path}/c*"], "; check")


def test_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    for content, message in [
        ("text".encode("utf-16"), "is text in UTF-16, expected UTF-8; convert"),
        (b"BZh91AY", "is compressed by bzip2; expected text"),
        (b"PAR1", "is a Parquet file; expected text"),
    ]:
        path.write_bytes(content)
        with pytest.raises(InputError, match=f"{path} {message}"):
            line_splits(files_of([str(path)]))
    monkeypatch.setattr(text_files, "FREELY_UNPACKED", 1 << 16)
    path.write_bytes(gzip.compress(bytes(1 << 22)))
    with pytest.raises(InputError, match="unpacks to more than"):
        all_lines([str(path)])
    path.write_bytes(gzip.compress(b"text")[:-3])
    with pytest.raises(InputError, match=f"cannot read {path}: "):
        all_lines([str(path)])


def test_a_file_that_changes_between_both_passes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("one\ntwo\n")
    with pytest.raises(InputError, match="file changed while it was read"):
        list(read_lines(Split(str(path), 0, 8, 3, 0, 0)))


def test_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splits, "SMALLEST", 1)
    monkeypatch.setattr(splits, "LARGEST", 30)
    for n in range(3):
        values = pa.table({"n": range(100 * n, 100 * n + 10 * n), "other": ["x"] * 10 * n})
        pq.write_table(values, tmp_path / f"{n}.parquet", row_group_size=3)
    found, schemas = parquet_splits(files_of([str(tmp_path)]), 3)
    assert [schema.names for schema in schemas] == [["n", "other"]] * 3 and len(found) > 3
    rows = [(split, batch["n"].to_pylist()) for split in found for batch in read_row_groups(split, ["n"])]
    assert [value for _, values in rows for value in values] == [*range(100, 110), *range(200, 220)]
    for split, values in rows:
        assert values[0] == 100 * int(Path(split.file).stem) + (split.row_of_file or 0)
    assert [split.row for split in found] == [sum(s.rows or 0 for s in found[:n]) for n in range(len(found))]
    (tmp_path / "1.parquet").write_bytes(b"PAR1PAR1")
    with pytest.raises(InputError, match=r"cannot read .*1.parquet"):
        parquet_splits(files_of([str(tmp_path)]))
