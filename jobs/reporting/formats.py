"""How a figure, a p-value, a gain, a verdict, a cell and a count are written: the one place for terminal, Markdown,
LaTeX, page, trend and nightly messages. The page's script follows the same rules (assets/formats.js)."""

from __future__ import annotations

import math
import re

from fusion.cells import SINGLE, Cell
from fusion.errors import visible
from fusion.labels import ALL
from fusion.metrics import Aspect
from fusion.names import print_subset
from fusion.registry import FUSIONS
from jobs.reporting.model import Comparison, Value, Verdict
from jobs.settings.sections import Test
from udfs.plan import EMPTY_LISTS, JUDGED, NONPOSITIVE_LISTS, UNJUDGED, UNSEEN_PAIRS, WITHOUT_CANDIDATES, split_key

NOTHING = "\N{EN DASH}"
MINUS = "\N{MINUS SIGN}"
ANY = "(any)"
"""Stands for all normalisations in the row of a fusion that reads only ranks: they give one result."""
METRICS = {
    "ndcg": "nDCG",
    "precision": "P",
    "recall": "R",
    "map": "MAP",
    "mrr": "MRR",
    "f1": "F1",
    "hit-rate": "hit rate",
    "r-precision": "R-precision",
    "psp": "PSP",
    "psndcg": "PSnDCG",
    "rp": "RP",
    "sample-precision": "sample P",
    "sample-f1": "sample F1",
    "micro-precision": "micro P",
    "micro-recall": "micro R",
    "micro-f1": "micro F1",
    "macro-precision": "macro P",
    "macro-recall": "macro R",
    "macro-f1": "macro F1",
}
SMALLEST_P = 0.001
TESTS: dict[Test, str] = {
    "folds": "two-sided paired t-test over the folds' means",
    "queries": "two-sided paired t-test over all folds' texts, Holm-corrected over the cells",
    "randomization": "paired randomisation test (random signs) over all folds' texts, Holm-corrected over the cells",
}
"""What each test is, in full."""
SHORT_TESTS: dict[Test, str] = {
    "folds": "t-test over folds",
    "queries": "t-test over texts",
    "randomization": "random signs over texts",
}
"""The same in few words."""
TEST_NAMES: dict[Test, str] = {"folds": "folds", "queries": "texts", "randomization": "random signs"}
INTERVAL = "the 95% interval"
INPUT_COUNTS = {
    JUDGED: "judged texts",
    WITHOUT_CANDIDATES: "judged texts without candidates",
    UNSEEN_PAIRS: "relevant pairs of text and label whose label has no training text",
    UNJUDGED: "texts with candidates but without judgements",
    EMPTY_LISTS: "judged texts that {} returned nothing for",
    NONPOSITIVE_LISTS: "lists of {} whose best score is not positive ('max' has no meaning there)",
}


def input_count_text(key: str) -> str:
    """What a count about the input counts."""
    kind, retriever = split_key(key)
    return INPUT_COUNTS[kind].format(retriever) if kind in INPUT_COUNTS else key


def count(number: int, noun: str = "", plural: str = "") -> str:
    """1,234; with a noun, "1 text" or "1,234 texts"."""
    return f"{number:,}" + (f" {noun if number == 1 else plural or noun + 's'}" if noun else "")


def span(low: int, high: int) -> str:
    """A range of whole numbers: 4, or 4-12."""
    return count(low) if low == high else f"{count(low)}{NOTHING}{count(high)}"


