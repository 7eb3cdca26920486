"""Memory and time of `prepare` on files of the published sizes, made up in the published forms.

    python -m benchmarks.readers [--work FOLDER] [--datasets amazon-670k ...] [--share 1.0]

Every dataset is read in a process of its own, on two cores with Spark's default of 2 GB for the driver. A text has a
title and sentences of made-up words; its labels follow a power law, and every label is carried. `--share` makes fewer
texts and labels. Written to benchmarks/results/readers.md (only if the share is 1).
"""

from __future__ import annotations

import argparse
import gzip
import json
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.memory import WorkerMemory, resident_bytes
from jobs.datasets import prepare
from jobs.engines.session import get_session
from jobs.engines.spark import SparkEngine
from jobs.settings.config import load_config

RESULTS = Path(__file__).parent / "results"
SENTENCES, WORDS, VOCABULARY = 5_000, 20, 50_000
TEST_SHARE = 0.25


class Form(NamedTuple):
    """A dataset's format and published size."""

    format: str
    texts: int
    labels: int
    labels_per_text: int
    sentences: int
    settings: dict[str, Any]


ALIGNED = [{"name": name, "texts": f"X.{name}.txt", "labels": f"Y.{name}.txt"} for name in ("trn", "tst")]
JSON = [{"name": name, "texts": f"{name}.json.gz"} for name in ("trn", "tst")]
DATASETS = {
    "eurlex-4k": Form("lines-ids", 19_314, 3_956, 5, 25, {"parts": ALIGNED, "label_file": "names.txt"}),
    "wiki10-31k": Form("lines-names", 20_762, 30_938, 19, 50, {"parts": ALIGNED}),
    "amazon-670k": Form("xc-json", 643_474, 670_091, 5, 5, {"parts": JSON, "label_file": "lbl.json.gz"}),
    "amazon-670k-sparse": Form("xc-sparse", 643_474, 670_091, 5, 5, {"parts": ALIGNED}),
    "amazoncat-13k": Form(
        "xc-json",
        1_493_021,
        13_330,
        5,
        5,
        {"parts": JSON, "label_file": "names.txt", "label_encoding": "latin-1"},
    ),
    "eurlex-4k-pickle": Form("samples-pkl", 19_314, 3_956, 5, 25, {"parts": [{"name": "all", "texts": "samples.pkl"}]}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", default="work/readers")
    parser.add_argument("--datasets", nargs="+", choices=DATASETS, default=list(DATASETS))
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--measure", choices=DATASETS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measured(Path(arguments.work), arguments.measure)))
        return
    lines = [
        "| files | format | texts | labels | MB | s | CPU s of the driver | peak MiB of the driver | of a worker |",
        "|---|---|" + "---:|" * 7,
    ]
    for name in arguments.datasets:
        folder = Path(arguments.work) / name
        form = DATASETS[name]
        written = write_files(folder, form, arguments.share)
        command = [sys.executable, "-m", "benchmarks.readers", "--work", arguments.work, "--measure", name]
        found = json.loads(
            subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()[-1]
        )
        lines.append(
            f"| {name} | {form.format} | {found['texts']:,} | {found['labels']:,} | {written / 1e6:,.0f} | "
            f"{found['seconds']:.0f} | {found['cpu']:.0f} | {found['driver']:,.0f} | {found['worker']:,.0f} |"
        )
        print(lines[-1], flush=True)
    if arguments.share == 1:
        (RESULTS / "readers.md").write_text("\n".join(lines) + "\n")


def measured(work: Path, name: str) -> dict[str, float]:
    """What `prepare` takes."""
    form = DATASETS[name]
    settings = {"format": form.format, "folder": str(work / name), **form.settings}
    chosen = {f"prepare.{key}": value for key, value in settings.items()}
    config = load_config(None, {"dataset": name, "work.path": str(work / "out"), "spark.master": "local[2]", **chosen})
    spark = get_session(config.spark)
    begin = time.monotonic()
    with WorkerMemory() as memory:
        statistics = prepare.run(SparkEngine(spark), config)
    seconds = time.monotonic() - begin
    driver = _driver(spark)
    ticks = Path(f"/proc/{driver}/stat").read_text().rpartition(")")[2].split()[11:13]
    return {
        "texts": statistics["texts"],
        "labels": statistics["labels"],
        "seconds": seconds,
        "cpu": sum(map(int, ticks)) / 100,
        "driver": resident_bytes(driver, at_peak=True) / 2**20,
        "worker": memory.peak / 2**20,
    }


def _driver(spark: Any) -> int:
    """The process of the Java driver, which in local mode is the executor, too."""
    return int(spark._jvm.java.lang.ProcessHandle.current().pid())


class Source:
    """Made-up texts and labels, the same for the same size."""

    def __init__(self, form: Form, share: float) -> None:
        self.texts, self.labels = (max(100, round(share * size)) for size in (form.texts, form.labels))
        rng = np.random.default_rng(0)
        words = np.array([f"w{number:x}" for number in range(VOCABULARY)])
        weights = np.cumsum(1 / np.arange(1, VOCABULARY + 1))
        drawn = np.searchsorted(weights / weights[-1], rng.random((SENTENCES, WORDS)))
        self._sentences = [" ".join(row) for row in words[drawn]]
        self._chosen = rng.integers(0, SENTENCES, (self.texts, form.sentences)).astype(np.int16)
        # A few labels are frequent; two more come in turn, so that all of them are carried.
        frequent = (self.labels * rng.random((self.texts, form.labels_per_text - 1)) ** 4).astype(np.int64)
        turn = np.arange(self.texts)[:, None]
        self._labels = np.hstack([frequent, turn % self.labels, (turn + self.texts) % self.labels])

    def text(self, number: int) -> str:
        return " ".join([f"Title {number}.", *(self._sentences[one] for one in self._chosen[number])])

    def carried(self, number: int) -> list[int]:
        return sorted(set(self._labels[number].tolist()))

    def parts(self) -> dict[str, range]:
        test = round(TEST_SHARE * self.texts)
        return {"trn": range(self.texts - test), "tst": range(self.texts - test, self.texts)}


def write_files(folder: Path, form: Form, share: float) -> int:
    """Write a dataset in its published form; the bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    source = Source(form, share)
    WRITERS[form.format](folder, source)
    if form.settings.get("label_file") == "names.txt":
        encoding = form.settings.get("label_encoding", "utf-8")
        names = (f"Gerät {n} " for n in range(source.labels))
        (folder / "names.txt").write_bytes("".join(f"{name}\n" for name in names).encode(encoding))
    return sum(path.stat().st_size for path in folder.iterdir())


def _write_lines(path: Path, lines: Iterator[str]) -> None:
    with path.open("w", encoding="utf-8") as out:
        out.writelines(f"{line}\n" for line in lines)


def _aligned(label_line: Callable[[list[int]], str], header: bool = False) -> Callable[[Path, Source], None]:
    def write(folder: Path, source: Source) -> None:
        for name, numbers in source.parts().items():
            _write_lines(folder / f"X.{name}.txt", (source.text(number) for number in numbers))
            first = [f"{len(numbers)} {VOCABULARY} {source.labels}"] if header else []
            lines = (label_line(source.carried(number)) for number in numbers)
            _write_lines(folder / f"Y.{name}.txt", iter([*first, *lines]))

    return write


def _json(folder: Path, source: Source) -> None:
    def write(name: str, records: Iterator[dict[str, Any]]) -> None:
        with gzip.open(folder / name, "wt", compresslevel=1, encoding="utf-8") as out:
            out.writelines(json.dumps(record) + "\n" for record in records)

    for name, numbers in source.parts().items():
        write(f"{name}.json.gz", (_product(source, number) for number in numbers))
    write("lbl.json.gz", ({"uid": f"L{n}", "title": f"Label {n}"} for n in range(source.labels)))


def _product(source: Source, number: int) -> dict[str, Any]:
    title, _, content = source.text(number).partition(". ")
    labels = source.carried(number)
    return {
        "uid": f"B{number:09}",
        "title": title,
        "content": content,
        "target_ind": labels,
        "target_rel": [1.0] * len(labels),
    }


def _pickle(folder: Path, source: Source) -> None:
    samples = []
    for number in range(source.texts):
        labels = source.carried(number)
        names = [f"Label {label}" for label in labels]
        ids = {"idx": number, "text_idx": number}
        samples.append({**ids, "text": source.text(number), "labels_ids": labels, "labels": names})
    (folder / "samples.pkl").write_bytes(pickle.dumps(samples))


WRITERS: dict[str, Callable[[Path, Source], None]] = {
    "lines-ids": _aligned(lambda labels: ",".join(map(str, labels))),
    "lines-names": _aligned(lambda labels: " ".join(f"label{label}" for label in labels)),
    "xc-sparse": _aligned(lambda labels: ",".join(map(str, labels)) + " 1:0.5 7:0.25 ", header=True),
    "xc-json": _json,
    "samples-pkl": _pickle,
}


if __name__ == "__main__":
    main()
