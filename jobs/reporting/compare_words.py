"""A comparison of two results, for the terminal, as Markdown and as a page."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from fusion.cells import SINGLE
from fusion.metrics import decisive_aspect
from jobs.reporting.answer import recommended_name
from jobs.reporting.compare import Change, Side, SideBySide
from jobs.reporting.formats import (
    NOTHING,
    aspect_name,
    cell_name,
    count,
    full_metric_name,
    joined,
    p_value,
    percent,
    points,
)
from jobs.reporting.formats import gain as gained
from jobs.reporting.model import Comparison, Outcome, group_order
from jobs.reporting.parts import Entry, Facts, Fold, Lines, Section, Table, Text
from jobs.reporting.renderers import markdown, page_html
from jobs.reporting.terminal import as_text
from jobs.storage.folders import csv_cells

SHOWN = 10
"""Fusions that a terminal shows of each label group."""
SAME = "the same"
OUTCOMES = {
    "better": "rose",
    "worse": "fell",
    "not significantly different": "not significantly different",
    "tests disagree": "test and interval disagree",
    "not tested": "not tested",
}
CSV_OUTCOMES: dict[Outcome, str] = {"not significantly different": "not told apart"}
"""What files say that programs read."""
READING = {
    "Change": "The mean over the texts that both results have, in points, with its 95% interval. The two figures "
    "next to it are over all texts of each result.",
    "Test": "Texts are hashed by id into sign blocks, and both results keep the sum of each. Blocks that hold the "
    "same texts with the same judgements in both are compared: random signs of whole blocks, two-sided, Holm-corrected "
    "over all figures that changed. Blocks with a text that only one result has, or that is judged otherwise, "
    "are left out.",
    "Rose, fell": "The change is significant by the test. Not significantly different: it is not. The same: no block "
    "differs. Test and interval disagree: it is not, but the 95% interval, which is not corrected, excludes 0.",
}


def headline(compared: SideBySide) -> str:
    """What became of the recommended fusion, in one sentence."""
    change = lead(compared)
    if change is None:
        return f"{compared.before.name} and {compared.after.name} have no figure in common."
    name = f"{cell_name(change.cell)}, {aspect_name(change.aspect)}"
    before, after = (
        f"{percent(change.before)} ({compared.before.name})",
        f"{percent(change.after)} ({compared.after.name})",
    )
    texts = compared.texts[change.aspect.label_group]
    if change.tested is None:
        return f"{name}: {before} and {after}. Not tested: {texts.refused}."
    if change.same:
        return f"{name} is the same in both, over {count(texts.common, 'text')}: {percent(change.after)}."
    difference = f"{_change(change)} over {count(texts.common, 'text')}, p {p_value(change.p)}"
    if change.outcome == "not significantly different":
        return f"{name}: {before} and {after} are not significantly different; {difference}."
    if change.outcome == "tests disagree":
        return f"{name}: {before} and {after}; the corrected test and the 95% interval disagree: {difference}."
    return f"{name} {OUTCOMES[change.outcome]} from {before} to {after}: {difference}."


def lead(compared: SideBySide) -> Change | None:
    """The decisive figure of the fusion that the second result recommends, or else of the best common cell."""
    first = [change for change in compared.changes if change.aspect == _decisive(compared.changes)]
    recommended = compared.after.dataset.recommendation
    for change in first:
        if recommended and cell_name(change.cell) == cell_name(recommended.cell):
            return change
    return first[0] if first else None


def _decisive(changes: Sequence[Change]) -> object:
    """Of all labels, where those were evaluated."""
    groups = sorted({change.aspect.label_group for change in changes}, key=group_order)
    of_last = (change.aspect for change in changes if change.aspect.label_group == groups[-1])
    return decisive_aspect(of_last) if groups else None


def notes(compared: SideBySide) -> list[str]:
    """What else a reader must know, a line each."""
    lines = []
    tested = compared.tested
    if tested:
        verdicts = [_verdict(change) for change in tested]
        numbers = {word: verdicts.count(word) for word in ("rose", "fell", "not significantly different", SAME)}
        parts = [f"{count(number)} {_verb(word, number)}" for word, number in numbers.items() if number]
        disagree = verdicts.count(OUTCOMES["tests disagree"])
        parts += [f"test and interval disagree about {count(disagree)}"] if disagree else []
        lines.append(f"Of {count(len(tested), 'figure')} that both have, {joined(parts)}.")
    lines += _text_notes(compared)
    for side in (compared.before, compared.after):
        recommendation = side.dataset.recommendation
        lines += [f"{side.name} recommends {recommended_name(recommendation)}."] if recommendation else []
    for side in (compared.before, compared.after):
        only = compared.only_in(side)
        lines += [f"Only in {side.name}: {joined([cell_name(cell) for cell in only])}."] if only else []
    different = [name for name, _, _ in compared.settings]
    lines.append(f"Settings that differ: {joined(different)}." if different else "No setting differs.")
    before, after = (side.dataset.result for side in (compared.before, compared.after))
    if compared.made:
        lines.append(f"Also different: {joined([name for name, _, _ in compared.made])}.")
    elif before.made and after.made:
        lines.append("Code, packages, processor, engine and inputs are the same.")
    if before.version != after.version:
        lines.append(f"The code differs, too: {before.version} and {after.version}.")
    return lines


def _verdict(change: Change) -> str:
    return SAME if change.same else OUTCOMES[change.outcome]


def _verb(word: str, number: int) -> str:
    """How many rose, fell and stayed the same."""
    return word if word in ("rose", "fell") else f"{'is' if number == 1 else 'are'} {word}"


def _text_notes(compared: SideBySide) -> Iterator[str]:
    for group, texts in compared.texts.items():
        numbers = f"{count(texts.before)} in {compared.before.name} and {count(texts.after)} in {compared.after.name}"
        if texts.refused:
            yield f"{group} labels: not tested, since {texts.refused} (texts: {numbers})."
        elif texts.common < max(texts.before, texts.after):
            yield (
                f"{group} labels: tested over {count(texts.common, 'text')} in sign blocks that are the same in both; "
                f"the other blocks hold texts that are new, gone or judged otherwise (texts: {numbers})."
            )


def _sides(compared: SideBySide) -> str:
    """What was compared."""
    parts = [
        f"{side.name} ({side.dataset.result.evaluated.partition(' ')[0]})" for side in (compared.before, compared.after)
    ]
    return f"{compared.after.dataset.name} \N{MIDDLE DOT} {' against '.join(parts)}"


def _change(change: Change) -> str:
    if change.tested is None:
        return points(change.after - change.before)
    if change.same:
        return NOTHING
    return gained(Comparison(change.tested.difference, change.tested.low, change.tested.high))


def compared_groups(compared: SideBySide) -> list[str]:
    """All labels first."""
    return sorted(compared.texts, key=group_order, reverse=True)


def decisive_table(compared: SideBySide, group: str, most: int | None = None) -> Table | None:
    """Every common cell by the decisive metric of a label group, the best of the second result first."""
    of_group = [change for change in compared.changes if change.aspect.label_group == group]
    if not of_group:
        return None
    aspect = decisive_aspect(change.aspect for change in of_group)
    ranked = sorted((change for change in of_group if change.aspect == aspect), key=lambda change: -change.after)
    singles = [change for change in ranked if change.cell.normalization == SINGLE]
    fused = [change for change in ranked if change.cell.normalization != SINGLE]
    lines = []
    for change in [*singles, *fused[:most]]:
        words = [cell_name(change.cell), percent(change.before), percent(change.after), _change(change)]
        significant = change.outcome in ("better", "worse")
        words.append(NOTHING if change.same else p_value(change.p))
        lines.append([*map(Entry, words), Entry(_verdict(change), bold=significant)])
    header = ("cell", compared.before.name, compared.after.name, "change [95%]", "p", "verdict")
    texts = count(compared.texts[group].common, "text")
    return Table(
        f"changes-{group}",
        f"{group} labels, {full_metric_name(aspect)} in percent; the change in points, over {texts} that both have.",
        [(name,) for name in header],
        "lrrrrl",
        [lines],
    )


def metrics_table(compared: SideBySide, group: str) -> Table | None:
    """The change of every metric; bold where it is significant."""
    of_group = [change for change in compared.changes if change.aspect.label_group == group]
    aspects = list(dict.fromkeys(change.aspect for change in of_group))
    if not aspects:
        return None
    changes = {(change.cell, change.aspect): change for change in of_group}
    lines = []
    for cell in dict.fromkeys(change.cell for change in of_group):
        entries = [changes.get((cell, aspect)) for aspect in aspects]
        lines.append([Entry(cell_name(cell)), *(_entry(change) for change in entries)])
    return Table(
        f"metrics-{group}",
        f"{group} labels: the change of every metric, in points; bold: significant; =: the same in both.",
        [("cell",), *((full_metric_name(aspect),) for aspect in aspects)],
        "l" + "r" * len(aspects),
        [lines],
    )


def _entry(change: Change | None) -> Entry:
    if change is None:
        return Entry("")
    difference = change.after - change.before if change.tested is None else change.tested.difference
    return Entry("=" if change.same else points(difference), bold=change.outcome in ("better", "worse"))


def difference_tables(compared: SideBySide) -> list[Table]:
    """The settings that differ, and what else does of what made the two, with both values."""
    tables = {
        "settings": ("setting that differs", compared.settings),
        "made": ("what else differs", compared.made),
    }
    return [
        Table(
            name,
            "",
            [(column,) for column in (title, compared.before.name, compared.after.name)],
            "lll",
            [[[Entry(what), Entry(str(one)), Entry(str(other))] for what, one, other in differences]],
        )
        for name, (title, differences) in tables.items()
        if differences
    ]


def changes_csv(compared: SideBySide) -> str:
    """Every figure of both results, shares of 1 in full precision."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = ["label_group", "metric", "k", "normalization", "fusion", "before", "after"]
    writer.writerow([*names, "difference", "low", "high", "p", "p_holm", "outcome"])
    for change in compared.changes:
        tested = change.tested or (None, None, None, None)
        figures = change.before, change.after, *tested, change.p, CSV_OUTCOMES.get(change.outcome, change.outcome)
        writer.writerow(csv_cells([*change.aspect[:3], *change.cell, *figures]))
    return text.getvalue()


