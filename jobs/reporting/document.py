"""A report as one list of sections: what each format renders, said once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from fusion.cells import SINGLE, Cell
from jobs.evaluation.result import UNSTEADY, Provenance
from jobs.reporting.additions import ADDITIONS_READING, ADDITIONS_TITLE, additions_table, drawings
from jobs.reporting.answer import (
    NEXT_TITLE,
    facts,
    headline,
    how_to_read,
    labelling_parts,
    recommended_name,
    standing_line,
    tie_line,
    winners_table,
)
from jobs.reporting.dataset import DatasetReport, Report
from jobs.reporting.findings import Example
from jobs.reporting.formats import aspect_name, cell_name, count, figure, full_metric_name, input_count_text, percent
from jobs.reporting.losses import (
    EXAMPLES_TITLE,
    LABELS_TITLE,
    SIGN,
    SLICE_TABLES,
    example_lists,
    example_title,
    label_tables,
    labels_of,
    loss_line,
    loss_lines,
    outcome_title,
    shown_examples,
    slice_table,
    unseen_lines,
)
from jobs.reporting.model import NightBanner, Standing
from jobs.reporting.parts import (
    Article,
    Bar,
    Card,
    Cards,
    Code,
    Columns,
    Facts,
    Fold,
    Group,
    Images,
    Lines,
    Part,
    Printed,
    Script,
    Section,
    Static,
    Text,
)
from jobs.reporting.published import published_parts
from jobs.reporting.strategies import (
    STRATEGIES_TITLE,
    band_tables,
    curve_lines,
    optimism_lines,
    pair_table,
    strategy_table,
)
from jobs.reporting.tables import (
    agreement_table,
    distinct_rows,
    fall_table,
    file_names,
    gain_table,
    grid_tables,
    overview_table,
    paper_tables,
    tie_table,
    warnings,
)
from jobs.settings.config import Config
from jobs.storage.stages import STAGE_NOTES
from jobs.storage.workspace import Workspace

LOSSES_SHOWN = 2
"""Losses that a card shows; the table below has all."""
CAPTIONS = {
    "grid": "All fusions: bold figures are not significantly different from the best, which is framed",
    "gain": "Gain of the best fusion over the best single retriever, with 95% intervals",
    "frequency": "Relevant labels found, by label frequency, with 95% intervals",
    "ranks": "Mean ranks; bars join cells that are not significantly different",
    "curve": "Gain over the cell chosen on all validation texts, by the number of these texts",
    "additions": "What each retriever adds to the others, with 95% intervals; small marks: to every subset of them",
    "agreement": "What the retrievers find together and alone, and the ceiling of any fusion",
}
"""Of the charts, by kind."""


Build = Callable[[DatasetReport], Iterable[Part]]


def document(report: Report, charts: Mapping[str, str] | None = None, *, examples: bool = True) -> list[Section]:
    """All that a report has to say. `charts`: where charts were drawn as files, by their names; without `examples`, it
    says only that there are some."""
    sets = report.datasets
    recommended = any(dataset.recommendation for dataset in sets)
    losses = "Where it loses" if recommended else "By label frequency"
    adds, strategies = "What each adds", any(dataset.strategies for dataset in sets)
    shown = _examples if examples else _no_examples
    sections = [
        *([night_section(report.night)] if report.night else []),
        Section(
            "answer",
            "Answer",
            _articles(sets, _answer, "Recommended: {}"),
            outro=[Printed([overview_table(report)])],
            hidden=True,
        ),
        Section("strategies", STRATEGIES_TITLE, _articles(sets, _strategies), outro=_curve(sets) if strategies else []),
        Section("losses", losses, _articles(sets, _losses, "{} against each retriever alone"), outro=[Script("bands")]),
        Section("labels", LABELS_TITLE, _articles(sets, _labels), link="Labels"),
        Section("additions", ADDITIONS_TITLE, _articles(sets, _additions), [Text(ADDITIONS_READING)], link=adds),
        Section("examples", EXAMPLES_TITLE, _articles(sets, shown), link="Single texts"),
        Section("results", "All cells", _articles(sets, partial(_results, report, charts or {})), [Script("results")]),
        Section("published", "Published figures", _articles(sets, published_parts), link="Published"),
        Section("compare", "Compare two cells", intro=[Script("compare")], link="Compare two"),
        Section("charts", "Charts", intro=[Script("charts")]),
        Section("reading", "How to read this", intro=[Facts(how_to_read(report))]),
        Section("run", "What was run", _articles(sets, _run)),
        Section("next", NEXT_TITLE, _articles(sets, labelling_parts)),
    ]
    needed = ("additions", "labels", "examples", "strategies", "published", "next")
    return [section for section in sections if section.articles or section.name not in needed]


def _articles(sets: Iterable[DatasetReport], build: Build, title: str = "") -> list[Article]:
    """Those that have something to say. `title` may hold what is recommended."""
    names = [recommended_name(one.recommendation) if one.recommendation else "" for one in sets]
    made = [
        Article(dataset.name, tuple(build(dataset)), title.format(name) if name else "")
        for dataset, name in zip(sets, names, strict=True)
    ]
    return [article for article in made if article.parts]


def night_section(night: NightBanner) -> Section:
    """What a page of a night begins with."""
    code = f"exit code {night.exit_code}" if night.exit_code else "no alarm"
    table = fall_table(night)
    lines = Lines(night.notes)
    title = night.headline
    said: list[Part] = [Text(f"Night {night.run_id}, {code}", "facts"), Text(title, "lead")]
    said += [*([table] if table else []), lines]
    style = f"night {'alarm' if night.exit_code else 'quiet'}"
    return Section("night", f"Night {night.run_id}: {title}", intro=said, hidden=True, style=style)


def _answer(dataset: DatasetReport) -> Iterator[Part]:
    """One sentence, what it is about, and a card per label group."""
    yield Text(facts(dataset), "facts")
    yield Text(headline(dataset), "lead")
    for warning in warnings(dataset):
        yield Text(warning, "warning")
    if dataset.recommendation:
        yield Cards(tuple(_card(standing, dataset) for standing in dataset.recommendation.standings))
    winners = winners_table(dataset)
    if winners:
        yield Fold("The winner of each label group and metric", [winners])


def _card(standing: Standing, dataset: DatasetReport) -> Card:
    group = standing.aspect.label_group
    sides = {standing.cell: standing.value}
    if standing.best != standing.cell:
        sides[standing.best] = standing.best_value
    sides |= {Cell(SINGLE, name): value for name, value in standing.singles.items()}
    start, end = scale([value.mean for value in sides.values()])
    bars = [
        Bar(cell_name(cell), figure(value), 100 * (value.mean - start) / (end - start), cell == standing.cell)
        for cell, value in sides.items()
    ]
    outcome = standing.verdict.outcome if standing.verdict else "not tested"
    losses = sorted(standing.losses, key=lambda loss: loss.share - loss.of_single)
    texts = [Text(f"The model file holds {standing.choice}", "small")] if standing.choice else []
    texts += [Text(standing_line(standing), outcome=outcome), Text(tie_line(dataset, standing), "small")]
    texts += [Text(f"Loses to {loss_line(loss, standing)}", "loses") for loss in losses[:LOSSES_SHOWN]]
    if len(losses) > LOSSES_SHOWN:
        texts.append(Text(count(len(losses) - LOSSES_SHOWN, "more loss", "more losses"), "loses", link="losses"))
    note = f"{full_metric_name(standing.aspect)}, {count(dataset.texts.get(group, 0), 'text')}"
    ends = percent(start, 0), percent(end, 0)
    return Card(labels_of(group), note, tuple(bars), ends, start == 0, tuple(texts))


def scale(means: list[float]) -> tuple[float, float]:
    """Where bars start and end. They start above zero where their differences would not be seen otherwise."""
    low, high = min(means), max(means)
    if high - low >= 0.25 * high:
        return 0.0, max(high, 0.01)
    step = 0.05 if high - low > 0.04 else 0.01
    start, end = math.floor(max(low - 0.6 * (high - low), 0) / step), math.ceil(high / step)
    # Where all values are the same full step, there must be room for a bar.
    return min(start, end - 1) * step, end * step


def _strategies(dataset: DatasetReport) -> Iterator[Part]:
    """What was chosen and learned on validation texts, and what that gives on test texts."""
    if not dataset.strategies:
        return
    yield strategy_table(dataset)
    yield Lines([*optimism_lines(dataset), *curve_lines(dataset)])
    pairs, bands = pair_table(dataset), list(band_tables(dataset))
    if pairs:
        yield Fold("Every two of them", [pairs])
    if bands:
        yield Fold("By label frequency", bands)


def _curve(sets: Sequence[DatasetReport]) -> list[Part]:
    return [Script("curve")] if any(group.curve for dataset in sets for group in dataset.strategies) else []


def _losses(dataset: DatasetReport) -> Iterator[Part]:
    """Where the recommended cell loses, in words, and every tested slice as tables."""
    if dataset.recommendation is None:
        return
    lines = [*loss_lines(dataset), *unseen_lines(dataset)]
    none = Text("These results hold no figures by label frequency or by text.")
    standings = dataset.recommendation.standings
    tables = [table for one in standings for by in SLICE_TABLES if (table := slice_table(dataset, one, by))]
    yield Lines(lines) if lines else none
    if tables:
        yield Fold("Every slice, with its test", tables)


def _labels(dataset: DatasetReport) -> Iterator[Part]:
    """The labels most helped and most hurt, one table per label group and retriever; the first one open."""
    for number, (title, table) in enumerate(label_tables(dataset)):
        yield Fold(title, [table], opened=number == 0)


def _additions(dataset: DatasetReport) -> Iterator[Part]:
    if dataset.additions:
        yield from drawings(dataset)
        yield Fold("As a table", [additions_table(dataset)])


def _examples(dataset: DatasetReport) -> Iterator[Part]:
    """The texts most helped and most hurt, each with its lists next to each other."""
    if dataset.examples:
        yield Text(
            f"{SIGN} and bold: a relevant label. Labels are followed by their scores. At most ten labels of each list "
            "are shown."
        )
    for group in shown_examples(dataset):
        columns = [
            Group(outcome_title(outcome), [*map(_example, examples)] or [Text("No text.")])
            for outcome, examples in group.by_outcome.items()
        ]
        yield Group(group.heading, [Columns(columns)])


def _example(example: Example) -> Fold:
    excerpt = [Text(example.excerpt, "quote")] if example.excerpt else []
    return Fold(example_title(example), [*excerpt, example_lists(example)])


def _no_examples(dataset: DatasetReport) -> Iterator[Part]:
    if dataset.examples:
        yield Text("Left out to keep this page small; the table examples.parquet of the results has them.")


def _results(report: Report, charts: Mapping[str, str], dataset: DatasetReport) -> Iterator[Part]:
    """Every figure, for readers without a script, and what a page draws with it."""
    name = file_names(other.name for other in report.datasets)[dataset.name]
    mine = {chart.partition("_")[2]: path for chart, path in charts.items() if chart.startswith(f"{name}_")}
    if mine:
        captions = {kind: CAPTIONS[kind.partition("-")[0]] for kind in mine}
        yield Images([(f"{captions[kind]}: {dataset.name}, {kind}", path) for kind, path in mine.items()])
    gains = [gain_table(dataset)] if dataset.gains else []
    yield Static([*gains, *grid_tables(report, dataset, distinct_rows(dataset))])
    printed: list[Part] = [tie_table(report, dataset)]
    if dataset.agreement:
        printed.append(Group("Agreement of the retrievers", [agreement_table(dataset)]))
    if dataset.paper:
        ranks = dataset.paper.rank_correlation.items()
        alike = ", ".join(f"{aspect_name(aspect)} {rank:.2f}" for aspect, rank in ranks)
        of_one = "" if len(dataset.folds) > 1 else " Its figures are means over five folds of all texts, ours of one."
        correlation = Text(f"Rank correlation of the fusions with {dataset.paper.table}: {alike}.{of_one}")
        printed.append(Group("Next to the paper", [correlation, Fold("Cell by cell", list(paper_tables(dataset)))]))
    yield Printed(printed)


def _read(config: Config) -> dict[str, str]:
    """How much of a text each retriever has read, where its lists come from the work folder."""
    lists, place = config.inputs.candidates, Workspace.of(config)
    known = [
        f"{name} {settings.reads}"
        for name, settings in config.retrievers.items()
        if settings.reads and isinstance(lists, dict) and lists.get(name) == place.candidate_lists(name)
    ]
    return {"read of each text": ", ".join(known)} if known else {}


def _made(made: Provenance) -> dict[str, str]:
    """What made the figures, as facts; a group of them on one line."""
    known = {name: value for name, value in made.items() if name not in UNSTEADY and value}
    shown = {name: _on_one_line(value) if isinstance(value, Mapping) else str(value) for name, value in known.items()}
    return shown | ({"seconds to evaluate": count(made["seconds"])} if "seconds" in made else {})


def _on_one_line(group: Mapping[str, Any]) -> str:
    """Facts of a group; its name, if it has one, needs no key."""
    return ", ".join(str(value) if key == "name" else f"{key} {value}" for key, value in group.items())


def _stage(stage: Mapping[str, Any]) -> str:
    notes = [f"{stage[name]:g} s" if name == "seconds" else str(stage[name]) for name in STAGE_NOTES if name in stage]
    return f"{stage['stage']} ({stage['fingerprint']}): {'; '.join(notes)}"


def _run(dataset: DatasetReport) -> Iterator[Part]:
    """Where the figures come from."""
    result = dataset.result
    yield Facts(
        {
            "metrics from": ", ".join(result.sources),
            "evaluated (UTC)": result.evaluated,
            "version": result.version,
            "folds": ", ".join(map(str, dataset.folds)),
            **_read(result.config),
            "texts that count": ", ".join(f"{group} {count(texts)}" for group, texts in dataset.texts.items()),
            **{input_count_text(key): count(number) for key, number in result.input_counts.items()},
            **_made(result.made),
        }
    )
    if stages := result.made.get("stages"):
        yield Fold("Stages", [Lines([_stage(stage) for stage in stages])])
    yield Fold("Configuration", [Code(dataset.config, "yaml")])
