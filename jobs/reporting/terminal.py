"""Results and explanations on the terminal, and explanations in notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from textwrap import fill
from typing import TYPE_CHECKING, Any

from fusion.cells import SINGLE, Cell
from fusion.errors import visible
from fusion.metrics import decisive_aspect
from fusion.models.features import OTHER
from fusion.registry import FUSIONS, NORMALIZATIONS
from jobs.evaluation.examples import ExplainedText
from jobs.evaluation.result import Result
from jobs.reporting.additions import addition_lines
from jobs.reporting.answer import headline
from jobs.reporting.dataset import DatasetReport
from jobs.reporting.formats import cell_name, count, figure, input_count_text, p_values, plain, shown_cell, verdict
from jobs.reporting.formats import gain as gained
from jobs.reporting.losses import loss_line, safety_line, unseen_lines
from jobs.reporting.model import Gain
from jobs.reporting.parts import Entry, Group, Lines, Part, Table, Text
from jobs.reporting.strategies import curve_lines, optimism_lines, strategy_table
from jobs.settings.config import Config
from jobs.storage.folders import as_table, escape, one_line
from udfs.fuse import column_names

if TYPE_CHECKING:
    from jobs.prediction.explain import ExplainedLabels

SHOWN = 10
"""Cells of each label group."""
LINE_WIDTH = 110


def summary(result: Result, config: Config) -> str:
    """What matters most: the best cells of each label group, what to deploy, and counts about the input."""
    dataset = DatasetReport(result, config.report.test, config.report.alpha)
    parts: list[Part] = [part for group in dataset.texts for part in _group(dataset, group)]
    if dataset.strategies:
        parts += [strategy_table(dataset), Lines([*optimism_lines(dataset), *curve_lines(dataset)])]
    parts.append(Lines(_answer(dataset)))
    counts = [f"{count(number)} {input_count_text(key)}" for key, number in result.input_counts.items() if number]
    parts.append(Group("Counts:", [Lines([f"  {line}" for line in counts])]))
    written = f"\nWritten to {config.output.path}" if config.output.path is not None else ""
    return as_text(parts) + written


def _answer(dataset: DatasetReport) -> list[str]:
    """What to deploy, where it loses most, and what each retriever adds."""
    standings = dataset.recommendation.standings[:1] if dataset.recommendation else ()
    losses = [
        (loss.share - loss.of_single, f"It loses most to {loss_line(loss, standing)}.")
        for standing in standings
        for loss in standing.losses
    ]
    unseen = unseen_lines(dataset)[:1] if dataset.unseen else []
    losing = [line for _, line in sorted(losses)[:1]]
    safe = [
        f"{line[0].upper()}{line[1:]}."
        for standing in standings
        if standing.safety is not None and standing.safety.lost
        for line in [safety_line(standing.safety, cell_name(standing.cell))]
    ]
    return [headline(dataset), *losing, *safe, *unseen, *addition_lines(dataset)]


def _group(dataset: DatasetReport, group: str) -> list[Part]:
    """The single retrievers and the best cells, in percent, as mean(std) over the folds, and the gain of the best."""
    aspects = [aspect for aspect in dataset.aspects if aspect.label_group == group and aspect.ideal == "all"]
    if not aspects:
        return [Lines([f"{group} labels: no text has one"])]
    first = decisive_aspect(aspects)
    cells = {shown_cell(row.cell): row.values for row in dataset.rows if first in row.values}
    ranked = sorted(cells, key=lambda cell: -cells[cell][first].mean)
    singles = [cell for cell in ranked if cell.normalization == SINGLE]
    fused = [cell for cell in ranked if cell.normalization != SINGLE]
    rest = f"; {len(fused) - SHOWN} more below" if len(fused) > SHOWN else ""
    caption = f"{group} labels, {count(dataset.texts[group], 'text')}, best by {first.metric_at_k}{rest}"
    lines = [
        [*map(Entry, cell), *(Entry(figure(cells[cell].get(aspect))) for aspect in aspects)]
        for cell in singles + fused[:SHOWN]
    ]
    header: list[tuple[str, ...]] = [
        ("normalization",),
        ("fusion",),
        *((str(aspect.metric_at_k),) for aspect in aspects),
    ]
    table = Table("best", caption, header, "ll" + "r" * len(aspects), [lines])
    return [table, Lines([_gain(gain) for gain in dataset.gains if gain.aspect == first])]


def _gain(gain: Gain) -> str:
    """The best cell against the best single retriever, and whether that can be trusted."""
    tests = p_values(gain.comparison)
    moved = f"{gain.aspect.metric_at_k} {gained(gain.comparison)}, {verdict(gain.verdict)}"
    single = cell_name(Cell(SINGLE, gain.better_single))
    return f"{cell_name(gain.best)} against {single}: {moved}" + (f"; {tests}" if tests else "")


def as_text(parts: Iterable[Part]) -> str:
    """Texts, lists and tables of a document for a terminal; other formats have the rest."""
    shown = []
    for part in parts:
        if isinstance(part, Text):
            shown.append(plain(part.words))
        elif isinstance(part, Lines):
            shown.append("\n".join(map(plain, part.items)))
        elif isinstance(part, Group):
            shown.append(f"{plain(part.title)}\n{as_text(part.parts)}")
        elif isinstance(part, Table):
            shown.append("\n".join(_table(part)))
    return "\n\n".join(text for text in shown if text)


def _table(table: Table) -> Iterator[str]:
    if table.caption:
        yield plain(table.caption)
    lines = [[plain(" ".join(filter(None, names))) for names in table.header]]
    lines += [[plain(entry.text) for entry in line] for block in table.blocks for line in block]
    widths = [max(map(len, words)) for words in zip(*lines, strict=True)]
    for line in lines:
        places = zip(line, widths, table.align, strict=True)
        yield "  ".join(
            word.rjust(width) if side == "r" else word.ljust(width) for word, width, side in places
        ).rstrip()


NAME_WIDTH = 40
RELEVANT = "yes"
LETTERS = (
    "s: score in a list, i: place there from 0, r = i + 1, n: size of the list, C: candidates of all lists, "
    "x: normalised scores, m: lists that have a score for the label (or, for ranks, hold it)"
)


def terminal(explained: ExplainedText, rows: int) -> str:
    """The lists, the formulas and the first candidates, as text."""
    shown = list(_candidate_lines(explained, rows))
    parts = [
        "\n".join([visible(title(explained)), *([wrapped(f'"{explained.excerpt}"')] if explained.excerpt else [])]),
        as_table(_LIST_HEADER, _list_lines(explained)),
        "\n".join(map(wrapped, formulas(explained.cell, explained.how))),
        as_table(_header(explained), shown) if shown else "No list has a candidate.",
        "\n".join(map(visible, notes(explained, rows))),
    ]
    return "\n\n".join(part for part in parts if part)


def notebook(explained: ExplainedText, rows: int) -> str:
    """The same as HTML."""
    paragraphs = [
        title(explained),
        *([explained.excerpt] if explained.excerpt else []),
        *formulas(explained.cell, explained.how),
    ]
    return "".join(
        [
            *(f"<p>{escape(line)}</p>" for line in paragraphs),
            html_table("The lists, as the normalisation reads them", _LIST_HEADER, _list_lines(explained)),
            html_table("Candidates in the fused order", _header(explained), _candidate_lines(explained, rows)),
            *(f"<p>{escape(line)}</p>" for line in notes(explained, rows)),
        ]
    )


def wrapped(text: str) -> str:
    return fill(one_line(text), LINE_WIDTH, break_long_words=False, break_on_hyphens=False)


def title(explained: ExplainedText) -> str:
    """What is explained."""
    several = len(explained.folds) > 1
    fold = f", fold {explained.fold} of {', '.join(map(str, explained.folds))}" if several else ""
    return f"Text {explained.text_id}{fold}, {explained.label_group} labels, {explained.cell}"


def formulas(cell: Cell | None, how: str) -> list[str]:
    """What the cell computes, as the registry says it, or how a model makes scores."""
    if how or cell is None:
        return [f"{how}; part: what a retriever adds to the score, other: what none of them adds"]
    normalization, fusion = NORMALIZATIONS[cell.scaling], FUSIONS[cell.fusion]
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
        yield [row["retriever"], "", str(row["size"]), *(number(row[key]) for key in ("min", "max", "mean", "std"))]


def _header(explained: ExplainedText) -> list[str]:
    named = ["name"] if _has_names(explained) else []
    value = "part" if explained.how else "normalised"
    words = [f"{name} {word}" for name in explained.retrievers for word in ("rank", "score", value)]
    return ["rank", "label", *named, "relevant", "fused", *words, *([OTHER] if _has_other(explained) else [])]


def _candidate_lines(explained: ExplainedText, rows: int) -> Iterator[list[str]]:
    named = _has_names(explained)
    for row in explained.table.slice(0, rows).to_pylist():
        name = [shortened(row["name"] or "")] if named else []
        relevant = "?" if row["relevant"] is None else RELEVANT if row["relevant"] else ""
        line = [str(row["rank"]), str(row["label_id"]), *name, relevant, number(row["fused"])]
        for retriever in explained.retrievers:
            rank, score, normalized = (row[column] for column in column_names(retriever))
            value = number(normalized)
            imputed = _imputed(explained, row, retriever)
            line += ["" if rank is None else str(rank), number(score), f"({value})" if imputed else value]
        yield [*line, number(row[OTHER])] if _has_other(explained) else line


def _imputed(explained: ExplainedText, row: dict[str, Any], retriever: str) -> bool:
    rank, _, normalized = (row[column] for column in column_names(retriever))
    return rank is None and normalized is not None and not explained.how


def _has_other(explained: ExplainedText) -> bool:
    return OTHER in explained.table.column_names


def _has_names(explained: ExplainedText) -> bool:
    return explained.table["name"].null_count < len(explained.table)


def shortened(name: str) -> str:
    return name if len(name) <= NAME_WIDTH else name[: NAME_WIDTH - 1] + "\N{HORIZONTAL ELLIPSIS}"


def number(value: float | None) -> str:
    """Four decimals, which is enough to distinguish most scores; tiny ones keep their digits."""
    if value is None:
        return ""
    return f"{value:.4f}" if value == 0 or abs(value) >= 0.001 else f"{value:.2e}"


def html_table(caption: str, header: list[str], lines: Iterator[list[str]]) -> str:
    head = "".join(f"<th>{escape(word)}</th>" for word in header)
    body = "".join("<tr>" + "".join(f"<td>{escape(word)}</td>" for word in line) + "</tr>" for line in lines)
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


EXCERPT = 300
"""Characters of the text that are shown."""
NO_LABEL = "The text gets no label."


def labels_on_terminal(explained: ExplainedLabels) -> str:
    """The labels with what each retriever says, how that is fused, and the nearest training texts."""
    if not len(explained.table):
        return "\n\n".join([wrapped(_excerpt(explained)), NO_LABEL])
    near = list(_neighbour_lines(explained))
    parts = [
        wrapped(_excerpt(explained)),
        as_table(_label_header(explained), _label_lines(explained)),
        "\n".join(map(wrapped, formulas(explained.cell, explained.how))),
        as_table(NEIGHBOURS, near) if near else "",
    ]
    return "\n\n".join(part for part in parts if part)


def labels_in_notebook(explained: ExplainedLabels) -> str:
    """The same as HTML."""
    excerpt = f"<p>{escape(_excerpt(explained))}</p>"
    if not len(explained.table):
        return f"{excerpt}<p>{NO_LABEL}</p>"
    formula_lines = "".join(f"<p>{escape(line)}</p>" for line in formulas(explained.cell, explained.how))
    labels = html_table("Labels, best first", _label_header(explained), _label_lines(explained))
    near = html_table("The nearest training texts that carry them", NEIGHBOURS, _neighbour_lines(explained))
    return f"{excerpt}{labels}{formula_lines}{near if len(explained.neighbours) else ''}"


def _excerpt(explained: ExplainedLabels) -> str:
    text = explained.text
    return f'"{text}"' if len(text) <= EXCERPT else f'"{text[:EXCERPT]}\N{HORIZONTAL ELLIPSIS}"'


def _label_header(explained: ExplainedLabels) -> list[str]:
    value = "part" if explained.how else "normalised"
    words = [f"{name} {word}" for name in explained.retrievers for word in ("rank", "score", value)]
    other = [OTHER] if OTHER in explained.table.column_names else []
    return ["rank", "label", "probability", "fused", *words, *other]


def _label_lines(explained: ExplainedLabels) -> Iterator[list[str]]:
    for row in explained.table.to_pylist():
        line = [str(row["rank"]), shortened(row["name"] or row["label"]), _percent(row), number(row["score"])]
        for retriever in explained.retrievers:
            rank, score, normalized = (row[column] for column in column_names(retriever))
            imputed = rank is None and normalized is not None and not explained.how
            value = f"({number(normalized)})" if imputed else number(normalized)
            line += ["" if rank is None else str(rank), number(score), value]
        yield [*line, number(row[OTHER])] if OTHER in row else line


def _percent(row: dict[str, Any]) -> str:
    return "" if row["probability"] is None else f"{row['probability']:.2f}"


NEIGHBOURS = ["label", "nearest training texts that carry it"]


def _neighbour_lines(explained: ExplainedLabels) -> Iterator[list[str]]:
    """A line per label and retriever: its nearest training texts, each with its score."""
    names = {row["label"]: row["name"] or row["label"] for row in explained.table.to_pylist()}
    texts: dict[tuple[str, str], list[str]] = {}
    for row in explained.neighbours.to_pylist():
        texts.setdefault((row["label"], row["retriever"]), []).append(f"{row['text_id']} ({number(row['score'])})")
    for (label, retriever), some in texts.items():
        yield [shortened(names[label]), f"{retriever}: {', '.join(some)}"]
