"""Where things lie below the work folder, and that only one module knows."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from jobs.settings.config import load_config
from jobs.storage.workspace import Workspace

JOBS = Path(__file__).parents[2] / "jobs"
READERS = {
    # What doctor looks at is the setting itself, not a place below it.
    "engines/doctor.py",
    "storage/workspace.py",
}


def reads_work_path(source: str) -> list[int]:
    """The lines that read `work.path` of a configuration."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and node.attr == "path"
        and isinstance(node.value, ast.Attribute | ast.Name)
        and (node.value.attr if isinstance(node.value, ast.Attribute) else node.value.id) == "work"
    ]


@pytest.mark.parametrize("path", sorted(JOBS.rglob("*.py")), ids=lambda path: path.relative_to(JOBS).as_posix())
def test_only_the_workspace_reads_the_work_path(path: Path) -> None:
    if path.relative_to(JOBS).as_posix() not in READERS:
        assert not reads_work_path(path.read_text(encoding="utf-8"))


def test_a_path_built_elsewhere_is_seen() -> None:
    assert reads_work_path('def f(config):\n    return f"{config.work.path}/x"\n') == [2]
    assert reads_work_path("x = work.path + '/x'") == [1]


def test_the_layout() -> None:
    place = Workspace.of(load_config(settings={"work.path": "w/", "dataset": "d"}))
    assert place.samples == "w/d/prepared/samples.parquet"
    assert place.labels == "w/d/prepared/labels.parquet"
    assert place.folds == "w/d/prepared/folds.parquet"
    assert place.statistics == "w/d/prepared/statistics.json"
    assert place.tokens("words", "texts") == "w/d/tokens/words/texts"
    assert place.vectors("m") == "w/d/vectors/m"
    assert place.candidate_lists("bm25") == "w/d/candidates/bm25/lists.parquet"
    assert (place.results, place.report, place.nightly_results) == ("w/d/results", "w/d/report", "w/d/nightly")
    assert (place.night("n"), place.history) == ("w/nightly/n", "w/history")


@pytest.mark.parametrize("work", ["s3://bucket/work", "/Volumes/a/b/work"])
def test_storage_of_any_kind(work: str) -> None:
    # Spark's name for the store.
    assert Workspace(work, "d").prepared == f"{work.replace('s3:', 's3a:')}/d/prepared"
