"""A small true dataset for hostile files: what it means, what its figures are, and how each format writes it."""

from __future__ import annotations

import csv
import io
import json
import math
import pickle
import random
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tests import reference

Row = dict[str, Any]
Figures = dict[tuple[Any, ...], tuple[float, int]]
"""By fold, normalisation, fusion, label group, metric, cut-off and ideal: the value, and the number of queries."""
RETRIEVERS = ("a", "b")
CELLS = (("zmuv", "combmnz"), ("borda", "combsum"), ("rank", "isr"))
NDCG, PRECISION = 3, 2
"""The cut-offs."""


@dataclass
class Truth:
    """What the files say, as plain Python."""

    runs: dict[str, list[Row]]
    judgements: list[Row]
    groups: list[Row]
    folds: list[Row]
    texts: list[Row]
    """Texts with their labels, which are called l0, l1 and so on, for `prepare`."""
    gain: str
    divided: bool
    """Whether the label groups and folds are given, or only runs and judgements."""

    def rows(self, kind: str) -> list[Row]:
        return self.runs["a"] if kind == "run" else getattr(self, kind, self.texts)

    def tables(self) -> list[list[Row]]:
        return [*self.runs.values(), self.judgements, self.groups, self.folds]


def small_truth(rng: random.Random) -> Truth:
    """Some texts, labels in two groups, many ties, texts without candidates, in two folds of which one has training
    texts. Scores are what single precision can hold."""
    digits = rng.random() < 0.3
    # Every file has characters beyond ASCII, unless all ids are numbers.
    labels = [f"{n + 101}" if digits else f"l{n}{'é' * (n % 3 == 1)}" for n in range(8)]
    texts = [f"{n + 11}" if digits else f"t{n}{'ü' * (n == 1)}" for n in range(rng.randint(4, 6))]
    graded = rng.random() < 0.5
    runs: dict[str, list[Row]] = {name: [] for name in RETRIEVERS}
    for name, rows in runs.items():
        for text in texts[: None if name == "b" else -1]:
            chosen = rng.sample(labels, rng.randint(2, 6))
            rows += [{"text_id": text, "label_id": label, "score": rng.randint(-8, 24) / 8} for label in chosen]
    judgements = [
        {"text_id": text, "label_id": label, "grade": rng.choice([0, 1, 1, 2, 3]) if graded else 1}
        for text in texts
        for label in rng.sample(labels, rng.randint(2, 4))
    ]
    groups = [{"label_id": label, "label_group": "head" if n % 3 == 0 else "tail"} for n, label in enumerate(labels)]
    folds = [{"fold": n % 2, "text_id": text, "role": "test"} for n, text in enumerate(texts)]
    folds += [{"fold": 0, "text_id": text, "role": "train"} for text in texts[1::2]]
    prepared = [{"text": f"text {n}, été", "labels": sorted(rng.sample(range(6), rng.randint(1, 3)))} for n in range(5)]
    gain, divided = rng.choice(["linear", "exponential"]), rng.random() < 0.5
    return Truth(runs, judgements, groups, folds, prepared, gain, divided)


def figures(truth: Truth) -> Figures:
    """Every figure by the formulas, text by text."""
    scores = {name: _nested(rows, "score") for name, rows in truth.runs.items()}
    grades = _nested(truth.judgements, "grade")
    group_of = {row["label_id"]: row["label_group"] for row in truth.groups}
    everywhere = {row["label_id"] for rows in truth.tables()[:-1] for row in rows}
    labels = sorted(everywhere, key=_id_order)
    number = {label: n for n, label in enumerate(labels)}
    folds = truth.folds if truth.divided else [{"fold": 0, "text_id": text, "role": "test"} for text in grades]
    views = ("all", *sorted(set(group_of.values()))) if truth.divided else ("all",)
    per_text: dict[tuple[Any, ...], list[float]] = {}
    for row in folds:
        text = row["text_id"]
        if row["role"] != "test" or text not in grades:
            continue
        everything = {label: grade for label, grade in grades[text].items() if grade > 0}
        for group in views:
            inside = {label: g for label, g in everything.items() if group in ("all", group_of[label])}
            if group != "all" and not any(grade >= 1 for grade in inside.values()):
                continue
            lists = {}
            for name in RETRIEVERS:
                kept = {
                    label: s for label, s in scores[name].get(text, {}).items() if group in ("all", group_of[label])
                }
                lists[name] = {number[label]: score for label, score in _of_modest_size(kept).items()}
            rankings = {cell: [labels[n] for n, _ in reference.fuse(lists, *cell)] for cell in CELLS}
            rankings |= {("single", name): [labels[n] for n in reference.ordered(lists[name])] for name in RETRIEVERS}
            for cell, ranking in rankings.items():
                of_cell = (row["fold"], *cell, group)
                hits = sum(grades[text].get(label, 0) >= 1 for label in ranking[:PRECISION])
                per_text.setdefault((*of_cell, "precision", PRECISION, "all"), []).append(hits / PRECISION)
                for ideal, best in {"all": everything, "group": inside}.items():
                    if group != "all" or ideal == "all":
                        value = _ndcg(ranking, everything, best, truth.gain)
                        per_text.setdefault((*of_cell, "ndcg", NDCG, ideal), []).append(value)
    return {key: (math.fsum(values) / len(values), len(values)) for key, values in per_text.items()}


