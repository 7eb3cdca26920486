"""Fusion inside the workers: list rows in, fused lists out, and how the scores of one text come about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fusion.cells import ANY_FOLD, Cell
from fusion.errors import unknown_name
from fusion.grid.grid import Grid
from fusion.grid.trained import Learned
from fusion.kernel.candidates import DEFAULT, Candidates, Policies
from fusion.kernel.pools import Relevant
from fusion.kernel.ranking import top
from fusion.kernel.texts import PoolView, Scope, pool_views
from fusion.labels import ALL
from fusion.models.features import OTHER, Features
from fusion.models.models import Scorer
from fusion.models.strategies import Strategy
from fusion.names import parse_call, print_call
from fusion.registry import FUSIONS, NORMALIZATIONS
from fusion.types import Array, Singles
from udfs.lists import JUDGEMENT, Layout
from udfs.problems import Problems
from udfs.texts import Batch, Work, read_texts, report_repeated
from udfs.tuning import TrainTexts


@dataclass(frozen=True)
class FusionPlan:
    """What is to be fused, as the workers get it."""

    layout: Layout
    cells: tuple[Cell, ...]
    views: tuple[str, ...]
    scope: Scope
    top: int
    text_type: pa.DataType
    label_type: pa.DataType
    policies: Policies = DEFAULT
    learned: Mapping[str, Learned] = field(default_factory=dict)
    strategies: Mapping[Cell, Strategy] = field(default_factory=dict)

    @cached_property
    def grid(self) -> Grid:
        return Grid(self.cells, self.layout.retrievers, self.policies, self.learned, self.strategies)

    @property
    def schema(self) -> pa.Schema:
        return pa.schema(
            [
                ("fold", pa.int32()),
                ("normalization", pa.string()),
                ("fusion", pa.string()),
                ("text_id", self.text_type),
                ("label_group", pa.string()),
                ("label_ids", pa.list_(self.label_type)),
                ("scores", pa.list_(pa.float32())),
                ("problems", pa.string()),
            ]
        )


def fuse_lists(plan: FusionPlan) -> Work:
    """The work of an engine: one row per text, cell and label group."""
    grid = plan.grid

    def run(batches: Iterator[Batch], problems: Problems) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from _fused(batch, plan, grid, problems)
        if problems:
            yield pa.RecordBatch.from_pylist([{"problems": problems.to_json()}], plan.schema)

    return run


def _fused(batch: Batch, plan: FusionPlan, grid: Grid, problems: Problems) -> Iterator[pa.RecordBatch]:
    nothing = np.zeros(len(batch.texts), np.int64)
    wanted = {grid.column_of[cell] for cell in grid.cells}
    batch.texts.relevant = Relevant(nothing, nothing, np.empty(0, np.int32))
    for first, block in batch.texts.blocks():
        for shared in pool_views(block, plan.views, plan.layout.group_names, plan.scope, keep_all=True):
            pools = shared[0].pools
            if len(pools.repeated):
                report_repeated(batch, pools.repeated + first, plan.layout, problems)
                return
            for column, fused in grid.fused(pools, shared[0].normalized, only=wanted):
                for pool_view in shared:
                    lists = _lists(batch, first, pool_view, fused, plan.top)
                    for cell in (cell for cell in grid.cells if grid.column_of[cell] == column):
                        yield _with_cell(lists, cell, plan.schema)


def _lists(batch: Batch, first: int, pool_view: PoolView, fused: Singles, n: int) -> dict[str, pa.Array]:
    """The best labels of every text that has candidates in this view."""
    scores = pool_view.take(fused)
    chosen, begin = top(scores, pool_view.offset, n)
    candidate = chosen if pool_view.member is None else pool_view.member[chosen]
    filled = np.flatnonzero(np.diff(begin))
    offsets = pa.array(np.append(begin[filled], begin[-1]), pa.int32())
    text = pool_view.pools.source[filled] + first
    return {
        "fold": pa.array(batch.fold[text], pa.int32()),
        "text_id": batch.text_id.take(pa.array(text)),
        "label_group": pa.array([pool_view.view] * len(text), pa.string()),
        "label_ids": pa.ListArray.from_arrays(offsets, batch.decode(pool_view.pools.label[candidate])),
        "scores": pa.ListArray.from_arrays(offsets, pa.array(scores[chosen], pa.float32())),
    }


def _with_cell(lists: dict[str, pa.Array], cell: Cell, schema: pa.Schema) -> pa.RecordBatch:
    rows = len(lists["fold"])
    names = {"normalization": [cell.normalization] * rows, "fusion": [cell.fusion] * rows, "problems": [None] * rows}
    return pa.RecordBatch.from_pydict({**lists, **names}, schema)


LIST_SCHEMA = pa.schema(
    [
        ("retriever", pa.string()),
        ("size", pa.int64()),
        ("min", pa.float64()),
        ("max", pa.float64()),
        ("mean", pa.float64()),
        ("std", pa.float64()),
    ]
)


@dataclass(frozen=True)
class TextPlan:
    """What is to be explained."""

    layout: Layout
    cell: Cell
    view: str
    scope: Scope
    policies: Policies = DEFAULT
    learned: Mapping[str, Learned] = field(default_factory=dict)
    model: Scorer | None = None
    """What makes the scores instead of a cell of the registry."""
    train_texts: TrainTexts | None = None

    @property
    def grid(self) -> Grid:
        """The column that is explained."""
        if self.model is None:
            return Grid([self.cell], self.layout.retrievers, self.policies, self.learned)
        strategy = Strategy({view: {ANY_FOLD: self.model} for view in {self.view, ALL}})
        return Grid([], self.layout.retrievers, self.policies, strategies={self.cell: strategy})


@dataclass(frozen=True)
class TextScores:
    """One text of one fold. `candidates` has a row per candidate in the fused order, `lists` one per retriever."""

    fold: int
    judged: bool
    candidates: pa.Table
    lists: pa.Table
    missed: pa.Array
    """The relevant labels that no list holds."""
    retrievers: tuple[str, ...]
    """Those whose lists were fused."""


def column_names(retriever: str) -> tuple[str, str, str]:
    """The columns of a retriever: its rank, its score and the normalised score."""
    return f"{retriever}_rank", f"{retriever}_score", f"{retriever}_normalized"


def explain_text(rows: pa.Table, plan: TextPlan) -> list[TextScores]:
    """The list rows of one text, explained fold by fold."""
    if plan.cell.subset:
        rows, plan = _of_subset(rows, plan)
    problems = Problems()
    batch = read_texts(rows, plan.layout, problems)
    if problems:
        raise problems.error()
    if batch is None:
        return []
    if plan.train_texts is not None:
        plan.train_texts.attach(batch)
    texts, groups = batch.texts, plan.layout.group_names
    ((pool_view,),) = pool_views(texts, (plan.view,), groups, plan.scope, keep_all=True)
    if len(pool_view.pools.repeated):
        report_repeated(batch, pool_view.pools.repeated, plan.layout, problems)
        raise problems.error()
    ((_, fused),) = plan.grid.fused(pool_view.pools)
    ranking, begin = top(pool_view.take(fused), pool_view.offset, int(np.diff(pool_view.offset).max(initial=0)))
    explained = []
    for query in range(len(texts)):
        chosen = ranking[begin[query] : begin[query + 1]]
        place = chosen if pool_view.member is None else pool_view.member[chosen]
        only = np.arange(len(texts)) == query
        relevant = texts.relevant_labels(groups, plan.view, only)
        judged = bool(batch.judged[query])
        columns = {
            "rank": pa.array(np.arange(1, len(place) + 1), pa.int32()),
            "label_id": batch.decode(pool_view.pools.label[place]),
            "relevant": pa.array(np.isin(place, pool_view.relevant_candidate) if judged else [None] * len(place)),
            "fused": pa.array(fused[place], pa.float32()),
            **_retriever_columns(pool_view, plan, place),
        }
        columns["relevant"] = columns["relevant"].cast(pa.bool_())
        missed = np.setdiff1d(relevant, pool_view.pools.label[place])
        lists = _list_table(pool_view, plan.layout, query)
        fold = int(batch.fold[query])
        not_listed = batch.decode(missed.astype(np.int32))
        explained.append(TextScores(fold, judged, pa.table(columns), lists, not_listed, plan.layout.retrievers))
    return sorted(explained, key=lambda text: text.fold)


def _of_subset(rows: pa.Table, plan: TextPlan) -> tuple[pa.Table, TextPlan]:
    """The lists of the retrievers that the cell is fixed to, as if there were no others."""
    layout, slots = plan.layout, len(plan.layout.slots)
    for name in plan.cell.subset:
        if name not in layout.retrievers:
            raise unknown_name(f"retriever (in the cell {plan.cell})", name, layout.retrievers)
    kept = [number for number, name in enumerate(layout.retrievers) if name in plan.cell.subset]
    new_code = {code: code for code in pc.unique(rows["list"]).to_pylist() if code <= JUDGEMENT}
    for new, old in enumerate(kept):
        new_code |= {old * slots + slot: new * slots + slot for slot in range(slots)}
    inside = rows.filter(pc.is_in(rows["list"], value_set=pa.array(list(new_code), pa.int32())))
    codes = pa.array([new_code[code] for code in inside["list"].to_pylist()], pa.int32())
    inside = inside.set_column(inside.schema.get_field_index("list"), "list", codes)
    retrievers = tuple(layout.retrievers[number] for number in kept)
    sources = tuple(layout.sources[number] for number in kept) if layout.sources else ()
    # Weights of retrievers outside of the subset have nothing to weigh.
    name, values = parse_call(plan.cell.fusion)
    others = set(FUSIONS[plan.cell.fusion].weights) - set(retrievers)
    inner = print_call(name, {word: numbers[0] for word, numbers in values.items() if word not in others})
    cell = Cell(plan.cell.scaling, inner)
    layout = replace(layout, retrievers=retrievers, sources=sources)
    learned = {view: of_view.of_lists(kept) for view, of_view in plan.learned.items()}
    return inside, replace(plan, layout=layout, cell=cell, learned=learned)


def _retriever_columns(pool_view: PoolView, plan: TextPlan, place: Array) -> dict[str, pa.Array]:
    """Rank, score and normalised score in every list. A normalised score without a rank was imputed. Under a model, its
    place is taken by the retriever's part of the score; what no retriever adds is in a column of its own."""
    pools = pool_view.pools
    if plan.model is None:
        candidates = Candidates(pools, NORMALIZATIONS[plan.cell.normalization], policies=plan.policies)
        parts = dict(zip(plan.layout.retrievers, candidates.x, strict=True))
    else:
        parts = plan.model.parts(Features(pools, plan.layout.retrievers))
    columns: dict[str, pa.Array] = {}
    nothing = np.full(len(pools.label), np.nan)
    for r, retriever in enumerate(plan.layout.retrievers):
        ranks, normalized = pools.position[r, place] + 1, parts.get(retriever, nothing)[place]
        absent = ranks == 0
        values = (
            pa.array(ranks.astype(np.int32), mask=absent),
            pa.array(pools.score[r, place], mask=absent),
            pa.array(normalized, mask=np.isnan(normalized)),
        )
        columns.update(zip(column_names(retriever), values, strict=True))
    if OTHER in parts:
        columns[OTHER] = pa.array(parts[OTHER][place])
    return columns


def _list_table(pool_view: PoolView, layout: Layout, query: int) -> pa.Table:
    """The figures of each list that the normalisation reads; those of an empty list are null."""
    of = pool_view.pools.statistics
    rows = [
        {
            "retriever": retriever,
            "size": int(of.size[query, r]),
            "min": of.low[query, r],
            "max": of.high[query, r],
            "mean": of.mean[query, r],
            "std": of.std[query, r],
        }
        if of.size[query, r]
        else {"retriever": retriever, "size": 0}
        for r, retriever in enumerate(layout.retrievers)
    ]
    return pa.Table.from_pylist(rows, LIST_SCHEMA)
