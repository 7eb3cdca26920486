"""The registry of retrievers: what is in it, and files of one's own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fusion.errors import ConfigError
from jobs.retrievers.own import retriever
from jobs.settings.config import Config, load_config, setting_names
from jobs.settings.retrievers import RETRIEVERS, chosen_retrievers

ROOT = Path(__file__).parents[2]
OWN = ROOT / "docs" / "own_retriever.py"
BUILT_IN = [entry for entry in RETRIEVERS if not entry.origin]


@pytest.mark.parametrize("entry", BUILT_IN, ids=lambda entry: entry.name)
def test_each_says_what_it_does_and_where_its_settings_are(entry) -> None:
    assert entry.indexes
    assert entry.scores
    assert entry.citation
    assert entry.section in set(setting_names(Config))
    page = (ROOT / "docs" / "retrievers.md").read_text()
    assert f"| `{entry.name}` | {entry.indexes} | {entry.scores} | {entry.when} | `{entry.section}` |" in page
    assert entry.citation in " ".join(page.split())
    comment = (ROOT / "conf" / "base.yaml").read_text().split("retrievers:")[0].rpartition("\n\n")[2]
    assert entry.name in comment.replace("\n# ", " ").replace(";", ",").replace(":", ",")


def test_old_configurations_mean_the_same_two() -> None:
    assert [entry.name for entry in chosen_retrievers(load_config().retrievers)] == ["bm25", "dense"]
    demo = yaml.safe_load((ROOT / "conf" / "datasets" / "debtags.yaml").read_text())
    assert demo["retrievers"] == ["bm25", "dense", "static"]


def test_names_are_looked_up_when_the_configuration_is_read() -> None:
    assert load_config(None, {"retrievers": "static, bm25"}).retrievers == ["static", "bm25"]
    with pytest.raises(ConfigError, match=r"retrievers: unknown retriever 'statik'\. Did you mean 'static'\?"):
        load_config(None, {"retrievers": ["statik"]})
    with pytest.raises(ConfigError, match=r"retrievers: .*at least 1"):
        load_config(None, {"retrievers": []})


def test_a_file_of_ones_own() -> None:
    config = load_config(None, {"retrievers": ["bm25", str(OWN)], "retriever_settings": {"name-words": {"least": 0.4}}})
    entries = chosen_retrievers([*config.retrievers, "bm25"])
    assert [entry.name for entry in entries] == ["bm25", "name-words"]
    assert entries[1].origin == str(OWN)
    with pytest.raises(
        ConfigError, match=r"retriever_settings: unknown retriever of your own 'name-word'\. Did you mean"
    ):
        load_config(None, {"retrievers": [str(OWN)], "retriever_settings": {"name-word": {}}})


ENTRY = (
    "import xmtc_fusion as xf\n@xf.retriever('{}', indexes='i', scores='s', citation='c')\ndef f(fold): return None\n"
)


def test_a_file_that_has_changed_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(ENTRY.format("changing"))
    (first,) = chosen_retrievers([str(file)])
    assert chosen_retrievers([str(file)]) == [first]
    file.write_text(ENTRY.format("changing") + "# more\n")
    (second,) = chosen_retrievers([str(file)])
    assert second.name == "changing"
    assert second is not first


def test_a_path_is_relative_to_where_one_is(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "near.py").write_text(ENTRY.format("near"))
    monkeypatch.chdir(tmp_path)
    assert [entry.origin for entry in chosen_retrievers(["near.py"])] == [str(tmp_path / "near.py")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read"),
        ("import nowhere_at_all", "cannot be imported: ModuleNotFoundError"),
        ("x = 1", "registers no retriever"),
        (ENTRY.format("bm25"), "'bm25' is registered already"),
        (ENTRY.format("Two Words"), "cannot be called 'Two Words'"),
        (ENTRY.format("results"), "cannot be called 'results'"),
    ],
)
def test_files_that_do_not_work(tmp_path: Path, content: str | None, message: str) -> None:
    file = tmp_path / "wrong.py"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigError, match=f"(?s)retrievers: .*{message}"):
        load_config(None, {"retrievers": [str(file)]})


def test_in_a_notebook_a_cell_may_run_again() -> None:
    def learn(fold):
        return None

    for _ in range(2):
        entry = retriever("of-a-notebook", indexes="i", scores="s", citation="c")(learn)
    assert RETRIEVERS["of-a-notebook"] is entry


@pytest.mark.parametrize("name", ["retrievers", "eurlex57k", "retrieval"])
def test_benchmarks_of_retrievers_can_be_started(name: str) -> None:
    """They take too long to run here; that what they import exists is the least."""
    command = [sys.executable, "-m", f"benchmarks.{name}", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "usage:" in done.stdout
