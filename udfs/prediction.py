"""New texts in the workers: labels are ranked, rankings fused, scores become probabilities, and labels are assigned.

A model is opened once per process. A text's labels depend on this text alone, whatever the batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import pyarrow as pa

from fusion.grid.grid import Grid
from fusion.kernel.texts import pool_views
from fusion.labels import ALL
from fusion.models.calibration import Calibration
from fusion.models.strategies import DEPLOYED
from fusion.retrieval.ranked import Ranked
from fusion.types import Array, Floats, Ints
from udfs.counter import id_keys
from udfs.fuse import FusionPlan, fuse_lists
from udfs.problems import Problems
from udfs.retrieval.retriever import CHUNK, Retriever
from udfs.retrieval.retriever import Model as RetrieverModel
from udfs.steps import Batches, Step
from udfs.stores.cache import readable_folder
from udfs.texts import LIST_ROW, Batch, Work, read_texts
from udfs.tuning import TrainTexts, prepared

CANDIDATES_SCHEMA = pa.schema(
    [
        ("text", pa.int64()),
        ("label_group", pa.int8()),
        ("score", pa.float32()),
        ("relevant", pa.bool_()),
        ("texts", pa.int64()),
        ("relevant_labels", pa.int64()),
        ("problems", pa.string()),
    ]
)
"""Candidates of judged texts. Each batch ends with a row of its number of texts and of their relevant labels."""


@dataclass(frozen=True)
class Fuser:
    """Fuses the lists of texts that come straight from retrievers, exactly as lists that were written are fused."""

    plan: FusionPlan
    train_texts: TrainTexts | None = None

    @cached_property
    def _work(self) -> Work:
        return prepared(fuse_lists(self.plan), None, self.train_texts)

    def __call__(self, lists: Sequence[Ranked], texts: int) -> pa.Table:
        """The fused lists of all labels: text_id (the place of the text), label_ids and scores, by text. A text without
        a candidate has none."""
        rows = list_table(lists, len(self.plan.layout.slots), texts)
        problems = Problems()
        batch = read_texts(rows, self.plan.layout, problems) if len(rows) else None
        batches = [] if batch is None else list(self._work(iter([batch]), problems))
        if problems:
            raise problems.error()
        return pa.Table.from_batches(batches, self.plan.schema).select(["text_id", "label_ids", "scores"])


def list_table(lists: Sequence[Ranked], groups: int, texts: int) -> pa.Table:
    """The lists of several retrievers as list rows, by text. Empty lists are left out, as they are in files."""
    size = np.concatenate([np.diff(ranked.offset) for ranked in lists])
    # Row [retriever, text, group], taken text by text; its list code is retriever * groups + group.
    place = np.arange(len(size)).reshape(len(lists), texts, groups).transpose(1, 0, 2).reshape(texts, -1)
    code = np.tile(np.arange(len(lists) * groups, dtype=np.int32), texts)
    text = np.repeat(np.arange(texts), len(lists) * groups)
    order = place.ravel()
    kept = size[order] > 0
    offset = pa.array(np.concatenate(([0], np.cumsum(size))), pa.int32())
    columns = [
        pa.ListArray.from_arrays(offset, pa.array(np.concatenate(values))).take(pa.array(order[kept]))
        for values in ([ranked.item for ranked in lists], [ranked.score for ranked in lists])
    ]
    about = [pa.array(text[kept]), pa.array(np.zeros(kept.sum(), np.int32)), pa.array(code[kept])]
    return pa.table(dict(zip(LIST_ROW, [*about, *columns], strict=True)))


@dataclass(frozen=True)
class Assigning:
    """How many labels a text is given: at most `top`, with at least the threshold as probability."""

    top: int
    threshold: float = 0.0


@dataclass(frozen=True)
class Labelled:
    """One entry per text and assigned label, by text, best first."""

    text: Ints
    """The place of the text."""
    rank: Ints
    """From 1."""
    label: Array
    score: Array
    probability: Floats


@dataclass(frozen=True)
class Model:
    """What labels texts, as workers get it: retrievers, where their models are, fusion and calibration."""

    folder: str
    fingerprint: str
    retrievers: tuple[Retriever, ...]
    fuser: Fuser
    calibrations: Mapping[str, Calibration]
    """By label group."""

    def label(self, texts: Sequence[str], assigning: Assigning) -> Labelled:
        """The labels of texts."""
        return self.assigned(self.fuser(self.lists(texts), len(texts)), assigning)

    def lists(self, texts: Sequence[str]) -> list[Ranked]:
        """The lists of every retriever. Texts are encoded once for all retrievers that read the same encoding."""
        encoded = {encoding: encoding(list(texts)) for encoding in dict.fromkeys(it.encoding for it in self.retrievers)}
        models = opened(self.folder, self.fingerprint, self.retrievers)
        return [model.rank(encoded[it.encoding]) for it, model in zip(self.retrievers, models, strict=True)]

    def assigned(self, fused: pa.Table, assigning: Assigning) -> Labelled:
        """From fused lists to labels with probabilities. The order is that of the fused scores."""
        labels, scores = fused["label_ids"].combine_chunks(), fused["scores"].combine_chunks()
        size = labels.value_lengths().to_numpy().astype(np.int64)
        label, score = labels.flatten().to_numpy(), scores.flatten().to_numpy()
        groups = self.fuser.plan.layout.groups
        group, names = (groups.lookup(pa.array(label)), groups.names) if groups else (np.zeros(len(label)), (ALL,))
        probability = probabilities(score, group, names, self.calibrations)
        likely = probability >= assigning.threshold if assigning.threshold > 0 else np.ones(len(label), np.bool_)
        # The rank of a label among those of its text that are likely enough.
        count = np.cumsum(likely)
        first = np.repeat(np.concatenate(([0], count))[np.cumsum(size) - size], size)
        rank = count - first
        kept = likely & (rank <= assigning.top)
        text = np.repeat(fused["text_id"].to_numpy(), size)
        return Labelled(text[kept], rank[kept], label[kept], score[kept], probability[kept])


@lru_cache(maxsize=4)
def opened(folder: str, fingerprint: str, retrievers: tuple[Retriever, ...]) -> list[RetrieverModel]:
    """The models of all retrievers, opened once per process."""
    place = readable_folder(folder, fingerprint)
    return [retriever.open(place / retriever.name) for retriever in retrievers]


def probabilities(score: Array, group: Array, names: Sequence[str], calibrations: Mapping[str, Calibration]) -> Floats:
    """The probability of each candidate, by the calibration of its label group; NaN where the group has none."""
    values = np.full(len(score), np.nan)
    for number, name in enumerate(names):
        if name in calibrations:
            inside = group == number
            values[inside] = calibrations[name].probabilities(score[inside].astype(np.float64))
    return values


def predictions_schema(ids: pa.DataType) -> pa.Schema:
    """The table of predictions: one row per text and label. A text without a label has no row."""
    return pa.schema(
        [
            ("text_id", ids),
            ("rank", pa.int32()),
            ("label", pa.string()),
            ("name", pa.string()),
            ("score", pa.float32()),
            ("probability", pa.float64()),
        ]
    )


@dataclass(frozen=True)
class LabelNames:
    """What labels are called, by their numbers."""

    labels: pa.Array
    names: pa.Array


def predict_rows(model: Model, names: LabelNames, assigning: Assigning, ids: pa.DataType) -> Step:
    """From rows (text_id, text) to rows of predictions."""
    schema = predictions_schema(ids)

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for begin in range(0, batch.num_rows, CHUNK):
                rows = batch.slice(begin, CHUNK)
                labelled = model.label([text or "" for text in rows["text"].to_pylist()], assigning)
                yield prediction_rows(labelled, rows["text_id"].cast(ids), names)

    return Step(run, schema)


def prediction_rows(labelled: Labelled, ids: pa.Array, names: LabelNames) -> pa.RecordBatch:
    """Assigned labels as rows of predictions."""
    label = pa.array(labelled.label)
    columns = [
        ids.take(pa.array(labelled.text)),
        pa.array(labelled.rank, pa.int32()),
        names.labels.take(label),
        names.names.take(label),
        pa.array(labelled.score, pa.float32()),
        pa.array(labelled.probability, from_pandas=True),
    ]
    return pa.record_batch(columns, schema=predictions_schema(ids.type))


def candidate_scores(plan: FusionPlan, train_texts: TrainTexts | None) -> Work:
    """The work of an engine on judged texts: the fused score of every candidate, and whether it is relevant."""
    grid = Grid(plan.cells, plan.layout.retrievers, plan.policies, plan.learned, plan.strategies)

    def run(batches: Iterator[Batch], problems: Problems) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from _scored(batch, plan, grid)
        if problems:
            yield pa.RecordBatch.from_pylist([{"problems": problems.to_json()}], CANDIDATES_SCHEMA)

    return prepared(run, None, train_texts)


def _scored(batch: Batch, plan: FusionPlan, grid: Grid) -> Iterator[pa.RecordBatch]:
    # A text may be a validation text of several folds.
    keys = id_keys(batch.text_id) * np.int64(31) + batch.fold
    for first, block in batch.texts.blocks():
        ((view,),) = pool_views(block, (ALL,), plan.layout.group_names, plan.scope, keep_all=True)
        columns_of = dict(grid.fused(view.pools, view.normalized))
        fused = columns_of[grid.column_of[DEPLOYED]]
        pools = view.pools
        relevant = np.zeros(len(pools.label), np.bool_)
        relevant[view.relevant_candidate] = True
        columns = {
            "text": keys[np.repeat(pools.source, np.diff(pools.offset)) + first],
            "label_group": pools.group if len(pools.group) else np.zeros(len(pools.label), np.int8),
            "score": fused.astype(np.float32),
            "relevant": relevant,
        }
        yield pa.RecordBatch.from_pydict(
            {name: pa.array(columns.get(name, [None] * len(relevant)), kind) for name, kind in _types()}
        )
    relevant_labels = int((batch.texts.relevant.stop - batch.texts.relevant.start).sum())
    counts = {"texts": len(batch.texts), "relevant_labels": relevant_labels}
    yield pa.RecordBatch.from_pylist([counts], CANDIDATES_SCHEMA)


def _types() -> Iterator[tuple[str, pa.DataType]]:
    return ((field.name, field.type) for field in CANDIDATES_SCHEMA)
