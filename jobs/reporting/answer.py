"""The answer of a report: what to deploy, what speaks for it, and how to read the tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import get_args

from fusion.cells import SINGLE, TUNED, Cell
from fusion.labels import ALL
from fusion.statistics.coverage import FEWEST_PAIRS
from jobs.reporting.dataset import DatasetReport, Report
from jobs.reporting.formats import (
    MINUS,
    NOTHING,
    SHORT_TESTS,
    TESTS,
    cell_name,
    count,
    evidence,
    figure,
    full_metric_name,
    joined,
    p_value,
    percent,
    points,
    shown_cell,
    span,
    verdict,
)
from jobs.reporting.formats import gain as gained
from jobs.reporting.model import OF_TEXTS, By, LabelChange, Recommendation, Slice, Standing, Verdict, group_order
from jobs.reporting.parts import Entry, Table
from jobs.reporting.safety import safety_line
from jobs.reporting.tables import tested

REGRET_RULE = (
    "of the cells that lose to a single retriever in the fewest aspects (a label group and a metric), the one with "
    "the smallest mean regret: its distance from the best cell of an aspect, averaged over all aspects"
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


def labels_of(group: str) -> str:
    return f"{group} labels"


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


def losing_words(losses: Sequence[Slice]) -> str:
    """Labels with up to 8 texts and texts with 1 label; nothing where it never loses."""
    where = []
    for by in get_args(By):
        losing = ranges([loss for loss in losses if loss.by == by])
        where += [_where(by, losing)] if losing else []
    return joined(where)


def ranges(losses: Sequence[Slice]) -> list[str]:
    """Slices that follow each other as one: "up to 26", "58 to 86", "11 or more"."""
    ends: list[list[int | None]] = []
    last: int | None = -1
    for loss in sorted({(loss.low, loss.high if loss.high is not None else -1) for loss in losses}):
        low, high = loss[0], None if loss[1] == -1 else loss[1]
        if ends and last is not None and low <= last + 1:
            ends[-1][1] = high
        else:
            ends.append([low, high])
        last = high
    return [_range(low or 0, high) for low, high in ends]


def _range(low: int, high: int | None) -> str:
    if high is None:
        return f"{count(low)} or more"
    return f"up to {count(high)}" if low <= 1 and high > 1 else span(low, high)


def loss_lines(dataset: DatasetReport) -> list[str]:
    """A line per label group: where the recommended cell loses to a single retriever, or that it nowhere does."""
    lines = []
    for standing in dataset.recommendation.standings if dataset.recommendation else ():
        group = labels_of(standing.aspect.label_group)
        judged = [one for one in standing.slices if one.outcome != "not tested"]
        if standing.losses:
            lines += [f"{group}: loses to {loss_line(loss, standing)}" for loss in standing.losses]
        elif judged:
            lines.append(f"{group}: in none of {len(judged)} tested slices does it lose to a single retriever")
        if standing.best_losses:
            best = f"{cell_name(standing.best)}, the winner of {full_metric_name(standing.aspect)}"
            lines.append(f"{group}: {best}, loses on {losing_words(standing.best_losses)}")
        if standing.safety is not None:
            lines.append(f"{group}: {safety_line(standing.safety, cell_name(standing.cell))}")
    return lines


def loss_line(loss: Slice, standing: Standing) -> str:
    """The retriever, where, by how much, over how many, and whether that can be chance."""
    of_texts = loss.by in OF_TEXTS
    what = full_metric_name(standing.aspect) if of_texts else f"found in the first {loss.k}"
    unit = "text" if of_texts else "pair"
    return (
        f"{loss.single} on {_where(loss.by, [slice_range(loss)])}: {percent(loss.share)} against "
        f"{percent(loss.of_single)} {what} ({count(loss.number, unit)}, p {p_value(loss.p)})"
    )


def _where(by: By, ranges: list[str]) -> str:
    """Labels with 4-8 texts, texts with 1 label or up to 20 words, or labels without a training text."""
    if by == "unseen":
        return "labels without a training text"
    units: dict[By, str] = {"frequency": "text", "text labels": "label", "text words": "word"}
    what, unit = "texts" if by in OF_TEXTS else "labels", units[by]
    return f"{what} with {joined(ranges)} {unit}{'s' * (ranges != ['1'])}"


def slice_range(loss: Slice) -> str:
    if loss.high is None:
        return f"{count(loss.low)} or more"
    return span(loss.low, loss.high) if loss.low else f"up to {count(loss.high)}"


SLICE_TABLES: tuple[By, ...] = ("frequency", *OF_TEXTS)
"""What there is a table of slices by; labels without a training text stand in that of frequencies."""


def slice_table(dataset: DatasetReport, standing: Standing, by: By) -> Table | None:
    """The recommended cell beside each single retriever, from the rarest labels or the smallest texts on."""
    kinds = ("unseen", "frequency") if by == "frequency" else (by,)
    slices = [part for part in standing.slices if part.by in kinds]
    if not slices:
        return None
    frequency = by == "frequency"
    lines = []
    for part in slices:
        moved = NOTHING if part.more is None else f"{count(part.more)} / {count(part.fewer or 0)}"
        words = [
            "no training text" if part.by == "unseen" else slice_range(part),
            *([count(part.labels or 0)] if frequency else []),
            count(part.number),
            part.single,
        ]
        words += [percent(part.share), percent(part.of_single), points(part.share - part.of_single)]
        words += [*([moved] if frequency else []), p_value(part.p)]
        loses = part.outcome == "worse"
        lines.append([*map(Entry, words), Entry("loses" if loses else part.outcome, bold=loses)])
    what = f"relevant labels found in the first {slices[0].k}" if frequency else full_metric_name(standing.aspect)
    counted = "words" if by == "text words" else "labels"
    first = ["texts per label", "labels", "pairs"] if frequency else [f"{counted} per text", "texts"]
    header = [*first, "against", cell_name(standing.cell), "alone", "difference"]
    header += [*(["texts with more / fewer"] if frequency else []), "p", "verdict"]
    group = labels_of(standing.aspect.label_group)
    title = "label frequency" if frequency else f"number of {counted} per text"
    return Table(
        f"{by.replace(' ', '-')}-{standing.aspect.label_group}",
        f"{dataset.name}, {group}: {cell_name(standing.cell)} beside each retriever by {title}; {what}, in percent.",
        [(name,) for name in header],
        "r" * len(first) + "lrrr" + ("rr" if frequency else "r") + "l",
        [lines],
    )


def winners_table(dataset: DatasetReport) -> Table | None:
    """The recommended cell beside the winner in each aspect."""
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
        f"{percent(recommendation.regret, 2)} points over {len(recommendation.winners)} distinct aspects.",
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
    so what that test says stands beside a test over folds."""
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


