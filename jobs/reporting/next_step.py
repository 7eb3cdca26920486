"""What comes after a report: a model that labels new texts and, once it is fitted, how good its probabilities are."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from jobs.evaluation.result import Result
from jobs.reporting.dataset import DatasetReport
from jobs.reporting.formats import count, percent
from jobs.reporting.parts import Code, Entry, Facts, Fold, Interval, Intervals, Part, Table, Text
from jobs.storage.folders import CONFIG_FILE

NEXT_TITLE = "Label new texts"
READING = (
    "Candidates of validation texts, in bins by their probability that expect as many relevant labels each; candidates "
    "count by their probability. The probabilities of one half of the texts come from the curves of the other half. "
    "Circle: the share of labels that are relevant. Stroke: the mean probability, on which the circle would be if "
    "every probability were right."
)
TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)


def labelling_parts(dataset: DatasetReport) -> Iterator[Part]:
    """How good the model is, where one was fitted; and the commands that fit a model on this dataset and apply it."""
    if dataset.look_at or dataset.result.config.prepare.format is None:
        return
    if dataset.fitted:
        yield Facts(_facts(dataset.fitted))
        yield Text(READING, "small")
        yield _diagram(dataset.fitted)
        yield Fold("As a table", [_table(dataset)])
    yield Text(
        "fit learns from all texts what was compared here over folds, with the fusion of tune or else the best cell "
        "on validation texts; predict labels texts that have no labels yet."
    )
    yield Code(commands(dataset.result), "bash")


def commands(result: Result) -> str:
    """For the terminal: fit on the dataset of these results, then label texts."""
    config = shlex.quote(f"{result.sources[0]}/{CONFIG_FILE}" if result.sources else "CONFIG")
    return (
        f"xmtc-fusion fit --config {config} --mode error --output model/\n"
        "xmtc-fusion predict --model model/ --texts new.jsonl --output labelled/"
    )


def _facts(fitted: Mapping[str, Any]) -> dict[str, str]:
    made = fitted["assignment"]
    return {
        "validation texts": count(fitted["texts"]),
        "calibration error": f"{percent(fitted['calibration_error'])} points in {fitted['bins']} bins of as many "
        f"candidates, {percent(fitted['expected_error'])} in {len(fitted['reliability'])} of as many expected labels; "
        f"without calibration {percent(fitted['uncalibrated_error'])}",
        "labels per text": f"{made['labels_per_text']:.2f}, with a probability of at least {made['threshold']:.2f} "
        f"and no more than {made['top']}",
        "texts without a label": count(made["texts_without"]),
        "F1": f"{percent(made['f1'])} (precision {percent(made['precision'])}, recall {percent(made['recall'])})",
    }


def _diagram(fitted: Mapping[str, Any]) -> Intervals:
    """The reliability diagram: a line per bin."""
    lines = [
        Interval(
            name=f"{percent(one['probability'])}%",
            words=f"{percent(one['frequency'])}% of {count(one['rows'], 'candidate')}",
            middle=100 * one["frequency"],
            ends=None,
            strokes=[100 * one["probability"]],
            filled=True,
        )
        for one in fitted["reliability"]
    ]
    return Intervals("How often labels of a probability are right", lines, 0.0, [(100 * at, f"{at:g}") for at in TICKS])


def _table(dataset: DatasetReport) -> Table:
    lines = [
        [
            Entry(f"{percent(one['lowest'])} to {percent(one['highest'])}"),
            *map(Entry, (count(one["rows"]), percent(one["probability"]), percent(one["frequency"]))),
        ]
        for one in dataset.fitted["reliability"]
    ]
    heads = ("probability", "candidates", "mean probability", "relevant")
    caption = f"{dataset.name}. Probabilities of validation candidates and the share that is relevant, in percent."
    return Table("reliability", caption, [(name,) for name in heads], "lrrr", [lines])
