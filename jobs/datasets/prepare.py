"""Job `prepare`: a published dataset becomes the tables samples, labels and folds."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from fusion.errors import InputError
from fusion.labels import ALL, DatasetStatistics
from jobs.datasets.formats import check_settings
from jobs.datasets.kept import Texts, choose_texts
from jobs.datasets.labels import Vocabulary, make_vocabulary
from jobs.datasets.readers import REMEDY, TABLE, RawDataset
from jobs.engines.credentials import job
from jobs.engines.engine import Engine
from jobs.runtime.log import log
from jobs.settings.config import Config
from jobs.settings.prepare import PaperStatistics, PrepareSettings, paths_of
from jobs.storage.folders import ResultFolder, as_table, read_object
from jobs.storage.stages import import_closure, run_stage
from jobs.storage.workspace import FOLDS, LABELS, SAMPLES, STATISTICS, TEST, TRAIN, VALIDATION, Workspace
from udfs.datasets.prepared import LabelNumbers, folds_step, pairs_step, role_counts_step, samples_step
from udfs.splits import files_of
from udfs.stores.objects import Listed, content_digest

SCRATCH = "scratch"


@job
def run(engine: Engine[Any], config: Config) -> dict[str, Any]:
    """Prepare the dataset, unless that was done before; its statistics."""
    settings, place = config.prepare, Workspace.of(config)
    reader = check_settings(settings)
    # Where the files lie, and what the paper says, does not change the tables.
    chosen = settings.model_dump(mode="json", exclude={"folder", "paper"})
    key = {"dataset": config.dataset, "settings": chosen, "inputs": input_fingerprints(settings)}

    def build(folder: ResultFolder) -> dict[str, int]:
        raw = reader.read(engine, settings)
        statistics = {"dataset": config.dataset, **_write_tables(engine, raw, settings, folder)}
        folder.write_text(STATISTICS, json.dumps(statistics, indent=2) + "\n")
        return {name: statistics[name] for name in ("texts", "labels", "pairs")}

    run_stage("prepare", place.prepared, key, build, import_closure("jobs.datasets.prepare"))
    statistics: dict[str, Any] = read_object(place.statistics)
    return statistics


def input_fingerprints(settings: PrepareSettings) -> dict[str, list[str]]:
    """By the names in the settings, so that another content is noticed and another folder is not.

    A file of this machine is known by its bytes, one in a store by the store's tag, a catalog table by its name only.
    """
    wanted = [*(part.texts for part in settings.parts), *(part.labels for part in settings.parts), settings.label_file]
    names = [name for names in wanted if names for name in ([names] if isinstance(names, str) else names)]
    return {name: _fingerprint(paths_of(settings, name)[0]) for name in names}


def _fingerprint(path: str) -> list[str]:
    if path.startswith(TABLE):
        return [path]
    return [content_digest(file.name, Listed("", file.size, file.modified)) for file in files_of([path], REMEDY)]


def summary(statistics: Mapping[str, Any], paper: PaperStatistics | None = None) -> str:
    """The dataset's row of the paper's table, the paper's own figures below ours, and the share of cold test pairs."""
    columns = ["texts", "labels", "tail_per_text", "head_per_text", "texts_per_label"]
    bounded = statistics.get("label_groups", {})
    shown = ["-" if bounded and column.endswith("_per_text") else _figure(statistics[column]) for column in columns]
    rows = [[statistics["dataset"], "ours", *shown]]
    if paper is not None:
        rows.append(["", "paper", *(_figure(getattr(paper, column)) for column in columns)])
    table = as_table(["dataset", "", "texts N", "labels L", "tail/text", "head/text", "texts/label"], rows)
    return "\n".join([table, *_group_line(bounded), *_cold_line(statistics.get("cold_shares", {}))])


def _group_line(groups: Mapping[str, Mapping[str, int]]) -> list[str]:
    """How many labels are in each group by bounds."""
    sizes = ", ".join(f"{figures['labels']:,} {name}" for name, figures in groups.items())
    return [f"labels by training texts: {sizes}"] if sizes else []


def _cold_line(shares: Mapping[str, float]) -> list[str]:
    """How many test pairs only a retriever over the words of labels can find."""
    if not shares:
        return []
    groups = ", ".join(f"{100 * share:.1f}% of the {name} ones" for name, share in shares.items() if name != ALL)
    return [f"labels without training texts: {100 * shares[ALL]:.1f}% of the test pairs ({groups})"]


def _write_tables(
    engine: Engine[Any], raw: RawDataset, settings: PrepareSettings, folder: ResultFolder
) -> dict[str, Any]:
    """Write samples, labels and folds; the figures about them."""
    # Published files are read once: they are slow to read, and several steps look at the texts.
    scratch = f"{folder.uri}/{SCRATCH}/texts.parquet"
    engine.write(raw.texts, scratch)
    texts = choose_texts(engine, scratch, settings)
    vocabulary = make_vocabulary(texts, raw, settings)
    labels, numbers = vocabulary.table(raw.labels), LabelNumbers(vocabulary.labels)

    folder.write_parquet(LABELS, labels)
    engine.write(engine.map(texts.rows("text"), samples_step(texts.kept, numbers)), f"{folder.uri}/{SAMPLES}")
    engine.write(engine.map(texts.rows(), folds_step(texts.kept, texts.division)), f"{folder.uri}/{FOLDS}")
    folds = _fold_figures(texts, numbers, vocabulary, settings)
    folder.remove(SCRATCH)
    return {
        **_figures(vocabulary, labels, folds, settings),
        "read": dict(texts.counts),
        "cold_shares": cold_shares(folds),
        "folds": folds,
    }