def _ndcg(ranking: Iterable[str], grades: Mapping[str, float], best: Mapping[str, float], gain: str) -> float:
    """Gains are taken relative to the largest one, so that no grade is too large."""
    top = max(best.values(), default=0)

    def worth(grade: float) -> float:
        if gain == "linear":
            return grade / top
        return 2.0 ** (grade - top) - 2.0 ** max(-top, -1100)

    def total(of: Iterable[float]) -> float:
        return sum(worth(grade) / math.log2(place + 2) for place, grade in enumerate(of) if grade > 0)

    if not best:
        return 0.0
    got = [grades.get(label, 0.0) for label in list(ranking)[:NDCG]]
    return total(got) / total(sorted(best.values(), reverse=True)[:NDCG])


def _of_modest_size(scores: Mapping[str, float]) -> dict[str, float]:
    """Giant scores divided by a power of two, which none of the cells takes notice of."""
    largest = max(map(abs, scores.values()), default=0)
    return {label: s * 2.0**-900 if largest > 1e200 else s for label, s in scores.items()}


def _nested(rows: Iterable[Row], value: str) -> dict[str, dict[str, float]]:
    nested: dict[str, dict[str, float]] = {}
    for row in rows:
        nested.setdefault(row["text_id"], {})[row["label_id"]] = float(row[value])
    return nested


def _id_order(name: str) -> tuple[Any, ...]:
    """Whole numbers by value, then other ids by their characters."""
    whole = name.isascii() and name.isdigit() and (name == "0" or name[0] != "0")
    return (not whole, len(name) if whole else 0, name)


def rename(truth: Truth, column: str, old: str, new: str) -> None:
    """Give a text or a label another id, wherever it stands."""
    for row in (row for rows in truth.tables() for row in rows):
        if row.get(column) == old:
            row[column] = new


def by_text(rows: Iterable[Row]) -> dict[str, list[Row]]:
    grouped: dict[str, list[Row]] = {}
    for row in rows:
        grouped.setdefault(row["text_id"], []).append(row)
    return grouped


def literal(value: Any) -> str:
    """A number as text formats write it; what is a string is written as it is."""
    return value if isinstance(value, str) else repr(value)


def trec(rows: list[Row]) -> str:
    return "".join(f"{row['text_id']} Q0 {row['label_id']} 1 {literal(row['score'])} tag\n" for row in rows)


def qrels(rows: list[Row]) -> str:
    return "".join(f"{row['text_id']} 0 {row['label_id']} {literal(row['grade'])}\n" for row in rows)


def json_id(name: Any) -> str:
    return json.dumps(name, ensure_ascii=False)


def jsonl(rows: list[Row]) -> str:
    return "".join(
        f'{{"text_id": {json_id(text)}, "label_ids": [{", ".join(json_id(row["label_id"]) for row in of)}], '
        f'"scores": [{", ".join(literal(row["score"]) for row in of)}]}}\n'
        for text, of in by_text(rows).items()
    )


def ranx(rows: list[Row]) -> str:
    lists = []
    for text, of in by_text(rows).items():
        pairs = ", ".join(f"{json_id(row['label_id'])}: {literal(row['score'])}" for row in of)
        lists.append(f"{json_id(text)}: {{{pairs}}}")
    return f"{{{', '.join(lists)}}}"


def long_table(rows: list[Row]) -> pa.Table:
    """Whole numbers where all ids are such, as people's tables have them."""
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return pa.table({name: ids(values) if name.endswith("_id") else values for name, values in columns.items()})