def joined(names: list[str]) -> str:
    """a; a and b; a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def percent(share: float | None, digits: int = 1) -> str:
    """A share of 1 in percent, without the sign."""
    if share is None or math.isnan(share):
        return NOTHING
    return f"{round(100 * share, digits) + 0.0:.{digits}f}".replace("-", MINUS)  # adding 0.0 makes 0.0 of -0.0


def figure(value: Value | None) -> str:
    """Mean and standard deviation over the folds in percent, as the paper prints them: 51.5(1.7)."""
    if value is None:
        return NOTHING
    return percent(value.mean) + ("" if value.std is None else f"({percent(value.std)})")


def points(share: float | None, digits: int = 1) -> str:
    """A difference of shares in points, with its sign."""
    text = percent(share, digits)
    return text if text == NOTHING or text.startswith(MINUS) else f"+{text}"


def interval(low: float | None, high: float | None, digits: int = 1) -> str:
    """[+4.2, +12.7]; nothing where it is not known."""
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return ""
    return f"[{points(low, digits)}, {points(high, digits)}]"


def gain(comparison: Comparison, digits: int = 1) -> str:
    """A difference in points, with its 95% interval."""
    ends = interval(comparison.low, comparison.high, digits)
    return points(comparison.difference, digits) + (f" {ends}" if ends else "")


def p_value(p: float | None) -> str:
    """Three decimals, and <0.001 below them."""
    if p is None or math.isnan(p):
        return NOTHING
    return f"<{SMALLEST_P}" if p < SMALLEST_P else f"{p:.3f}"


def p_values(comparison: Comparison) -> str:
    """The p of every test that was made."""
    made = {name: comparison.p(test) for test, name in TEST_NAMES.items()}
    return ", ".join(f"{name} p {p_value(p)}" for name, p in made.items() if p is not None)


def effect(size: float | None) -> str:
    return NOTHING if size is None or not math.isfinite(size) else f"{size:.2f}".replace("-", MINUS)


def verdict(decision: Verdict) -> str:
    """The outcome, and on what it rests where that is not folds and texts together."""
    if decision.outcome == "not tested":
        return "not tested (one fold, no figures per text)" if decision.folds == 1 else "not tested over texts"
    over = f" (tested over {count(decision.texts or 0, 'text')})" if decision.folds == 1 else ""
    by = f" ({evidence(decision)})" if decision.outcome == "tests disagree" else ""
    return decision.outcome + by + over


def evidence(decision: Verdict) -> str:
    """Which tests find a difference, and which do not."""
    # The interval is of the same texts as their test: it counts where the two differ.
    found = [TEST_NAMES[test] for test in decision.found_by if test != "interval"] or [INTERVAL]
    missed = [TEST_NAMES[test] for test in decision.missed_by if test != "interval"]
    return f"{'better' if decision.higher else 'worse'} by {joined(found)}, not by {' or '.join(missed)}"


def reads_ranks(cell: Cell) -> bool:
    """Whether a cell's fusion sees only ranks, so that every normalisation gives the same result."""
    known = cell.normalization != SINGLE and cell.fusion in FUSIONS
    return known and FUSIONS[cell.fusion].reads == "ranks"


def shown_cell(cell: Cell) -> Cell:
    """The cell as a table shows it that has each distinct result once."""
    return cell.rescaled(ANY) if reads_ranks(cell) else cell


def cell_name(cell: Cell) -> str:
    """A cell, or a retriever without fusion, as people read it."""
    if cell.normalization == SINGLE:
        return visible(f"{cell.fusion} alone")
    if cell.scaling == ANY or reads_ranks(cell):
        lists = f"{print_subset(cell.subset)}: " if cell.subset else ""
        return visible(f"{lists}{cell.fusion} (any normalisation)")
    return visible(str(cell))


def short_name(cell: Cell) -> str:
    """A cell without a normalisation that its fusion does not read."""
    lists = f"{print_subset(cell.subset)}: " if cell.subset else ""
    return visible(f"{lists}{cell.fusion}" if reads_ranks(cell) else str(cell))


def metric_name(metric: str) -> str:
    """Of a mean over cut-offs, with these: `R@5:50:5`."""
    name, at, cutoffs = metric.partition("@")
    return f"{METRICS.get(name, name)}{at}{cutoffs}"


def full_metric_name(aspect: Aspect) -> str:
    return f"{metric_name(aspect.metric)}{cutoff(aspect)}" + ("" if aspect.ideal == ALL else f" ({aspect.ideal})")


def objective_name(objective: str) -> str:
    """`0.5*ndcg@10+0.5*precision@1` with the metrics as people write them."""
    return re.sub(r"[a-z][a-z0-9-]*", lambda found: metric_name(found[0]), objective)


def cutoff(aspect: Aspect) -> str:
    """@10; nothing for a metric of the whole ranking."""
    return f"@{aspect.k}" if aspect.k else ""


def aspect_name(aspect: Aspect) -> str:
    return f"{aspect.label_group} {full_metric_name(aspect)}"


def watched_name(aspect: Aspect, cell: Cell) -> str:
    """A figure of a cell, as nights call it."""
    return f"{aspect_name(aspect)} of {cell_name(cell)}"


def plain(text: str) -> str:
    """A line in the characters of any terminal."""
    return visible(text).replace(MINUS, "-").replace(NOTHING, "-")
