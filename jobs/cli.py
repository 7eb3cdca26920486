"""The command line: `xmtc-fusion <job> [--config FILE] [--set a.b=c ...]`."""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

from fusion import FUSIONS, NORMALIZATIONS, __version__
from fusion.errors import AlarmError, ConfigError, InputError, SetupError, XmtcError
from jobs.config import Config, load_config, parse_setting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DESCRIPTION = """Fuse the rankings of several retrievers for extreme multi-label text classification on Spark,
and tell which fusion wins."""

EPILOG = f"""examples:
  xmtc-fusion run --config conf/datasets/debtags.yaml
  xmtc-fusion evaluate --run bm25=a.trec --run dense=b.trec --qrels q.txt --output out/
  xmtc-fusion report --results out/ --output report/
  xmtc-fusion fuse --config my.yaml --normalizations zmuv --fusions combmnz --output fused/

normalizations: {", ".join(NORMALIZATIONS.names())}
fusions:        {", ".join(FUSIONS.names())}

Every setting, with its default, is in conf/base.yaml; 'xmtc-fusion config' prints it.
Exit codes: 0 done, 2 wrong setting, 3 bad input, 4 output refused, 5 something is not installed, 1 anything else.
nightly: 10 a figure fell, 11 a dataset is missing, 12 the data drifted, 13 a dataset failed."""


class Shortcut(NamedTuple):
    """An option that is short for a setting."""

    option: str
    setting: str
    metavar: str
    help: str


MASTER = Shortcut(
    "--master", "spark.master", "URL", "the Spark master; default: this machine's cores, or spark-submit's"
)
STAGES = [
    Shortcut("--folder", "prepare.folder", "FOLDER", "where the dataset's files are"),
    Shortcut("--work", "work.path", "FOLDER", "where the stages are kept"),
    MASTER,
]
RESULTS = [
    Shortcut("--output", "output.path", "FOLDER", "where the results go"),
    Shortcut("--mode", "output.mode", "MODE", "error (default): refuse if the folder exists; overwrite: replace it"),
]
FUSION = [
    Shortcut("--candidates", "inputs.candidates", "SOURCE", "a table with the lists of all retrievers"),
    Shortcut(
        "--qrels", "inputs.judgements", "SOURCE", "the relevant labels of each text: a TREC qrels file or a table"
    ),
    Shortcut("--label-groups", "inputs.label_groups", "SOURCE", "a table of label groups, or: auto, pareto, none"),
    Shortcut("--folds", "inputs.folds", "SOURCE", "a table of folds; without one, all texts are one fold"),
    Shortcut("--normalizations", "grid.normalizations", "NAMES", "all (default), or names with commas between them"),
    Shortcut("--fusions", "grid.fusions", "NAMES", "all (default), or names with commas between them"),
    Shortcut(
        "--scope", "grid.scope", "SCOPE", "group (default): fuse within each label group; joint: fuse all together"
    ),
    Shortcut("--engine", "grid.engine", "ENGINE", "arrays (default) or windows"),
    *RESULTS,
    MASTER,
]
REPORT = [
    Shortcut("--results", "report.results", "FOLDERS", "what evaluate or run wrote; several with commas between them"),
    Shortcut("--test", "report.test", "TEST", "what decides the bold face: folds (default), queries or randomization"),
    Shortcut("--work", "work.path", "FOLDER", "where the stages are kept"),
    *RESULTS,
]
NIGHTLY = [
    Shortcut("--datasets", "nightly.datasets", "FILES", "configuration files, with commas between them"),
    Shortcut("--run-id", "nightly.run_id", "NAME", "the name of the run; default: the date (UTC)"),
    Shortcut("--baseline", "nightly.baseline", "NAME", "the run to compare with; default: the last without an alarm"),
    Shortcut("--work", "work.path", "FOLDER", "where the stages, the history and the reports are kept"),
    MASTER,
]
LOG = [
    Shortcut("--log", "log.file", "FILE", "a file that gets one key=value line per finished stage"),
    Shortcut("--log-format", "log.format", "FORMAT", "on the terminal: text (default) or keyvalue"),
]
METRICS = Shortcut("--metrics", "evaluate.metrics", "NAMES", "metrics with commas between them: ndcg@10,precision@10")
TOP = Shortcut("--top", "fuse.top", "N", "the length of the fused lists")


def _session(config: Config) -> SparkSession:
    """A session, after seeing that the results may be written: a refusal should not cost a JVM."""
    from jobs.runtime.folders import check_output
    from jobs.runtime.session import get_session

    check_output(config.output)
    return get_session(config.spark)


def evaluate(config: Config) -> None:
    from jobs import evaluate as job
    from jobs.reporting.console import summary

    print(summary(job.run(_session(config), config), config))


def fuse(config: Config) -> None:
    from jobs import fuse as job

    lists = job.run(_session(config), config)
    print(f"{lists:,} fused lists written to {config.output.path}")


def prepare(config: Config) -> None:
    from jobs import prepare as job

    print(job.summary(job.run(_session(config), config), config.prepare.paper))


def retrieve_sparse(config: Config) -> None:
    from jobs import retrieve_sparse as job

    print(f"BM25 candidates are in {job.run(_session(config), config)}")


def train_dense(config: Config) -> None:
    from jobs import train_dense as job

    job.run(_session(config), config)


def retrieve_dense(config: Config) -> None:
    from jobs import retrieve_dense as job

    print(f"dense candidates are in {job.run(_session(config), config)}")


def run(config: Config) -> None:
    from jobs import run as job
    from jobs.reporting.console import summary

    print(summary(job.run(_session(config), config), job.with_results(config)))
    job.announce("report")
    report(job.reported(config))


