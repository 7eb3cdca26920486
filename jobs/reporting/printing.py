"""The tables of a report, printed as Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping
from itertools import groupby

from fusion.labels import ALL
from fusion.metrics import Aspect
from jobs.reporting.additions import ADDITIONS_TITLE, additions_table
from jobs.reporting.answer import (
    LABELS_TITLE,
    SLICE_TABLES,
    deployed_name,
    facts,
    headline,
    how_to_read,
    label_tables,
    labels_of,
    loss_lines,
    recommended_name,
    slice_table,
    standing_line,
    tie_line,
    unseen_lines,
    winners_table,
)
from jobs.reporting.dataset import DatasetReport, Report
from jobs.reporting.examples import EXAMPLES_TITLE, SIGN, example_lists, example_title, outcome_title, shown_examples
from jobs.reporting.formats import MINUS, NOTHING, aspect_name, count, input_count_text
from jobs.reporting.night import NightBanner
from jobs.reporting.strategies import (
    STRATEGIES_TITLE,
    band_tables,
    curve_lines,
    optimism_lines,
    pair_table,
    strategy_table,
)
from jobs.reporting.tables import (
    BEST,
    Entry,
    Table,
    agreement_table,
    fall_table,
    file_names,
    gain_table,
    grid_tables,
    overview_table,
    paper_tables,
    tie_table,
    warnings,
)
from jobs.storage.folders import code_span, csv_cells, escape, fenced, one_line

CAPTIONS = {
    "grid": "All fusions: bold figures are not told apart from the best, which is framed",
    "gain": "Gain of the best fusion over the best single retriever, with 95% intervals",
    "frequency": "Relevant labels found, by label frequency, with 95% intervals",
    "ranks": "Mean ranks; bars join cells that are not told apart",
    "curve": "Gain over the cell chosen on all validation texts, by the number of these texts",
    "additions": "What each retriever adds to the others, with 95% intervals; small marks: to every subset of them",
    "agreement": "What the retrievers find together and alone, and the ceiling of any fusion",
}
"""Of the charts, by kind."""
LATEX = {sign: f"\\{sign}" for sign in "&%$#_{}"} | {sign: f"${sign}$" for sign in "<>|"}
LATEX |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
# At the start of a line these two would be read as options of the line break.
LATEX |= {sign: f"{{{sign}}}" for sign in "[*"}
LATEX |= {MINUS: "$-$", NOTHING: "--", BEST: "underlined"}


def dataset_csv(dataset: DatasetReport) -> str:
    """One line per cell, shares of 1 in full precision: tail_ndcg@10_mean, tail_ndcg@10_std and so on."""
    aspects: dict[Aspect, str] = {}
    for aspect in dataset.aspects:
        ideal = "" if aspect.ideal == ALL else f"_ideal-{aspect.ideal}"
        aspects[aspect] = f"{aspect.label_group}_{aspect.metric_at_k}{ideal}"
    fields = ["mean", "std", "best", "bold", *(["paper_mean", "paper_std"] if dataset.paper else [])]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [f"{name}_{field}" for name in aspects.values() for field in fields]
    writer.writerow(csv_cells(["dataset", "normalization", "fusion", *names]))
    for row in dataset.rows:
        line: list[object] = [dataset.name, *row.cell]
        for aspect in aspects:
            value = row.values.get(aspect)
            line += [value.mean, value.std, int(value.best), int(value.bold)] if value else [None] * 4
            if dataset.paper:
                line += dataset.paper.values.get((row.cell, aspect), (None, None))
        writer.writerow(csv_cells(line))
    return text.getvalue()


def latex(table: Table, label: str) -> str:
    """A float that needs the package booktabs.

    In small type and with narrow gaps the paper's table is 7 inches wide; it is centred even on a narrower text.
    """
    lines = [r"\begin{table*}[p]", r"\scriptsize\setlength{\tabcolsep}{2pt}"]
    caption = _tex(table.caption) + "".join(rf" \textbf{{Warning: {_tex(warning)}.}}" for warning in table.warnings)
    lines += [rf"\caption{{{caption}}}\label{{tab:{label}}}\smallskip"]
    lines += [rf"\makebox[\linewidth]{{\begin{{tabular}}{{@{{}}{table.align}@{{}}}}", r"\toprule"]
    *upper, lowest = zip(*table.header, strict=True)
    for level in range(len(upper)):
        spans, rules, at = [], [], 1
        for heading, columns in groupby(header[: level + 1] for header in table.header):
            width = len(list(columns))
            spans.append(rf"\multicolumn{{{width}}}{{c}}{{{_tex(heading[-1])}}}")
            rules += [rf"\cmidrule(lr){{{at}-{at + width - 1}}}"] if heading[-1] else []
            at += width
        lines += [" & ".join(spans) + r" \\", "".join(rules)]
    lines.append(" & ".join(map(_tex, lowest)) + r" \\")
    for block in table.blocks:
        lines.append(r"\midrule")
        above = ""
        for first, *rest in block:
            # A name that the line above has too is not said again.
            entries = [Entry("") if first.text == above else first, *rest]
            lines.append(" & ".join(map(_tex_entry, entries)) + r" \\")
            above = first.text
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}}", r"\end{table*}", ""])


def _tex(text: str) -> str:
    return "".join(LATEX.get(sign, sign) for sign in one_line(text))


def _tex_entry(entry: Entry) -> str:
    # Bold type is wide: the standard deviation stays plain.
    mean, bracket, rest = _tex(entry.text).partition("(")
    mean = rf"\textbf{{{mean}}}" if entry.bold else mean
    return (rf"\underline{{{mean}}}" if entry.best else mean) + bracket + rest


def dataset_latex(report: Report, dataset: DatasetReport) -> str:
    """The tables of a dataset, for \\input in an article."""
    name = file_names(other.name for other in report.datasets)[dataset.name]
    tables = [*grid_tables(report, dataset), *([gain_table(report, dataset)] if dataset.gains else [])]
    tables += [strategy_table(dataset)] if dataset.strategies else []
    labels = file_names(f"{name}-{table.name}" for table in tables)
    printed = (latex(table, labels[f"{name}-{table.name}"]) for table in tables)
    return "% Needs \\usepackage{booktabs}.\n" + "\n".join(printed)


def latex_document(report: Report) -> str:
    """The tables of all datasets as a document to compile."""
    lines = [r"\documentclass{article}", r"\usepackage[a4paper,margin=15mm]{geometry}", r"\usepackage{booktabs}"]
    lines += [r"\begin{document}"]
    lines += [dataset_latex(report, dataset) + r"\clearpage" for dataset in report.datasets]
    return "\n".join([*lines, r"\end{document}", ""])


def markdown(table: Table) -> str:
    """A table as GitHub shows it, its caption above; blocks are set apart by an empty line of the table."""
    header = [escaped(" ".join(filter(None, names)).replace(" @", "@")) for names in table.header]
    lines = [header, ["---:" if side == "r" else "---" for side in table.align]]
    for block in table.blocks:
        lines += [[""] * len(header)] if block is not table.blocks[0] else []
        lines += [[_escaped_entry(entry) for entry in line] for line in block]
    caption = escaped(table.caption) + "".join(f" **Warning: {escaped(warning)}.**" for warning in table.warnings)
    return (f"{caption}\n\n" if caption else "") + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def escaped(text: str) -> str:
    """The text on one line, with no character that Markdown would read as markup."""
    return re.sub(r"([\\`*_<>|\[\]~$&])", r"\\\1", one_line(text))


def _escaped_entry(entry: Entry) -> str:
    text = f"**{escaped(entry.text)}**" if entry.bold and entry.text else escaped(entry.text)
    return text + (BEST if entry.best else "")


def report_markdown(report: Report, charts: Mapping[str, str] | None = None) -> str:
    """The whole report. `charts`: where the charts are, by their names."""
    parts = [f"# {escaped(report.title)}", *(_night(report.night) if report.night else [])]
    for dataset in report.datasets:
        parts += [f"**{escaped(headline(dataset))}**", escaped(facts(dataset))]
    parts.append(markdown(overview_table(report)))
    names = file_names(dataset.name for dataset in report.datasets)
    for dataset in report.datasets:
        of_dataset = {name: path for name, path in (charts or {}).items() if name.startswith(f"{names[dataset.name]}_")}
        parts += _dataset_markdown(report, dataset, of_dataset)
    reading = "".join(f"- **{name}**: {escaped(text)}\n" for name, text in how_to_read(report).items())
    parts += ["## How to read this", reading]
    return "\n\n".join(part.rstrip("\n") for part in [*parts, f"Made by xmtc-fusion {report.version}."] if part) + "\n"


def _night(night: NightBanner) -> list[str]:
    """The verdict of the night that the report belongs to."""
    table = fall_table(night)
    parts = [
        f"## Night {escaped(night.run_id)}: {escaped(night.headline)}",
        *([markdown(table)] if table else []),
    ]
    return [*parts, "".join(f"- {escaped(note)}\n" for note in night.notes)]


def _dataset_markdown(report: Report, dataset: DatasetReport, charts: Mapping[str, str]) -> list[str]:
    parts = [f"## {escaped(dataset.name)}"]
    parts += [f"> [!WARNING]\n> {escaped(warning)}" for warning in warnings(dataset)]
    parts += _answer_markdown(dataset)
    parts += _strategies_markdown(dataset)
    parts += _examples_markdown(dataset)
    if dataset.gains:
        parts += ["### Best fusions and single retrievers", markdown(gain_table(report, dataset))]
    for name, path in charts.items():
        kind = name.partition("_")[2]
        parts.append(f"![{CAPTIONS[kind.partition('-')[0]]}: {escaped(dataset.name)}, {kind}](<{path}>)")
    if dataset.additions:
        parts += [f"### {ADDITIONS_TITLE}", markdown(additions_table(dataset))]
    if dataset.agreement:
        parts += ["### Agreement of the retrievers", markdown(agreement_table(dataset))]
    parts += ["### All fusions", *map(markdown, grid_tables(report, dataset)), markdown(tie_table(report, dataset))]
    if dataset.paper:
        ranks = dataset.paper.rank_correlation.items()
        alike = ", ".join(f"{aspect_name(aspect)} {rank:.2f}" for aspect, rank in ranks)
        parts += ["### Beside the paper", f"Rank correlation of the fusions with {dataset.paper.table}: {alike}."]
        parts += folded("Fusion by fusion", map(markdown, paper_tables(dataset)))
    counted = {input_count_text(key): number for key, number in dataset.result.input_counts.items() if number}
    counts = "".join(f"- {count(number)} {escaped(text)}\n" for text, number in counted.items())
    sources = ", ".join(code_span(source) for source in dataset.result.sources)
    run = (
        f"Metrics of {dataset.result.evaluated} UTC, by version {escaped(dataset.result.version)}, read from {sources}."
    )
    return [
        *parts,
        "### What was run",
        run,
        counts,
        *folded("Configuration", [fenced(dataset.config, "yaml")]),
    ]


def _answer_markdown(dataset: DatasetReport) -> list[str]:
    """The recommended cell beside each aspect's winner, and where it loses."""
    if dataset.recommendation is None:
        return []
    name = recommended_name(dataset.recommendation)
    standings = dataset.recommendation.standings
    parts = [f"### Recommended: {escaped(name)}"]
    lines = []
    for one in standings:
        held = f"{deployed_name(one)}, " if one.choice else ""
        lines.append(f"{labels_of(one.aspect.label_group)}: {held}{standing_line(one)}; {tie_line(dataset, one)}")
    parts.append("".join(f"- {escaped(line)}\n" for line in lines))
    winners = winners_table(dataset)
    parts += folded("The winner in each aspect", [markdown(winners)]) if winners else []
    lines = [*loss_lines(dataset), *unseen_lines(dataset)]
    slices = [slice_table(dataset, one, by) for one in standings for by in SLICE_TABLES]
    if lines:
        parts += [f"### Where {escaped(name)} loses", "".join(f"- {escaped(line)}\n" for line in lines)]
        parts += folded("Every slice, with its test", [markdown(table) for table in slices if table])
    parts += folded(LABELS_TITLE, (markdown(table) for _, table in label_tables(dataset))) if dataset.labels else []
    return parts


