"""The options and the help of the command line. Imports no Spark and no tables, since --help must answer at once."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from functools import cache
from textwrap import wrap
from typing import Any, NamedTuple

from fusion import FUSIONS, NORMALIZATIONS, __version__
from fusion import METRICS as KNOWN_METRICS
from fusion.errors import ConfigError
from fusion.registry import TextMetric


class Shortcut(NamedTuple):
    """An option that is short for a setting."""

    option: str
    setting: str
    metavar: str | tuple[str, ...]
    """One name per value."""
    help: str


RUN = Shortcut("--run", "inputs.candidates", "NAME=SOURCE", "a retriever and its run; one --run per retriever")
"""A setting of which an option gives one entry at a time."""
SPELLED = {
    "inputs.judgements": "--qrels",
    "log.file": "--log",
    "log.format": "--log-format",
    "output.path": "--output",
    "prepare.columns.text_id": "--id",
    "work.path": "--work",
}
"""Options that are not called by the last part of their setting, which is too general, or has a usual name."""
LOG = ["log.file", "log.format"]
FUSED = ["fuse.model", "fuse.top", "fuse.format"]
STAGES = ["prepare.folder", "work.path", "spark.master"]
RESULTS = ["output.path", "output.mode"]
COLUMNS = [f"prepare.columns.{name}" for name in ("text_id", "text", "labels")]
INPUTS = ["inputs.candidates", "inputs.judgements", "inputs.label_groups", "inputs.folds"]
ENGINE = ["grid.scope", "grid.engine"]
CELLS = ["grid.normalizations", "grid.fusions", "grid.cells"]
FUSION = [*INPUTS, *CELLS, *ENGINE, "work.path", *RESULTS, "spark.master"]
TUNE = [
    "tune.strategies",
    "tune.objective",
    *INPUTS,
    "evaluate.metrics",
    *ENGINE,
    "work.path",
    *RESULTS,
    "spark.master",
]
PREDICT = [
    *(f"predict.{name}" for name in ("model", "texts", "format", "top", "threshold")),
    "grid.engine",
    *RESULTS,
    "spark.master",
]
FIT = ["retrievers", "fit.objective", "work.path", *RESULTS, "spark.master"]
TEXT = ["explain.text", "explain.cell", "explain.model", "explain.label_group", "explain.rows"]
EXPLAIN = [*TEXT, *INPUTS, *ENGINE, "work.path", "spark.master"]
REPORT = ["report.results", "report.compare", "report.test", "work.path", *RESULTS]
NIGHT = ["nightly.datasets", "nightly.run_id", "nightly.baseline", "nightly.break_lock"]
NIGHTLY = [*NIGHT, "work.path", "spark.master"]


@cache
def shortcuts(job: str) -> list[Shortcut]:
    """The options of a job that set a setting, with the words of these."""
    from jobs.settings.config import Config
    from jobs.settings.reference import settings, yaml_value

    about = {setting.name: setting for setting in settings(Config)}
    options = []
    for name in [*HELP[job].settings, *LOG]:
        setting = about[name]
        option = SPELLED.get(name, f"--{name.rpartition('.')[2].replace('_', '-')}")
        default = setting.plain_default
        shown = ",".join(default) if isinstance(default, list) else yaml_value(default)
        words = setting.summary + (f"; default: {shown}" if default not in (None, []) else "")
        metavar = setting.metavar.split()
        options.append(Shortcut(option, name, metavar[0] if len(metavar) == 1 else tuple(metavar), f"{words} [{name}]"))
    return [RUN, *options] if RUN.setting in HELP[job].settings else options


class Given(NamedTuple):
    """A setting from the command line, and its option."""

    setting: str
    value: Any
    option: str


def given_settings(arguments: argparse.Namespace) -> Iterator[Given]:
    """What the options set, in the order in which later ones win: --set has the last word."""
    from jobs.settings.config import parse_setting

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


DESCRIPTION = """Fuse the rankings of several retrievers for extreme multi-label text classification, in memory
or on Spark, and say which fusion is best."""

EPILOG = """examples:
  xmtc-fusion init my.csv --output my.yaml
  xmtc-fusion run --config conf/datasets/debtags.yaml
  xmtc-fusion evaluate --run bm25=a.trec --run dense=b.trec --qrels q.txt --output out/
  xmtc-fusion report --results out/ --output report/