def report(config: Config) -> None:
    from jobs import report as job
    from jobs.runtime.folders import check_output

    check_output(config.output)
    print(f"The report's page is {job.run(config)}")


def nightly(config: Config) -> None:
    from jobs import nightly as job

    night = job.run(_session(config), config)
    if night.exit_code:
        raise AlarmError(job.message(night), night.exit_code)
    print(job.message(night))


def doctor(config: Config) -> None:
    from jobs import doctor as job

    problems = job.run(config)
    if problems:
        raise SetupError(f"{problems} problem{'s' * (problems > 1)} found")


def show_config(config: Config) -> None:
    print(config.to_yaml(), end="")


class Job(NamedTuple):
    run: Callable[[Config], None]
    help: str
    shortcuts: list[Shortcut]


# Jobs import Spark when they run, so that --help and wrong settings answer at once.
JOBS = {
    "evaluate": Job(evaluate, "metrics of every chosen cell, from candidates and judgements", [*FUSION, METRICS]),
    "fuse": Job(fuse, "fused rankings of the chosen cells", [*FUSION, TOP]),
    "run": Job(run, "all of it: from a dataset's files to the metrics of the whole grid", [*STAGES, METRICS, *RESULTS]),
    "report": Job(report, "tables, figures and one page from the results of evaluations", REPORT),
    "nightly": Job(nightly, "re-evaluate datasets, compare with a baseline, alarm if a figure fell", NIGHTLY),
    "doctor": Job(doctor, "what is wrong with an installation, and what to do about it", [*STAGES, *RESULTS]),
    "prepare": Job(prepare, "read a dataset; write its texts, labels and folds", STAGES),
    "retrieve_sparse": Job(retrieve_sparse, "BM25 candidates of every fold's test texts", STAGES),
    "train_dense": Job(train_dense, "encode texts and labels, train the bi-encoder for every fold", STAGES),
    "retrieve_dense": Job(retrieve_dense, "dense candidates of every fold's test texts", STAGES),
    "config": Job(show_config, "print the resolved configuration and stop", [*FUSION, METRICS, TOP]),
}


def make_parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("xmtc-fusion", description=DESCRIPTION, epilog=EPILOG, formatter_class=raw)
    parser.add_argument("--version", action="version", version=f"xmtc-fusion {__version__}")
    jobs = parser.add_subparsers(dest="job", required=True, metavar="JOB")
    for name, (_, text, shortcuts) in JOBS.items():
        description = text[0].upper() + text[1:] + "."
        job = jobs.add_parser(name, help=text, description=description, epilog=EPILOG, formatter_class=raw)
        job.add_argument("--config", metavar="FILE", help="a YAML file of settings")
        job.add_argument("--set", metavar="A.B=C", action="append", default=[], help="one setting; may be repeated")
        job.add_argument("--debug", action="store_true", help="show the stack trace of an error")
        if FUSION[0] in shortcuts:
            job.add_argument(
                "--run", metavar="NAME=SOURCE", action="append", default=[], help="a retriever and its run; repeat it"
            )
        for option, setting, metavar, help_text in [*shortcuts, *LOG]:
            job.add_argument(option, dest=setting, metavar=metavar, help=f"{help_text} [{setting}]")
    return parser


def settings_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings that options stand for; --set has the last word."""
    given = vars(arguments)
    settings = {key: value for key, value in given.items() if "." in key and value is not None}
    runs = {}
    for run in given.get("run") or []:
        name, equals, source = run.partition("=")
        if not (equals and name and source):
            raise ConfigError(f"--run {run!r}: expected NAME=SOURCE, as in --run bm25=a.trec")
        if name in runs:
            raise ConfigError(f"--run {run!r}: there is a run called {name!r} already")
        runs[name] = source
    if runs:
        settings["inputs.candidates"] = runs
    settings.update(parse_setting(text) for text in arguments.set)
    return settings


def main(argv: Sequence[str] | None = None) -> int:
    """Run a job; the exit code."""
    arguments = make_parser().parse_args(argv)
    try:
        config = load_config(arguments.config, settings_of(arguments))
        with _named_run(config):
            JOBS[arguments.job].run(config)
    except XmtcError as error:
        return _failed(str(error), error.exit_code, arguments.debug)
    except Exception as error:
        from jobs.runtime.spark_errors import SPARK_ERRORS, spark_reason, unreadable

        if not isinstance(error, SPARK_ERRORS):
            return _failed(f"unexpected: {error!r} (--debug shows where)", 1, arguments.debug)
        reason = spark_reason(error)
        if unreadable(reason):
            return _failed(f"cannot read an input: {reason}", InputError.exit_code, arguments.debug)
        return _failed(f"Spark failed: {reason} (--debug shows where)", 1, arguments.debug)
    return 0


def _named_run(config: Config) -> AbstractContextManager[None]:
    """Every key=value line of the log names the run, so that runs can be told apart where their logs meet."""
    from jobs.runtime.log import configure_log, log_context

    configure_log(config.log)
    return log_context(run=f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.getpid()}")


def _failed(message: str, exit_code: int, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    print(f"xmtc-fusion: {'alarm' if exit_code >= AlarmError.exit_code else 'error'}: {message}", file=sys.stderr)
    return exit_code


def command() -> None:
    """The installed command. Databricks calls it as a function: it ignores what that returns, and takes any
    SystemExit for a failure."""
    code = main()
    if code:
        sys.exit(code)


def job_main(job: str) -> None:
    """For `spark-submit jobs/<job>.py ...`."""
    sys.exit(main([job, *sys.argv[1:]]))


if __name__ == "__main__":
    sys.exit(main())
