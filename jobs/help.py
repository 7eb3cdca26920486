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
OUTPUT = "output.path"
FUSED = ["fuse.model", "fuse.top", "fuse.format"]
STAGES = ["prepare.folder", "work.path", "spark.master"]
RESULTS = [OUTPUT, "output.mode"]
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
    about_job, options = HELP[job], []
    for name in [*about_job.settings, *LOG]:
        setting = about[name]
        option = SPELLED.get(name, f"--{name.rpartition('.')[2].replace('_', '-')}")
        # Columns are an option of `init`, which guesses them.
        default = None if name in COLUMNS else setting.plain_default
        shown = ", ".join(default) if isinstance(default, list) else yaml_value(default)
        words = setting.summary + (f"; default: {shown}" if default not in (None, []) else "")
        metavar = setting.metavar
        if name == OUTPUT and about_job.output is not None:
            metavar, words = about_job.output
        words = words if words[1].isupper() else f"{words[0].lower()}{words[1:]}"
        values = metavar.split()
        options.append(Shortcut(option, name, values[0] if len(values) == 1 else tuple(values), f"{words} [{name}]"))
    return [RUN, *options] if RUN.setting in about_job.settings else options


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
        if any(shortcut.setting == RUN.setting for shortcut, _ in arguments.shortcuts if shortcut is not RUN):
            raise ConfigError("--candidates holds the lists of all retrievers, --run those of one: give either")
        yield Given(RUN.setting, runs, RUN.option)
    for text in arguments.set:
        setting, value = parse_setting(text)
        # Without the value, which may be a secret.
        yield Given(setting, value, f"--set {setting}")


DESCRIPTION = """Fuse the label rankings of several retrievers for extreme multi-label text classification, in memory
or on Spark; recommend a fusion, backed by statistical tests; label new texts with it."""

