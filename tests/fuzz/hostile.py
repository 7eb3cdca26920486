"""Hostile files by the thousand, for every reader and both engines: `python -m tests.fuzz.hostile --seed 1`.

A small true dataset is written in some format, and mutations are applied on the way. Each says what it means, so that
the outcome is known without a look at the code: the file is refused by name, or what is read is what it says, to the
last figure. Every input has a seed and a number, which is all that is needed to see it again.
"""

from __future__ import annotations

import argparse
import gzip
import io
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import count
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from fusion.errors import InputError, XmtcError
from jobs.datasets.formats import check_settings
from jobs.engines.engine import Engine
from jobs.engines.errors import spark_errors, spark_reason, unreadable
from jobs.engines.local import LocalEngine
from jobs.engines.session import get_session
from jobs.engines.spark import SparkEngine
from jobs.evaluation import evaluate
from jobs.inputs.sources import Sources
from jobs.inputs.tables import InputTables
from jobs.prediction.predict import new_texts
from jobs.settings.base import SparkSettings
from jobs.settings.config import Config, load_config
from jobs.settings.prepare import PrepareSettings
from tests.fuzz import file_mutations as file_mutations
from tests.fuzz.hostile_data import (
    CELLS,
    DATASETS,
    FORMS,
    NDCG,
    PRECISION,
    SETTINGS,
    WRITERS,
    Form,
    figures,
    small_truth,
    strings,
)
from tests.fuzz.mutations import MUTATIONS, STAGES, Case, Mutation, Verdict, written

RUNS = "inputs.candidates"
Meaning = dict[Any, Any]
"""What was read: figures, settings or texts, by name."""
CONF: dict[str, str | int | float | bool] = {"spark.sql.shuffle.partitions": 2}
RESET_PEAK = Path("/proc/self/clear_refs")
MOST_MEGABYTES = 180
"""The files are tiny; what unpacks to more than this in memory could as well unpack to all of it."""


@dataclass(frozen=True)
class Input:
    """A hostile file, and what has to become of it."""

    seed: int
    number: int
    case: Case
    chain: tuple[Mutation, ...]
    content: bytes

    @property
    def form(self) -> Form:
        return self.case.form

    @property
    def spoilt(self) -> Mutation:
        """The mutation that the verdict comes from."""
        return next((m for m in self.chain if m.verdict is not Verdict.TAKEN), self.chain[0])

    def __str__(self) -> str:
        steps = " + ".join(mutation.name for mutation in self.chain)
        return f"--seed {self.seed} --only {self.number}: {self.form.file}, {steps} (to be {self.spoilt.verdict.value})"


@dataclass(frozen=True)
class Outcome:
    """What an engine made of a file: what it read, or why it was refused."""

    meaning: Meaning = field(default_factory=dict)
    refusal: str = ""
    unexpected: str = ""
    metrics: pa.Table | None = None
    megabytes: int = 0
    """By how much the memory of this process grew meanwhile."""


@cache
def pairs() -> list[tuple[Form, Mutation]]:
    """Every mutation with every format that it fits."""
    return [(form, mutation) for form in FORMS for mutation in MUTATIONS.values() if mutation.fits(form)]


def inputs(seed: int, numbers: Iterable[int]) -> Iterator[Input]:
    """Every pair of a format and a mutation in some order, then once more with other data, and so on."""
    order = random.Random(seed).sample(pairs(), len(pairs()))
    for number in numbers:
        made = make_input(seed, number, *order[number % len(order)])
        if made is not None:
            yield made


def make_input(seed: int, number: int, form: Form, mutation: Mutation, alone: bool = False) -> Input | None:
    """The file; None where the mutation finds nothing to change. Up to two harmless mutations come along, unless it is
    to be alone."""
    rng = random.Random(f"{seed} {number}")
    case = Case(form, rng, small_truth(rng))
    case.truth.divided |= form.kind in ("groups", "folds")
    # One per stage, lest another one takes away again what was done.
    steps = {mutation.stage: mutation}
    harmless = [m for m in MUTATIONS.values() if m.verdict is Verdict.TAKEN and m.fits(form)]
    for other in rng.sample(harmless, 0 if alone else min(len(harmless), rng.choice([0, 0, 1, 2]))):
        steps.setdefault(other.stage, other)
    thing: Any = case.truth
    applied = []
    for stage in STAGES:
        if stage == "rows":
            thing = case.rows
        elif stage == "text":
            thing = written(case, thing)
        elif stage == "bytes":
            thing = _bytes(case, thing)
        elif stage == "packed" and "gzip" in form.words:
            thing = gzip.compress(thing, mtime=0)
        changed = steps[stage].apply(case, thing) if stage in steps else None
        if changed is not None:
            applied.append(steps[stage])
            thing = changed
    return Input(seed, number, case, tuple(applied), thing) if mutation in applied else None


