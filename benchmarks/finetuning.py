"""A bi-encoder as it is, with trained projections, and fully fine-tuned: what each finds, and what a kill costs.

    python -m benchmarks.finetuning [--work FOLDER] [--limit 5200] [--epochs 2] [--batch 256] [--max-length 24]
                                    [--precision auto]

One fold of the demo's texts, by the workers' own code in plain processes of one thread each, without Spark. Full
fine-tuning runs twice, side by side: undisturbed, and killed (SIGKILL) once its state is past the middle of the first
epoch, then started again; the weights after that epoch are compared. Last, the memory of a step of 512 pairs, with
cached gradients and without. What is done already is kept in the work folder: a benchmark that was stopped goes on.
Written to benchmarks/results/finetuning.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.memory import forget_peak, resident_bytes
from benchmarks.one_fold import OneFold
from benchmarks.retrievers import ASPECTS, FAVOURITE
from fusion.retrieval.contrastive import Training
from jobs.retrievers.vectors import base_encoder
from jobs.settings.built_in import DenseSettings
from udfs.retrieval.encode import Encoder, load_encoder
from udfs.retrieval.finetune import PairTexts, Saving, Steps, finetune

FULL_RATES = {"learning_rate_low": 5e-6, "learning_rate_high": 5e-5}
"""The paper's rates collapse a whole model."""
PAIRS = 512
CHECKPOINT_SECONDS = 10.0
"""An epoch takes a minute or more."""
WHOLE, KILLED = "whole", "killed"
RESULTS = Path(__file__).parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", default="work/finetuning")
    parser.add_argument("--limit", type=int, default=5200)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--max-length", type=int, default=24)
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--train", nargs=2, metavar=("NAME", "EPOCHS"), help=argparse.SUPPRESS)
    parser.add_argument("--step", choices=["cached", "whole"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.train:
        train(arguments, arguments.train[0], int(arguments.train[1]))
    elif arguments.step:
        print(json.dumps(step_cost(arguments, arguments.step == "cached")))
    else:
        text = "\n".join(report(arguments)) + "\n"
        (RESULTS / "finetuning.md").write_text(text)
        print(text)


def settings(arguments: argparse.Namespace, **chosen: Any) -> DenseSettings:
    shared = {"max_length": arguments.max_length, "precision": arguments.precision}
    return DenseSettings(**{**shared, **chosen})


def full_settings(arguments: argparse.Namespace, epochs: int) -> tuple[Training, Encoder]:
    dense = settings(arguments, train="full", train_batch=arguments.batch, epochs=epochs, **FULL_RATES)
    return dense.training, base_encoder(dense)


def train(arguments: argparse.Namespace, name: str, epochs: int) -> None:
    """Fine-tune the encoder up to an epoch, or go on where an earlier process was stopped; leave a report."""
    data = OneFold(Path(arguments.work))
    training, encoder = full_settings(arguments, epochs)
    saving = Saving(str(data.folder / f"states-{name}"), CHECKPOINT_SECONDS)
    begin, cpu = time.monotonic(), time.process_time()
    work = finetune(str(data.folder / f"{name}-{epochs}"), encoder, training, 5000, str(data.words), saving)
    report = work(data.source())
    costs = {"seconds": time.monotonic() - begin, "cpu": time.process_time() - cpu}
    (data.folder / f"{name}-{epochs}.json").write_text(json.dumps({**report, **costs}))


def step_cost(arguments: argparse.Namespace, cached: bool) -> dict[str, float]:
    """The memory and CPU seconds of one step of 512 pairs of texts that fill the encoder."""
    import numpy as np

    from fusion.retrieval.contrastive import LabelSets

    training, encoder = full_settings(arguments, 1)
    words = [f"word{n}" for n in range(PAIRS)]
    texts = [" ".join(words[n:] + words[:n]) for n in range(PAIRS)]
    known = LabelSets(np.arange(PAIRS + 1), np.arange(PAIRS))
    size = encoder.batch_size if cached else PAIRS
    encoder = Encoder(**{**vars(encoder), "batch_size": size})
    training = Training(**{**vars(training), "train_batch": PAIRS})
    steps = Steps(load_encoder(encoder), PairTexts(texts, words, known), training, encoder)
    # Loading the model took more than it holds now.
    forget_peak()
    before, begin = resident_bytes(), time.process_time()
    steps.learn()
    return {"memory": resident_bytes(at_peak=True) - before, "cpu": time.process_time() - begin}


def command(arguments: argparse.Namespace, *rest: str) -> list[str]:
    options = ["work", "limit", "epochs", "batch", "max_length", "precision"]
    told = [part for name in options for part in (f"--{name.replace('_', '-')}", str(getattr(arguments, name)))]
    return [sys.executable, "-m", "benchmarks.finetuning", *told, *rest]


def trained(arguments: argparse.Namespace, name: str, epochs: int) -> dict[str, Any]:
    """The report of a training, done in a process of its own unless it was done before."""
    done = Path(arguments.work) / f"{name}-{epochs}.json"
    if not done.exists():
        subprocess.run(command(arguments, "--train", name, str(epochs)), check=True)
    found: dict[str, Any] = json.loads(done.read_text())
    return found


def saved_step(arguments: argparse.Namespace) -> int:
    """The step of the first epoch that the last saved state has reached; -1 if there is none yet."""
    import torch

    try:
        state = torch.load(Path(arguments.work) / f"states-{KILLED}/fold=0/state.pt", weights_only=True, mmap=True)
    except (OSError, RuntimeError):
        return -1
    epoch, step, _ = state["progress"]
    return int(step) if epoch == 1 else sys.maxsize


def killed(arguments: argparse.Namespace, steps: int) -> dict[str, Any]:
    """The report of a training of one epoch that was killed past its middle and started again, and where that was."""
    where = Path(arguments.work) / "killed-at.txt"
    if not where.exists():
        process = subprocess.Popen(command(arguments, "--train", KILLED, "1"))
        while (step := saved_step(arguments)) < steps // 2:
            if process.poll() is not None:
                raise SystemExit("the training ended before it could be killed")
            time.sleep(1)
        process.kill()
        process.wait()
        if step >= steps:
            raise SystemExit("the first epoch ended before a state past its middle was saved")
        where.write_text(f"{step} of {steps}")
    return {**trained(arguments, KILLED, 1), "where": where.read_text()}


def largest_difference(arguments: argparse.Namespace) -> float:
    """The largest difference between the weights of the two trainings after one epoch."""
    from safetensors.numpy import load_file

    folders = [Path(arguments.work) / f"{name}-1/fold=0/model" for name in (WHOLE, KILLED)]
    first, second = (load_file(folder / "model.safetensors") for folder in folders)
    assert first.keys() == second.keys()
    return max(float(abs(first[name] - second[name]).max()) for name in first)


def report(arguments: argparse.Namespace) -> Iterator[str]:
    """The tables in Markdown."""
    data = OneFold(Path(arguments.work))
    counts = data.write(arguments.limit)
    steps = -(-counts["pairs"] // arguments.batch)
    again = ThreadPoolExecutor().submit(killed, arguments, steps)
    once = trained(arguments, WHOLE, 1)
    full = trained(arguments, WHOLE, arguments.epochs)
    encoder = base_encoder(settings(arguments))
    yield f"# Fine-tuning on the demo's texts: {counts['texts']:,} of them, one fold"
    yield ""
    yield (
        f"{encoder.model}, {encoder.max_length} tokens, in {encoder.precision}; "
        f"{counts['train']:,} training texts "
        f"({counts['pairs']:,} pairs), {counts['validation']:,} validation and {counts['test']:,} test texts, "
        f"{counts['labels']:,} labels; one thread."
    )
    yield (
        f"`full`: batches of {arguments.batch} pairs, rates {FULL_RATES['learning_rate_low']:g} to "
        f"{FULL_RATES['learning_rate_high']:g}. Fused: bm25 and dense by {FAVOURITE}."
    )
    yield ""
    yield from quality_lines(arguments, data, encoder, {1: once, arguments.epochs: full})
    yield ""
    yield kill_line(arguments, once, again.result())
    yield ""
    for kind in ("cached", "whole"):
        done = subprocess.run(command(arguments, "--step", kind), stdout=subprocess.PIPE, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        what = f"cached gradients, {encoder.batch_size} texts at a time" if kind == "cached" else "all at once"
        memory = f"{found['memory'] / 2**20:,.0f} MiB"
        yield f"- a step of {PAIRS} pairs, {what}: {memory} next to the model, {found['cpu']:.1f} CPU s"


def quality_lines(
    arguments: argparse.Namespace, data: OneFold, encoder: Encoder, fulls: Mapping[int, Mapping[str, Any]]
) -> Iterator[str]:
    """What each way finds, and what it costs."""
    header = " | ".join(f"{group} {metric}@{k}" for group, metric, k in ASPECTS)
    yield f"| labels are | training | dense: {header} | fused: {header} | CPU s | wall s |"
    yield "|---|---|" + "---:|" * (2 * len(ASPECTS) + 2)
    bm25 = data.bm25()
    cpu, wall = time.process_time(), time.monotonic()
    plain = data.encoded(encoder, "plain")
    encoding = time.process_time() - cpu, time.monotonic() - wall
    mrr: dict[str, list[float]] = {}
    for parts in (("name",), ("name", "train_texts")):
        cpu, wall = time.process_time(), time.monotonic()
        heads = data.projections(plain, parts, settings(arguments, label_text=list(parts)).training)
        costs = time.process_time() - cpu, time.monotonic() - wall
        mrr[f"projection, {' and '.join(parts)}"] = heads.mrr
        ways = {"none": (plain, None, encoding), "projection": (plain, heads.folder, costs)}
        for epochs, done in fulls.items():
            model = str(data.folder / f"{WHOLE}-{epochs}/fold=0/model")
            tuned = Encoder(**{**vars(encoder), "model": model, "fingerprint": model})
            vectors = data.encoded(tuned, f"tuned-{epochs}")
            ways[f"full, {epochs} epoch{'s' * (epochs > 1)}"] = vectors, None, (done["cpu"], done["seconds"])
        for way, (vectors, folder, (seconds, passed)) in ways.items():
            found = data.figures(bm25, data.dense(encoder, vectors, parts, folder))
            shown = " | ".join(f"{value:.1f}" for value in [*found["dense"], *found["fused"]])
            yield f"| {' and '.join(parts)} | {way} | {shown} | {seconds:.0f} | {passed:.0f} |"
    yield f"| | bm25 alone | {' | '.join(f'{value:.1f}' for value in found['bm25'])} |{' |' * (len(ASPECTS) + 2)}"
    yield ""
    yield "CPU seconds of `none` are those of encoding all texts, which `projection` needs as well. Those of a further"
    yield "epoch are its own. Validation MRR, before training and after each epoch:"
    yield ""
    mrr["full, name"] = fulls[max(fulls)]["mrr"]
    for way, values in mrr.items():
        yield f"- {way}: {', '.join(f'{value:.4f}' for value in values)}"


def kill_line(arguments: argparse.Namespace, once: Mapping[str, Any], again: Mapping[str, Any]) -> str:
    same: Sequence[float] = [abs(a - b) for a, b in zip(once["mrr"], again["mrr"], strict=True)]
    return (
        f"Killed after step {again['where']} of the first epoch and started again: after it the weights differ from "
        f"those of the undisturbed training by at most {largest_difference(arguments):.1g}, validation MRR by "
        f"{max(same):.1g}. The second start took {again['cpu']:.0f} CPU s of {once['cpu']:.0f}."
    )


if __name__ == "__main__":
    main()
