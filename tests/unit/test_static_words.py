"""The static bi-encoder over words: it starts from the training texts alone and needs no package but the core's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from jobs.engines.local import LocalEngine
from jobs.retrievers import driver
from jobs.settings.config import Config, load_config
from tests.retrieval_data import FOLDS, LABELS, TEXTS, WORDS, make_data, read_lists, word, write_prepared

ROOT = Path(__file__).parents[2]


def configure(work: Path) -> Config:
    static = {"train_batch": 32, "epochs": 3, "learning_rate": 0.02}
    settings = {"dataset": "made", "work.path": str(work), "retrievers": {"static": static, "static-texts": static}}
    return load_config(None, settings)


def retrieved(work: Path) -> dict[str, list]:
    tables = driver.run(LocalEngine(), configure(work))
    return {name: read_lists(str(Path(table).parent)) for name, table in tables.items()}


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> tuple[Path, dict[str, list]]:
    work = tmp_path_factory.mktemp("words")
    write_prepared(work, make_data())
    return work, retrieved(work)


@pytest.mark.parametrize("name", ["static", "static-texts"])
def test_labels_that_texts_speak_of_come_first(done, name: str) -> None:
    labels = make_data()["labels"]
    heads = [row for row in done[1][name] if row[3] == "head" and any(label < 8 for label in labels[row[2]])]
    assert sum(row[4][0] in labels[row[2]] for row in heads) / len(heads) > 0.6


def test_no_test_text_reaches_its_fold(done, tmp_path: Path) -> None:
    """Every second test text of fold 0 gets other words and labels: the lists of the others stay as they are."""
    data, rng = make_data(), np.random.default_rng(9)
    changed = set(range(0, TEXTS, 2 * FOLDS))
    for text in changed:
        data["texts"][text] = " ".join(word(n) for n in rng.integers(0, WORDS, 8))
        data["labels"][text] = [int(rng.integers(LABELS))]
    write_prepared(tmp_path, data)
    lists = retrieved(tmp_path)
    for name, rows in lists.items():
        others = [row for row in rows if row[0] == 0 and row[2] not in changed]
        assert others and others == [row for row in done[1][name] if row[0] == 0 and row[2] not in changed]


def test_the_core_is_enough(tmp_path: Path) -> None:
    """A process in which the packages of the extra cannot be imported gives the same lists."""
    write_prepared(tmp_path, make_data())
    code = f"""
import sys
for name in ("torch", "tokenizers", "safetensors", "faiss", "sentence_transformers", "pyspark"):
    sys.modules[name] = None
from pathlib import Path
from tests.unit.test_static_words import retrieved
print(sorted(map(repr, retrieved(Path({str(tmp_path)!r}))["static"])))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(sorted(map(repr, retrieved(tmp_path)["static"])))
