"""A model that labels texts which it has never seen: how good it is, how fast, and how large.

    python -m benchmarks.labelling --config conf/datasets/debtags.yaml --work WORK [--folder FOLDER] [--write]

A fifth of the texts, or those that were published as test texts, are set apart. `xf.fit` gets the others with bm25 and
static, whose words have vectors of their own: the core, without torch. It chooses and calibrates on five folds of them;
where a split is published, on one validation part. The model then labels the texts set apart, 10,000 of them (some
repeatedly) once more in this process and on Spark. With --write, the tables go to benchmarks/results/labelling.md.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import xmtc_fusion as xf
from benchmarks.committed import tables
from benchmarks.memory import WorkerMemory, resident_bytes
from fusion.models.calibration import Candidates, calibration_error, reliability, reliability_of_expected, scaled_scores
from fusion.types import Array, Floats
from jobs.datasets import prepare
from jobs.engines.engine import Engine
from jobs.engines.local import LocalEngine
from jobs.engines.session import get_session
from jobs.engines.spark import SparkEngine
from jobs.prediction import predict
from jobs.prediction.model import load
from jobs.settings.config import Config, load_config, with_settings
from jobs.settings.prepare import paths_of
from jobs.storage.folders import folder_size
from jobs.storage.stages import stage_folder
from jobs.storage.workspace import Workspace
from tests.doc_blocks import examples
from udfs.lists import list_rows, lists_schema
from udfs.prediction.model import Model
from udfs.retrieval.retriever import CHUNK
from udfs.steps import Batches, Step

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks" / "results" / "labelling.md"
RETRIEVERS = "bm25,static"
TEXTS, SINGLE_TEXTS, WARM = 10_000, 500, 20
K = 10
NEW = "new.jsonl"
LISTED = 64
"""Labels of a text that probabilities are compared on."""


@dataclass(frozen=True)
class Apart:
    """The texts that are set apart, with their labels, and the configuration for the others."""

    texts: list[str]
    labels: list[set[str]]
    others: Config


def set_apart(config: Config, scratch: Path) -> Apart:
    """Divide the records of a dataset by the roles that `prepare` gives them."""
    prepare.run(LocalEngine(), config)
    place = stage_folder(Workspace.of(config).prepared).removeprefix("file://")
    roles = pq.read_table(f"{place}/folds.parquet").to_pydict()
    tested = {text for text, role in zip(roles["text_id"], roles["role"], strict=True) if role == "test"}
    settings = config.prepare
    (part,) = settings.parts
    (source,) = paths_of(settings, part.texts)
    records = _records(source)
    columns, id_column = settings.columns, settings.columns.text_id
    ids = [record[id_column] if id_column else number for number, record in enumerate(records)]
    name = f"others.{settings.format}"
    _write([record for number, record in zip(ids, records, strict=True) if number not in tested], scratch / name)
    apart = [record for number, record in zip(ids, records, strict=True) if number in tested]
    chosen: dict[str, Any] = {
        "dataset": f"{config.dataset}-others",
        "prepare.folder": str(scratch),
        "prepare.parts": [{"name": "others", "texts": name}],
        "prepare.label_file": str(Path(*paths_of(settings, str(settings.label_file))).absolute()),
        "prepare.split": "folds",
    }
    if settings.split == "published":
        shares = {"prepare.test_share": 0.01, "prepare.validation_share": 0.1}
        chosen |= {"prepare.split": "hash", "prepare.columns.role": None, "prepare.roles": {}, **shares}
        chosen["prepare.label_groups"] = None
    return Apart(
        [str(record[str(columns.text)]) for record in apart],
        [set(map(str, record[columns.labels])) for record in apart],
        with_settings(config, chosen),
    )


def _records(source: str) -> list[dict[str, Any]]:
    if source.endswith(".parquet"):
        return list(pq.read_table(source).to_pylist())
    with gzip.open(source, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _write(records: list[dict[str, Any]], place: Path) -> None:
    if place.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(records), place)
    else:
        place.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")


def quality(model: xf.Model, apart: Apart) -> dict[str, str]:
    """How good lists, assigned sets and probabilities are on the texts set apart."""
    listed = model.predict(apart.texts, top=LISTED)
    text, label = listed["text_id"].to_numpy(), listed["label"].to_pylist()
    relevant = np.array([label[row] in apart.labels[number] for row, number in enumerate(text)])
    rank = listed["rank"].to_numpy()
    probability = listed["probability"].to_numpy()
    group_of = dict(zip(model.labels["label"].to_pylist(), model.labels["label_group"].to_pylist(), strict=True))
    names = tuple(sorted(set(group_of.values())))
    groups = np.array([names.index(group_of[name]) for name in label])
    raw = scaled_scores(Candidates(text, groups, names, listed["score"].to_numpy(), relevant))
    size = np.array([len(labels) for labels in apart.labels])
    first = (rank <= K) & relevant
    ideal = np.cumsum(1 / np.log2(np.arange(2, K + 2)))[np.minimum(size, K) - 1]
    gained = np.bincount(text[first], 1 / np.log2(1 + rank[first]), len(size))
    assigned = model.predict(apart.texts)
    own = assigned["text_id"].to_numpy()
    hit = np.array([name in apart.labels[at] for at, name in zip(own, assigned["label"].to_pylist(), strict=True)])
    hits, given = np.bincount(own[hit], minlength=len(size)), np.bincount(own, minlength=len(size))
    return {
        "texts set apart": f"{len(size):,}",
        "labels known, per text": f"{len(model.labels):,}, {size.mean():.2f}",
        f"nDCG@{K}": _percent((gained / ideal).mean()),
        "P@1": _percent((first & (rank == 1)).sum() / len(size)),
        "F1 of what is assigned, over all labels (micro)": _percent(2 * hits.sum() / (given.sum() + size.sum())),
        "the same, mean over texts": _percent((2 * hits / (given + size)).mean()),
        "precision, recall": f"{_percent(hits.sum() / given.sum())}, {_percent(hits.sum() / size.sum())}",
        "calibration error, points": f"{100 * _error(probability, relevant):.2f}",
        "the same, labels weighted by their probability": f"{100 * _expected(probability, relevant):.2f}",
        "calibration error without calibration": f"{100 * _error(raw, relevant):.2f}",
        "mean probability of an assigned label": _percent(assigned["probability"].to_numpy().mean()),
        "labels assigned per text": f"{given.mean():.2f}",
        "texts without any": f"{(given == 0).sum():,}",
    }


def _error(probability: Floats, relevant: Array) -> float:
    return calibration_error(reliability(probability, relevant))


def _expected(probability: Floats, relevant: Array) -> float:
    return calibration_error(reliability_of_expected(probability, relevant))


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def alone(place: str, scratch: str) -> dict[str, float]:
    """What it takes to open a model and to label texts, in a process that has done nothing else."""
    model = xf.load_model(place)
    texts = [json.loads(line)["text"] for line in (Path(scratch) / NEW).read_text(encoding="utf-8").splitlines()]
    for text in texts[:WARM]:
        model.predict(text)
    singles = []
    for text in texts[:SINGLE_TEXTS]:
        started = time.perf_counter()
        model.predict(text)
        singles.append(1000 * (time.perf_counter() - started))
    found = {"median": float(np.median(singles)), "most": float(np.percentile(singles, 95))}
    engine = LocalEngine()
    labelled(place, Path(scratch), "local", None)
    found["memory"] = resident_bytes(at_peak=True)
    for name, work in (
        ("predict", lambda: labelled(place, Path(scratch), "local", None)),
        ("retrieve", lambda: ranked(place, Path(scratch), engine)),
    ):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        found[name], found[f"{name}_cpu"] = time.perf_counter() - wall, time.process_time() - cpu
    return found


def labelled(place: str, scratch: Path, engine: str, spark: Any) -> float:
    """The seconds that the job takes, from JSON lines to JSON lines."""
    chosen = {"predict.model": place, "predict.texts": str(scratch / NEW), "grid.engine": engine}
    output = {"output.path": str(scratch / f"labelled-{engine}"), "output.mode": "overwrite"}
    config = load_config(None, {**chosen, **output})
    begin = time.perf_counter()
    predict.run(config, spark)
    return time.perf_counter() - begin


def ranked(place: str, scratch: Path, engine: Engine[Any]) -> float:
    """The seconds that the same texts take in the retrieval part of `run`: encoded, ranked by every retriever, and
    their lists written."""
    kept = load(place)
    begin = time.perf_counter()
    texts = predict.new_texts(engine, str(scratch / NEW))
    output = scratch / "lists.parquet"
    shutil.rmtree(output, ignore_errors=True)
    engine.write(engine.map(texts.rows, _ranking(kept.model, texts.ids)), str(output))
    return time.perf_counter() - begin


def _ranking(model: Model, ids: pa.DataType) -> Step:
    schema = lists_schema(ids)

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for begin in range(0, batch.num_rows, CHUNK):
                rows = batch.slice(begin, CHUNK)
                lists = model.lists(rows["text"].to_pylist())
                for retriever, found in zip(model.retrievers, lists, strict=True):
                    yield list_rows(0, retriever.name, rows["text_id"], retriever.groups, found)

    return Step(run, schema, heavy=True)


def speed(place: str, apart: Apart, scratch: Path) -> dict[str, str]:
    """How fast the model in a folder labels texts, and what it takes to hold it."""
    many = [apart.texts[number % len(apart.texts)] for number in range(TEXTS)]
    lines = (f"{json.dumps({'text_id': number, 'text': text})}\n" for number, text in enumerate(many))
    (scratch / NEW).write_text("".join(lines), encoding="utf-8")
    command = [sys.executable, "-m", "benchmarks.labelling", "--alone", place, str(scratch)]
    here = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    first = core_seconds(f"import xmtc_fusion as xf; xf.load_model({place!r}).predict({many[0]!r})", scratch)
    spark = get_session(load_config(None).spark)
    labelled(place, scratch, "arrays", spark)
    with WorkerMemory() as memory:
        there = labelled(place, scratch, "arrays", spark)
    lists_there = ranked(place, scratch, SparkEngine(spark))
    cpu = [f"{1e6 * here[name] / TEXTS:,.0f}" for name in ("predict_cpu", "retrieve_cpu")]
    return {
        "model folder, MB": f"{folder_size(place) / 1e6:,.1f}",
        "a new process, with all imports, until the first text has its labels, s of one core": f"{first:.1f}",
        "one text warm, ms: median, 95th percentile": f"{here['median']:.1f}, {here['most']:.1f}",
        f"{TEXTS:,} texts in this process, texts/s: `predict`, retrieval part of `run`": ", ".join(
            f"{TEXTS / here[name]:,.0f}" for name in ("predict", "retrieve")
        ),
        "microseconds of CPU per text in this process: `predict`, retrieval part of `run`": ", ".join(cpu),
        f"{TEXTS:,} texts on Spark, texts/s: the same": f"{TEXTS / there:,.0f}, {TEXTS / lists_there:,.0f}",
        "peak memory of this process, MB": f"{here['memory'] / 1e6:,.0f}",
        "peak memory of a worker of Spark, MB": f"{memory.peak / 1e6:,.0f}",
    }


def measured(config: Config, scratch: Path) -> dict[str, str]:
    """All figures of a dataset."""
    apart = set_apart(config, scratch)
    begin = time.perf_counter()
    model = xf.fit(config=apart.others)
    seconds = time.perf_counter() - begin
    place = str(scratch / "model")
    model.save(place, overwrite=True)
    chosen = model.validation["assignment"]
    return {
        "fusion": repr(model).rpartition(", ")[2].rstrip(")"),
        **quality(model, apart),
        "chosen on validation texts: threshold, most labels": f"{chosen['threshold']:.3f}, {chosen['top']}",
        "`fit`, s": f"{seconds:,.0f}",
        **speed(place, apart, scratch),
    }


def core_seconds(code: str, folder: Path) -> float:
    """What code takes of one core, in a new process that finds no Java."""
    environment = {"PATH": "", "PYTHONPATH": str(ROOT), "HOME": str(Path.home())}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def example_seconds() -> float:
    """What README's example takes of one core, with an empty work folder."""
    (code,) = (example.code for example in examples() if example.page == "README.md" and "xf.fit" in example.code)
    with TemporaryDirectory() as folder:
        for name in ("conf", "data"):
            Path(folder, name).symlink_to(ROOT / name)
        return core_seconds(code, Path(folder))


