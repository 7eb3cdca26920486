"""Results and explanations on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import fill
from typing import Any

from fusion.cells import SINGLE, Cell
from fusion.errors import visible
from fusion.metrics import decisiveness
from fusion.models.features import OTHER
from fusion.registry import FUSIONS, NORMALIZATIONS
from jobs.evaluation.examples import ExplainedText
from jobs.evaluation.result import Result
from jobs.reporting.additions import addition_lines
from jobs.reporting.answer import headline, loss_line, unseen_lines
from jobs.reporting.dataset import DatasetReport
from jobs.reporting.formats import cell_name, count, figure, input_count_text, p_values, plain, shown_cell, verdict
from jobs.reporting.formats import gain as gained
from jobs.reporting.model import Gain
from jobs.reporting.strategies import STRATEGIES_TITLE, curve_lines, optimism_lines, strategies_meaning, strategy_table
from jobs.settings.config import Config
from jobs.storage.folders import as_table, escape, one_line
from udfs.fuse import column_names

BEST = 10


def summary(result: Result, config: Config) -> str:
    """For each label group the single retrievers and the best cells, in percent, as mean(std) over the folds."""
    dataset = DatasetReport(result, config.report.test, config.report.alpha)
    parts = [_group(dataset, group) for group in dataset.texts]
    parts += [_strategies(dataset)] if dataset.strategies else []
    parts.append(_answer(dataset))
    counts = [
        plain(f"  {count(number)} {input_count_text(key)}") for key, number in result.input_counts.items() if number
    ]
    parts.append("Counts:\n" + "\n".join(counts))
    if config.output.path is not None:
        parts.append(f"Written to {config.output.path}")
    return "\n".join(parts)


def _strategies(dataset: DatasetReport) -> str:
    """What was chosen on validation texts, and what that gives on test texts."""
    table = strategy_table(dataset)
    header = [plain(" ".join(filter(None, names))) for names in table.header]
    rows = [[plain(entry.text) for entry in line] for block in table.blocks for line in block]
    lines = [*optimism_lines(dataset), *curve_lines(dataset)]
    meaning = plain(f"{STRATEGIES_TITLE}: {strategies_meaning(dataset)}")
    return "\n".join([meaning, as_table(header, rows), *map(plain, lines), ""])


def _answer(dataset: DatasetReport) -> str:
    """What to deploy, and where it loses most."""
    standings = dataset.recommendation.standings[:1] if dataset.recommendation else ()
    losses = [
        (loss.share - loss.of_single, f"It loses most to {loss_line(loss, standing)}.")
        for standing in standings
        for loss in standing.losses
    ]
    unseen = unseen_lines(dataset)[:1] if dataset.unseen else []
    losing = [line for _, line in sorted(losses)[:1]]
    return "\n".join(map(plain, [headline(dataset), *losing, *unseen, *addition_lines(dataset), ""]))


def _group(dataset: DatasetReport, group: str) -> str:
    aspects = [aspect for aspect in dataset.aspects if aspect.label_group == group and aspect.ideal == "all"]
    decisive = max(aspects, key=lambda aspect: decisiveness(aspect.metric_at_k))
    cells = {shown_cell(row.cell): row.values for row in dataset.rows if decisive in row.values}
    ranked = sorted(cells, key=lambda cell: -cells[cell][decisive].mean)
    singles = [cell for cell in ranked if cell.normalization == SINGLE]
    fused = [cell for cell in ranked if cell.normalization != SINGLE]
    rest = f"; {len(fused) - BEST} more below" if len(fused) > BEST else ""
    title = plain(f"{group} labels, {count(dataset.texts[group], 'text')}, best by {decisive.metric_at_k}{rest}")
    header = ["normalization", "fusion", *(str(aspect.metric_at_k) for aspect in aspects)]
    rows = [[*cell, *(plain(figure(cells[cell].get(aspect))) for aspect in aspects)] for cell in singles + fused[:BEST]]
    gains = [_gain(gain) for gain in dataset.gains if gain.aspect == decisive]
    return "\n".join([title, as_table(header, rows), *gains, ""])


def _gain(gain: Gain) -> str:
    """The best cell against the best single retriever, and whether that can be trusted."""
    tests = p_values(gain.comparison)
    moved = f"{gain.aspect.metric_at_k} {gained(gain.comparison)}, {verdict(gain.verdict)}"
    single = cell_name(Cell(SINGLE, gain.better_single))
    return plain(f"{cell_name(gain.best)} against {single}: {moved}" + (f"; {tests}" if tests else ""))


NAME_WIDTH = 40
LINE_WIDTH = 110
RELEVANT = "yes"
LETTERS = (
    "s: score in a list, i: place there from 0, r = i + 1, n: size of the list, C: candidates of all lists, "
    "x: normalised scores, m: lists that have a score for the label (or, for ranks, hold it)"
)


def terminal(explained: ExplainedText, rows: int) -> str:
    """The lists, the formulas and the first candidates, as text."""
    shown = list(_candidate_lines(explained, rows))
    parts = [
        "\n".join([visible(title(explained)), *([_wrapped(f'"{explained.excerpt}"')] if explained.excerpt else [])]),
        as_table(_LIST_HEADER, _list_lines(explained)),
        "\n".join(map(_wrapped, formulas(explained))),
        as_table(_header(explained), shown) if shown else "No list has a candidate.",
        "\n".join(map(visible, notes(explained, rows))),
    ]
    return "\n\n".join(part for part in parts if part)


def notebook(explained: ExplainedText, rows: int) -> str:
    """The same as HTML."""
    paragraphs = [title(explained), *([explained.excerpt] if explained.excerpt else []), *formulas(explained)]
    return "".join(
        [
            *(f"<p>{escape(line)}</p>" for line in paragraphs),
            _html_table("The lists, as the normalisation reads them", _LIST_HEADER, _list_lines(explained)),
            _html_table("Candidates in the fused order", _header(explained), _candidate_lines(explained, rows)),
            *(f"<p>{escape(line)}</p>" for line in notes(explained, rows)),
        ]
    )


def _wrapped(text: str) -> str:
    return fill(one_line(text), LINE_WIDTH, break_long_words=False, break_on_hyphens=False)


def title(explained: ExplainedText) -> str:
    """What is explained."""
    several = len(explained.folds) > 1
    fold = f", fold {explained.fold} of {', '.join(map(str, explained.folds))}" if several else ""
    return f"Text {explained.text_id}{fold}, {explained.label_group} labels, {explained.cell}"


def formulas(explained: ExplainedText) -> list[str]:
    """What the cell computes, as the registry says it, or what the model does."""
    if explained.how:
        return [f"{explained.how}; part: what a retriever adds to the score, other: what none of them adds"]
    normalization, fusion = NORMALIZATIONS[explained.cell.scaling], FUSIONS[explained.cell.fusion]
    unread = fusion.reads == "ranks"
    ending = f" (not read by {fusion.name}, which sees ranks only)" if unread else ""
    return [f"{normalization.name}: x = {normalization.formula}{ending}", f"{fusion.name}: {fusion.formula}", LETTERS]


def notes(explained: ExplainedText, rows: int) -> list[str]:
    """What the table leaves out, and what its marks mean."""
    lines = []
    hidden = len(explained.table) - rows
    if hidden > 0:
        lines.append(f"{hidden:,} more candidate{'s' * (hidden > 1)} below.")
    if any(_imputed(explained, row, name) for row in explained.table.to_pylist() for name in explained.retrievers):
        lines.append("In parentheses: imputed, since the list lacks the label.")
    if not explained.judged:
        lines.append("Nobody judged this text: which labels are relevant is not known.")
    if explained.missed:
        missed = [f"{label} ({name})" if name else label for label, name in explained.missed.items()]
        lines.append(f"Relevant, but in no list: {', '.join(missed)}.")
    return lines


_LIST_HEADER = ["list", "", "size", "min", "max", "mean", "std"]


def _list_lines(explained: ExplainedText) -> Iterator[list[str]]:
    for row in explained.lists.to_pylist():
        yield [row["retriever"], "", str(row["size"]), *(_number(row[key]) for key in ("min", "max", "mean", "std"))]


def _header(explained: ExplainedText) -> list[str]:
    named = ["name"] if _has_names(explained) else []
    value = "part" if explained.how else "normalised"
    words = [f"{name} {word}" for name in explained.retrievers for word in ("rank", "score", value)]
    return ["rank", "label", *named, "relevant", "fused", *words, *([OTHER] if _has_other(explained) else [])]


def _candidate_lines(explained: ExplainedText, rows: int) -> Iterator[list[str]]:
    named = _has_names(explained)
    for row in explained.table.slice(0, rows).to_pylist():
        name = [_shortened(row["name"] or "")] if named else []
        relevant = "?" if row["relevant"] is None else RELEVANT if row["relevant"] else ""
        line = [str(row["rank"]), str(row["label_id"]), *name, relevant, _number(row["fused"])]
        for retriever in explained.retrievers:
            rank, score, normalized = (row[column] for column in column_names(retriever))
            value = _number(normalized)
            imputed = _imputed(explained, row, retriever)
            line += ["" if rank is None else str(rank), _number(score), f"({value})" if imputed else value]
        yield [*line, _number(row[OTHER])] if _has_other(explained) else line


def _imputed(explained: ExplainedText, row: dict[str, Any], retriever: str) -> bool:
    rank, _, normalized = (row[column] for column in column_names(retriever))
    return rank is None and normalized is not None and not explained.how


def _has_other(explained: ExplainedText) -> bool:
    return OTHER in explained.table.column_names


def _has_names(explained: ExplainedText) -> bool:
    return explained.table["name"].null_count < len(explained.table)


def _shortened(name: str) -> str:
    return name if len(name) <= NAME_WIDTH else name[: NAME_WIDTH - 1] + "\N{HORIZONTAL ELLIPSIS}"


def _number(value: float | None) -> str:
    """Four decimals, which tell most scores apart; tiny ones keep their digits."""
    if value is None:
        return ""
    return f"{value:.4f}" if value == 0 or abs(value) >= 0.001 else f"{value:.2e}"


def _html_table(caption: str, header: list[str], lines: Iterator[list[str]]) -> str:
    head = "".join(f"<th>{escape(word)}</th>" for word in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(word)}</td>" for word in line) + "</tr>" for line in lines)
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