LABELS_TITLE = "Labels most helped and most hurt"
NO_TRAINING_TEXTS = (
    "Which labels have no training text is not known here: the inputs do not say which texts trained the retrievers "
    "(a table of folds with roles would)."
)


def label_tables(dataset: DatasetReport) -> Iterator[tuple[str, Table]]:
    """One table per label group and retriever, with a title: the labels helped, then those hurt. All labels come first,
    and the best retriever."""
    standings = dataset.recommendation.standings if dataset.recommendation else ()
    better = {(one.aspect.label_group, one.better_single) for one in standings}
    ordered = sorted(
        dataset.labels,
        key=lambda one: (
            -group_order(one.label_group),
            one.label_group,
            (one.label_group, one.retriever) not in better,
            one.retriever,
        ),
    )
    for (group, retriever), changes in groupby(ordered, key=lambda one: (one.label_group, one.retriever)):
        of_table = list(changes)
        first = of_table[0]
        sides = f"found by {cell_name(first.cell)}", f"by {retriever} alone"
        yield (
            f"{group} labels, against {retriever} alone",
            Table(
                f"labels-{group}-{retriever}",
                f"{dataset.name}, {group} labels: {cell_name(first.cell)} against {retriever} alone; relevant pairs of "
                f"text and label found in the first {first.k}.{_bound(of_table)}",
                [(name,) for name in ("outcome", "label", "pairs", *sides, "change, in pairs")],
                "llrrrr",
                [
                    [_line(change) for change in of_outcome]
                    for _, of_outcome in groupby(of_table, key=lambda one: one.outcome)
                ],
            ),
        )