def _strategies_markdown(dataset: DatasetReport) -> list[str]:
    """What was chosen and learned on validation texts, and what that gives on test texts."""
    if not dataset.strategies:
        return []
    parts = [f"### {STRATEGIES_TITLE}", markdown(strategy_table(dataset))]
    lines = [*optimism_lines(dataset), *curve_lines(dataset)]
    parts.append("".join(f"- {escaped(line)}\n" for line in lines))
    pairs = pair_table(dataset)
    parts += folded("Every two of them", [markdown(pairs)]) if pairs else []
    return [*parts, *folded("By label frequency", map(markdown, band_tables(dataset)))]


def _examples_markdown(dataset: DatasetReport) -> list[str]:
    """The texts most helped and most hurt, each folded, with its lists side by side."""
    if not dataset.examples:
        return []
    parts = [f"### {EXAMPLES_TITLE}", f"{SIGN} and bold: a relevant label. Labels are followed by their scores."]
    for group in shown_examples(dataset):
        parts.append(f"#### {escaped(group.heading)}")
        for outcome, examples in group.by_outcome.items():
            parts.append(f"{outcome_title(outcome)}:" if examples else f"{outcome_title(outcome)}: no text.")
            for example in examples:
                excerpt = [f"> {escaped(example.excerpt)}"] if example.excerpt else []
                parts += folded(escape(one_line(example_title(example))), [*excerpt, markdown(example_lists(example))])
    return parts


def folded(summary: str, parts: Iterable[str]) -> list[str]:
    return [f"<details><summary>{summary}</summary>", *parts, "</details>"]
