"""The command line: `xmtc-fusion <job> [--config FILE] [--set a.b=c ...]`."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from fusion.errors import AlarmError, ConfigError, InputError, SetupError, XmtcError, check_all, visible
from jobs.help import HELP, given_settings, parsed
from jobs.runtime import signals

if TYPE_CHECKING:
    from jobs.nights.night import Night
    from jobs.settings.config import Config


def _check_places(config: Config, *checks: Callable[[], object]) -> None:
    """Make these checks, and see that stages and results may be written: a refusal should not cost hours of work."""
    from jobs.storage.folders import check_output
    from jobs.storage.workspace import check_work

    check_all(*checks, lambda: check_output(config.output), lambda: check_work(config))


def _check_dataset(config: Config) -> None:
    """The settings and the files of a job that reads the dataset's files."""
    from jobs.datasets.formats import check_settings
    from jobs.inputs.local_files import check_files, dataset_files

    check_all(lambda: check_settings(config.prepare), lambda: check_files(config.spark, dataset_files(config.prepare)))


def _check_retrievers(config: Config) -> None:
    """Only where the work is done on this machine: others have packages of their own."""
    from jobs.inputs.local_files import reads_this_machine
    from jobs.retrievers.driver import check

    if reads_this_machine(config.spark):
        check(config)


def _check_results(config: Config) -> None:
    """The inputs and the place of the results of a job that reads lists."""
    from jobs.inputs.local_files import check_files, input_files
    from jobs.storage.folders import check_output

    check_all(lambda: check_files(config.spark, input_files(config.inputs)), lambda: check_output(config.output))


def _say(text: str) -> None:
    """Print what may hold names and paths of others."""
    print(visible(text, lines=True))


def evaluate(config: Config) -> None:
    from jobs.evaluation import evaluate as job
    from jobs.inputs.stages import with_inputs
    from jobs.reporting.terminal import summary
    from jobs.storage.workspace import Workspace

    _check_results(config)
    config = with_inputs(config, Workspace.of(config).results)
    _say(summary(job.run(None, config), config))


def tune(config: Config) -> None:
    from jobs.inputs.stages import with_inputs
    from jobs.reporting.terminal import summary
    from jobs.storage.workspace import Workspace
    from jobs.tuning import tune as job

    _check_results(config)
    config = with_inputs(config, Workspace.of(config).tuned)
    _say(summary(job.run(None, config), config))


def fit(config: Config) -> None:
    from jobs.prediction import fit as job
    from jobs.storage.workspace import check_work

    from_files = [lambda: _check_dataset(config)] if config.prepare.format is not None else []
    check_all(lambda: job.check(config), *from_files, lambda: _check_retrievers(config), lambda: check_work(config))
    job.run_stages(config)
    _say(f"The model is in {config.output.path}")


def predict(config: Config) -> None:
    from jobs.prediction import predict as job

    _say(f"{job.run(config):,} labels written to {config.output.path}")


def fuse(config: Config) -> None:
    from jobs.evaluation import fuse as job
    from jobs.inputs.stages import with_inputs

    _check_results(config)
    lists = job.run(None, with_inputs(config))
    _say(f"{lists:,} fused lists written to {config.output.path}")


def explain(config: Config) -> None:
    from jobs.evaluation import explain as job
    from jobs.reporting.terminal import terminal

    _check_results(config)
    _say(terminal(job.run(None, config), config.explain.rows))


def prepare(config: Config) -> None:
    from jobs.datasets import prepare as job
    from jobs.datasets.prepared import dataset_engine

    _check_places(config, lambda: _check_dataset(config))
    _say(job.summary(job.run(dataset_engine(config), config), config.prepare.paper))


def retrieve(config: Config) -> None:
    from jobs.datasets.prepared import prepared_engine
    from jobs.retrievers import driver as job
    from jobs.storage.workspace import Workspace, check_prepared

    prepared = Workspace.of(config).prepared
    _check_places(config, lambda: check_prepared(prepared), lambda: _check_retrievers(config))
    for name, lists in job.run(prepared_engine(config), config).items():
        _say(f"{name} candidates are in {lists}")


def run(config: Config) -> None:
    from jobs.evaluation import pipeline as job
    from jobs.reporting.report import check_charts
    from jobs.reporting.terminal import summary

    ours = (lambda: check_charts(config.report), lambda: _check_dataset(config), lambda: _check_retrievers(config))
    _check_places(config, *ours)
    _say(summary(job.run(None, config), job.with_results(config)))
    job.announce(config, job.REPORT)
    report(job.reported(config))


def report(config: Config) -> None:
    from jobs.reporting import report as job
    from jobs.storage.folders import check_output

    check_output(config.output)
    if config.report.compare:
        from jobs.reporting.compare_words import terminal

        page, compared = job.compare(config)
        _say(f"{terminal(compared)}\n")
    else:
        page = job.run(config)
    _say(f"The report's page is {page}")


def nightly(config: Config) -> None:
    from jobs.nights import nightly as job

    _told(job.run(None, config))


def _told(night: Night) -> None:
    """Print how a night went; an alarm is an error."""
    if night.exit_code:
        raise AlarmError(str(night), night.exit_code)
    _say(str(night))