def list_table(rows: list[Row]) -> pa.Table:
    """One row per text; columns in the plural."""
    grouped = by_text(rows)
    sizes = [len(of) for of in grouped.values()]
    ends = pa.array([sum(sizes[:n]) for n in range(len(sizes) + 1)], pa.int32())
    columns: dict[str, pa.Array] = {"text_id": ids(list(grouped))}
    for name in (name for name in rows[0] if name != "text_id"):
        values = [row[name] for of in grouped.values() for row in of]
        flat = ids(values) if name == "label_id" else pa.array(values)
        columns[f"{name}s"] = pa.ListArray.from_arrays(ends, flat)
    return pa.table(columns)


def ids(names: list[Any]) -> pa.Array:
    whole = all(isinstance(n, str) and n.isascii() and n.isdigit() and n[0] != "0" and len(n) < 19 for n in names)
    return pa.array([int(name) for name in names], pa.int64()) if whole else pa.array(names, pa.string())


def strings(rows: list[Row]) -> pa.Table:
    """A file that is not hostile, with all ids as strings."""
    return pa.table({name: [row[name] for row in rows] for name in rows[0]})


def forms_of(name: str) -> tuple[str, str]:
    """Both Unicode forms of a name that has an accent."""
    return unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name)


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _names(row: Row) -> list[str]:
    return [f"l{n}" for n in row["labels"]]


def _record(**values: Any) -> str:
    return json.dumps(values, ensure_ascii=False)


def texts_table(rows: list[Row]) -> pa.Table:
    return pa.table({"text": [row["text"] for row in rows], "labels": [_names(row) for row in rows]})


def new_texts(rows: list[Row]) -> list[Row]:
    """Texts without labels, for `predict`."""
    return [{"text_id": f"t{n}", "text": row["text"]} for n, row in enumerate(rows)]


def sparse(rows: list[Row]) -> str:
    return _lines([f"{len(rows)} 9 6", *(f"{','.join(map(str, row['labels']))} 0:1.5 8:2" for row in rows)])


