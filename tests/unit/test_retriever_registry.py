"""The registry of retrievers: what is in it, and files of one's own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fusion.errors import ConfigError
from jobs.retrievers.own import retriever
from jobs.settings.built_in import DenseSettings, StaticSettings
from jobs.settings.config import Config, load_config, make_config, overlaid, setting_names
from jobs.settings.retrievers import RETRIEVERS, OwnSettings, registered

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "conf" / "datasets" / "debtags.yaml"
OWN = ROOT / "docs" / "own_retriever.py"
BUILT_IN = [entry for entry in RETRIEVERS if not entry.origin]


@pytest.mark.parametrize("entry", BUILT_IN, ids=lambda entry: entry.name)
def test_each_says_what_it_does_and_has_settings_of_its_own(entry) -> None:
    assert entry.indexes
    assert entry.scores
    assert entry.citation
    assert f"retrievers.{entry.name}.top" in set(setting_names(Config))
    config = load_config(None, {"retrievers": {entry.name: {"top": 3}}})
    assert type(config.retrievers[entry.name]) is entry.settings
    assert config.retrievers.settings(entry.name, entry.settings).top == 3
    page = (ROOT / "docs" / "retrievers.md").read_text()
    assert f"| `{entry.name}` | {entry.indexes} | {entry.scores} | {entry.settings().reads} | {entry.when} |" in page
    assert entry.citation in " ".join(page.split())


def names(config: Config) -> list[str]:
    return [entry.name for entry in config.retrievers.entries()]


def test_a_plain_installation_can_run_the_default() -> None:
    assert names(load_config()) == ["bm25", "static"]
    assert names(load_config(str(DEMO))) == ["bm25", "dense", "static"]


def test_a_list_chooses_and_leaves_the_settings(tmp_path: Path) -> None:
    """As --retrievers does, over the file of a dataset."""
    for given in ("static,dense", ["static", "dense"]):
        config = load_config(str(DEMO), {"retrievers": given})
        assert names(config) == ["static", "dense"]
        assert config.retrievers.settings("dense", DenseSettings).batch_size == 16
    config = load_config(str(DEMO), {"retrievers.static.epochs": 2})
    assert names(config) == names(load_config(str(DEMO)))
    assert config.retrievers.settings("static", StaticSettings).epochs == 2
    again = make_config(config.to_yaml(), "config.yaml")
    assert again == config
    assert names(again) == names(config)


def test_a_mapping_chooses_as_well(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("retrievers: {static: {epochs: 2}, bm25-labels: }")
    assert names(load_config(str(file))) == ["static", "bm25-labels"]
    assert names(overlaid(load_config(str(DEMO)), str(file))) == ["static", "bm25-labels"]


def test_a_retriever_takes_over_the_settings_of_its_family() -> None:
    config = load_config(None, {"retrievers": {"static": {"epochs": 2, "top": 9}, "static-texts": {"top": 5}}})
    of_texts = config.retrievers.settings("static-texts", StaticSettings)
    assert (of_texts.epochs, of_texts.top, of_texts.neighbours) == (2, 5, 64)
    assert config.retrievers.settings("static", StaticSettings).top == 9


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"retrievers": {"bm25": {"k2": 1}}},
            "unknown setting 'retrievers.bm25.k2'; did you mean 'retrievers.bm25.k1'?",
        ),
        ({"retrievers.bm25.k2": 1}, "unknown setting 'retrievers.bm25.k2'; did you mean 'retrievers.bm25.k1'?"),
        ({"retrievers": {"bm25": {"tokenizer": {"stemer": "english"}}}}, "mean 'retrievers.bm25.tokenizer.stemmer'?"),
        ({"retrievers.bm25.k1": "much"}, "retrievers.bm25.k1: Input should be a valid number"),
        ({"retrievers": {"bm25": 3}}, "retrievers.bm25: "),
        ({"retrievers": 3}, "retrievers: .*name at least one retriever"),
        ({"retrievers": {}}, "retrievers: .*name at least one retriever"),
        ({"retrievers": []}, "retrievers: .*name at least one retriever"),
        ({"retrievers.dense.epochs": 3}, "retrievers.dense: dense is not among the chosen retrievers, bm25, static"),
        ({"retrievers.statik.epochs": 3}, "unknown retriever 'statik'. Did you mean 'static'?"),
        ({"retrievers.mine.py.least": 3}, "retrievers.mine.py: mine.py is not among the chosen"),
    ],
)
def test_settings_that_are_not_there(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("?", r"\?")):
        load_config(None, settings)


def test_names_are_looked_up_when_the_configuration_is_read() -> None:
    assert list(load_config(None, {"retrievers": "static, bm25"}).retrievers) == ["static", "bm25"]
    with pytest.raises(ConfigError, match=r"retrievers: unknown retriever 'statik'\. Did you mean 'static'\?"):
        load_config(None, {"retrievers": ["statik"]})


def test_a_file_of_ones_own() -> None:
    config = load_config(None, {"retrievers": ["bm25", str(OWN)], f"retrievers.{OWN}.least": 0.4})
    assert names(config) == ["bm25", "name-words"]
    assert config.retrievers.entries()[1].origin == str(OWN)
    settings = config.retrievers.settings("name-words", OwnSettings)
    assert settings.model_dump() == {"top": 64, "least": 0.4}


ENTRY = (
    "import xmtc_fusion as xf\n@xf.retriever('{}', indexes='i', scores='s', citation='c')\ndef f(fold): return None\n"
)


def test_a_file_that_has_changed_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(ENTRY.format("changing"))
    (first,) = registered(str(file))
    assert registered(str(file)) == [first]
    file.write_text(ENTRY.format("changing") + "# more\n")
    (second,) = registered(str(file))
    assert second.name == "changing"
    assert second is not first


def test_a_path_is_relative_to_where_one_is(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "near.py").write_text(ENTRY.format("near"))
    monkeypatch.chdir(tmp_path)
    assert [entry.origin for entry in registered("near.py")] == [str(tmp_path / "near.py")]


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
