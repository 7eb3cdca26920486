"""The texts that were read: what is counted and checked of them, and which of them make the dataset."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fusion.errors import InputError
from jobs.datasets.readers import TEXT_KEY, unusable
from jobs.engines.engine import Engine
from jobs.runtime.log import log
from jobs.settings.prepare import PrepareSettings
from udfs.datasets.dividing import ROLES, TEST, TRAIN, VALIDATION, Division
from udfs.datasets.prepared import (
    GOOD_COLUMNS,
    SHOWN,
    SUMMARIZE,
    SUMMARY_COLUMNS,
    Kept,
    first_problems,
    identical_step,
    ids_step,
    repeated_step,
    smallest_step,
    units_step,
)

COUNTS = ("texts_read", "empty_texts", "texts_without_labels")


@dataclass(frozen=True)
class Texts:
    """The texts of a dataset: where they are, which of them are kept, and how they are divided."""

    engine: Engine[Any]
    folder: str
    """What was read, as a table."""
    kept: Kept
    division: Division
    counts: Mapping[str, int]
    """How many were read, left out, or repeat another."""

    def rows(self, *more: str) -> Any:
        """What was read of the texts, with the columns that steps need and some more."""
        return self.engine.read(self.folder, [*GOOD_COLUMNS, *more])


def choose_texts(engine: Engine[Any], folder: str, settings: PrepareSettings) -> Texts:
    """Look at all that was read, and refuse what cannot be used."""
    seen = _summary(engine, folder)
    _check_roles(seen, settings)
    kept = Kept(pa.int64() if seen["whole_ids"] else pa.string(), settings.group_key == TEXT_KEY, seed=settings.seed)
    _check_ids(engine, folder, kept)
    identical = _identical(engine, folder, kept)
    repeated = [text_id for text in identical for text_id in text["text_ids"][1:]]
    counts = {**{name: seen[name] for name in COUNTS}, "duplicate_texts": len(repeated)}
    log(_reading_line(counts, settings))
    if not seen["good"]:
        raise InputError(
            f"the dataset is empty: of {counts['texts_read']:,} texts, {counts['empty_texts']:,} are empty and "
            f"{counts['texts_without_labels']:,} have no labels"
        )
    if settings.split == "published" and settings.duplicates == "report":
        _check_leaks(identical, settings.allow_leaks)
    if settings.duplicates == "drop":
        kept = replace(kept, dropped=frozenset(repeated))
    division = Division(
        split=settings.split,
        folds=settings.fold_count,
        seed=settings.seed,
        validation_share=settings.validation_share,
        test_share=settings.test_share,
        hold_out=ROLES[VALIDATION] not in seen["roles"],
        together=_together(text["units"] for text in identical) if settings.identical_texts == "together" else {},
    )
    texts = Texts(engine, folder, kept, division, counts)
    return replace(texts, kept=_limited(texts, settings.limit, seen["good"] - len(kept.dropped)))


def _summary(engine: Engine[Any], folder: str) -> dict[str, Any]:
    rows = engine.collect(engine.map(engine.read(folder, SUMMARY_COLUMNS), SUMMARIZE))
    sums: dict[str, Any] = {name: pc.sum(rows[name]).as_py() or 0 for name in (*COUNTS, "good", "problems")}
    if sums["problems"]:
        first = [row for of_batch in rows["first"].to_pylist() for row in of_batch]
        raise unusable("texts", sums["problems"], first_problems(first))
    roles = {role for of_batch in rows["roles"].to_pylist() for role in of_batch}
    return {**sums, "whole_ids": pc.all(rows["whole_ids"]).as_py(), "roles": roles}


def _check_roles(seen: Mapping[str, Any], settings: PrepareSettings) -> None:
    if settings.split != "published":
        return
    missing = [ROLES[role] for role in (TRAIN, TEST) if ROLES[role] not in seen["roles"]]
    if missing and seen["good"]:
        raise InputError(
            f"prepare.split is published, but no text has the role {' or '.join(missing)}: give the parts roles, or "
            "name the column that has them (prepare.columns.role)"
        )


def _check_ids(engine: Engine[Any], folder: str, kept: Kept) -> None:
    """Refuse ids that occur more than once."""
    ids = engine.map(engine.read(folder, ["text_id"]), ids_step(kept))
    rows = engine.collect(engine.group(ids, ["text_id"], repeated_step(kept)))
    if len(rows):
        first = sorted(text_id for of_batch in rows["first"].to_pylist() for text_id in of_batch)[:SHOWN]
        raise InputError(
            f"{pc.sum(rows['count']).as_py():,} text ids occur more than once (ids must be unique over all parts): "
            f"{', '.join(map(str, first))}; without prepare.columns.text_id texts are numbered"
        )


def _identical(engine: Engine[Any], folder: str, kept: Kept) -> list[dict[str, Any]]:
    """The texts that several ids have, by the first of these."""
    units = engine.map(engine.read(folder, GOOD_COLUMNS), units_step(kept))
    same = engine.collect(engine.group(units, ["digest"], identical_step(kept), ["text_id"]))
    return sorted(same.to_pylist(), key=lambda text: text["text_ids"][0])


def _together(shared: Iterable[Sequence[str]]) -> dict[str, str]:
    """For units that share a text, directly or through others, the one that stands for all of them: that of the first
    text."""
    leader: dict[str, str] = {}

    def find(unit: str) -> str:
        while leader.setdefault(unit, unit) != unit:
            leader[unit] = leader[leader[unit]]
            unit = leader[unit]
        return unit

    for units in shared:
        first = find(units[0])
        for unit in units[1:]:
            leader[find(unit)] = first
    return {unit: find(unit) for unit in leader if find(unit) != unit}


def _check_leaks(identical: Sequence[Mapping[str, Any]], allowed: bool) -> None:
    """Refuse texts that are in two parts of a published split, unless they are allowed."""
    leaks = [text for text in identical if len(text["roles"]) > 1]
    if not leaks:
        return
    first = [f"{', '.join(map(str, text['text_ids']))} ({', '.join(sorted(text['roles']))})" for text in leaks[:SHOWN]]
    message = f"{len(leaks):,} texts are in more than one part of the published split. First ids:"
    if not allowed:
        lines = "".join(f"\n  {ids}" for ids in first)
        raise InputError(f"{message}{lines}\nSet prepare.duplicates to drop, or prepare.allow_leaks to true")
    log(f"prepare: {message} {'; '.join(first)}")


def _reading_line(counts: Mapping[str, int], settings: PrepareSettings) -> str:
    """What was read, and what is worth knowing about it."""
    if settings.split == "published":
        kept = "kept in their parts"
    else:
        kept = "kept in the fold of the first" if settings.identical_texts == "together" else "kept"
    notes = {
        "empty_texts": "empty (left out)",
        "texts_without_labels": "without labels (left out)",
        "duplicate_texts": f"repeat another text ({'left out' if settings.duplicates == 'drop' else kept})",
    }
    noted = "".join(f"; {counts[name]:,} {words}" for name, words in notes.items() if counts[name])
    limit = f"; at most {settings.limit:,} are used (prepare.limit)" if settings.limit is not None else ""
    return f"prepare: {counts['texts_read']:,} texts read{noted}{limit}"


LOWEST, NUMBERS = -(2**63), 2**64
"""Of the hashes."""


def _limited(texts: Texts, limit: int | None, count: int) -> Kept:
    """At most `limit` texts: those with the smallest hashes."""
    if limit is None or limit >= count:
        return texts.kept
    # Hashes are spread evenly, so the texts below this bound are a few more than the limit, and hardly ever fewer.
    target = limit + 6 * math.sqrt(limit) + 10
    while True:
        below = min(LOWEST + int(target / count * NUMBERS), -LOWEST - 1)
        rows = texts.engine.map(texts.rows(), smallest_step(texts.kept, below))
        smallest = texts.engine.collect(rows).sort_by([("hash", "ascending"), ("text_id", "ascending")])
        if len(smallest) >= limit:
            last = smallest.slice(limit - 1, 1).to_pylist()[0]
            return replace(texts.kept, limit=(last["hash"], last["text_id"]))
        target *= 2