def _bytes(case: Case, thing: str | bytes | pa.Table) -> bytes:
    if isinstance(thing, bytes):
        return thing
    if isinstance(thing, str):
        return thing.encode()
    stream = io.BytesIO()
    pq.write_table(thing, stream, **{"write_page_checksum": True, **case.parquet})
    return stream.getvalue()


def meaning(made: Input) -> Meaning:
    """What is to be read, by what the mutations say about themselves."""
    if made.form.kind == "config":
        return SETTINGS
    if "new" in made.form.words:
        return {f"t{n}": row["text"] for n, row in enumerate(made.case.truth.texts)}
    if "prepare" in made.form.words:
        return {
            n: (row["text"], [f"l{label}" for label in row["labels"]]) for n, row in enumerate(made.case.truth.texts)
        }
    return figures(made.case.truth)


@cache
def settings(engine: str, gain: str) -> Config:
    chosen = {
        "grid.engine": engine,
        "grid.cells": [f"{normalization}+{fusion}" for normalization, fusion in CELLS],
        "evaluate.metrics": f"ndcg@{NDCG},precision@{PRECISION}",
        "evaluate.gain": gain,
        "evaluate.details": False,
    }
    return load_config(None, chosen)


def sources(made: Input, hostile: str | pa.Table) -> Sources:
    """The hostile file among others that are as they should be, which are in memory."""
    truth, kind = made.case.truth, made.form.kind
    of = {name: strings(truth.rows(name)) for name in ("run", "judgements", "groups", "folds") if name != kind}
    of[kind] = hostile
    runs = hostile if "together" in made.form.words else {"a": of["run"], "b": strings(truth.runs["b"])}
    groups, folds = (of["groups"], of["folds"]) if truth.divided else ("auto", None)
    return Sources(runs, of["judgements"], groups, folds)


def evaluated(made: Input, source: str | pa.Table, spark: SparkSession | None = None) -> Outcome:
    engine = "local" if spark is None else "arrays"
    metrics = evaluate.run(spark, settings(engine, made.case.truth.gain), sources(made, source)).metrics
    rows = [tuple(row.values()) for row in metrics.to_pylist()]
    return Outcome({row[:7]: row[7:] for row in rows if row[8]}, metrics=metrics)


def read_by_spark(made: Input, path: str, spark: SparkSession) -> Outcome:
    """Spark's reader and this process's arithmetic, which takes a sixth of the time of all of it on Spark."""
    engine = SparkEngine(spark)
    tables = InputTables(engine, Sources({}))
    read = {"run": tables.run, "judgements": tables.judged}.get(made.form.kind)
    if read is None:
        return evaluated(made, engine.collect(engine.read(path)))
    table = read(path, path)
    rows = engine.collect(table.rows)
    return evaluated(made, in_pairs(rows) if table.is_text else rows)


def in_pairs(rows: pa.Table) -> pa.Table:
    """One row per pair, for lists that come in several rows."""
    lists = rows.combine_chunks()
    parents = pc.list_parent_indices(lists["label_ids"].combine_chunks())
    values = {name.removesuffix("s"): pc.list_flatten(lists[name]) for name in lists.column_names if name != "text_id"}
    return pa.table({"text_id": lists["text_id"].take(parents), **values})


def configured(path: str) -> Outcome:
    config = load_config(path)
    found = {name: attrgetter(name)(config) for name in SETTINGS}
    # Places in a file start at that file, unless it lies with results.
    runs = {name: Path(run).name for name, run in (found[RUNS] or {}).items()}
    return Outcome({**found, RUNS: runs})


