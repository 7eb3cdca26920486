"""How an explained text is told: in the terminal and in a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import fill
from typing import Any

from fusion.errors import visible
from fusion.registry import FUSIONS, NORMALIZATIONS
from jobs.results.explanation import ExplainedText
from jobs.runtime.safe_text import as_table, escape, one_line
from udfs.explain_text import column_names

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
    """What the cell computes, as the registry says it."""
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
    words = [f"{name} {word}" for name in explained.retrievers for word in ("rank", "score", "normalised")]
    return ["rank", "label", *named, "relevant", "fused", *words]


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
        yield line


def _imputed(explained: ExplainedText, row: dict[str, Any], retriever: str) -> bool:
    rank, _, normalized = (row[column] for column in column_names(retriever))
    return rank is None and normalized is not None


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
