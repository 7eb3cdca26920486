"""Two results side by side: what rose, what fell, and over which texts that was tested."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from fusion.cells import Cell
from fusion.errors import InputError
from fusion.metrics import Aspect
from fusion.statistics.paired import UNIT
from fusion.statistics.significance import BlockChange, block_changes, holm, same_texts
from fusion.types import Array, Ints
from jobs.evaluation.result import NOT_COMPARED, Result, differences, read_results, setting_differences
from jobs.reporting.dataset import DatasetReport
from jobs.reporting.formats import count, shown_cell
from jobs.reporting.model import Outcome, Row
from jobs.reporting.tables import aspects_by_group, distinct_rows
from jobs.settings.base import EvaluateSettings
from jobs.settings.sections import Test


@dataclass(frozen=True)
class Change:
    """A figure of a cell, or of a single retriever, in both results."""

    aspect: Aspect
    cell: Cell
    before: float
    after: float
    tested: BlockChange | None
    """Over the texts that both have; None where it could not be tested."""
    p: float | None
    """Corrected over all figures that were tested."""
    outcome: Outcome
    blocks: bytes = b""
    """The changes of all sign blocks. Figures that change alike are one hypothesis: nDCG@1 is P@1."""

    @property
    def same(self) -> bool:
        """Whether the figure is the same in every sign block."""
        return self.tested is not None and not any(self.blocks)


@dataclass(frozen=True)
class CommonTexts:
    """The texts of a label group in both results."""

    before: int
    after: int
    common: int
    """Texts of the sign blocks that are the same in both."""
    refused: str
    """Why nothing was tested; empty if it was."""


@dataclass(frozen=True)
class Side:
    """One of the two results."""

    name: str
    """What distinguishes its folder from the other's."""
    dataset: DatasetReport


@dataclass(frozen=True)
class SideBySide:
    """Everything that a comparison of two results shows."""

    title: str
    before: Side
    after: Side
    texts: dict[str, CommonTexts]
    """By label group."""
    changes: tuple[Change, ...]
    """Of every common cell and metric, by aspect, those of the best cells first."""
    settings: tuple[tuple[str, Any, Any], ...]
    """What differs between the two configurations: the setting and its two values."""
    made: tuple[tuple[str, Any, Any], ...]
    """What else differs of what made the two: code, packages, processor, engine, inputs."""
    alpha: float
    version: str

    @property
    def tested(self) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.tested is not None)

    def only_in(self, side: Side) -> list[Cell]:
        """Cells that the other side lacks."""
        common = {change.cell for change in self.changes}
        return [row.cell for row in distinct_rows(side.dataset) if row.cell not in common]


class CommonBlocks(NamedTuple):
    """The sign blocks that hold the same texts in both results, and how many texts each of them has."""

    same: Array
    texts: Ints
    refused: str = ""

    @classmethod
    def none(cls, refused: str) -> CommonBlocks:
        return cls(np.empty(0, np.bool_), np.empty(0, np.int64), refused)


_INPUTS = {"inputs.judgements": "judgements", "inputs.label_groups": "label groups", "inputs.folds": "folds"}
"""What results call the inputs that settings give the places of."""
BlockSums = dict[tuple[str, str, int], dict[Cell, Ints]]


def _is_place(setting: str, *results: Result) -> bool:
    """Whether a setting says where an input is, of which both results know the content: that is compared instead."""
    name = _INPUTS.get(setting, setting.removeprefix("inputs.candidates."))
    return all(name in result.made.get("inputs", {}) for result in results)


def side_by_side(paths: Sequence[str], title: str, test: Test, alpha: float, version: str) -> SideBySide:
    """The results of two folders."""
    before, after = (read_results([path])[0] for path in paths)
    if before.config.dataset != after.config.dataset:
        raise InputError(
            f"{paths[0]} and {paths[1]} are of different datasets, {before.config.dataset!r} and "
            f"{after.config.dataset!r}: only results of one dataset can be compared"
        )
    names = short_names(*paths)
    sides = [
        Side(name, DatasetReport(result, test, alpha)) for name, result in zip(names, (before, after), strict=True)
    ]
    texts: dict[str, CommonTexts] = {}
    changes: list[Change] = []
    rows = [{row.cell: row for row in distinct_rows(side.dataset)} for side in sides]
    sums = [_block_sums(result) for result in (before, after)]
    known = set(sides[0].dataset.aspects)
    for group, aspects in aspects_by_group(sides[1].dataset).items():
        counted = [side.dataset.texts.get(group, 0) for side in sides]
        blocks = _common_blocks(before, after, group)
        texts[group] = CommonTexts(counted[0], counted[1], int(blocks.texts.sum()), blocks.refused)
        for aspect in aspects:
            if aspect in known:
                changes += _changes(aspect, rows, sums, blocks, after.config.evaluate)
    different = setting_differences(before, after, [*NOT_COMPARED, "report", "nightly"])
    judged = _judged(changes, alpha)
    made = differences(before.made, after.made)
    return SideBySide(
        title,
        sides[0],
        sides[1],
        texts=texts,
        changes=judged,
        settings=tuple(one for one in different if not _is_place(one[0], before, after)),
        made=tuple(made),
        alpha=alpha,
        version=version,
    )


