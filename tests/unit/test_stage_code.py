"""A stage is repeated when code changes that it depends on, and not when other code does."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.retrievers.dense import LEARNING
from jobs.retrievers.tokens import TOKENIZING
from jobs.retrievers.vectors import ENCODING
from jobs.storage.stages import NOT_FOLLOWED, import_closure, imported_modules

ROOT = Path(__file__).parents[2]
REGISTRIES = {"FUSIONS", "NORMALIZATIONS", "METRICS"}
CLOSURES = {
    "prepare": import_closure("jobs.datasets.prepare"),
    "encode": ENCODING,
    "train": import_closure(*LEARNING),
    "dense": import_closure("udfs.retrieval.vectors"),
    "bm25": import_closure("udfs.retrieval.bm25"),
    "tokens": TOKENIZING,
}
REPEATED = {
    "udfs/retrieval/encode.py": {"encode", "train", "dense"},
    "udfs/retrieval/finetune.py": {"train"},
    "udfs/retrieval/vectors.py": {"train", "dense"},
    "udfs/retrieval/retriever.py": {"train", "dense", "bm25"},
    "fusion/retrieval/projection.py": {"train", "dense"},
    "jobs/retrievers/vectors.py": set(),
    "jobs/retrievers/driver.py": set(),
    "fusion/retrieval/tokens.py": {"tokens", "bm25"},
    "udfs/retrieval/words.py": {"tokens", "bm25"},
    "udfs/retrieval/bm25.py": {"bm25"},
    "fusion/retrieval/neighbours.py": {"bm25", "train", "dense"},
    "jobs/datasets/formats.py": {"prepare"},
    "jobs/datasets/prepare.py": {"prepare"},
    "jobs/datasets/prepared.py": set(),
    "udfs/stores/cache.py": {"prepare", "train", "dense", "bm25"},
    "jobs/runtime/log.py": set(),
    "jobs/cli.py": set(),
    "jobs/report.py": set(),
    "fusion/fusions/combmnz.py": set(),
}
SCRIPT = """
import json, sys
from pathlib import Path
from fusion import digests

closures, edited = json.loads(sys.stdin.read())

def versions():
    digests.source_of.cache_clear()
    digests.code_version.cache_clear()
    return {stage: digests.code_version(*modules) for stage, modules in closures.items()}

repeated = {}
for name in edited:
    path, before = Path(name), versions()
    text = path.read_text()
    path.write_text(text + "# another line\\n")
    repeated[name] = [stage for stage, version in versions().items() if version != before[stage]]
    path.write_text(text)
print(json.dumps(repeated))
"""


@pytest.fixture(scope="module")
def repeated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The stages that are done again when a file of a copy of the code has one more line, by file."""
    folder = tmp_path_factory.mktemp("code")
    for package in ("fusion", "udfs", "jobs"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input=json.dumps([CLOSURES, list(REPEATED)]),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("path", REPEATED)
def test_what_an_edit_repeats(repeated: dict[str, list[str]], path: str) -> None:
    assert set(repeated[path]) == REPEATED[path]


@pytest.mark.parametrize("stage", CLOSURES)
def test_no_stage_depends_on_registered_algorithms(stage: str) -> None:
    """A closure follows imports, and who registers an algorithm is not imported by those who look it up."""
    for module in CLOSURES[stage]:
        path = ROOT / Path(*module.split("."))
        source = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()
        assert module == "fusion.registry" or not any(name in source for name in REGISTRIES), module


def test_what_counts_as_an_import() -> None:
    source = """
import numpy
import udfs.stores.cache
from udfs.retrieval import encode
from fusion.errors import InputError
from jobs.datasets.formats import check_settings
def later():
    from jobs.datasets.prepare import run
if TYPE_CHECKING:
    from jobs.reporting.report import run
if __name__ == "__main__":
    from jobs.cli import job_main
"""
    direct = {"udfs.stores.cache", "udfs.retrieval.encode", "fusion.errors", "jobs.datasets.formats"}
    assert set(imported_modules(source)) == direct | {"jobs.datasets.prepare"}


def test_an_import_through_others_counts() -> None:
    closure = import_closure("jobs.retrievers.dense")
    assert {"udfs.retrieval.finetune", "fusion.retrieval.contrastive", "jobs.settings.built_in"} <= set(closure)
    assert not NOT_FOLLOWED & set(closure)