def prepared(made: Input, path: Path, engine: Engine[Any]) -> Outcome:
    """The texts as `predict` or `prepare` reads them, labels by their names."""
    if "new" in made.form.words:
        rows = engine.collect(new_texts(engine, str(path)).rows).to_pylist()
        return Outcome({row["text_id"]: row["text"] for row in rows})
    others = {form.file: form for form in FORMS if "prepare" in form.words and form.kind != made.form.kind}
    for name, form in others.items():
        if not name.endswith(".gz"):
            (path.parent / name).write_bytes(_bytes(made.case, WRITERS[form.writer](made.case.truth.texts)))
    dataset = DATASETS[made.form.file]
    part = {name: dataset[name] for name in ("texts", "labels") if name in dataset}
    chosen = PrepareSettings(
        format=dataset["format"],
        folder=str(path.parent),
        parts=[{"name": "all", **part}],
        label_file=dataset.get("label_file"),
        label_separator="pipe" if dataset["format"] == "csv" else None,
    )
    raw = check_settings(chosen).read(engine, chosen)
    texts = engine.collect(raw.texts).to_pylist()
    labels = raw.labels.to_pylist() if raw.labels is not None else []
    if problems := [row["problem"] for row in texts if row["problem"]]:
        raise InputError("; ".join(problems))
    names = {row["label"]: row["name"] or f"l{row['label']}" for row in labels}
    return Outcome({int(row["text_id"]): (row["text"], [names.get(n, n) for n in row["labels"]]) for row in texts})


def outcomes(made: Input, path: Path, spark: SparkSession | None, whole: bool) -> dict[str, Outcome]:
    """What each engine makes of the file; with `whole`, all of an evaluation is on Spark."""
    path.write_bytes(made.content)
    runs: dict[str, Callable[[], Outcome]] = {}
    if made.form.kind == "config":
        runs["settings"] = lambda: configured(str(path))
    elif "eval" in made.form.words:
        runs["local"] = lambda: evaluated(made, str(path))
        if spark is not None and whole:
            runs["Spark"] = lambda: evaluated(made, str(path), spark)
        elif spark is not None:
            runs["Spark's reader"] = lambda: read_by_spark(made, str(path), spark)
    else:
        runs["prepare"] = lambda: prepared(made, path, LocalEngine())
        if spark is not None:
            runs["prepare on Spark"] = lambda: prepared(made, path, SparkEngine(spark))
    return {engine: _measured(run) for engine, run in runs.items()}


def _measured(run: Callable[[], Outcome]) -> Outcome:
    RESET_PEAK.write_text("5")
    before = _megabytes("VmRSS")
    # A thousand evaluations have nothing to say about themselves.
    with redirect_stderr(io.StringIO()):
        outcome = _outcome(run)
    return replace(outcome, megabytes=_megabytes("VmHWM") - before)


def _megabytes(name: str) -> int:
    return int(re.search(rf"{name}:\s+(\d+)", Path("/proc/self/status").read_text())[1]) >> 10


def _outcome(run: Callable[[], Outcome]) -> Outcome:
    try:
        return run()
    except XmtcError as error:
        return Outcome(refusal=str(error))
    except spark_errors() as error:
        # The command line has an answer to these as well.
        reason = spark_reason(error)
        return Outcome(refusal=reason) if unreadable(reason) else Outcome(unexpected=reason)
    except Exception as error:
        return Outcome(unexpected=f"{type(error).__name__}: {error}")


def fault(made: Input, got: dict[str, Outcome]) -> tuple[str, str] | None:
    """What is wrong with what the engines did, in a word and at length; None if nothing is."""
    verdict = made.spoilt.verdict
    for engine, outcome in got.items():
        if outcome.megabytes > MOST_MEGABYTES:
            return "too much memory", f"{engine}: {outcome.megabytes} MB for a file of {len(made.content):,} bytes"
        if outcome.unexpected:
            return "unexpected error", f"{engine}: {outcome.unexpected}"
        if outcome.refusal:
            if verdict is Verdict.TAKEN:
                return "good and refused", f"{engine}: {outcome.refusal}"
            if made.form.file not in outcome.refusal and engine != "Spark's reader":
                return "refused without its name", f"{engine}: {outcome.refusal}"
        elif verdict is Verdict.REFUSED:
            return "bad and taken", engine
        elif verdict in (Verdict.TAKEN, Verdict.EITHER) and (difference := _difference(outcome.meaning, meaning(made))):
            return "misread", f"{engine}: {difference}"
    engines = list(got) if verdict is not Verdict.ANY else []
    for engine in engines[1:]:
        first, other = got[engines[0]], got[engine]
        if bool(first.refusal) != bool(other.refusal):
            if verdict is Verdict.EITHER:
                # Right in both: one engine says that it cannot read the file, the other has read it as it is.
                continue
            refusing = engines[0] if first.refusal else engine
            return "engines disagree", f"only {refusing} refuses it: {first.refusal or other.refusal}"
        if first.metrics is not None and not first.metrics.equals(other.metrics):
            return "engines disagree", f"{engine}: {_difference(other.meaning, first.meaning) or 'in the last digits'}"
    return None


