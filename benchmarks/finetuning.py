"""A bi-encoder as it is, with trained projections, and fully fine-tuned: what each finds, and what a kill costs.

    python -m benchmarks.finetuning [--config conf/datasets/debtags.yaml] [--folder FOLDER] [--work FOLDER]
                                    [--limit 5200] [--epochs 2] [--batch 128] [--max-length 32] [--precision auto]

One fold of the dataset; every training has one core. Full fine-tuning runs twice, side by side: undisturbed, and killed
(SIGKILL to the driver and its workers) once its state is past the middle of the training, then started again; the
weights of both are compared. Last, the memory of a step of 512 pairs, with cached gradients and without.
Written to benchmarks/results/finetuning.md.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.memory import WorkerMemory, descendants, worker_seconds
from benchmarks.retrievers import COLUMNS, FAVOURITE, figures, without_output
from fusion.grid import SINGLE, Cell
from jobs import evaluate, prepare, retrieve_dense, retrieve_sparse, train_dense
from jobs import run as pipeline
from jobs.config import Config, load_config
from jobs.runtime.folders import ResultFolder
from jobs.runtime.session import get_session
from jobs.runtime.stages import input_fingerprint, run_stage, stage_folder
from jobs.runtime.workspace import FOLDS, LABELS, SAMPLES, Workspace

ROOT = Path(__file__).parents[1]
WAYS: dict[str, dict[str, Any]] = {
    "none": {"train": "none"},
    "none, names only": {"train": "none", "label_text": ["name"]},
    "projection": {"train": "projection"},
    "full": {"train": "full"},
    "full, names only": {"train": "full", "label_text": ["name"]},
}
FULL_RATES = {"learning_rate_low": 5e-6, "learning_rate_high": 5e-5}
"""The paper's rates collapse a whole model."""
PAIRS = 512


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default=str(ROOT / "conf" / "datasets" / "debtags.yaml"))
    parser.add_argument("--folder")
    parser.add_argument("--work", default="work/finetuning")
    parser.add_argument("--limit", type=int, default=5200)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--max-length", type=int, default=32)
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--measure", nargs="+", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--step", choices=["cached", "whole"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        for name in arguments.measure:
            print(json.dumps(measured(arguments, name)), flush=True)
    elif arguments.step:
        print(json.dumps(step_memory(arguments, arguments.step == "cached")))
    else:
        text = "\n".join(report(arguments)) + "\n"
        (Path(__file__).parent / "results" / "finetuning.md").write_text(text)
        print(text)


def configure(arguments: argparse.Namespace, way: str) -> Config:
    chosen = WAYS[way]
    full = {**FULL_RATES, "epochs": arguments.epochs, "train_batch": arguments.batch}
    dense = {**(full if chosen["train"] == "full" else {}), **chosen}
    settings: dict[str, Any] = {
        "work.path": arguments.work,
        "prepare.limit": arguments.limit,
        "spark.master": "local[1]",
        "spark.partitions": 1,
        "dense.max_length": arguments.max_length,
        "dense.precision": arguments.precision,
        "evaluate.metrics": ["ndcg@10", "precision@1"],
        "evaluate.label_groups": ["tail", "head"],
        "evaluate.details": False,
        **{f"dense.{name}": value for name, value in dense.items()},
    }
    if arguments.folder:
        settings["prepare.folder"] = arguments.folder
    return load_config(arguments.config, settings)


def one_fold(spark: Any, config: Config) -> Config:
    """Prepare the dataset, and a second one that has its first fold only; the configuration of the latter."""
    prepare.run(spark, config)
    source = Workspace.of(config).prepared
    single = config.model_copy(update={"dataset": f"{config.dataset}-one-fold"})

    def build(folder: ResultFolder) -> dict[str, int]:
        for name in (SAMPLES, LABELS, FOLDS):
            rows = spark.read.parquet(f"{stage_folder(source)}/{name}")
            (rows.where("fold = 0") if name == FOLDS else rows).write.parquet(f"{folder.uri}/{name}")
        return {"folds": 1}

    run_stage("one fold", Workspace.of(single).prepared, {"prepared": input_fingerprint(source)}, build, ())
    return single


def measured(arguments: argparse.Namespace, way: str) -> dict[str, Any]:
    """What a way finds and costs."""
    config = configure(arguments, way)
    spark = get_session(config.spark)
    config = one_fold(spark, config)
    place = Workspace.of(config)
    retrieve_sparse.run(spark, config)
    begin, worked = time.monotonic(), worker_seconds()
    with WorkerMemory() as memory:
        train_dense.run(spark, config)
    seconds, cpu = time.monotonic() - begin, worker_seconds() - worked
    retrieve_dense.run(spark, config)
    lists = {name: place.candidate_lists(name) for name in ("bm25", "dense")}
    found = figures(evaluate.compute(spark, without_output(pipeline.evaluated(config, lists))))
    cells = {"bm25": Cell(SINGLE, "bm25"), "dense": Cell(SINGLE, "dense"), "fused": FAVOURITE}
    trains = WAYS[way]["train"] != "none"
    trained = json.loads(Path(_local(place.dense_model), "report.json").read_text())["0"]["mrr"] if trains else []
    return {
        "way": way,
        **{name: [found.of[column][cell] for column in COLUMNS] for name, cell in cells.items()},
        "best": [found.best(column)[1] for column in COLUMNS],
        "mrr": trained,
        "seconds": seconds,
        "cpu": cpu,
        "memory": memory.peak / 2**20,
        "texts": {role: place_texts(spark, place, role) for role in ("train", "validation", "test")},
        "precision": train_dense.base_encoder(config.dense).precision,
    }


def place_texts(spark: Any, place: Workspace, role: str) -> int:
    return int(spark.read.parquet(f"{stage_folder(place.prepared)}/{FOLDS}").where(f"role = '{role}'").count())


def _local(path: str) -> str:
    return stage_folder(path).removeprefix("file://")


def step_memory(arguments: argparse.Namespace, cached: bool) -> dict[str, float]:
    """The memory and CPU seconds of one step of 512 pairs of texts that fill the encoder."""
    import numpy as np

    from benchmarks.retrieval import peak
    from fusion.retrieval.contrastive import LabelSets
    from udfs.encode import load_encoder
    from udfs.finetune import PairTexts, Steps

    config = configure(arguments, "full").dense
    encoder = train_dense.base_encoder(config)
    words = [f"word{n}" for n in range(PAIRS)]
    texts = [" ".join(words[n:] + words[:n]) for n in range(PAIRS)]
    known = LabelSets(np.arange(PAIRS + 1), np.arange(PAIRS))
    size = encoder.batch_size if cached else PAIRS
    encoder = type(encoder)(**{**vars(encoder), "batch_size": size})
    steps = Steps(load_encoder(encoder), PairTexts(texts, words, known), config.training, encoder)
    before, begin = peak(), time.process_time()
    steps.learn()
    return {"before": before, "peak": peak(), "cpu": time.process_time() - begin}


def command(arguments: argparse.Namespace, work: str, *rest: str) -> list[str]:
    options = ["config", "folder", "limit", "epochs", "batch", "max_length", "precision"]
    given = {name: getattr(arguments, name) for name in options if getattr(arguments, name) is not None}
    told = [part for name, value in given.items() for part in (f"--{name.replace('_', '-')}", str(value))]
    return [sys.executable, "-m", "benchmarks.finetuning", "--work", work, *told, *rest]


def run_ways(arguments: argparse.Namespace, work: str, ways: Sequence[str]) -> list[dict[str, Any]]:
    done = subprocess.run(command(arguments, work, "--measure", *ways), stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def progress(work: str) -> tuple[int, int]:
    """The epoch and the step of the last saved state; (0, 0) if there is none yet."""
    import torch

    for state in Path(work).glob("*/dense/unfinished-*/fold=0/state.pt"):
        try:
            epoch, step, _ = torch.load(state, weights_only=True, mmap=True)["progress"]
        except (OSError, RuntimeError):
            continue
        return epoch, step
    return 0, 0


def killed_run(arguments: argparse.Namespace, work: str, middle: tuple[int, int]) -> tuple[dict[str, Any], str]:
    """Full fine-tuning that is killed once its state is past the middle, and started again; and where it was killed."""
    process = subprocess.Popen(command(arguments, work, "--measure", "full"), stdout=subprocess.DEVNULL)
    while (reached := progress(work)) < middle:
        if process.poll() is not None:
            raise SystemExit("the training ended before it was killed: more epochs, or fewer seconds per checkpoint")
        time.sleep(2)
    for child in [*descendants(process.pid), process.pid]:
        os.kill(child, signal.SIGKILL)
    process.wait()
    return run_ways(arguments, work, ["full"])[0], f"epoch {reached[0]}, step {reached[1]}"


def largest_difference(works: Sequence[str], dataset: str) -> float:
    """The largest difference between the weights of two trainings."""
    from safetensors.numpy import load_file

    place = f"{dataset}-one-fold"
    folders = [_local(Workspace(work, place).dense_model) for work in works]
    first, second = (load_file(f"{folder}/fold=0/model/model.safetensors") for folder in folders)
    assert first.keys() == second.keys()
    return max(float(abs(first[name] - second[name]).max()) for name in first)


def report(arguments: argparse.Namespace) -> Iterator[str]:
    """The tables in Markdown."""
    work = str(Path(arguments.work).absolute())
    with ThreadPoolExecutor() as side_by_side:
        killed = side_by_side.submit(killed_run, arguments, f"{work}-killed", (arguments.epochs // 2 + 1, 1))
        rows = run_ways(arguments, work, list(WAYS))
    config = configure(arguments, "full")
    texts = rows[0]["texts"]
    yield f"# Fine-tuning on {config.dataset}: {sum(texts.values()):,} texts, one fold"
    yield ""
    yield (
        f"{config.dense.model}, {arguments.max_length} tokens, {rows[0]['precision']}; {texts['train']:,} training, "
        f"{texts['validation']:,} validation and {texts['test']:,} test texts; one core of a machine that was busy "
        f"with other work: CPU seconds compare, wall seconds do not. `full`: batches of {arguments.batch} pairs, rates "
        f"{FULL_RATES['learning_rate_low']:g} to {FULL_RATES['learning_rate_high']:g}."
    )
    yield ""
    header = " | ".join(f"{group} {metric}@{k}" for group, metric, k in COLUMNS)
    yield f"| | {header} | CPU s of training (and encoding) | wall s | peak MiB |"
    yield "|---|" + "---:|" * (len(COLUMNS) + 3)
    yield f"| bm25 alone | {_figures(rows[0]['bm25'])} | | | |"
    for row in rows:
        costs = f"{row['cpu']:.0f} | {row['seconds']:.0f} | {row['memory']:,.0f}" if row["way"] in PLAIN else "| |"
        yield f"| dense alone, {row['way']} | {_figures(row['dense'])} | {costs} |"
    for row in rows:
        yield f"| bm25 + dense ({row['way']}), {FAVOURITE} | {_figures(row['fused'])} | | | |"
    yield ""
    yield "Validation MRR, before training and after each epoch (`projection` compares with names and training texts,"
    yield "`full` with names only):"
    yield ""
    for row in rows:
        if row["way"] in PLAIN and row["mrr"]:
            yield f"- {row['way']}: {', '.join(f'{mrr:.4f}' for mrr in row['mrr'])}"
    yield ""
    yield kill_line(arguments, work, config, next(row for row in rows if row["way"] == "full"), *killed.result())
    yield ""
    for kind in ("cached", "whole"):
        line = subprocess.run(command(arguments, work, "--step", kind), stdout=subprocess.PIPE, text=True, check=True)
        found = json.loads(line.stdout.splitlines()[-1])
        what = (
            f"cached gradients, chunks of {config.dense.batch_size}" if kind == "cached" else "the whole batch at once"
        )
        extra = found["peak"] - found["before"]
        yield f"- a step of {PAIRS} pairs, {what}: {extra:,.0f} MiB beside the model, {found['cpu']:.1f} CPU s"


PLAIN = ("none", "projection", "full")
"""The ways that train or encode; the others only index anew."""


def kill_line(
    arguments: argparse.Namespace, work: str, config: Config, whole: dict[str, Any], again: dict[str, Any], where: str
) -> str:
    difference = largest_difference([work, f"{work}-killed"], config.dataset)
    same = max(abs(a - b) for a, b in zip(again["dense"] + again["mrr"], whole["dense"] + whole["mrr"], strict=True))
    return (
        f"Killed after {where} of {arguments.epochs} epochs and started again: the weights differ from the undisturbed "
        f"training's by at most {difference:.1g}, figures and MRR by at most {same:.1g}; the second start took "
        f"{again['cpu']:.0f} CPU s of the {whole['cpu']:.0f}."
    )


def _figures(values: Sequence[float]) -> str:
    return " | ".join(f"{value:.1f}" for value in values)


if __name__ == "__main__":
    main()
