"""The inputs as tables of an engine, each read once: Parquet, catalog tables, TREC, JSON, and tables in memory.

Where bad rows come from a TREC file, the error names their lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic

import pyarrow as pa

from fusion.errors import InputError
from jobs.engines.engine import Engine, Rows
from jobs.inputs.sources import (
    Source,
    Sources,
    check_columns,
    judgement_columns,
    require,
    run_columns,
    source_address,
    source_format,
    source_name,
    typed_ids,
)
from jobs.storage.versions import resolve
from udfs.columns import Among, Column, Taken
from udfs.problems import REPEATED_LABEL, Problem, Problems
from udfs.run_tables import jsonl_kinds, jsonl_runs, merged_kinds, ranx_runs
from udfs.splits import Split, files_of, line_splits, table_of
from udfs.steps import Step, spark_types
from udfs.stores.addresses import local_folder
from udfs.text_files import read_lines
from udfs.trec import repeated_judgements, trec_judgements, trec_runs

RUN_TEXTS: Mapping[str, Callable[[str], Step]] = {"trec": trec_runs, "ranx": ranx_runs}
"""What reads runs that are text files."""
ABOUT_LISTS = ("retriever", "label_group", "role", "fold")
"""What the rows of a run may say of themselves."""


@dataclass(frozen=True)
class InputTable(Generic[Rows]):
    """Rows with the types of their columns, as Spark calls them."""

    rows: Rows
    kinds: Mapping[str, str]
    name: str
    is_text: bool = False
    """Whether it comes from text files, which are never empty and may have a list in several rows."""

    @property
    def fragments(self) -> bool:
        """Whether a list may come in several rows."""
        return self.is_text or "label_ids" not in self.kinds


class InputTables(Generic[Rows]):
    """Reads the inputs on an engine."""

    def __init__(self, engine: Engine[Rows], sources: Sources) -> None:
        self.engine, self.sources = engine, sources
        self._tables: dict[tuple[Any, Any], InputTable[Rows]] = {}
        # While they are remembered by their number, nothing else may get it.
        self._held: list[Source] = []

    def run(self, source: Source, name: str) -> InputTable[Rows]:
        """Candidates: text_id with label_ids and scores, or with label_id and score."""
        kind = source_format(source)[0] if isinstance(source, str) else ""
        if kind == "jsonl":
            return self._once("run", source, lambda: self._jsonl(source, name))
        if kind in RUN_TEXTS:
            return self._once("run", source, lambda: self._text(source, name, RUN_TEXTS[kind](source)))
        return self.table(source, name, lambda kinds: [*run_columns(kinds), *(c for c in ABOUT_LISTS if c in kinds)])

    @property
    def judgements(self) -> InputTable[Rows] | None:
        """The judged labels of each text; None where there are no judgements."""
        source = self.sources.judgements
        return None if source is None else self.judged(source, source_name(source, "judgements"))

    def judged(self, source: Source, name: str, with_fold: bool = False) -> InputTable[Rows]:
        """Judged labels: text_id with label_ids, or with label_id; grades and words where they are given and, if that
        is asked for, folds. Judged texts may have no labels."""
        if isinstance(source, str) and source_format(source)[0] == "trec":
            return self._once("judgements", source, lambda: self._text(source, name, trec_judgements(source)))
        more = ["fold"] if with_fold and "fold" in self.columns(source, name) else []
        return self.table(source, name, lambda kinds: [*judgement_columns(kinds), *more])

    def table(
        self, source: Source, name: str, wanted: Callable[[Mapping[str, str]], Sequence[str]]
    ) -> InputTable[Rows]:
        """Some columns of a table, chosen among those that it has."""
        address = source_address(source)
        whole = self._once("whole", source, lambda: self._whole(address, name))
        columns = tuple(wanted(whole.kinds))
        require(whole.kinds, name, columns)
        kinds = {column: whole.kinds[column] for column in columns}

        def read() -> InputTable[Rows]:
            known = whole.rows if not isinstance(address, str) else address
            return InputTable(self.engine.read(known, columns, keep=True), kinds, name)

        return self._once(columns, source, read)

    def _whole(self, address: Any, name: str) -> InputTable[Rows]:
        if isinstance(address, pa.Table):
            check_columns(address.column_names, name)
        rows = self.engine.read(address, keep=True)
        kinds = spark_types(self.engine.schema(rows))
        check_columns(kinds, name)
        return InputTable(rows, kinds, name)

    def words(self, source: Source, what: str, key: str, value: str, ids: Sequence[str]) -> dict[str, str]:
        """The values of some ids, such as the names of labels; nothing where the table has no such column."""
        if not ids or (isinstance(source, str) and source_format(source)[0] == "trec"):
            return {}
        kinds = self.columns(source, what)
        if kinds.get(value) != "string" or key not in kinds:
            return {}
        # Compared in the column's own type, so that files and row groups can be skipped.
        where = Among(key, typed_ids(kinds[key], ids))
        rows = self.engine.read(source_address(source), (key, value))
        schema = self.engine.schema(rows)
        columns = {name: Column(Taken(name), schema.field(name).type) for name in (key, value)}
        some = self.engine.collect(self.engine.select(rows, columns, [where]))
        pairs = zip(some[key].to_pylist(), some[value].to_pylist(), strict=True)
        return {str(number): word for number, word in pairs if word is not None}

    def columns(self, source: Source, what: str) -> Mapping[str, str]:
        """The columns of a table with their types."""
        name = source_name(source, what)
        return self._once("whole", source, lambda: self._whole(source_address(source), name)).kinds

    def _text(self, source: str, name: str, step: Step) -> InputTable[Rows]:
        rows = self.engine.files(_splits(source, self.engine.workers), step, keep=True)
        if not self.engine.count(rows, [], most=1)["rows"][0].as_py():
            raise InputError(f"{source} is empty")
        return InputTable(rows, spark_types(step.schema), name, is_text=True)

    def _jsonl(self, source: str, name: str) -> InputTable[Rows]:
        splits = _splits(source, self.engine.workers)
        read = self.engine.collect(self.engine.files(splits, jsonl_kinds(source)))
        if not len(read):
            raise InputError(f"{source} is empty")
        kinds = merged_kinds([pa.ipc.read_schema(pa.py_buffer(kind)) for kind in read["kinds"].to_pylist()], source)
        columns = spark_types(kinds)
        require(columns, name, run_columns(columns))
        table = self._text(source, name, jsonl_runs(source, kinds))
        return InputTable(table.rows, columns, name)

    def _once(self, what: Any, source: Source, read: Callable[[], InputTable[Rows]]) -> InputTable[Rows]:
        key = (what, source if isinstance(source, str) else id(source))
        if key not in self._tables:
            self._tables[key] = read()
            self._held.append(source)
        return self._tables[key]


def _splits(source: str, workers: int) -> pa.Table:
    """What each call of a reader reads of the files of a source."""
    kind, path = source_format(source)
    files = files_of([resolve(path)])
    return table_of([Split(file.name, 0, None) for file in files] if kind == "ranx" else line_splits(files, workers))


LARGEST = 200 << 20
"""Bytes of a file that is read once more to name its lines; the answer should not keep anybody waiting."""
LABEL = "label "


def refuse_bad_rows(reported: Iterable[str | None]) -> None:
    """Raise the error for the problems that workers reported, if they did."""
    problems = Problems.from_json(filter(None, reported))
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
    return problems.error({problem: _line_words(numbers) for problem, numbers in lines.items() if numbers})


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


def _line_words(numbers: list[int]) -> str:
    return f"line{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers[:5]))}"