def _line(change: LabelChange) -> list[Entry]:
    moved = change.found - change.retriever_found
    label = f"{change.name} ({change.label_id})" if change.name else change.label_id
    hits = [f"{count(number)} ({percent(number / change.pairs)}%)" for number in (change.found, change.retriever_found)]
    words = [change.outcome, label, count(change.pairs), *hits, f"{moved:+,}".replace("-", MINUS)]
    return [Entry(word) for word in words]


def _bound(changes: list[LabelChange]) -> str:
    """Among which labels these were chosen, where another label could belong to them."""
    smallest = min(abs(change.found - change.retriever_found) for change in changes)
    if changes[0].most_unwatched <= smallest:
        return ""
    return (
        f" Chosen among the {count(changes[0].watched)} most frequent labels; every other one has "
        f"{count(changes[0].most_unwatched)} pairs or fewer."
    )


def unseen_lines(dataset: DatasetReport) -> list[str]:
    """A line per label group: the pairs whose label has no training text, and who finds them all the same."""
    recommendation = dataset.recommendation
    if recommendation is None or not dataset.bands:
        return []
    if dataset.unseen is None:
        return [NO_TRAINING_TEXTS]
    if not dataset.unseen:
        return ["Every label of a test text has a training text in its fold."]
    return [line for standing in recommendation.standings for line in _unseen_line(dataset, standing)]


def _unseen_line(dataset: DatasetReport, standing: Standing) -> Iterator[str]:
    group = standing.aspect.label_group
    band = (dataset.unseen or {}).get(group)
    if band is None:
        return
    pairs = band.pairs + sum(other.pairs for other in dataset.bands.get(group, ()))
    cells = [*(Cell(SINGLE, name) for name in standing.singles), standing.cell]
    deepest = max(next(iter(band.found.values())))
    shares = [f"{cell_name(cell)} {percent(band.found[cell][deepest].value)}%" for cell in cells if cell in band.found]
    yield (
        f"{group} labels: {count(band.pairs)} of {count(pairs)} relevant pairs ({percent(band.pairs / pairs)}%) have a "
        "label without a training text, which no retriever over training texts can return. Found in the first "
        f"{deepest}: {joined(shares)}."
    )


LOSES = (
    "By label frequency: how many relevant labels of each text either of the two ranks among its "
    "first k, by a sign test over texts, which keeps the labels of a text together. By the number of labels, or "
    "of words, of a text: texts, by the paired t-test. All are Holm-corrected over the slices. Tenths of labels "
    f"with fewer than {FEWEST_PAIRS} pairs are joined with their neighbour. Words are counted where the judgements "
    "tell them."
)


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
        rule = f"{REGRET_RULE[0].upper()}{REGRET_RULE[1:]}"
        rules.append(f"{rule}. Only the paper's protocol counts (ideal ranking over all labels of a text).")
    if any(one.deployed for one in recommendations):
        rules.append(f"{MODEL_RULE[0].upper()}{MODEL_RULE[1:]}.")
    return {
        **({"Recommended": " ".join(rules)} if rules else {}),
        "Better, worse": "With several folds a gain is called better or worse only if the folds and the texts both say "
        "so; with one fold the texts decide. Gains stand with their 95% interval over the texts, which, unlike p "
        "over texts, is not corrected for the number of comparisons. Where only some of these find a difference, "
        "the verdict says that tests disagree, and which.",
        "Bold": f"{decides} Beside it stand the {others}. The test weighs a distance by how much it varies: a lower "
        "figure that varies may be bold where a higher one is not.",
        "Figures": "In percent: mean and, in brackets, standard deviation over the folds.",
        "Label groups": "Head labels are the most frequent ones, tail labels all the others; each group is ranked and "
        "measured on its own. All labels are fused as one list.",
        **({"Where it loses": LOSES} if recommendations else {}),
    }
