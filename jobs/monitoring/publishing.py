"""What a night leaves for people: its report, the trend of the watched figures, the summary, a run in MLflow."""

from __future__ import annotations

import json

from jobs import report
from jobs.config import Config
from jobs.monitoring.history import History
from jobs.monitoring.night import Night
from jobs.monitoring.night_verdict import summary_of, verdict_of
from jobs.monitoring.tracking import track
from jobs.monitoring.trend import trend_page
from jobs.reporting.night import night_report
from jobs.runtime.folders import ResultFolder, result_folder
from jobs.runtime.log import log
from jobs.runtime.workspace import Workspace
from jobs.settings import OutputSettings

SUMMARY, TREND = "summary.json", "trend.html"


def publish(history: History, config: Config, night: Night) -> None:
    """Write the pages and the summary into the night's folder, and pass the summary to MLflow."""
    if config.nightly.mlflow is not None:
        try:
            track(config.nightly.mlflow.reveal(), night.run_id, summary_of(night), config.to_yaml())
        # MLflow raises whatever its many kinds of stores raise, with an address that may hold a password.
        except Exception as error:
            night.problems.append(f"MLflow did not take the summary: {type(error).__name__}")
            log(night.problems[-1])
    settings = config.report.model_copy(update={"results": [evaluated.path for evaluated in night.evaluated.values()]})
    shown = config.model_copy(update={"report": settings})
    place = Workspace.of(config).night(night.run_id)
    with result_folder(OutputSettings(path=place, mode="overwrite"), shown) as folder:
        for what, write in (("no trend page", _trend), ("no report", _report)):
            try:
                write(history, shown, night, folder)
            # The summary is there all the same, and says what is missing.
            except Exception as error:
                night.problems.append(f"{what}: {error}")
                log(night.problems[-1])
        text = json.dumps(summary_of(night), indent=2, allow_nan=False) + "\n"
        folder.write_text(SUMMARY, text)


def _trend(history: History, config: Config, night: Night, folder: ResultFolder) -> None:
    folder.write_text(TREND, trend_page(history, config.nightly, verdict_of(night)))


def _report(history: History, config: Config, night: Night, folder: ResultFolder) -> None:
    """Datasets with grids of their own have no report in common; the night has its verdict all the same."""
    if night.evaluated:
        of_night = night_report(report.assembled(config), verdict_of(night))
        report.write(of_night, folder, report.can_draw(config.report), [("Night by night", TREND)])