def _figures(
    vocabulary: Vocabulary, labels: pa.Table, folds: Sequence[Mapping[str, Any]], settings: PrepareSettings
) -> dict[str, Any]:
    """Figures about texts and labels."""
    # Every text has one role in each fold.
    texts = sum(folds[0][role] for role in (TRAIN, VALIDATION, TEST))
    row = DatasetStatistics.of(texts, vocabulary.frequencies, vocabulary.groups, settings.folds)
    one_fold = len(folds) == 1
    bounded = {} if settings.label_groups is None else {"label_groups": _group_figures(vocabulary, settings)}
    return {
        "texts": row.texts,
        "labels": row.labels,
        "pairs": row.pairs,
        "head_labels": row.head_labels,
        "tail_per_text": row.tail_per_text,
        "head_per_text": row.head_per_text,
        "texts_per_label": float(vocabulary.training.mean()) if one_fold else row.texts_per_label,
        **bounded,
        "labels_without_texts": vocabulary.unused,
        "named_labels": sum(name != label for name, label in zip(*_strings(labels, "name", "label"), strict=True)),
        "labels_with_alt_names": sum(map(bool, labels["alt_names"].to_pylist())),
        "labels_with_description": sum(bool(text.strip(" ")) for text in labels["description"].to_pylist()),
    }


def _strings(table: pa.Table, *names: str) -> list[list[str]]:
    return [table[name].to_pylist() for name in names]


def _group_figures(vocabulary: Vocabulary, settings: PrepareSettings) -> dict[str, dict[str, int]]:
    """The labels of each group by bounds, and the pairs with texts of any role."""
    figures = {}
    for name in settings.label_groups or {}:
        inside = np.asarray(vocabulary.groups) == name
        figures[name] = {"labels": int(inside.sum()), "pairs": int(vocabulary.frequencies[inside].sum())}
    return figures


def _fold_figures(
    texts: Texts, numbers: LabelNumbers, vocabulary: Vocabulary, settings: PrepareSettings
) -> list[dict[str, Any]]:
    """The texts of each role, the labels that only test texts carry, and by label group the test pairs and how many of
    them are cold.

    A pair of a test text and a label is cold if no training text of the fold carries the label: a retriever can find it
    by the label's words alone.
    """
    engine, groups = texts.engine, pa.array(vocabulary.groups.tolist(), pa.string())
    counted = engine.map(texts.rows(), role_counts_step(texts.kept, texts.division, numbers))
    rows = engine.collect(engine.group(counted, ["fold", "label_id"], pairs_step(groups)))
    folds: list[dict[str, Any]] = [
        {"fold": fold, **dict.fromkeys((TRAIN, VALIDATION, TEST), 0), "labels_only_in_test": 0}
        | {"test_pairs": defaultdict(int), "cold_pairs": defaultdict(int)}
        for fold in range(texts.division.folds)
    ]
    for row in sorted(rows.to_pylist(), key=lambda row: (row["fold"], row["label_group"] or "")):
        figures, group = folds[row["fold"]], row["label_group"]
        if group is None:
            for role in (TRAIN, VALIDATION, TEST):
                figures[role] += row[role]
            continue
        figures["labels_only_in_test"] += row["only_in_test"]
        for name in ("test_pairs", "cold_pairs"):
            figures[name][group] += row[name]
    for figures in folds:
        _check_fold(figures, settings)
    return folds


def _check_fold(figures: Mapping[str, Any], settings: PrepareSettings) -> None:
    """Refuse a fold that has nothing to train on or nothing to test."""
    fold = figures["fold"]
    for role in (TRAIN, TEST):
        if not figures[role]:
            few = f"too few different texts (or group keys) for {settings.folds} folds; set prepare.folds lower, or"
            reason = few if settings.split == "folds" else "too few texts; set"
            raise InputError(f"fold {fold} has no {role} texts: {reason} another prepare.seed")
    if settings.validation_share and not figures[VALIDATION]:
        log(f"prepare: fold {fold} has no validation texts; early stopping cannot work there")


def cold_shares(folds: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The share of test pairs whose label no training text carries, over all folds: of all labels, and by group."""
    groups = sorted({group for fold in folds for group in fold["test_pairs"]})
    chosen = {ALL: groups, **{group: [group] for group in groups}}
    cold, tested = (
        {name: sum(fold[kind].get(group, 0) for fold in folds for group in some) for name, some in chosen.items()}
        for kind in ("cold_pairs", "test_pairs")
    )
    return {name: cold[name] / max(tested[name], 1) for name in chosen}


def _figure(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"
