"""What a terminal shows after an evaluation: the lines that matter."""

from __future__ import annotations

from fusion.grid import SINGLE, Cell
from fusion.metrics import decisiveness
from jobs.config import Config
from jobs.reporting.additions import addition_lines
from jobs.reporting.answer import headline, loss_line
from jobs.reporting.assemble import assemble
from jobs.reporting.data import Dataset, Gain
from jobs.reporting.formats import cell_name, count, figure, input_count_text, p_values, plain, shown_cell, verdict
from jobs.reporting.formats import gain as gained
from jobs.reporting.labels import unseen_lines
from jobs.reporting.strategy_tables import TITLE, curve_lines, optimism_lines, strategies_meaning, strategy_table
from jobs.results.result import Result
from jobs.results.stored import Results
from jobs.runtime.safe_text import as_table

BEST = 10


def summary(result: Result, config: Config) -> str:
    """For each label group the single retrievers and the best cells, in percent, as mean(std) over the folds."""
    results = Results((), config, result.metrics, result.details, result.input_counts, "", "", tuple(result.notes))
    dataset = assemble(results, config.report.test, config.report.alpha)
    parts = [_group(dataset, group) for group in dataset.queries]
    parts += [_strategies(dataset)] if dataset.strategies else []
    parts.append(_answer(dataset))
    counts = [
        plain(f"  {count(number)} {input_count_text(key)}") for key, number in result.input_counts.items() if number
    ]
    parts.append("Counts:\n" + "\n".join(counts))
    if config.output.path is not None:
        parts.append(f"Written to {config.output.path}")
    return "\n".join(parts)


def _strategies(dataset: Dataset) -> str:
    """What was chosen on validation texts, and what that gives on test texts."""
    table = strategy_table(dataset)
    header = [plain(" ".join(filter(None, names))) for names in table.header]
    rows = [[plain(entry.text) for entry in line] for block in table.blocks for line in block]
    lines = [*optimism_lines(dataset), *curve_lines(dataset)]
    meaning = plain(f"{TITLE}: {strategies_meaning(dataset)}")
    return "\n".join([meaning, as_table(header, rows), *map(plain, lines), ""])


def _answer(dataset: Dataset) -> str:
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


def _group(dataset: Dataset, group: str) -> str:
    aspects = [aspect for aspect in dataset.aspects if aspect.label_group == group and aspect.ideal == "all"]
    decisive = max(aspects, key=lambda aspect: decisiveness(aspect.measure))
    cells = {shown_cell(row.cell): row.values for row in dataset.rows if decisive in row.values}
    ranked = sorted(cells, key=lambda cell: -cells[cell][decisive].mean)
    singles = [cell for cell in ranked if cell.normalization == SINGLE]
    fused = [cell for cell in ranked if cell.normalization != SINGLE]
    rest = f"; {len(fused) - BEST} more below" if len(fused) > BEST else ""
    title = plain(f"{group} labels, {count(dataset.queries[group], 'text')}, best by {decisive.measure}{rest}")
    header = ["normalization", "fusion", *(str(aspect.measure) for aspect in aspects)]
    rows = [[*cell, *(plain(figure(cells[cell].get(aspect))) for aspect in aspects)] for cell in singles + fused[:BEST]]
    gains = [_gain(gain) for gain in dataset.gains if gain.aspect == decisive]
    return "\n".join([title, as_table(header, rows), *gains, ""])


def _gain(gain: Gain) -> str:
    """The best cell against the best single retriever, and whether that can be trusted."""
    tests = p_values(gain.comparison)
    moved = f"{gain.aspect.measure} {gained(gain.comparison)}, {verdict(gain.verdict)}"
    single = cell_name(Cell(SINGLE, gain.better_single))
    return plain(f"{cell_name(gain.best)} against {single}: {moved}" + (f"; {tests}" if tests else ""))