EPILOG = """examples:
  xmtc-fusion init my.csv --output my.yaml
  xmtc-fusion run --config my.yaml
  xmtc-fusion fit --config my.yaml --output model/
  xmtc-fusion predict --model model/ --texts new.jsonl --output labelled/
  xmtc-fusion evaluate --run bm25=a.trec --run dense=b.trec --qrels q.txt --output out/
  xmtc-fusion report --results out/ --output report/

'xmtc-fusion JOB --help' lists the options of a job; 'xmtc-fusion config' explains every setting.

exit codes:
  0 done, 2 wrong setting or option, 3 bad input, 4 output refused, 5 something is not installed, 1 any other error
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
    """What a job can do besides its main work, each with its words."""
    file: str = ""
    """What the file is that a job takes as its first word."""
    output: tuple[str, str] | None = None
    """What --output names, and what that is, unless it is the folder of the results."""


HELP = {
    "init": JobHelp(
        "write a configuration for your own file of texts",
        "Look at the beginning of a file (JSON lines, CSV or TSV, also .gz, or Parquet), guess which columns\n"
        "hold ids, texts and labels, and write a configuration for 'run' and 'fit'. Says what was guessed,\n"
        "and why.",
        ["init my.csv --output my.yaml", "init my.jsonl.gz --text title,abstract --labels subjects"],
        [*COLUMNS, OUTPUT],
        file="the file of texts",
        output=("FILE", "the configuration file to write; without it, the configuration is printed"),
    ),
    "run": JobHelp(
        "everything, from a file of texts to the report",
        "Prepare a dataset, rank labels with every retriever, evaluate the whole grid and write the report:\n"
        "prepare, retrieve, evaluate and report in one. Stages that are up to date are not repeated.",
        [
            "run --config conf/datasets/debtags.yaml",
            "run --config conf/datasets/eurlex-4k.yaml --folder ~/eurlex --work /data/work",
        ],
        [*STAGES, "retrievers", "evaluate.metrics", *RESULTS],
    ),
    "fit": JobHelp(
        "fit a model that labels new texts, on all texts",
        "Fit every retriever on all texts, with what 'run' and 'tune' found over the folds: epochs, the\n"
        "fusion, and how many labels a text gets. Without 'tune', the fusion is the best cell on validation\n"
        "texts. The folder of the model can be moved; in Python, xf.load_model reads it.",
        ["fit --config conf/datasets/debtags.yaml --output model/"],
        FIT,
        output=("FOLDER", "the folder for the model"),
    ),
    "predict": JobHelp(
        "label new texts with a model",
        "Label texts with a model written by 'fit'. Writes one JSON line per text, or CSV, TREC, Parquet or a\n"
        "catalog table with one row per text and label.",
        [
            "predict --model model/ --texts new.jsonl --top 10 --output labelled/",
            "predict --model model/ --texts table:main.mail.new --output table:main.mail.labels",
        ],
        PREDICT,
        output=("OUTPUT", "the folder for the predictions, or a catalog table (table:catalog.schema.name)"),
    ),
    "evaluate": JobHelp(
        "evaluate every chosen fusion of your own runs",
        "Fuse ranked lists by every chosen cell (a normalisation with a fusion), and evaluate the rankings\n"
        "against the judgements. Prints the best cells; with --output, also writes all figures, for 'report'.",
        [
            "evaluate --run bm25=a.trec --run dense=b.trec --qrels q.txt --output out/",
            "evaluate --config my.yaml --normalizations zmuv,min-max --fusions combmnz --metrics ndcg@10",
        ],
        [*FUSION, "evaluate.metrics"],
    ),
    "fuse": JobHelp(
        "write fused rankings",
        "Fuse ranked lists and write the fused lists of every chosen cell (a normalisation with a fusion).",
        [
            "fuse --run bm25=a.trec --run dense=b.trec --normalizations zmuv --fusions combmnz --output fused/",
            "fuse --run bm25=new.trec --run dense=new2.trec --model tuned/model.json --top 10 --output fused/",
        ],
        [*FUSION, *FUSED],
        output=("FOLDER", "the folder for the fused lists"),
    ),
    "tune": JobHelp(
        "choose or learn a fusion on validation texts, and test it on others",
        "For every fold and label group, choose a cell, weights and parameters, and learn fusions, on\n"
        "validation texts; apply each once to the test texts, and write a model file for 'fuse --model'.\n"
        "Without --run, reads the lists that 'run' left in the work folder. Without validation texts, chooses\n"
        "on the other parts of the texts.",
        [
            "tune --config conf/datasets/debtags.yaml --objective ndcg@10",
            "tune --run bm25=a.trec --run dense=b.trec --qrels q.txt --output tuned/",
        ],
        TUNE,
    ),
    "explain": JobHelp(
        "show how the fused scores of one text are computed",
        "Show the candidates of one text in fused order: their ranks, scores and normalised scores in every\n"
        "list, and the formulas. Without --run, reads the lists that 'run' left in the work folder.",
        [
            "explain --text 17 --run bm25=a.trec --run dense=b.trec --qrels q.txt",
            "explain --text 17 --cell max+combsum --label-group tail --config conf/datasets/debtags.yaml",
        ],
        EXPLAIN,
    ),
    "report": JobHelp(
        "make a page and tables from results, or compare two results",
        "Write the report (a page, Markdown, tables for papers) of what 'evaluate', 'tune' or 'run' wrote.\n"
        "With --compare, show two results side by side, with differences tested over the texts that both\n"
        "have. Needs no Spark.",
        [
            "report --results out/ --output report/",
            "report --compare yesterday/results today/results",
        ],
        REPORT,
        output=("FOLDER", "the folder for the report; by default with the results"),
    ),
    "nightly": JobHelp(
        "evaluate datasets again, compare with a baseline, and fail if a figure fell",
        "Evaluate what has changed since the last night, add it to the history and compare it with the\n"
        "baseline. With an ACTION, look at past nights, or decide about them.",
        [
            "nightly --config conf/nightly.yaml",
            "nightly status --work /data/work",
        ],
        NIGHTLY,
        ["status", "show NIGHT", "compare NIGHT NIGHT", "rerun NIGHT", "accept NIGHT", "pin [NIGHT]"],
    ),
    "prepare": JobHelp(
        "read and check a dataset, and divide it into folds",
        "Read a dataset, check it, and write the tables of its texts, labels and folds.",
        [
            "prepare --config conf/datasets/eurlex-4k.yaml --folder ~/eurlex",
            "prepare --config my.yaml --set prepare.limit=1000",
        ],
        STAGES,
    ),
    "retrieve": JobHelp(
        "rank labels with every retriever",
        "Update the candidates of every retriever in `retrievers`, for each fold's test and validation texts.\n"
        "Run 'prepare' first.",
        [
            "retrieve --config conf/datasets/debtags.yaml",
            "retrieve --config my.yaml --set retrievers.bm25.top=128",
        ],
        ["retrievers", *STAGES],
    ),
    "doctor": JobHelp(
        "check the installation, and say how to fix it",
        "Check Python, Java, Spark, the optional packages and the folders of a configuration.",
        ["doctor", "doctor --config my.yaml"],
        [*STAGES, *RESULTS],
    ),
    "config": JobHelp(
        "print the resolved configuration",
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
        job.add_argument("--debug", action="store_true", help="print the stack trace of an error")
        if about.file:
            job.add_argument("file", metavar="FILE", help=about.file)
        if about.actions:
            job.add_argument("action", nargs="*", metavar="ACTION", help=f"one of: {', '.join(about.actions)}")
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