def run_lines(side: Side) -> str:
    """Where one of the results comes from."""
    dataset = side.dataset
    texts = ", ".join(f"{count(number, 'text')} ({group} labels)" for group, number in dataset.texts.items())
    result = dataset.result
    return f"{side.name}: {', '.join(result.sources)}, {result.evaluated} UTC, version {result.version}; {texts}"


def comparison(compared: SideBySide, shown: int | None = None) -> list[Section]:
    """All that there is to say, by section. `shown`: how many fusions of each label group are not folded away."""
    groups = compared_groups(compared)
    sides = compared.before, compared.after
    return [
        Section(
            "answer",
            "Answer",
            intro=[Text(_sides(compared), "facts"), Text(headline(compared), "lead"), Lines(notes(compared))],
            hidden=True,
            style="answer",
        ),
        Section("changes", "Changes", intro=[t for group in groups if (t := decisive_table(compared, group, shown))]),
        Section(
            "metrics",
            "Every metric",
            intro=[
                Fold(
                    f"{group} labels",
                    [table for table in (decisive_table(compared, group) if shown else None, metrics) if table],
                )
                for group in groups
                if (metrics := metrics_table(compared, group))
            ],
        ),
        Section("reading", "How to read this", intro=[Facts(READING)]),
        Section(
            "run",
            "What was compared",
            intro=[Lines([run_lines(side) for side in sides]), *difference_tables(compared)],
        ),
    ]


def change_page(compared: SideBySide) -> str:
    """The page."""
    return page_html(compared.title, _heading(compared), compared.version, comparison(compared))


def change_markdown(compared: SideBySide) -> str:
    """The same for a pull request."""
    return markdown(compared.title, _heading(compared), comparison(compared, SHOWN), compared.version)


def terminal(compared: SideBySide) -> str:
    """The lines that matter."""
    answer, changes, *_, run = comparison(compared, SHOWN)
    return as_text([*answer.intro, *changes.intro, *run.intro[1:]])


def _heading(compared: SideBySide) -> str:
    return f"{compared.after.dataset.name}: {compared.before.name} and {compared.after.name}"
