"""The answer: what to deploy, by how much, tied with what, and where it loses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fusion.cells import Cell
from fusion.metrics import Aspect
from fusion.statistics.coverage import FEWEST_PAIRS
from jobs.reporting.answer import headline, how_to_read, standing_line, tie_line, winners_table
from jobs.reporting.dataset import DatasetReport
from jobs.reporting.formats import percent, verdict
from jobs.reporting.judge import verdict_of
from jobs.reporting.losses import loss_lines, ranges, slice_table
from jobs.reporting.model import Band, Comparison, Outcome, Share, Slice, Verdict
from jobs.reporting.recommend import distinct_aspects, frequency_slices, joined, text_slices
from jobs.settings.config import load_config
from tests.reports import band_test, sample_report, with_parts

CELL, DENSE = Cell("max", "combsum"), Cell("single", "dense")
FOLDS, TEXTS, INTERVAL = "folds", "texts", "the 95% interval"


def band(low: int, high: int, pairs: int, hits: tuple[int, int], moved: tuple[int, int]) -> Band:
    found = {cell: {10: Share(n, n / pairs, 0.0, 1.0)} for cell, n in zip((CELL, DENSE), hits, strict=True)}
    return Band(low, high, 4, pairs, found, {(CELL, "dense"): {10: band_test(*moved)}})


def changed(dataset: DatasetReport, outcome: Outcome, folds: int = 5, **more: object) -> DatasetReport:
    """The dataset with another verdict of its first label group."""
    assert dataset.recommendation is not None
    first, *others = dataset.recommendation.standings
    first = replace(first, verdict=Verdict(outcome, folds, 50), slices=(), **more)  # type: ignore[arg-type]
    return with_parts(dataset, recommendation=replace(dataset.recommendation, standings=(first, *others)))


@pytest.mark.parametrize(
    ("folds", "texts", "low", "high", "words"),
    [
        (0.01, 0.01, 0.01, 0.03, "better"),
        (0.01, 0.01, -0.03, -0.01, "worse"),
        (0.2, 0.3, -0.01, 0.03, "not significantly different"),
        (0.2, 0.01, 0.01, 0.03, f"tests disagree (better by {TEXTS}, not by {FOLDS})"),
        (0.01, 0.2, -0.01, 0.03, f"tests disagree (better by {FOLDS}, not by {TEXTS})"),
        # Every p is above alpha, and the interval that stands beside them excludes zero.
        (0.2, 0.3, 0.01, 0.03, f"tests disagree (better by {INTERVAL}, not by {FOLDS} or {TEXTS})"),
        (None, 0.3, -0.03, -0.01, f"tests disagree (worse by {INTERVAL}, not by {TEXTS}) (tested over 100 texts)"),
        (0.01, None, None, None, "not tested over texts"),
    ],
)
def test_a_verdict_says_where_tests_disagree(
    folds: float | None, texts: float | None, low: float | None, high: float | None, words: str
) -> None:
    difference = 0.02 if low is None or low > -0.02 else -0.02
    compared = Comparison(difference, low, high, p_folds=folds, p_queries=texts, texts=100)
    judged = verdict_of(compared, 5 if folds else 1, "queries", 0.05)
    assert verdict(judged) == words
    assert judged.significant == (words in ("better", "worse"))
    dataset = sample_report().datasets[0]
    assert dataset.recommendation is not None
    first = replace(dataset.recommendation.standings[0], comparison=compared, verdict=judged)
    shown = with_parts(dataset, recommendation=replace(dataset.recommendation, standings=(first,)))
    if "disagree" in words:
        assert headline(shown).startswith("No clear case for fusion: tests disagree whether zmuv+combmnz ")
        assert standing_line(first).startswith("tests disagree whether it ") and words.partition("(")[2] in headline(
            shown
        )


def test_the_sentence() -> None:
    dataset = sample_report().datasets[0]
    assert headline(dataset) == (
        "Deploy zmuv+combmnz: +5.5 nDCG@10 over the best retriever (bm25) on all labels, ahead of all others; "
        "tests disagree whether it beats dense on head labels; loses on labels with up to 2 texts and texts with 1 "
        "label."
    )
    one_fold = headline(changed(dataset, "better", folds=1))
    assert "over the best retriever (bm25) on all labels (tested over 50 texts), ahead" in one_fold
    assert headline(changed(dataset, "not significantly different")).startswith(
        "No case for fusion yet: zmuv+combmnz is not significantly different from bm25 alone on all labels (+5.5 "
        "nDCG@10)"
    )
    assert headline(changed(dataset, "worse")).startswith("Do not fuse: bm25 alone is better than zmuv+combmnz")
    assert headline(changed(dataset, "not tested")).startswith("zmuv+combmnz leads, untested: +5.5 nDCG@10")
    alone = changed(dataset, "better", comparison=None, singles={}, better_single=None)
    assert headline(alone).startswith("Deploy zmuv+combmnz: 65.7(0.6) nDCG@10 on all labels")
    assert headline(with_parts(dataset, recommendation=None)) == "No fusion was evaluated on Eurlex-4K."


def test_ties_are_counted_once_per_result_and_name_their_test() -> None:
    dataset = sample_report().datasets[0]
    standing = dataset.recommendation.standings[1]  # type: ignore[union-attr]
    over_texts = "the t-test over texts (mean ranks) ties it with 13 others"
    assert tie_line(dataset, standing) == (
        f"the best of 60 cells (40 distinct results), tied with 3 others by the t-test over folds; {over_texts}"
    )
    second = replace(standing, value=replace(standing.value, best=False))
    assert tie_line(dataset, second).startswith(
        "not significantly different from the best of 60 cells (40 distinct results), tied with 3 others by the t-test"
    )
    below = replace(second, value=replace(second.value, bold=False, mean=standing.best_value.mean - 0.012))
    assert tie_line(dataset, below) == "1.2 below the best, zmuv+combmnz, of 60 cells"
    by_texts = sample_report(test="queries").datasets[0]
    (line,) = [tie_line(by_texts, one) for one in by_texts.recommendation.standings[:1]]  # type: ignore[union-attr]
    assert line.endswith("by the t-test over texts") and "mean ranks" not in line
    assert "over folds" not in tie_line(with_parts(dataset, rankings=()), standing).partition("; ")[2]


def test_what_has_the_same_figures_is_shown_once() -> None:
    one, other = Cell("zmuv", "combmnz"), Cell("max", "combsum")
    first, same, deep = (Aspect("all", *metric) for metric in (("ndcg", 1), ("precision", 1), ("ndcg", 10)))
    figures = {one: 0.5, other: 0.6}
    tail = first._replace(label_group="tail")
    means = {first: figures, same: dict(figures), deep: {one: 0.5, other: 0.7}, tail: figures}
    assert distinct_aspects(means) == [first, deep, tail]


def test_a_standing_with_one_fold() -> None:
    standing = sample_report(folds=1).datasets[0].recommendation.standings[0]  # type: ignore[union-attr]
    assert standing_line(standing).startswith("better than bm25 alone: +")
    assert standing_line(standing).endswith("points (tested over 19,314 texts)")


def test_winners_beside_the_recommended_cell() -> None:
    dataset = sample_report().datasets[0]
    table = winners_table(dataset)
    assert table is not None and "smallest mean regret" in table.caption
    assert len(table.blocks[0]) == 18
    values = {row.cell: row.values for row in dataset.rows}
    for line, aspect in zip(table.blocks[0], dataset.recommendation.winners, strict=True):  # type: ignore[union-attr]
        best = max(found[aspect].mean for cell, found in values.items() if cell.normalization != "single")
        regret = best - values[dataset.recommendation.cell][aspect].mean  # type: ignore[union-attr]
        assert float(line[5].text) == pytest.approx(100 * regret, abs=0.05)


def test_bands_with_few_pairs_are_joined() -> None:
    """A band of one label and two pairs was drawn as 50% against 0%."""
    few = [band(1, 1, 2, (1, 0), (1, 0)), band(2, 3, 27, (9, 5), (5, 1)), band(3, 9, 40, (20, 10), (12, 2))]
    together, alone = joined([*few, band(10, 99, 300, (200, 100), (120, 20)), band(99, 99, 3, (0, 3), (0, 3))])
    assert (together.rarest, together.commonest, together.labels, together.pairs) == (1, 9, 12, 69)
    share = together.found[CELL][10]
    assert (share.hits, share.value) == (30, 30 / 69)
    assert 0.3 < share.low < share.value < share.high < 0.6
    # Texts may have labels in several of the bands: what was tested band by band does not add up.
    assert not together.tests
    assert [one.outcome for one in frequency_slices([together], CELL, ["dense"], 10, 0.05)] == ["not tested"]
    assert (alone.commonest, alone.pairs) == (99, 303)
    assert [found.pairs for found in joined(few[:1])] == [2]
    assert list(joined([])) == []
    assert all(found.pairs >= FEWEST_PAIRS for found in (together, alone))


def test_losses_are_tested() -> None:
    """Below the retriever in two bands, but only one of them by more than chance."""
    bands = [
        band(1, 3, 87, (32, 51), (3, 22)),
        band(4, 8, 90, (50, 52), (4, 6)),
        band(9, 99, 900, (700, 600), (140, 40)),
    ]
    first, second, third = frequency_slices(bands, CELL, ["dense"], 10, 0.05)
    assert [found.outcome for found in (first, second, third)] == ["worse", "not significantly different", "better"]
    assert first.p == pytest.approx(2 * 2 * sum(n for n in (1, 25, 300, 2300)) / 2**25)
    assert (first.more, first.fewer, first.number) == (3, 22, 87)


def test_losses_by_the_number_of_labels() -> None:
    aspect = Aspect("all", "ndcg", 10)
    row = {**aspect._asdict(), **CELL._asdict(), "retriever": "dense", "value": 0.4, "retriever_value": 0.5}
    rows = [
        {**row, "fewest": 1, "most": 1, "queries": 80, "difference": -0.1, "p": 0.01},
        {**row, "fewest": 11, "most": None, "queries": 9, "difference": -0.1, "p": 0.04},
        {**row, "metric": "precision", "fewest": 1, "most": 1, "queries": 80, "difference": -0.1, "p": 0.0},
    ]
    found = text_slices(rows, aspect, CELL, 0.05)
    assert [(one.low, one.high, one.outcome) for one in found] == [(1, 1, "worse"), (11, None, "worse")]
    assert [one.p for one in found] == pytest.approx([0.02, 0.04])


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        ([(1, 3), (4, 8), (8, 13)], ["up to 13"]),
        ([(1, 3), (13, 19), (58, 86)], ["up to 3", "13\N{EN DASH}19", "58\N{EN DASH}86"]),
        ([(1, 1)], ["1"]),
        ([(6, 10), (11, None)], ["6 or more"]),
        ([], []),
    ],
)
def test_neighbouring_losses_are_one(ends: list[tuple[int, int | None]], words: list[str]) -> None:
    losses = [Slice("frequency", *pair, 1, 30, 10, "dense", 0.1, 0.2, 1, 2, 0.01, "worse") for pair in ends]
    assert ranges(losses) == words


def test_where_it_loses_is_said_with_counts() -> None:
    dataset = sample_report().datasets[0]
    lines = loss_lines(dataset)
    rarest, *_, small = (line.partition(" loses to dense on ")[2] for line in lines)
    band = dataset.bands["all"][0]
    shares = [percent(band.found[cell][10].value) for cell in (Cell("zmuv", "combmnz"), DENSE)]
    assert rarest == f"labels with 1 text: {' against '.join(shares)} found in the first 10 (1,931 pairs, p <0.001)"
    assert small == "texts with 1 label: 66.3 against 68.3 nDCG@10 (1,000 texts, p <0.001)"
    standing = dataset.recommendation.standings[0]  # type: ignore[union-attr]
    table = slice_table(dataset, standing, "frequency")
    assert table is not None and len(table.blocks[0]) == 20
    losing = [line for line in table.blocks[0] if line[-1].text == "loses"]
    assert len(losing) == sum(found.by == "frequency" for found in standing.losses) == 3
    better = replace(standing, slices=tuple(replace(found, outcome="better") for found in standing.slices))
    assert dataset.recommendation is not None
    won = with_parts(dataset, recommendation=replace(dataset.recommendation, standings=(better,)))
    assert loss_lines(won) == ["all labels: in none of 26 tested slices does it lose to a single retriever"]


def test_comparisons_without_an_interval() -> None:
    dataset = changed(sample_report().datasets[0], "better", comparison=Comparison(0.05))
    assert "better than bm25 alone: +5.0 points" in standing_line(dataset.recommendation.standings[0])  # type: ignore[union-attr]


def test_the_page_says_which_labels_are_in_a_group() -> None:
    """Groups by bounds with the part whose texts are counted; head and tail; of groups of one's own nothing."""
    report = sample_report(1)
    (paretos,) = report.datasets

    def words(*datasets: DatasetReport) -> str:
        return how_to_read(replace(report, datasets=datasets))["Label groups"]

    def bounded(**prepare: object) -> DatasetReport:
        settings = {"dataset": "x", "work.path": "w", "inputs.folds": "w/x/prepared/folds.parquet"}
        settings |= {f"prepare.{name}": value for name, value in prepare.items()}
        config = load_config(None, settings)
        return with_parts(paretos, result=replace(paretos.result, config=config), name="x", texts={"few": 5, "all": 9})

    groups = {"few": "0..49", "frequent": "50.."}
    one, several = bounded(split="published", label_groups=groups), bounded(label_groups=groups)
    assert words(one).startswith("Labels of x are grouped by how many training texts (validation texts do not count)")
    assert "carry them: few: 0..49, frequent: 50..; each group is ranked" in words(one)
    assert "how many texts of the whole dataset carry them" in words(several)
    assert words(paretos).startswith("Head labels are the most frequent ones, tail labels all the others; each group")
    assert "; head labels are" in words(one, paretos)
    assert words(bounded()).startswith("Each group is ranked")
