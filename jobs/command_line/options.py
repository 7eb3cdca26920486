"""Options that are short for a setting, and what the options given on a command line set."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, NamedTuple

from fusion.errors import ConfigError


class Shortcut(NamedTuple):
    """An option that is short for a setting."""

    option: str
    setting: str
    metavar: str | tuple[str, ...]
    """One name per value."""
    help: str


MASTER = Shortcut(
    "--master", "spark.master", "URL", "the Spark master; default: this machine's cores, or spark-submit's"
)
FOLDER = Shortcut("--folder", "prepare.folder", "FOLDER", "where the dataset's files are")
WORK = Shortcut("--work", "work.path", "FOLDER", "where the stages are kept")
RUN = Shortcut("--run", "inputs.candidates", "NAME=SOURCE", "a retriever and its run; one --run per retriever")
RETRIEVERS = Shortcut("--retrievers", "retrievers", "NAMES", "separated by commas; files of your own end in .py")
METRICS = Shortcut("--metrics", "evaluate.metrics", "NAMES", "metrics, separated by commas: ndcg@10,map,recall@100")
LOG = [
    Shortcut("--log", "log.file", "FILE", "a file that gets one key=value line per finished stage"),
    Shortcut("--log-format", "log.format", "FORMAT", "on the terminal: text (default) or keyvalue"),
]
FUSED = [
    Shortcut("--model", "fuse.model", "FILE", "a model file of `tune`, to be applied instead of cells"),
    Shortcut("--top", "fuse.top", "N", "the length of the fused lists"),
    Shortcut("--format", "fuse.format", "FORMAT", "parquet (default), or one file per cell: trec, jsonl or ranx"),
]
STAGES = [FOLDER, WORK, MASTER]
RESULTS = [
    Shortcut("--output", "output.path", "FOLDER", "where the results go"),
    Shortcut("--mode", "output.mode", "MODE", "error (default): refuse if the folder exists; overwrite: replace it"),
]
INPUTS = [
    RUN,
    Shortcut("--candidates", "inputs.candidates", "SOURCE", "instead of --run: one table with a column `retriever`"),
    Shortcut(
        "--qrels", "inputs.judgements", "SOURCE", "the relevant labels of each text: a TREC qrels file or a table"
    ),
    Shortcut("--label-groups", "inputs.label_groups", "SOURCE", "a table of label groups, or: auto, pareto, none"),
    Shortcut("--folds", "inputs.folds", "SOURCE", "a table of folds; without one, all texts are one fold"),
]
ENGINE = [
    Shortcut(
        "--scope", "grid.scope", "SCOPE", "group (default): fuse within each label group; joint: fuse all together"
    ),
    Shortcut("--engine", "grid.engine", "ENGINE", "auto (default), local, arrays or windows"),
]
FUSION = [
    *INPUTS,
    Shortcut(
        "--normalizations", "grid.normalizations", "NAMES", "all (default), everything, or names separated by commas"
    ),
    Shortcut("--fusions", "grid.fusions", "NAMES", "all (default), everything, or names: isr,'rrf(k=[10,60])'"),
    Shortcut("--cells", "grid.cells", "NAMES", "instead of all combinations: zmuv+combmnz,'bm25+dense: rrf(k=10)'"),
    *ENGINE,
    *RESULTS,
    MASTER,
]
TUNE = [
    Shortcut("--strategies", "tune.strategies", "NAMES", "auto (default), or names: tuned+cell,learned+logistic"),
    Shortcut("--objective", "tune.objective", "SUM", "a metric, or a sum: 0.5*ndcg@10+0.5*precision@1"),
    *INPUTS,
    METRICS,
    *ENGINE,
    WORK,
    *RESULTS,
    MASTER,
]
EXPLAIN = [
    Shortcut("--text", "explain.text", "ID", "the text"),
    Shortcut("--cell", "explain.cell", "CELL", "normalisation and fusion; default: zmuv+combmnz"),
    Shortcut("--label-group", "explain.label_group", "NAME", "tail, head or another group; default: all labels"),
    Shortcut("--rows", "explain.rows", "N", "candidates to show; default: 20"),
    *INPUTS,
    *ENGINE,
    WORK,
    MASTER,
]
REPORT = [
    Shortcut("--results", "report.results", "FOLDERS", "what evaluate or run wrote; several are separated by commas"),
    Shortcut("--compare", "report.compare", ("FIRST", "SECOND"), "two folders of results to show side by side"),
    Shortcut("--test", "report.test", "TEST", "what decides the bold face: folds (default), queries or randomization"),
    WORK,
    *RESULTS,
]
NIGHTLY = [
    Shortcut("--datasets", "nightly.datasets", "FILES", "configuration files, separated by commas"),
    Shortcut("--run-id", "nightly.run_id", "NAME", "the name of the night; default: the date (UTC)"),
    Shortcut("--baseline", "nightly.baseline", "NAME", "the night to compare with; default: the last without an alarm"),
    Shortcut("--break-lock", "nightly.break_lock", "NAME", "take the lease from this night, which is known to be dead"),
    WORK,
    MASTER,
]


class Given(NamedTuple):
    """A setting from the command line, and the option that brought it."""

    setting: str
    value: Any
    option: str


def given_settings(arguments: argparse.Namespace) -> Iterator[Given]:
    """What the options set, in the order in which later ones win: --set has the last word."""
    from jobs.config import parse_setting

    for shortcut, value in arguments.shortcuts or []:
        if shortcut is not RUN:
            yield Given(shortcut.setting, value, shortcut.option)
    runs: dict[str, str] = {}
    for text in [value for shortcut, value in arguments.shortcuts or [] if shortcut is RUN]:
        name, equals, source = text.partition("=")
        if not (equals and name and source):
            raise ConfigError(f"--run {text!r}: expected NAME=SOURCE, as in --run bm25=a.trec")
        if name in runs:
            raise ConfigError(f"--run {text!r}: there is a run called {name!r} already")
        runs[name] = source
    if runs:
        yield Given(RUN.setting, runs, RUN.option)
    for text in arguments.set:
        setting, value = parse_setting(text)
        # Without the value, which may be a secret.
        yield Given(setting, value, f"--set {setting}")