'xmtc-fusion JOB --help' lists the options of a job; 'xmtc-fusion config' prints every setting with its meaning.

exit codes:
  0 done, 2 wrong setting, 3 bad input, 4 output refused, 5 something is not installed, 1 anything else
  nightly: 10 a figure fell, 11 a dataset is missing, 12 the data drifted, 13 a dataset failed,
  14 the data failed a check, 15 it took too much time or memory, 16 a watched figure could not be compared"""


class JobHelp(NamedTuple):
    """What a job's --help says."""

    summary: str
    description: str
    examples: Sequence[str]
    settings: Sequence[str]
    """Those that have an option."""
    actions: Sequence[str] = ()
    """What a job can do next to its main work, each with its words."""
    file: str = ""
    """What the file is that a job takes as its first word."""


HELP = {
    "init": JobHelp(
        "a configuration for a file of texts of your own",
        "Look at the beginning of a file (JSON lines, CSV, TSV, Parquet; also .gz), guess which columns hold ids,\n"
        "texts and labels, and write the configuration that 'run' and 'fit' take. Says what was guessed, and why.",
        ["init my.csv --output my.yaml", "init my.jsonl.gz --text title,abstract --labels subjects"],
        [*COLUMNS, "output.path"],
        file="the file of texts",
    ),
    "evaluate": JobHelp(
        "metrics of every chosen cell, from candidates and judgements",
        "Fuse ranked lists by every chosen cell (a normalisation with a fusion), and compare the rankings with the\n"
        "judgements. Prints the best cells; with --output, writes all figures and what the report needs.",
        [
            "evaluate --run bm25=a.trec --run dense=b.trec --qrels q.txt --output out/",
            "evaluate --config my.yaml --normalizations zmuv,min-max --fusions combmnz --metrics ndcg@10",
        ],
        [*FUSION, "evaluate.metrics"],
    ),
    "tune": JobHelp(
        "the best fusion for the data: chosen and learned on validation texts, tested on others",
        "For every fold and label group choose a cell, weights and parameters, and learn fusions on validation texts;\n"
        "apply each once to the test texts, and write a model file for 'fuse --model'. Without --run, reads the lists\n"
        "that 'run' left in the work folder. Without validation texts, chooses on other folds or parts of the texts.",
        [
            "tune --config conf/datasets/debtags.yaml --objective ndcg@10",
            "tune --run bm25=a.trec --run dense=b.trec --qrels q.txt --output tuned/",
        ],
        TUNE,
    ),
    "fit": JobHelp(
        "a model that labels new texts, fitted on all texts",
        "Fit every retriever on all texts, with what 'run' and 'tune' decided over folds: epochs, the fusion, and how\n"
        "many labels a text gets. Stages that 'run' has not made yet are made; without 'tune', the fusion is the best\n"
        "cell on validation texts. The folder of the model can be moved; in Python, xf.load_model reads it.",
        ["fit --config conf/datasets/debtags.yaml --output model/"],
        FIT,
    ),
    "predict": JobHelp(
        "label new texts with a model",
        "Rank, fuse and assign labels to texts that have none, with a model that 'fit' has written. Writes one JSON\n"
        "line per text, or CSV, TREC or Parquet with one row per text and label.",
        ["predict --model model/ --texts new.jsonl --top 10 --output out/"],
        PREDICT,
    ),
    "fuse": JobHelp(
        "fused rankings of the chosen cells",
        "Fuse ranked lists and write the fused lists of every chosen cell (a normalisation with a fusion).",
        [
            "fuse --run bm25=a.trec --run dense=b.trec --normalizations zmuv --fusions combmnz --output fused/",
            "fuse --run bm25=new.trec --run dense=new2.trec --model tuned/model.json --top 10 --output fused/",
        ],
        [*FUSION, *FUSED],
    ),
    "explain": JobHelp(
        "how each fused score of one text came about",
        "Show the candidates of one text in the fused order: their ranks, scores and normalised scores in every list,\n"
        "and the formulas. Without --run, reads the lists that 'run' left in the work folder.",
        [
            "explain --text 17 --run bm25=a.trec --run dense=b.trec --qrels q.txt",
            "explain --text 17 --cell max+combsum --label-group tail --config conf/datasets/debtags.yaml",
        ],
        EXPLAIN,
    ),
    "run": JobHelp(
        "everything: from a dataset's files to the metrics of the whole grid, and the report",
        "Prepare a dataset, retrieve with BM25 and the bi-encoder, evaluate the whole grid and write the report.\n"
        "Stages that were done before are not done again.",
        [
            "run --config conf/datasets/debtags.yaml",
            "run --config conf/datasets/eurlex-4k.yaml --folder ~/eurlex --work /data/work",
        ],
        [*STAGES, "retrievers", "evaluate.metrics", *RESULTS],
    ),
    "report": JobHelp(
        "tables, charts and one page from the results of evaluations",
        "Write tables, charts and one page from what evaluate or run wrote. With --compare, show two results side by\n"
        "side, their differences tested over the texts that both have. Needs no Spark.",
        [
            "report --results out/ --output report/",
            "report --compare yesterday/results today/results",
        ],
        REPORT,
    ),
    "nightly": JobHelp(
        "evaluate datasets again, compare with a baseline, raise an alarm if a figure fell",
        "Evaluate what has changed since the last night, add it to the history and compare it with the baseline.",
        [
            "nightly --config conf/nightly.yaml",
            "nightly status --work /data/work",
        ],
        NIGHTLY,
        ["status", "show NIGHT", "compare NIGHT NIGHT", "rerun NIGHT", "accept NIGHT", "pin [NIGHT]"],
    ),
    "doctor": JobHelp(
        "what is wrong with an installation, and what to do about it",
        "Check Python, Java, Spark, the optional packages and the folders of a configuration.",
        ["doctor", "doctor --config my.yaml"],
        [*STAGES, *RESULTS],
    ),
    "prepare": JobHelp(
        "read a dataset; write its texts, labels and folds",
        "Read a published dataset, check it, and write the tables of its texts, labels and folds.",
        [
            "prepare --config conf/datasets/eurlex-4k.yaml --folder ~/eurlex",
            "prepare --config my.yaml --set prepare.limit=1000",
        ],
        STAGES,
    ),
    "retrieve": JobHelp(
        "candidates of all configured retrievers",
        "Bring the candidates of every retriever in `retrievers` up to date. Needs prepare.",
        [
            "retrieve --config conf/datasets/debtags.yaml",
            "retrieve --config my.yaml --set retrievers.bm25.top=128",
        ],
        ["retrievers", *STAGES],
    ),
    "config": JobHelp(
        "print the resolved configuration and stop",
        "Print every setting with its meaning: the defaults, overridden by the file and the options.",
        ["config > my.yaml", "config --config my.yaml --set grid.scope=joint"],
        [*FUSION, "evaluate.metrics", *FUSED],
    ),
}


