"""TREC lines under thousands of malformed ones: what is taken, what is refused, and which number is read."""

from __future__ import annotations

import math
import random
import re
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from fusion.errors import InputError
from jobs.engines.local import LocalEngine
from jobs.engines.spark import SparkEngine
from jobs.inputs.sources import Sources
from jobs.inputs.tables import InputTables
from udfs.splits import Split
from udfs.trec import QRELS_FIELDS, RUN_FIELDS, read_trec

WORDS = [
    "q1",
    "Q0",
    "17",
    "tail",
    "é",
    "\u00a0x",
    "\u2003",
    "日本",
    "'",
    '"',
    "\\",
    "#",
    "0",
    "a b",
    "",
    "-",
    "%s",
    "\x00",
]
NUMBERS = ["1", "0.5", "-3", "+2.", ".5", "1e3", "1E-400", "1e400", "nan", "-inf", "Infinity", "0"]
NO_NUMBERS = ["1d", "0x1p3", "1,5", "1e", "--1", "one", "1_000", "", "e5", ".", "１", "1f", "NaN1", "in"]  # noqa: RUF001
BLANKS = [" ", "\t", "  ", " \t ", "\x0b", "\f"]


def lines(seed: int, count: int, fields: int, number: int) -> list[str]:
    """Good lines, of which many were spoilt."""
    rng = random.Random(seed)
    made = []
    for _ in range(count):
        words = [rng.choice(WORDS[:8]) for _ in range(fields)]
        words[number] = rng.choice(NUMBERS)
        for _ in range(rng.randrange(3)):
            place = rng.randrange(len(words)) if words else 0
            spoil = rng.randrange(5)
            if spoil == 0 and words:
                words[place] = rng.choice(NO_NUMBERS)
            elif spoil == 1 and words:
                del words[place]
            elif spoil == 2:
                words.insert(place, rng.choice(WORDS))
            elif spoil == 3 and words:
                words[place] = rng.choice(WORDS)
        ends = [rng.choice(["", "", *BLANKS]) for _ in range(2)]
        made.append(ends[0] + rng.choice(BLANKS).join(words) + ends[1])
    return made


def fits(line: str, fields: int, number: int) -> bool | None:
    """By the rules of the format; None for a line without words."""
    words = [word for word in re.split(r"[ \t\x0b\f\r]+", line) if word]
    if not words:
        return None
    if len(words) != fields:
        return False
    word = words[number]
    try:
        float(word)
    except ValueError:
        return False
    return word.isascii() and "_" not in word


@pytest.mark.parametrize("names", [RUN_FIELDS, QRELS_FIELDS])
def test_every_line_is_judged_rightly(tmp_path: Path, names: tuple[str, ...]) -> None:
    number = "score" if names is RUN_FIELDS else "relevance"
    path = tmp_path / "one.trec"
    for line in lines(len(names), 1000, len(names), names.index(number)):
        kind = fits(line, len(names), names.index(number))
        path.write_bytes(line.encode())
        if kind:
            (batch,) = read_trec(Split(str(path), 0, None), "one.trec", names, number)
            row = batch.to_pylist()
            words = re.split(r"[ \t\x0b\f\r]+", line.strip(" \t\x0b\f\r"))
            assert [list(map(str, row[0].values()))[:3], len(row)] == [words[:3], 1]
        elif kind is None:
            assert not list(read_trec(Split(str(path), 0, None), "one.trec", names, number))
        else:
            with pytest.raises(InputError, match="expected lines of"):
                list(read_trec(Split(str(path), 0, None), "one.trec", names, number))


@pytest.fixture(params=["spark", "local"])
def tables(request: pytest.FixtureRequest) -> InputTables[Any]:
    """The readers of TREC files on both engines."""
    engine: Any = LocalEngine() if request.param == "local" else SparkEngine(request.getfixturevalue("spark"))
    return InputTables(engine, Sources({}))


def test_numbers_are_read_as_python_reads_them(tables: InputTables[Any], tmp_path: Path) -> None:
    path = tmp_path / "run.trec"
    path.write_text("".join(f"{n} Q0 d{n} 1 {word} tag\r\n" for n, word in enumerate(NUMBERS)) + "\n\t\n")
    read = tables.engine.collect(tables.run(str(path), str(path)).rows)
    rows = {int(row["text_id"]): row["scores"][0] for row in read.to_pylist()}
    assert len(rows) == len(NUMBERS)
    for n, word in enumerate(NUMBERS):
        assert rows[n] == float(word) or (math.isnan(rows[n]) and math.isnan(float(word))), word


def test_files_are_refused_with_their_first_bad_lines(tables: InputTables[Any], tmp_path: Path) -> None:
    for seed in range(8):
        fields, number, read = (6, 4, tables.run) if seed % 2 else (4, 3, tables.judged)
        made = lines(seed, 30, fields, number)
        good = [line for line in made if fits(line, fields, number) is not False]
        bad = next(n for n, line in enumerate(made) if line not in good)
        path = tmp_path / f"{seed}.trec"
        path.write_text("\n".join(made), encoding="utf-8")
        with pytest.raises(InputError, match=rf"{seed}\.trec: expected lines of {fields} columns") as error:
            tables.engine.collect(read(str(path), str(path)).rows)
        assert f"line {bad + 1}: {made[bad][:200]!r}" in str(error.value)
        path = tmp_path / f"good{seed}.trec"
        path.write_text("\n".join(good), encoding="utf-8")
        assert len(tables.engine.collect(read(str(path), str(path)).rows))


def test_blank_lines_take_no_memory(tmp_path: Path) -> None:
    """A packed file of a few bytes may hold as many as the limit of unpacking admits."""
    path = tmp_path / "blank.trec"
    path.write_bytes(b"1 Q0 2 1 0.5 tag\n" + b"\n" * (1 << 20))
    tracemalloc.start()
    try:
        (lines,) = read_trec(Split(str(path), 0, None), "blank.trec", RUN_FIELDS, "score")
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()
    assert lines.num_rows == 1