def with_column(text: str, dataset: str, found: Mapping[str, str], example: float) -> str:
    """The table with the column of a dataset, before those of others."""
    known: dict[str, dict[str, str]] = {dataset: dict(found)}
    if text:
        (header, *rows), *_ = tables(text)
        for number, name in enumerate(header[1:], 1):
            known.setdefault(name, {row[0]: row[number] for row in rows})
    lines = [f"| | {' | '.join(known)} |", "|---" * (len(known) + 1) + "|"]
    lines += [f"| {name} | {' | '.join(of.get(name, '') for of in known.values())} |" for name in found]
    about = [
        str(__doc__).partition("\n")[0],
        f"README's example takes {example:.0f} seconds of one core, without Java.",
    ]
    return "\n".join([*about, "", *lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default="conf/datasets/debtags.yaml")
    parser.add_argument("--work", default="work")
    parser.add_argument("--folder", help="of the dataset's files")
    parser.add_argument("--write", action="store_true", help=f"write the figures to {RESULT.name}")
    parser.add_argument("--alone", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.alone:
        print(json.dumps(alone(*arguments.alone)))
        return
    settings = {"work.path": arguments.work, "retrievers": RETRIEVERS, "retrievers.static.model": "words"}
    if arguments.folder:
        settings["prepare.folder"] = arguments.folder
    config = load_config(arguments.config, settings)
    if config.prepare.split != "published":
        config = with_settings(config, {"prepare.split": "hash"})
    scratch = Path(arguments.work).absolute() / f"{config.dataset}-labelling"
    scratch.mkdir(parents=True, exist_ok=True)
    found = measured(config, scratch)
    print("\n".join(f"{name}: {figure}" for name, figure in found.items()))
    if arguments.write:
        known = RESULT.read_text(encoding="utf-8") if RESULT.exists() else ""
        RESULT.write_text(with_column(known, config.dataset, found, example_seconds()), encoding="utf-8")


if __name__ == "__main__":
    main()
