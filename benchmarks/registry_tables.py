"""Tables of the registries for the pages on algorithms, metrics and retrievers, with what was measured."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from benchmarks.committed import (
    DEMO,
    EURLEX57K_ALL,
    RESULTS,
    cells,
    fused,
    matched,
    read,
    recommended,
    singles,
    tables,
)
from fusion import FUSIONS, METRICS, NORMALIZATIONS
from fusion.errors import AlarmError, XmtcError
from fusion.registry import Fusion, LabelMetric, Normalization, TextMetric
from jobs.nights.night import EXIT_CODES
from jobs.settings.retrievers import RETRIEVERS

DATASETS = {"demo": DEMO, "EURLEX57K": EURLEX57K_ALL}
GROUPS = ("tail", "head", "all")
SHOWN = {"ndcg": "nDCG", "precision": "P"}
"""How reports write the metrics that were measured."""


def algorithm_tables() -> dict[str, str]:
    """Of docs/algorithms.md, by the name of their place."""
    untrained = [entry for entry in FUSIONS if not entry.parameters.trained]
    return {
        "normalizations": _algorithms(NORMALIZATIONS),
        "fusions of scores": _algorithms(entry for entry in untrained if entry.reads == "scores"),
        "fusions of ranks": _algorithms(entry for entry in untrained if entry.reads == "ranks"),
        "trained fusions": _algorithms(entry for entry in FUSIONS if entry.parameters.trained),
        "measured normalizations": _measured("normalisation", 0, NORMALIZATIONS.names()),
        "measured fusions": _measured("fusion", 1, FUSIONS.names()),
    }


def metric_tables() -> dict[str, str]:
    """Of docs/metrics.md."""
    texts = [entry for entry in METRICS if isinstance(entry, TextMetric)]
    labels = [entry for entry in METRICS if isinstance(entry, LabelMetric)]
    header = ["name", "figure of a text", "cut-off", "both ideals", "when to use", "source"]
    return {
        "metrics of texts": markdown(
            header,
            (
                [
                    _names(entry),
                    typeset(entry.formula),
                    entry.cutoff,
                    "yes" if entry.ideal else "no",
                    entry.when,
                    entry.citation,
                ]
                for entry in texts
            ),
        ),
        "metrics of labels": markdown(
            ["name", "figure of a label", "when to use", "source"],
            ([_names(entry), typeset(entry.formula), entry.when, entry.citation] for entry in labels),
        ),
        "measured metrics": _measured_metrics(),
    }


def retriever_tables() -> dict[str, str]:
    """Of docs/retrievers.md."""
    builtin = [entry for entry in RETRIEVERS if not entry.origin]
    names = list(dict.fromkeys(name for path in DATASETS.values() for name in singles(path)))
    rows = [
        [f"`{name}`", *(_figure(singles(path).get(name), f"{group} nDCG@10") for path, group in _aspects())]
        for name in names
    ]
    return {
        "retrievers": markdown(
            ["name", "indexes", "scores", "reads of a text", "when to use"],
            ([f"`{x.name}`", x.indexes, x.scores, x.settings().reads, x.when] for x in builtin),
        ),
        "sources of retrievers": "".join(f"- `{entry.name}`: {entry.citation}.\n" for entry in builtin),
        "measured retrievers": markdown(["retriever", *_aspect_names()], rows),
        "retrievers by size": _by_size(),
    }


def _by_size() -> str:
    """What each retriever and the deployed fusion reach, and the CPU seconds that a retriever takes, where they were
    measured; of each dataset, the page with the most retrievers."""
    found: dict[str, list[list[list[str]]]] = {}
    about = {}
    for path in sorted(RESULTS.glob("published-*.md"), key=lambda path: path.stem.count("-")):
        name = matched(r"^# (\S+):", path).removesuffix("-published")
        found[name] = tables(read(path))
        about[name] = matched(r"^([\d,]+) train", path), matched(r"([\d,]+) labels", path)
    names = list(dict.fromkeys(row[0] for pages in found.values() for row in pages[0][1:] if row[0] in RETRIEVERS))
    rows = []
    for name in sorted(found, key=lambda name: int(about[name][1].replace(",", ""))):
        header, *lines = found[name][0]
        reached = {line[0].strip("*"): line[header.index("nDCG@10")] for line in lines}
        deployed = next(line[0].strip("*") for line in lines if line[0].startswith("**"))
        cost, *stages = found[name][-1]
        place = cost.index("CPU seconds") if "CPU seconds" in cost else None
        seconds = {} if place is None else {stage[0]: f" ({stage[place]} s)" for stage in stages}
        alone = (f"{reached[entry]}{seconds.get(entry, '')}" if entry in reached else "" for entry in names)
        rows.append([name, *about[name], *alone, f"{reached[deployed]} ({deployed})"])
    return markdown(["dataset", "training texts", "labels", *(f"`{name}`" for name in names), "what is deployed"], rows)


def error_tables() -> dict[str, str]:
    """Of docs/faq.md: every error class and exit code."""
    kinds = XmtcError.__subclasses__()
    classes: list[type[XmtcError]] = [XmtcError, *(kind for kind in kinds if kind.__module__ == "fusion.errors")]
    return {
        "errors": markdown(
            ["class", "meaning", "exit code"],
            (
                [f"`{error.__name__}`", _first_line(error), "10 to 16" if error is AlarmError else str(error.exit_code)]
                for error in classes
            ),
        ),
        "verdicts": markdown(["code", "verdict"], ([str(code), verdict] for verdict, code in EXIT_CODES.items())),
    }


def typeset(formula: str) -> str:
    """A formula as pages show it: powers raised, indices lowered, a real minus and a dot for times."""
    formula = re.sub(r"\^(?:(-?\w+)|\(([^()]*)\))", lambda found: f"<sup>{found[1] or found[2]}</sup>", formula)
    formula = re.sub(r"\b([a-zA-Z]_|log)(\w)\b", lambda found: f"{found[1].rstrip('_')}<sub>{found[2]}</sub>", formula)
    return formula.replace(" - ", " \N{MINUS SIGN} ").replace(" * ", " · ")


def _first_line(entry: object) -> str:
    return (entry.__doc__ or "").strip().partition("\n")[0]


def markdown(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    titles = list(header)
    lines = [titles, ["---"] * len(titles), *(list(row) for row in rows)]
    return "".join(f"| {' | '.join(cell for cell in line)} |\n" for line in lines)


def _algorithms(entries: Iterable[Normalization | Fusion]) -> str:
    rows = (
        [f"`{entry.usage}`{'' if entry.standard else ' +'}", typeset(entry.formula), entry.when, entry.citation]
        for entry in entries
    )
    return markdown(["name", "score", "when to use", "source"], rows)


def _names(entry: TextMetric | LabelMetric) -> str:
    others = ", ".join(f"`{alias}`" for alias in entry.aliases)
    return f"`{entry.name}`" + (f" ({others})" if others else "")


def _aspects() -> list[tuple[Path, str]]:
    return [(path, group) for path in DATASETS.values() for group in GROUPS]


def _aspect_names() -> list[str]:
    return [f"{dataset}, {group}" for dataset in DATASETS for group in GROUPS]


def _figure(figures: dict[str, float] | None, column: str) -> str:
    return f"{figures[column]:.1f}" if figures and column in figures else "-"


def _measured(kind: str, part: int, names: Iterable[str]) -> str:
    """The best nDCG@10 that an algorithm reaches with any partner, and which one; part: 0 normalisation, 1 fusion.
    Fusions of ranks say nothing about a normalisation, and are left out there."""
    by_rank = {entry.name for entry in FUSIONS if entry.reads == "ranks"}
    rows = []
    for name in names:
        row = [f"`{name}`"]
        for path, group in _aspects():
            column = f"{group} nDCG@10"
            figures = {
                cell[1 - part].strip("()"): row[column]
                for cell, row in fused(path).items()
                if cell[part] == name and (part or cell[1] not in by_rank)
            }
            if figures:
                top = max(figures.values())
                partners = [partner for partner, figure in figures.items() if figure == top]
                alike = len(partners) == len(figures) and len(figures) > 1
                row.append(f"{top:.1f} ({'any' if alike else ' or '.join(partners)})")
        if len(row) > 1:
            rows.append(row)
    return markdown([kind, *_aspect_names()], rows)


def _measured_metrics() -> str:
    """The figures of the cell that the demo recommends, over all labels."""
    cell = recommended()
    normalization, _, fusion = cell.partition("+")
    rows = []
    for name, shown in SHOWN.items():
        for k in (1, 5, 10):
            column = f"all {shown}@{k}"
            figures = [
                _figure(cells(path).get(key), column)
                for path in DATASETS.values()
                for key in [*(("single", retriever) for retriever in singles(path)), (normalization, fusion)]
            ]
            rows.append([f"`{name}@{k}`", *figures])
    header = [f"{dataset}, {who}" for dataset, path in DATASETS.items() for who in [*singles(path), cell]]
    return markdown(["metric", *header], rows)