def _difference(got: Meaning, want: Meaning) -> str:
    for key in sorted(got.keys() | want.keys(), key=str):
        ours, theirs = got.get(key), want.get(key)
        if isinstance(ours, tuple) and isinstance(theirs, tuple) and isinstance(ours[0], float):
            same = ours[1] == theirs[1] and abs(ours[0] - theirs[0]) < 1e-9
        else:
            same = ours == theirs
        if not same:
            return f"{key} is {ours}, expected {theirs}"
    return ""


@dataclass
class Count:
    """What became of many inputs."""

    inputs: int = 0
    taken: int = 0
    refused: int = 0
    by_spark: int = 0
    faults: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))
    """By mutation and kind of fault: the inputs, with what is wrong."""

    def add(self, made: Input, run: Callable[[Input], dict[str, Outcome]]) -> None:
        got = run(made)
        if not got:
            return
        first = next(iter(got.values()))
        self.inputs += 1
        self.taken += not (first.refusal or first.unexpected)
        self.refused += bool(first.refusal)
        self.by_spark += any(engine not in ("local", "prepare", "settings") for engine in got)
        wrong = fault(made, got)
        if wrong is not None:
            self.faults[_culprit(made, wrong[0], run), wrong[0]].append(f"{made}: {wrong[1][:400]}")
            print(f"{wrong[0]}: {made}: {wrong[1][:400]}", flush=True)

    def __str__(self) -> str:
        kinds = Counter(kind for (_, kind), of in self.faults.items() for _ in of)
        lines = [f"{len(of):4} {kind}: {name}\n       {of[0]}" for (name, kind), of in sorted(self.faults.items())]
        totals = f"inputs {self.inputs:,} (on Spark {self.by_spark:,}), taken {self.taken:,}, refused {self.refused:,}"
        return "\n".join([*lines, f"{totals}, faults {sum(kinds.values()):,} {dict(kinds)}"])


def _culprit(made: Input, kind: str, run: Callable[[Input], dict[str, Outcome]]) -> str:
    """The mutation of a chain that makes the same fault alone, if one does."""
    for mutation in made.chain if len(made.chain) > 1 else ():
        alone = make_input(made.seed, made.number, made.form, mutation, alone=True)
        wrong = fault(alone, run(alone)) if alone is not None else None
        if wrong is not None and wrong[0] == kind:
            return mutation.name
    return made.spoilt.name


def attack(
    seed: int, most: int, folder: Path, spark: SparkSession | None = None, whole: bool = False, every: int = 1
) -> Count:
    """The first inputs of a seed, or every n-th of them, in this process and, with a session, on Spark."""
    counted = Count()
    # The kernel is compiled, which takes memory.
    warm = next(made for made in inputs(seed, count()) if "eval" in made.form.words)
    outcomes(warm, folder / warm.form.file, None, False)
    for made in inputs(seed, range(0, most, every)):
        counted.add(made, lambda it: outcomes(it, folder / it.form.file, spark, whole))
    return counted


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--inputs", type=int, default=len(pairs()), help="default: each mutation with each format")
    parser.add_argument("--only", type=int, help="the number of one input")
    parser.add_argument("--spark", choices=["no", "reading", "whole"], default="no")
    parser.add_argument("--every", type=int, default=1, help="1: all inputs; n: every n-th")
    chosen = parser.parse_args(argv)
    spark = None if chosen.spark == "no" else get_session(SparkSettings(master="local[2]", conf=CONF))
    with TemporaryDirectory() as folder:
        if chosen.only is None:
            print(attack(chosen.seed, chosen.inputs, Path(folder), spark, chosen.spark == "whole", chosen.every))
            return 0
        made = next(inputs(chosen.seed, [chosen.only]))
        print(made, repr(made.content[:2000]), sep="\n")
        got = outcomes(made, Path(folder) / made.form.file, spark, chosen.spark == "whole")
        for engine, outcome in got.items():
            print(f"{engine}: {outcome.unexpected or outcome.refusal or 'taken'}")
        print(fault(made, got) or "as it should be")
    return 0


if __name__ == "__main__":
    sys.exit(main())
