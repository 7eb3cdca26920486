"""Where bad rows stand: the lines of the TREC files that they come from."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from fusion.errors import InputError
from jobs.inputs.sources import source_format
from udfs.problems import REPEATED_LABEL, Problem, Problems
from udfs.stores.addresses import local_folder
from udfs.text_files import read_lines
from udfs.trec import repeated_judgements

LARGEST = 200 << 20
"""Bytes of a file that is read once more to name its lines; the answer should not keep anybody waiting."""
LABEL = "label "


def refuse_bad_rows(reported: pa.ChunkedArray | pa.Array) -> None:
    """Raise the error for the problems that workers reported, if they did."""
    problems = Problems.from_json(text for text in reported.to_pylist() if text)
    if problems:
        raise bad_rows(problems)


def bad_rows(problems: Problems) -> InputError:
    """The error for rows that cannot be used, with their lines where they come from a TREC file on this machine."""
    for source, column, what in problems.found:
        path = _trec_file(source)
        if (
            what == REPEATED_LABEL
            and path is not None
            and all(not problem.retriever for problem in problems.found[source, column, what])
        ):
            repeated = repeated_judgements(str(path), source)
            if repeated is not None:
                return repeated
    lines: dict[Problem, list[int]] = {}
    for (source, _, _), first in problems.found.items():
        lines.update(_lines(source, first))
    return problems.error({problem: _words(numbers) for problem, numbers in lines.items() if numbers})


def _lines(source: str, problems: Iterable[Problem]) -> dict[Problem, list[int]]:
    """The numbers of the lines that have the text and the label of each problem."""
    path = _trec_file(source)
    wanted = {(p.text_id.encode(), p.detail.removeprefix(LABEL).encode()): p for p in problems if LABEL in p.detail}
    found: dict[Problem, list[int]] = {problem: [] for problem in wanted.values()}
    if path is None or not wanted:
        return {}
    for number, line in enumerate(read_lines(str(path), source), start=1):
        # Runs and judgements both have the text first and the label third.
        words = line.split(None, 3)
        if len(words) > 2 and (problem := wanted.get((words[0], words[2]))) is not None:
            found[problem].append(number)
    return found


def _trec_file(source: str) -> Path | None:
    kind, name = source_format(source)
    path = local_folder(name) if kind == "trec" else None
    return path if path is not None and path.is_file() and path.stat().st_size <= LARGEST else None


def _words(numbers: list[int]) -> str:
    return f"line{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers[:5]))}"
