"""The unpickler admits plain values and refuses everything else by its name."""

from __future__ import annotations

import collections
import datetime
import io
import os
import pickle
import resource
import time

import numpy as np
import pyarrow as pa
import pytest

from fusion.errors import InputError
from udfs.datasets.pickles import load_plain, sample_row, sample_texts_step
from udfs.datasets.texts import TEXTS

SAMPLE = {"idx": 3, "text_idx": 1, "text": "a text\n", "labels_ids": [7, 2], "labels": ["seven\n", "two"]}
NESTED = 200_000
ran: list[str] = []


def harm(what: str) -> None:
    ran.append(what)


class Harmful:
    """What a pickle can do when it is loaded."""

    def __reduce__(self):
        return harm, ("harm",)


class Shell:
    def __reduce__(self):
        return os.system, ("true",)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_values_are_read_in_every_protocol(protocol: int) -> None:
    value = [{"a": (1, 2.5, True, None), "b": [], "c": {}, "long": 10**30, "u": "żółw"}]
    assert load_plain(io.BytesIO(pickle.dumps(value, protocol)), "s.pkl") == value


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (Shell(), "posix.system"),
        (np.int64(3), "numpy"),
        (np.arange(3), "numpy"),
        (datetime.date(2020, 1, 1), "datetime.date"),
        (collections.OrderedDict(a=1), "collections.OrderedDict"),
        (Harmful, "test_unpickler.Harmful"),
        (len, "builtins.len"),
    ],
)
@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_anything_else_is_refused_by_name(value: object, name: str, protocol: int) -> None:
    if protocol < 3:
        name = name.replace("builtins", "__builtin__")
    with pytest.raises(InputError, match=f"s.pkl: the pickle asks for .*{name}.*refused"):
        load_plain(io.BytesIO(pickle.dumps([{"text": value}], protocol)), "s.pkl")


def test_nothing_runs_while_loading() -> None:
    data = pickle.dumps(Harmful())
    pickle.loads(data)
    assert ran == ["harm"]
    with pytest.raises(InputError):
        load_plain(io.BytesIO(data), "s.pkl")
    assert ran == ["harm"]


def test_outside_objects_are_refused() -> None:
    class Pickler(pickle.Pickler):
        def persistent_id(self, value: object) -> object:
            return "model-7" if isinstance(value, set) else None

    stream = io.BytesIO()
    Pickler(stream).dump([{1}])
    with pytest.raises(InputError, match="outside object 'model-7'"):
        load_plain(io.BytesIO(stream.getvalue()), "s.pkl")


@pytest.mark.parametrize("data", [b"", b"hello world", b"\x80\x04K", pickle.dumps([SAMPLE])[:-20], b"\xff\xfe" * 20])
def test_garbage_is_bad_input(data: bytes) -> None:
    with pytest.raises(InputError, match=r"s.pkl is not a readable pickle"):
        load_plain(io.BytesIO(data), "s.pkl")


def test_a_sample_becomes_a_row() -> None:
    row = {"text_id": 3, "text": "a text", "labels": ["7", "2"], "names": ["seven", "two"]}
    assert sample_row(SAMPLE, "here") == row


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"idx": "3"}, "idx '3' is not a whole number"),
        ({"idx": True}, "idx True is not a whole number"),
        ({"text": None}, "text is NoneType"),
        ({"text": "\ud800"}, "not Unicode"),
        ({"labels": ["one"]}, "same length"),
        ({"labels_ids": [1, -2]}, "label id -2"),
        ({"labels_ids": [1, 2.0]}, "label id 2.0"),
    ],
)
def test_a_bad_sample_is_a_problem_with_its_place(change: dict[str, object], problem: str) -> None:
    row = sample_row({**SAMPLE, **change}, "s.pkl sample 5")
    assert list(row) == ["problem"]
    assert row["problem"].startswith("s.pkl sample 5: ")
    assert problem in row["problem"]


def test_missing_keys_and_other_things_are_problems() -> None:
    assert "missing 'labels_ids', 'labels'; it has idx, text" in sample_row({"idx": 1, "text": "x"}, "p")["problem"]
    assert "expected a dict, found list" in sample_row([1], "p")["problem"]


def test_files_become_batches(tmp_path) -> None:
    good, bad, missing = tmp_path / "good.pkl", tmp_path / "bad.pkl", tmp_path / "missing.pkl"
    good.write_bytes(pickle.dumps([{**SAMPLE, "idx": n} for n in range(5000)]))
    bad.write_bytes(pickle.dumps({"not": "a list"}))
    paths = pa.RecordBatch.from_pydict({"path": [str(good), f"file://{bad}", str(missing)]})
    rows = pa.Table.from_batches(sample_texts_step(None)(iter([paths])))
    assert rows.schema == TEXTS
    assert rows["text_id"].to_pylist()[:5000] == list(map(str, range(5000)))
    problems = [problem for problem in rows["problem"].to_pylist() if problem]
    assert "expected a list of samples, found dict" in problems[0]
    assert "missing.pkl" in problems[1]
    assert len(rows) == 5002


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x04\x8d" + (2**32).to_bytes(8, "little") + b".",
        b"\x80\x04\x95" + (2**33).to_bytes(8, "little") + b".",
        b"\x80\x05\x96" + (2**33).to_bytes(8, "little") + b".",
        b"\x80\x04]22222e.",
        b"L" + b"1" * 5000 + b"L\n.",
    ],
    ids=["string", "frame", "bytes", "stack", "digits"],
)
def test_lengths_that_the_file_does_not_have_are_refused(data: bytes) -> None:
    """In little time and memory, as are numbers of thousands of digits."""
    before, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(InputError, match="not a readable pickle"):
        load_plain(io.BytesIO(data), "s.pkl")
    assert time.process_time() - begin < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


def test_samples_that_cannot_be_written_are_problems(tmp_path) -> None:
    nested = b"(" * NESTED + b"l" * NESTED
    deep = pickle.dumps([{**SAMPLE, "idx": None}], 2).replace(b"N", nested)
    long = pickle.dumps([{**SAMPLE, "labels_ids": [7, 1 << 40_000]}])
    for data in (deep, long):
        path = tmp_path / "samples.pkl"
        path.write_bytes(data)
        (batch,) = sample_texts_step(None)(iter([pa.RecordBatch.from_pydict({"path": [str(path)]})]))
        assert "samples.pkl sample 0 cannot be written: " in batch["problem"][0].as_py()


def test_a_file_that_is_too_large_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    data = pickle.dumps([SAMPLE])
    monkeypatch.setattr("udfs.datasets.pickles.MOST_BYTES", len(data))
    assert load_plain(io.BytesIO(data), "s.pkl") == [SAMPLE]
    monkeypatch.setattr("udfs.datasets.pickles.MOST_BYTES", len(data) - 1)
    with pytest.raises(InputError, match=rf"s.pkl: the pickle has {len(data)} bytes, and at most {len(data) - 1} are"):
        load_plain(io.BytesIO(data), "s.pkl")


def test_what_samples_share_is_read() -> None:
    """Labels that several samples have in common are one list in the pickle."""
    names = ["seven", "two"]
    samples = [{**SAMPLE, "idx": n, "labels": names, "key": ("a", ("b",))} for n in range(100)]
    assert load_plain(io.BytesIO(pickle.dumps(samples)), "s.pkl") == samples
