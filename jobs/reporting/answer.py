"""The answer of a report: what to deploy, what speaks for it, and how to read the tables; and what comes next.

Next comes a model that labels new texts and, once it is fitted, how good its probabilities are.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fusion.cells import SINGLE, TUNED, Cell
from fusion.labels import ALL, HEAD, TAIL, parse_bounds
from jobs.evaluation.result import Result
from jobs.reporting.dataset import DatasetReport, Report
from jobs.reporting.formats import (
    SHORT_TESTS,
    TESTS,
    cell_name,
    count,
    evidence,
    figure,
    full_metric_name,
    joined,
    percent,
    points,
    shown_cell,
    verdict,
)
from jobs.reporting.formats import gain as gained
from jobs.reporting.losses import LOSES, labels_of, losing_words
from jobs.reporting.model import Recommendation, Standing, Verdict
from jobs.reporting.parts import Code, Entry, Facts, Fold, Interval, Intervals, Part, Table, Text
from jobs.reporting.tables import tested
from jobs.storage.folders import CONFIG_FILE

REGRET_RULE = (
    "of the cells that lose to a single retriever for the fewest pairs of label group and metric, the one with the "
    "smallest mean regret: its distance from the best cell, averaged over these pairs"
)


MODEL_RULE = (
    "what the model file of `tune` holds for each label group: of the strategies that are not significantly different "
    "from the best one, the best that loses in no band of label frequency, if there is one, all on texts held out from "
    "the choice; or the one that tune.deploy names"
)


def headline(dataset: DatasetReport) -> str:
    """One sentence: what to deploy, by how much, tied with what, and where it loses."""
    recommendation = dataset.recommendation
    if recommendation is None:
        return dataset.look_at or f"No fusion was evaluated on {dataset.name}."
    first, *others = recommendation.standings
    name, where = deployed_name(first), labels_of(first.aspect.label_group)
    if first.comparison is None or first.verdict is None or first.better_single is None:
        return f"Deploy {name}: {figure(first.value)} {full_metric_name(first.aspect)} on {where}, {_tied(first)}."
    better, gain = first.better_single, f"{points(first.comparison.difference)} {full_metric_name(first.aspect)}"
    over = f"{gain} over the best retriever ({better}) on {where}"
    tested = f" (tested over {count(first.verdict.texts or 0, 'text')})" if first.verdict.folds == 1 else ""
    sentence = {
        "better": f"Deploy {name}: {over}{tested}, {_tied(first)}",
        "worse": f"Do not fuse: {better} alone is better than {name} on {where} ({gain}{tested})",
        "not significantly different": f"No case for fusion yet: {name} is not significantly different from {better} "
        f"alone on {where} ({gain}{tested})",
        "tests disagree": f"No clear case for fusion: tests disagree whether {name} {_beats(first.verdict)} {better} "
        f"alone on {where} ({gain}; {evidence(first.verdict)}){tested}",
        "not tested": f"{name} leads, untested: {over}",
    }[first.verdict.outcome]
    return "; ".join([sentence, *_other_models(first, others), *_exceptions(others), *_losing(first)]) + "."


def deployed_name(standing: Standing) -> str:
    """The cell; of a tuned strategy, with the cell that it chose. What was learned needs more words than a name has."""
    name = cell_name(standing.cell)
    return f"{name} ({standing.choice})" if standing.cell.normalization == TUNED else name


def recommended_name(recommendation: Recommendation) -> str:
    """The cell, or one after the other where label groups have different ones."""
    return joined(list(dict.fromkeys(cell_name(standing.cell) for standing in recommendation.standings)))


def _other_models(first: Standing, others: Sequence[Standing]) -> list[str]:
    """Label groups for which the model file holds another strategy."""
    return [
        f"for {labels_of(other.aspect.label_group)}, {deployed_name(other)}"
        for other in others
        if other.cell != first.cell
    ]


def facts(dataset: DatasetReport) -> str:
    """What the sentence is about: the dataset, the date, texts and folds."""
    texts = dataset.texts.get(ALL) or max(dataset.texts.values(), default=0)
    parts = [
        dataset.name,
        dataset.result.evaluated.partition(" ")[0],
        count(texts, "text"),
        count(len(dataset.folds), "fold"),
    ]
    return " \N{MIDDLE DOT} ".join(parts)


def _tied(standing: Standing) -> str:
    if not standing.value.bold:
        return f"{percent(standing.best_value.mean - standing.value.mean)} below the best, {cell_name(standing.best)}"
    if standing.others_tied:
        return f"tied with {count(standing.others_tied, 'other')}"
    return "ahead of all others"


def _exceptions(standings: Sequence[Standing]) -> list[str]:
    """Label groups where the recommended cell is not better than the best retriever."""
    exceptions = []
    for standing in standings:
        judged = standing.verdict
        if judged is not None and judged.outcome in ("worse", "not significantly different", "tests disagree"):
            group = labels_of(standing.aspect.label_group)
            exceptions.append(f"{_compared_with(judged)} {standing.better_single} on {group}")
    return exceptions


def _compared_with(judged: Verdict) -> str:
    """A verdict as it stands before the name of a retriever: better than, not significantly different from."""
    if judged.outcome == "tests disagree":
        return f"tests disagree whether it {_beats(judged)}"
    link = {"not significantly different": "from", "not tested": "against"}
    return f"{verdict(judged).partition(' (')[0]} {link.get(judged.outcome, 'than')}"


def _beats(judged: Verdict) -> str:
    return "beats" if judged.higher else "loses to"


def _losing(standing: Standing) -> list[str]:
    """The slices where the cell loses, in few words."""
    words = losing_words(standing.losses)
    return [f"loses on {words}"] if words else []


def winners_table(dataset: DatasetReport) -> Table | None:
    """The recommended cell next to the winner of each aspect."""
    recommendation = dataset.recommendation
    if recommendation is None:
        return None
    values = {row.cell: row.values for row in dataset.rows}
    lines = []
    for aspect, winner in recommendation.winners.items():
        cell = recommendation.of(aspect.label_group) or recommendation.cell
        chosen, best = values[cell][aspect], values[winner][aspect]
        words = [aspect.label_group, full_metric_name(aspect), cell_name(winner), figure(best), figure(chosen)]
        regret = Entry(percent(best.mean - chosen.mean))
        lines.append([*map(Entry, words), regret, Entry("yes" if chosen.bold else "no")])
    name = recommended_name(recommendation)
    rule = MODEL_RULE if recommendation.deployed else REGRET_RULE
    header = ("labels", "metric", "winner", "its figure", name, "regret", "tied with the winner")
    return Table(
        "winners",
        f"{dataset.name}. Recommended: {name}, {rule}. Its mean regret is "
        f"{percent(recommendation.regret, 2)} points over {len(recommendation.winners)} distinct pairs.",
        [(name,) for name in header],
        "lllrrrl",
        [lines],
    )


def standing_line(standing: Standing) -> str:
    """The recommended cell against the best retriever, in one line."""
    if standing.comparison is None or standing.verdict is None or standing.better_single is None:
        return _tied(standing)
    single = cell_name(Cell(SINGLE, standing.better_single))
    _, bracket, reason = verdict(standing.verdict).partition(" (")
    said = f"{_compared_with(standing.verdict)} {single}: {gained(standing.comparison)} points"
    return f"{said}{bracket}{reason}"


def tie_line(dataset: DatasetReport, standing: Standing) -> str:
    """How the recommended cell stands among the others, and which test says so. The mean ranks are tested over texts,
    so a test over folds comes with what that test says."""
    if not standing.value.bold:
        return f"{_tied(standing)}, of {standing.cells} cells"
    several = f" ({standing.results} distinct results)" if standing.results < standing.cells else ""
    place = "the best" if standing.value.best else "not significantly different from the best"
    test = f" by the {SHORT_TESTS[dataset.test]}" if tested(dataset) else ""
    line = f"{place} of {standing.cells} cells{several}, {_tied(standing)}{test}"
    others = _others_in_ranks(dataset, standing)
    if dataset.test != "folds" or others is None:
        return line
    ties = count(others, "other") if others else "no other"
    return f"{line}; the t-test over texts (mean ranks) ties it with {ties}"


def _others_in_ranks(dataset: DatasetReport, standing: Standing) -> int | None:
    """Distinct fusions that the mean ranks join with the cell; None without mean ranks."""
    for ranking in dataset.rankings:
        if ranking.label_group == standing.aspect.label_group:
            cell = shown_cell(standing.cell)
            ties = [{shown_cell(other) for other in tie} for tie in ranking.ties]
            joined_cells = set().union(*(tie for tie in ties if cell in tie)) - {cell}
            return len({other for other in joined_cells if other.normalization != SINGLE})
    return None


def _what_groups_are(report: Report) -> str:
    """Which labels are in which group."""
    kinds = dict.fromkeys(kind for dataset in report.datasets if (kind := _grouping(dataset)))
    words = "; ".join([*kinds, "each group is ranked and measured on its own. All labels are fused as one list."])
    return words[0].upper() + words[1:]


def _grouping(dataset: DatasetReport) -> str:
    """Nothing for groups of one's own, which only their author knows."""
    settings = dataset.result.config.prepare
    if dataset.result.is_prepared and settings.label_groups:
        training = "training texts (validation texts do not count)"
        counted = training if settings.fold_count == 1 else "texts of the whole dataset"
        bounds = ", ".join(map(str, parse_bounds(settings.label_groups)))
        return f"labels of {dataset.name} are grouped by how many {counted} carry them: {bounds}"
    if {HEAD, TAIL} & set(dataset.texts):
        return "head labels are the most frequent ones, tail labels all the others"
    return ""