def short_names(one: str, other: str) -> tuple[str, str]:
    """Two folders without what their paths have in common."""
    parts = [path.rstrip("/").split("/") for path in (one, other)]
    while parts[0] and parts[1] and parts[0][0] == parts[1][0]:
        parts = [path[1:] for path in parts]
    while len(parts[0]) > 1 and len(parts[1]) > 1 and parts[0][-1] == parts[1][-1]:
        parts = [path[:-1] for path in parts]
    if not (parts[0] and parts[1]):
        return one.rstrip("/"), other.rstrip("/")
    return "/".join(parts[0]), "/".join(parts[1])


def _block_texts(result: Result, group: str) -> tuple[Ints, Ints]:
    """How many texts each sign block has, and their fingerprints; empty where the results hold none."""
    for row in result.rows("block_texts"):
        if row["label_group"] == group:
            return np.array(row["texts"], np.int64), np.array(row["fingerprints"], np.int64)
    return np.empty(0, np.int64), np.empty(0, np.int64)


def _common_blocks(before: Result, after: Result, group: str) -> CommonBlocks:
    sides = [_block_texts(result, group) for result in (before, after)]
    for result, (texts, _) in zip((before, after), sides, strict=True):
        if not len(texts):
            return CommonBlocks.none(
                f"{result.sources[0]} holds no sums by sign block; evaluate it again, with evaluate.details true "
                "and evaluate.randomizations above 0"
            )
    if len(sides[0][0]) != len(sides[1][0]):
        return CommonBlocks.none(
            f"the texts are in {count(len(sides[0][0]))} sign blocks in the first and {count(len(sides[1][0]))} in the "
            "second; evaluate both with the same evaluate.blocks"
        )
    same = same_texts((sides[0][0], sides[1][0]), (sides[0][1], sides[1][1]))
    if not same.any():
        return CommonBlocks.none("no sign block is the same in both: the texts, or their judgements, differ")
    return CommonBlocks(same, sides[0][0][same])


def _changes(
    aspect: Aspect,
    rows: Sequence[Mapping[Cell, Row]],
    sums: Sequence[BlockSums],
    common_blocks: CommonBlocks,
    settings: EvaluateSettings,
) -> list[Change]:
    common = [cell for cell in rows[1] if cell in rows[0] and aspect in rows[0][cell].values]
    common = [cell for cell in common if aspect in rows[1][cell].values]
    tested: dict[Cell, tuple[BlockChange, bytes]] = {}
    of_aspect = [of_side.get((aspect.label_group, aspect.metric, aspect.k), {}) for of_side in sums]
    known = [cell for cell in common if all(cell in of_side for of_side in of_aspect)]
    if known and not common_blocks.refused:
        same = common_blocks.same
        before, after = (np.column_stack([of_side[cell][same] for cell in known]) for of_side in of_aspect)
        vectors, seed = settings.randomizations, settings.seed
        changes = block_changes(before, after, common_blocks.texts, UNIT, vectors, seed)
        blocks = [column_of_cell.tobytes() for column_of_cell in (after - before).T]
        tested = dict(zip(known, zip(changes, blocks, strict=True), strict=True))
    return [
        Change(
            aspect=aspect,
            cell=cell,
            before=rows[0][cell].values[aspect].mean,
            after=rows[1][cell].values[aspect].mean,
            tested=tested[cell][0] if cell in tested else None,
            p=None,
            outcome="not tested",
            blocks=tested[cell][1] if cell in tested else b"",
        )
        for cell in common
    ]


def _block_sums(result: Result) -> BlockSums:
    """The sums by sign block of each distinct result, by label group, metric and k."""
    if "block_sums" not in result.details:
        return {}
    table = result.details["block_sums"]
    sums = table["sums"].combine_chunks().flatten().to_numpy().reshape(len(table), -1)
    by_aspect: BlockSums = defaultdict(dict)
    for number, row in enumerate(table.drop_columns(["sums"]).to_pylist()):
        for name in row["cells"]:
            cell = shown_cell(Cell(*name.split("+", 1)))
            by_aspect[row["label_group"], row["metric"], row["k"]][cell] = sums[number]
    return by_aspect


def _judged(changes: Sequence[Change], alpha: float) -> tuple[Change, ...]:
    """With Holm's correction over all figures that changed: the chance of any false alarm stays below alpha. A figure
    that is the same in every block cannot be called a change, so nothing has to be corrected for it (Tarone 1990)."""
    hypotheses = {
        (change.aspect.label_group, change.blocks): change.tested.p
        for change in changes
        if change.tested is not None and not change.same
    }
    corrected = holm(hypotheses)
    judged = []
    for change in changes:
        if change.tested is None:
            judged.append(change)
            continue
        p = corrected.get((change.aspect.label_group, change.blocks), 1.0)
        outcome: Outcome = "better" if change.tested.difference > 0 else "worse"
        if p >= alpha:
            apart = not change.same and (change.tested.low > 0 or change.tested.high < 0)
            outcome = "tests disagree" if apart else "not significantly different"
        judged.append(replace(change, p=p, outcome=outcome))
    return tuple(judged)
