"""Simulated nights: which planted events the gate notices, and how often it raises a false alarm.

    python -m benchmarks.nights [--rounds 1] [--years 1000]

Two levels, both written to benchmarks/results/nights.md: whole nights of the job over small data, a few hundred of
them (benchmarks/simulated_nights.py has the events), and the decision alone, a thousand years of it.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Collection, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import binomtest, nct, norm, t

from benchmarks.simulated_nights import (
    ALPHA,
    GREEN,
    QUIET,
    RED,
    REFUSED,
    STOPPED,
    TOLERANCE,
    TOO_SMALL,
    Outcome,
    simulate,
)
from fusion.statistics.gate import Change, Sums, alarms, change
from fusion.types import Array, Floats

RESULTS = Path(__file__).parent / "results" / "nights.md"
FIGURES = 6
"""Watched figures of a simulated decision: three cells in two label groups."""
NIGHTS_OF_A_YEAR = 365
TEXTS = (50, 200, 1_000, 5_000)
YEARS = dict(zip(TEXTS, (0.55, 0.35, 0.08, 0.02), strict=True))
"""The share of the simulated years with this many texts."""
DROPS = (0.5, 1.0, 2.0, 4.0, 8.0)
DRAWN = 4_000_000
"""Texts that the nights of one planted drop have together, where they are many."""
POPULATION = 200_000
A_LITTLE, A_SHARE, NEW = "every text loses a little", "some texts lose half", "every text a little, all texts new"
PATTERNS = (A_LITTLE, A_SHARE, NEW)
WHOLE = """Two sites with 200 texts, one of which tests every text in two folds, go through the events below in random
order. The job `nightly` runs every night, over Parquet files that the simulator writes, with a history of its own.
Between events are quiet nights: nothing changed, retrievers trained again (three lists in ten come out otherwise), a
few texts new, gone or judged otherwise, scores on another scale, a night made twice. Each event says what its night
must do. Whether a regression must raise an alarm is decided by a second implementation: the metrics by their plain
formulas, pairs by fold and text, SciPy's t-test, Bonferroni's bound over the 12 watched figures. What that test does
not notice is too small, and either is right. The drop is the largest one of a retriever alone, for a slow
drift since it began. After an alarm the operator accepts the night or repairs the data; the night after that must be
quiet, and every night must be compared with the right one."""
DECISION = """The functions of fusion/statistics/gate.py on figures that are drawn: of each text six (three cells, two
label groups) around a common level, three in ten texts with all figures 0 or all 1; each night three figures in ten
come out otherwise by about 10 points. The tolerance is 0.5 points, the level 0.01 per night."""


class Rate(NamedTuple):
    """How many nights had an alarm."""

    nights: int
    alarms: int

    def __str__(self) -> str:
        interval = binomtest(self.alarms, self.nights).proportion_ci()
        return f"{self.alarms:,} | {self.alarms / self.nights:.3%} | {interval.low:.3%} to {interval.high:.3%}"


def levels(rng: np.random.Generator, texts: int) -> Floats:
    """How well each text is answered [text, figure]: many not at all, many perfectly."""
    common = rng.beta(1.2, 1.2, (texts, 1))
    level = np.clip(common + rng.normal(0, 0.15, (texts, FIGURES)), 0, 1)
    kind = rng.random((texts, 1))
    found: Floats = np.where(kind < 0.15, 0.0, np.where(kind < 0.3, 1.0, level))
    return found


def figures(rng: np.random.Generator, level: Floats) -> Floats:
    """The figures of a night: those that are neither 0 nor 1 wander around their level."""
    noise = rng.normal(0, 0.1, level.shape) * (rng.random(level.shape) < 0.3)
    found: Floats = np.clip(level + noise * ((level > 0) & (level < 1)), 0, 1)
    return found


def worse(rng: np.random.Generator, now: Floats, pattern: str, drop: float, hit: Sequence[int], mean: float) -> Floats:
    """The figures of a night on which some have an expected drop; `mean` is their mean in the population."""
    now = now.copy()
    if pattern == A_SHARE:
        hurt = rng.random((len(now), 1)) < 2 * drop / mean
        now[:, hit] *= np.where(hurt, 0.5, 1.0)
    else:
        now[:, hit] *= 1 - drop / mean
    return now


def decided(before: Floats, now: Floats, same_texts: bool = True, tolerance: float = TOLERANCE) -> bool:
    """Whether a night raises an alarm."""
    nothing = Sums(0, 0.0, 0.0)
    changes: dict[int, Change] = {}
    for n in range(FIGURES):
        common = _sums(now[:, n] - before[:, n]) if same_texts else nothing
        changes[n] = change(_sums(before[:, n]), _sums(now[:, n]), common, tolerance)
    return bool(alarms(changes, ALPHA))


def _sums(values: Array) -> Sums:
    return Sums(len(values), float(values.sum()), float(np.dot(values, values)))


@cache
def population_mean() -> float:
    rng = np.random.default_rng(0)
    return float(figures(rng, levels(rng, POPULATION)).mean())


def quiet_years(texts: int, years: int, tolerance: float = TOLERANCE, seed: int = 0) -> Rate:
    """Years without a regression. A false alarm is accepted, so that each night is compared with the one before."""
    rng, found = np.random.default_rng([seed, texts]), 0
    for _ in range(years):
        level = levels(rng, texts)
        baseline = figures(rng, level)
        for _ in range(NIGHTS_OF_A_YEAR):
            now = figures(rng, level)
            found += decided(baseline, now, tolerance=tolerance)
            baseline = now
    return Rate(years * NIGHTS_OF_A_YEAR, found)


def planted(pattern: str, texts: int, drop: float, every: bool = False, most: int = 2_000, seed: int = 0) -> Rate:
    """Nights on which one figure, or every one, has an expected drop (in points); all have texts of their own."""
    rng, mean = np.random.default_rng([seed, texts, round(100 * drop)]), population_mean()
    hit = range(FIGURES) if every else [0]
    nights, found = min(most, DRAWN // texts), 0
    for _ in range(nights):
        level = levels(rng, texts)
        other = levels(rng, texts) if pattern == NEW else level
        now = worse(rng, figures(rng, other), pattern, drop / 100, hit, mean)
        found += decided(figures(rng, level), now, pattern != NEW)
    return Rate(nights, found)


def predicted(pattern: str, texts: int, drop: float) -> float:
    """The power of the t-test for one figure of six, at a level of alpha / 6: the normal theory's, with the standard
    deviation of the population."""
    rng, mean = np.random.default_rng(1), population_mean()
    level = levels(rng, POPULATION)
    before, now = figures(rng, level), worse(rng, figures(rng, level), pattern, drop / 100, [0], mean)
    if pattern == NEW:
        error = np.sqrt((before[:, 0].var() + now[:, 0].var()) / texts)
        return float(norm.cdf((drop / 100 - TOLERANCE) / error - norm.ppf(1 - ALPHA / FIGURES)))
    error = (now - before)[:, 0].std() / np.sqrt(texts)
    beyond = t.ppf(1 - ALPHA / FIGURES, texts - 1)
    return float(nct.sf(beyond, texts - 1, (drop / 100 - TOLERANCE) / error))


def whole_nights(place: str, job: tuple[int, bool]) -> list[Outcome]:
    seed, repeated = job
    return simulate(Path(place) / f"{seed}-{repeated}", seed, repeated)


def event_table(outcomes: Sequence[Outcome]) -> list[str]:
    """What became of each kind of event."""
    columns = (
        "event, nights, must alarm, too small, must not, alarms, refusals, missed, false alarms, other errors, drop"
    )
    lines = [f"| {columns.replace(', ', ' | ')} |", f"|{'---|' * len(columns.split(', '))}"]
    by_event: dict[str, list[Outcome]] = {}
    for outcome in sorted(outcomes, key=_place):
        by_event.setdefault(outcome.event, []).append(outcome)
    for event, nights in [*by_event.items(), ("**all**", list(outcomes))]:
        alarming = [night for night in nights if night.expected in (RED, STOPPED)]
        missed = [night for night in alarming if night.result == GREEN]
        quiet = [night for night in nights if night.expected == GREEN]
        false = [night for night in quiet if night.result != GREEN]
        numbers = [
            *(len(nights), len(alarming), sum(night.expected == TOO_SMALL for night in nights), len(quiet)),
            *(sum(night.result == result for night in nights) for result in (RED, REFUSED)),
            *(len(missed), len(false), sum(night.wrong for night in nights) - len(missed) - len(false)),
        ]
        drops = [night.drop for night in nights] if event.startswith(("regression", "slow drift")) else []
        drop = f"{min(drops):.1f} to {max(drops):.1f}" if drops else ""
        lines.append(f"| {event} | {' | '.join(map(str, numbers))} | {drop} |")
    return lines


def _place(outcome: Outcome) -> tuple[bool, str]:
    """Quiet nights come last, and 5% comes before 15%."""
    return outcome.event.startswith(QUIET), re.sub(r"\d+", lambda number: number[0].zfill(3), outcome.event)


def quiet_table(years: int, pool: ProcessPoolExecutor) -> list[str]:
    lines = [
        "| what happens | texts | nights | alarms | share | 95% interval |",
        "|---|---|---|---|---|---|",
    ]
    shares: Collection[float]
    for tolerance, shares in ((TOLERANCE, YEARS.values()), (0.0, [0.02] * len(TEXTS))):
        spans = [max(1, round(years * share)) for share in shares]
        for texts, rate in zip(TEXTS, pool.map(partial(quiet_years, tolerance=tolerance), TEXTS, spans), strict=True):
            lines.append(f"| quiet, {100 * tolerance:g} points tolerated | {texts:,} | {rate.nights:,} | {rate} |")
    for pattern in PATTERNS:
        edge = partial(planted, pattern, drop=100 * TOLERANCE, every=True, most=10_000)
        for texts, rate in zip(TEXTS, pool.map(edge, TEXTS), strict=True):
            lines.append(
                f"| every figure falls by what is tolerated: {pattern} | {texts:,} | {rate.nights:,} | {rate} |"
            )
    return lines


def power_table(pool: ProcessPoolExecutor) -> list[str]:
    lines = [
        f"| one figure of six falls | texts | {' | '.join(f'{drop:g} points' for drop in DROPS)} |",
        "|---|---|---|---|---|---|---|",
    ]
    jobs = [(pattern, texts) for pattern in PATTERNS for texts in TEXTS]
    found = [pool.map(partial(planted, *job), DROPS) for job in jobs]
    for (pattern, texts), rates in zip(jobs, found, strict=True):
        cells = [
            f"{rate.alarms / rate.nights:.1%} ({predicted(pattern, texts, drop):.1%})"
            for drop, rate in zip(DROPS, rates, strict=True)
        ]
        lines.append(f"| {pattern} | {texts:,} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1, help="how often each site goes through all events")
    parser.add_argument("--years", type=int, default=1_000, help="quiet years of decisions alone")
    arguments = parser.parse_args()
    jobs = [(seed, repeated) for seed in range(arguments.rounds) for repeated in (False, True)]
    parameters = f"--rounds {arguments.rounds} --years {arguments.years}"
    spawn = get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="nights-") as place, ProcessPoolExecutor(2, spawn) as pool:
        outcomes = [night for nights in pool.map(partial(whole_nights, place), jobs) for night in nights]
        wrong = [night for night in outcomes if night.wrong]
        lines = [
            *("# Simulated nights", "", f"Made by `python -m benchmarks.nights {parameters}`.", ""),
            *(f"## {len(outcomes):,} whole nights, {len(wrong)} wrong", "", _paragraph(WHOLE), ""),
            *event_table(outcomes),
            *([""] + [f"- {night}" for night in wrong] if wrong else []),
            *("", f"## {arguments.years:,} years of decisions", "", _paragraph(DECISION), ""),
            *quiet_table(arguments.years, pool),
            *("", "How many such drops raise an alarm, and in brackets the power that theory predicts:", ""),
            *power_table(pool),
        ]
    RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


def _paragraph(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    main()