class _Shortcuts(argparse.Action):
    """Collects the shortcuts that are given, with their values, in order."""

    def __init__(self, option_strings: Sequence[str], shortcut: Shortcut, **settings: Any) -> None:
        super().__init__(option_strings, **settings)
        self.shortcut = shortcut

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: Any = None
    ) -> None:
        namespace.shortcuts = [*(namespace.shortcuts or []), (self.shortcut, values)]


GIVEN_AS = {
    "--run": "runs are given as --run NAME=PATH, judgements as --qrels PATH",
    "--results": "results are given as --results FOLDER",
}
"""What words without an option may have been meant for, by an option that the job has."""


def parsed(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The words of a command line. One that is not understood ends the process, with what may have been meant."""
    words = sys.argv[1:] if argv is None else list(argv)
    parser = make_parser()
    if not words:
        parser.error("which job? 'xmtc-fusion --help' lists them")
    if not words[0].startswith("-") and words[0] not in HELP:
        parser.error(f"unknown job {words[0]!r}{_meant(words[0], HELP)}; 'xmtc-fusion --help' lists them")
    arguments, unknown = parser.parse_known_args(words)
    if unknown:
        parser.error(f"{_not_understood(arguments.job, unknown)}; 'xmtc-fusion {arguments.job} --help' has examples")
    return arguments


def _not_understood(job: str, unknown: Sequence[str]) -> str:
    options = ["--config", "--set", "--debug", *(shortcut.option for shortcut in shortcuts(job))]
    names = [word.partition("=")[0] for word in unknown if word.startswith("-")]
    if names:
        return "; ".join(f"unknown option {name!r}{_meant(name, options)}" for name in names)
    hint = next((f": {words}" for option, words in GIVEN_AS.items() if option in options), "")
    return f"unexpected {', '.join(map(repr, unknown))}{hint}"


def _meant(word: str, known: Iterable[str]) -> str:
    near = get_close_matches(word, list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def make_parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("xmtc-fusion", description=DESCRIPTION, epilog=EPILOG, formatter_class=raw)
    parser.add_argument("--version", action="version", version=f"xmtc-fusion {__version__}")
    jobs = parser.add_subparsers(dest="job", required=True, metavar="JOB")
    for name, about in HELP.items():
        job = jobs.add_parser(
            name, help=about.summary, description=about.description, epilog=_epilog(about), formatter_class=raw
        )
        job.add_argument("--config", metavar="FILE", help="a YAML file of settings")
        job.add_argument("--set", metavar="A.B=C", action="append", default=[], help="one setting; may be repeated")
        job.add_argument("--debug", action="store_true", help="show the stack trace of an error")
        if about.file:
            job.add_argument("file", metavar="FILE", help=about.file)
        if about.actions:
            job.add_argument("action", nargs="*", metavar="ACTION", help=f"or: {', '.join(about.actions)}")
            job.add_argument("--dataset", metavar="NAME", help="for rerun and accept: one dataset of the night")
            job.add_argument("--because", metavar="WORDS", default="", help="for accept and pin: the reason")
        for shortcut in shortcuts(name):
            job.add_argument(
                shortcut.option,
                dest="shortcuts",
                action=_Shortcuts,
                shortcut=shortcut,
                metavar=shortcut.metavar,
                nargs=None if isinstance(shortcut.metavar, str) else len(shortcut.metavar),
                help=shortcut.help.replace("%", "%%"),
            )
    return parser


def _epilog(about: JobHelp) -> str:
    lines = [f"example{'s' * (len(about.examples) > 1)}:", *(f"  xmtc-fusion {words}" for words in about.examples)]
    settings = set(about.settings)
    if "evaluate.metrics" in settings:
        lines += ["", "metrics, each at a cut-off (ndcg@10) where it has one:", *_indented(KNOWN_METRICS.names())]
    if "nightly.datasets" in settings:
        of_texts = [entry.name for entry in KNOWN_METRICS if isinstance(entry, TextMetric)]
        lines += ["", "metrics that can be watched (nightly.watch.metrics):", *_indented(of_texts)]
    if settings & {"grid.normalizations", "explain.cell"}:
        lines += ["", *_listed("normalizations: ", [entry.usage for entry in NORMALIZATIONS])]
        lines += _listed("fusions:        ", [entry.usage for entry in FUSIONS])
    if "grid.fusions" in settings:
        lines += _listed("all:            ", ["the paper's six normalisations or ten fusions, which come first here"])
        lines += _listed("everything:     ", ["all that need no training"])
    return "\n".join(lines)


def _indented(names: Sequence[str]) -> list[str]:
    return wrap(", ".join(names), 100, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


def _listed(title: str, names: Sequence[str]) -> list[str]:
    """Names after a title, on as many lines as they need."""
    return wrap(title + ", ".join(names), 100, subsequent_indent=" " * len(title), break_on_hyphens=False)