def how_to_read(report: Report) -> dict[str, str]:
    """What the words mean and how it was tested."""
    one = [dataset for dataset in report.datasets if len(dataset.folds) == 1 and tested(dataset)]
    decides = f"The bold face is decided by the {TESTS[report.test]}, at {report.alpha:g}."
    if one:
        names = ", ".join(dataset.name for dataset in one)
        decides += f" {names}: one fold leaves nothing for a test over folds, so the tests over texts decide."
    others = "; and the ".join(meaning for test, meaning in TESTS.items() if test != report.test)
    recommendations = [dataset.recommendation for dataset in report.datasets if dataset.recommendation]
    rules = []
    if any(not one.deployed for one in recommendations):
        protocol = "Only the paper's protocol counts (ideal ranking over all labels of a text)."
        rules.append(f"The fusion to use, if any: {REGRET_RULE}. {protocol}")
    if any(one.deployed for one in recommendations):
        rules.append(f"{MODEL_RULE[0].upper()}{MODEL_RULE[1:]}.")
    return {
        **({"Recommended": " ".join(rules)} if rules else {}),
        "Better, worse": "With several folds a gain is called better or worse only if the folds and the texts both say "
        "so; with one fold the texts decide. Gains come with a 95% interval over the texts, which, unlike p over "
        "texts, is not corrected for the number of comparisons. If only some of these find a difference, the verdict "
        "says that the tests disagree, and which ones do.",
        "Bold": f"{decides} The tables also show the {others}. The test weighs a difference by how much it varies: a "
        "lower figure that varies more may be bold where a higher one is not.",
        "Figures": "In percent: mean and, in brackets, standard deviation over the folds.",
        "Label groups": _what_groups_are(report),
        **({"Where it loses": LOSES} if recommendations else {}),
    }


NEXT_TITLE = "Label new texts"
READING = (
    "Candidates of validation texts, in bins by probability, with the same number of expected relevant labels in each. "
    "The probabilities of one half of the texts come from curves fitted on the other half. Circle: the share of labels "
    "that are relevant. Stroke: the mean probability, where the circle would be if all probabilities were right."
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
        "Type this in the folder where the job was run. fit trains on all texts, with the fusion that tune chose or "
        "else the best cell on validation texts; predict labels new texts."
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