def texts_csv(rows: list[Row]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(["text", "labels"])
    writer.writerows([row["text"], "|".join(_names(row))] for row in rows)
    return file.getvalue()


def samples(rows: list[Row]) -> bytes:
    made = [
        {"idx": n, "text_idx": n, "text": row["text"], "labels_ids": row["labels"], "labels": _names(row)}
        for n, row in enumerate(rows)
    ]
    return pickle.dumps(made)


YAML = """\
dataset: démo
inputs:
  candidates:
    a: one.trec
    b: "two.trec"
evaluate:
  relevant_from: 2
  metrics: [ndcg@3]
nightly:
  tolerance: 0.25
"""
SETTINGS = {
    "dataset": "démo",
    "inputs.candidates": {"a": "one.trec", "b": "two.trec"},
    "evaluate.relevant_from": 2.0,
    "evaluate.metrics": ["ndcg@3"],
    "nightly.tolerance": 0.25,
    "nightly.alpha": 0.01,
}
"""What the file says, and a setting that it says nothing about."""

WRITERS: dict[str, Callable[[list[Row]], str | bytes | pa.Table]] = {
    "trec": trec,
    "qrels": qrels,
    "jsonl": jsonl,
    "ranx": ranx,
    "long": long_table,
    "lists": list_table,
    "yaml": lambda rows: YAML,
    "texts-jsonl": lambda rows: _lines(_record(text=row["text"], labels=_names(row)) for row in rows),
    "new-jsonl": lambda rows: _lines(_record(**row) for row in new_texts(rows)),
    "new-table": lambda rows: pa.Table.from_pylist(new_texts(rows)),
    "texts-csv": texts_csv,
    "texts-table": texts_table,
    "texts-lines": lambda rows: _lines(row["text"] for row in rows),
    "names-lines": lambda rows: _lines(" ".join(_names(row)) for row in rows),
    "ids-lines": lambda rows: _lines(",".join(map(str, row["labels"])) for row in rows),
    "labels-lines": lambda rows: _lines(f"l{n}" for n in range(6)),
    "labels-jsonl": lambda rows: _lines(_record(label=f"l{n}", name=f"l{n}", source="é") for n in range(6)),
    "xc-json": lambda rows: _lines(_record(title=row["text"], content="", target_ind=row["labels"]) for row in rows),
    "sparse": sparse,
    "pickle": samples,
}


@dataclass(frozen=True)
class Form:
    """A format of a file: what it holds, who writes it, its name, and words that mutations go by."""

    kind: str
    writer: str
    file: str
    words: frozenset[str]


def _form(kind: str, writer: str, file: str, *words: str) -> Form:
    return Form(kind, writer, file, frozenset({kind, writer, "gzip" if file.endswith(".gz") else "plain", *words}))


FORMS = [
    _form("run", "trec", "run.trec", "eval", "text"),
    _form("run", "trec", "run.trec.gz", "eval", "text"),
    _form("run", "jsonl", "run.jsonl", "eval", "text", "json"),
    _form("run", "jsonl", "run.jsonl.gz", "eval", "text", "json"),
    _form("run", "ranx", "run.json", "eval", "text", "json"),
    _form("run", "ranx", "run.json.gz", "eval", "text", "json"),
    _form("run", "lists", "lists.parquet", "eval", "table"),
    _form("run", "long", "long.parquet", "eval", "table"),
    _form("run", "lists", "together.parquet", "eval", "table", "together"),
    _form("judgements", "qrels", "judged.qrels", "eval", "text", "trec"),
    _form("judgements", "qrels", "judged.qrels.gz", "eval", "text", "trec"),
    _form("judgements", "lists", "judged-lists.parquet", "eval", "table"),
    _form("judgements", "long", "judged-long.parquet", "eval", "table"),
    _form("groups", "long", "groups.parquet", "eval", "table"),
    _form("folds", "long", "folds.parquet", "eval", "table"),
    _form("config", "yaml", "config.yaml", "text"),
    _form("texts", "texts-jsonl", "texts.jsonl", "prepare", "text", "json", "jsonl", "records"),
    _form("texts", "texts-jsonl", "texts.jsonl.gz", "prepare", "text", "json", "jsonl", "records"),
    _form("texts", "new-jsonl", "new.jsonl", "prepare", "new", "text", "json", "jsonl", "records"),
    _form("texts", "new-jsonl", "new.jsonl.gz", "prepare", "new", "text", "json", "jsonl", "records"),
    _form("texts", "new-table", "new.parquet", "prepare", "new", "table", "records"),
    _form("texts", "texts-csv", "texts.csv", "prepare", "text", "records", "csv"),
    _form("texts", "texts-table", "texts.parquet", "prepare", "table", "records"),
    _form("texts", "texts-lines", "X.txt", "prepare", "text", "lines"),
    _form("texts", "texts-lines", "X.txt.gz", "prepare", "text", "lines"),
    _form("labels", "names-lines", "names.txt", "prepare", "text", "lines"),
    _form("labels", "ids-lines", "ids.txt", "prepare", "text", "lines", "ids"),
    _form("names", "labels-lines", "labels.txt", "prepare", "text", "lines"),
    _form("names", "labels-jsonl", "labels.jsonl", "prepare", "text", "json", "jsonl"),
    _form("texts", "xc-json", "trn.json.gz", "prepare", "text", "json", "jsonl", "xc", "records"),
    _form("labels", "sparse", "sparse.txt", "prepare", "text", "lines", "ids"),
    _form("texts", "pickle", "samples.pkl", "prepare"),
]
NAMED = {"format": "lines-names", "texts": "X.txt", "labels": "names.txt"}
DATASETS = {
    "texts.jsonl": {"format": "jsonl", "texts": "texts.jsonl"},
    "texts.jsonl.gz": {"format": "jsonl", "texts": "texts.jsonl.gz"},
    "texts.csv": {"format": "csv", "texts": "texts.csv"},
    "texts.parquet": {"format": "parquet", "texts": "texts.parquet"},
    "X.txt": NAMED,
    "X.txt.gz": {**NAMED, "texts": "X.txt.gz"},
    "names.txt": NAMED,
    "ids.txt": {"format": "lines-ids", "texts": "X.txt", "labels": "ids.txt", "label_file": "labels.txt"},
    "labels.txt": {"format": "lines-ids", "texts": "X.txt", "labels": "ids.txt", "label_file": "labels.txt"},
    "labels.jsonl": {"format": "jsonl", "texts": "texts.jsonl", "label_file": "labels.jsonl"},
    "trn.json.gz": {"format": "xc-json", "texts": "trn.json.gz", "label_file": "labels.txt"},
    "sparse.txt": {"format": "xc-sparse", "texts": "X.txt", "labels": "sparse.txt", "label_file": "labels.txt"},
    "samples.pkl": {"format": "samples-pkl", "texts": "samples.pkl"},
}
"""By hostile file, the dataset that it is a part of."""