def nightly_action(config: Config, words: Sequence[str], dataset: str | None, because: str) -> None:
    """Ask about past nights, decide about them, or make one again."""
    from jobs.nights import commands
    from jobs.nights import nightly as job

    action, *nights = words
    history = job.history_of(None, config)
    if action == "status" and not nights:
        _say(commands.status(history))
    elif action == "show" and len(nights) == 1:
        _say(commands.show(history, nights[0]))
    elif action == "compare" and len(nights) == 2:
        _say(commands.compare(history, *nights))
    elif action == "rerun" and len(nights) == 1:
        _told(job.rerun(None, config, nights[0], dataset))
    elif action == "accept" and len(nights) == 1:
        _say(commands.accept(history, nights[0], dataset, because))
    elif action == "pin" and len(nights) <= 1:
        _say(commands.pin(history, nights[0] if nights else None, because))
    else:
        raise ConfigError(f"nightly {' '.join(words)}: expected one of {', '.join(HELP['nightly'].actions)}")


def init(config: Config, file: str, given: Mapping[str, Any]) -> None:
    """Write a configuration for a file of texts; what is not given of its columns is guessed."""
    from jobs.datasets import guess as job

    columns = {name: given[f"prepare.columns.{name}"] for name in job.COLUMNS if f"prepare.columns.{name}" in given}
    content, lines = job.run(file, config.output.path, columns)
    print("\n".join(lines), end="\n\n", file=sys.stderr if config.output.path is None else sys.stdout)
    print(content, end="")
    if config.output.path is not None:
        _say(f"\nWritten to {config.output.path}. Next: xmtc-fusion run --config {config.output.path}")


def doctor(config: Config) -> None:
    from jobs.engines import doctor as job

    problems = job.run(config)
    if problems:
        raise SetupError(f"{problems} problem{'s' * (problems > 1)} found")


def show_config(config: Config) -> None:
    from jobs.settings.reference import commented_yaml

    print(commented_yaml(config), end="")


# Jobs import Spark when they run, so that --help and wrong settings answer at once.
JOBS: dict[str, Callable[[Config], None]] = {
    "run": run,
    "fit": fit,
    "predict": predict,
    "evaluate": evaluate,
    "fuse": fuse,
    "tune": tune,
    "explain": explain,
    "report": report,
    "nightly": nightly,
    "prepare": prepare,
    "retrieve": retrieve,
    "doctor": doctor,
    "config": show_config,
}


STAGED = ("run", "prepare", "retrieve")
"""Jobs that leave stages behind."""


def settings_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings that options stand for."""
    return {setting: value for setting, value, _ in given_settings(arguments)}


def _configured(arguments: argparse.Namespace) -> Config:
    from jobs.settings.config import load_config

    options = {setting: option for setting, _, option in given_settings(arguments)}
    return load_config(arguments.config, settings_of(arguments), options)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a job; the exit code."""
    try:
        with signals.stoppable():
            return _finished(parsed(argv))
    except KeyboardInterrupt as stop:
        # A terminal shows ^C, perhaps at the end of a line about progress.
        begin = "\n" if sys.stderr.isatty() else ""
        words = "stopped; what is finished is kept, and the same command goes on from there"
        print(f"{begin}xmtc-fusion: {words}", file=sys.stderr)
        return signals.exit_code(stop)


def _finished(arguments: argparse.Namespace) -> int:
    """Run a job to its end or to an error, which is printed; the exit code."""
    try:
        config = _configured(arguments)
        with _named_run(config):
            _run(arguments, config)
    except XmtcError as error:
        return _failed(str(error), error.exit_code, arguments.debug)
    except Exception as error:
        from jobs.engines.errors import spark_errors, spark_reason, unreadable

        if not isinstance(error, spark_errors()):
            return _failed(f"unexpected: {error!r} (--debug shows where)", 1, arguments.debug)
        reason = spark_reason(error)
        if unreadable(reason):
            return _failed(f"cannot read an input: {reason}", InputError.exit_code, arguments.debug)
        return _failed(f"Spark failed: {reason} (--debug shows where)", 1, arguments.debug)
    return 0


def _run(arguments: argparse.Namespace, config: Config) -> None:
    from jobs.engines.credentials import configure_storage

    configure_storage(config)
    if getattr(arguments, "action", None):
        nightly_action(config, arguments.action, arguments.dataset, arguments.because)
    elif arguments.job == "init":
        init(config, arguments.file, settings_of(arguments))
    else:
        JOBS[arguments.job](config)
    if arguments.job in STAGED:
        from jobs.storage.workspace import Workspace, sweep

        sweep(Workspace.of(config).folder, config.work.keep, config.work.keep_hours)


def _named_run(config: Config) -> AbstractContextManager[None]:
    """Every key=value line of the log names the execution: logs of several may meet in one place."""
    from jobs.runtime.log import configure_log, log_context

    configure_log(config.log)
    return log_context(run=f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.getpid()}")


def _failed(message: str, exit_code: int, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    if exit_code >= AlarmError.exit_code:
        print(f"xmtc-fusion: alarm: {message}", file=sys.stderr)
    else:
        # A name with a line break in it cannot begin a line that looks like one of ours.
        shown = re.sub(r"\n(?! )", "\n  ", visible(message, lines=True))
        print(f"xmtc-fusion: error: {shown}", file=sys.stderr)
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
