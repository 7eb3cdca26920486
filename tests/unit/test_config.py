"""The configuration: defaults, merging, and errors that help."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from fusion.errors import ConfigError, XmtcError
from fusion.metrics import LARGEST_K, parse_metrics
from fusion.registry import FUSIONS, fusion
from jobs.settings.config import Config, load_config, make_config, overlaid, parse_setting
from jobs.settings.layers import parse_yaml
from jobs.settings.reference import commented_yaml, settings, undocumented
from jobs.settings.reference import files as generated_files

BASE = Path(__file__).parents[2] / "conf" / "base.yaml"


@pytest.mark.parametrize("path", generated_files(), ids=lambda path: path.name)
def test_what_is_generated_from_the_models(path: Path) -> None:
    """`python -m jobs.settings.reference` writes these files."""
    assert path.read_text(encoding="utf-8") == generated_files()[path]


def test_base_yaml_has_every_default() -> None:
    assert make_config(BASE.read_text(), "base.yaml") == load_config() == Config()


def test_every_setting_is_documented_in_sentences() -> None:
    assert undocumented() == []
    for setting in settings(Config):
        assert setting.about.endswith("."), setting.name
        assert len(setting.summary) < 250, setting.name


def test_later_settings_win(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("grid: {scope: joint, engine: windows}\n")
    config = load_config(str(file), {"grid.engine": "arrays"})
    assert (config.grid.scope, config.grid.engine, config.fuse.top) == ("joint", "arrays", 64)


def test_written_configuration_reads_back() -> None:
    config = load_config(None, {"grid.normalizations": "zmuv, rank", "inputs.candidates": {"a": "x", "b": "y"}})
    assert make_config(config.to_yaml(), "config.yaml") == config


FILES = [None, BASE.parent / "nightly.yaml", *sorted((BASE.parent / "datasets").glob("*.yaml"))]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem if file else "defaults")
def test_commented_configuration_reads_back(file: Path | None) -> None:
    config = load_config(
        file and str(file), {"report.title": "A 'title':\n  # of two lines, ü", "spark.conf": {"a": 1}}
    )
    assert make_config(commented_yaml(config), "config.yaml") == config


def test_a_wrong_file_is_named(tmp_path: Path) -> None:
    """Also where a dataset's file is laid over the configuration of the night."""
    file = tmp_path / "wrong.yaml"
    file.write_text("fuse: {top: 0}")
    for load in (load_config, lambda path: overlaid(load_config(), path)):
        with pytest.raises(ConfigError, match=rf"\n  {file}: fuse.top: "):
            load(str(file))
    # A setting that may have one of several types is called what the file calls it.
    file.write_text("inputs: {candidates: {a: }}\nprepare: {parts: [{name: all, texts: {b: 1}}]}")
    with pytest.raises(ConfigError) as error:
        load_config(str(file))
    named = [line.split(": ")[:2] for line in str(error.value).splitlines()[1:]]
    settings = ["prepare.parts.0.texts", "prepare.parts.0.texts", "inputs.candidates", "inputs.candidates.a"]
    assert named == [[f"  {file}", setting] for setting in settings]
    with pytest.raises(ConfigError, match=r"\n  out/config.yaml: unknown setting 'fuse.tip'"):
        make_config("fuse: {tip: 1}", "out/config.yaml")


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("grid.scop", "joint", ["unknown setting 'grid.scop'", "did you mean 'grid.scope'"]),
        ("grid.scope", "groups", ["grid.scope", "'group' or 'joint'", "got 'groups'"]),
        ("fuse.top", "many", ["fuse.top", "integer", "got 'many'"]),
        ("fuse.top", True, ["fuse.top", "true and false are not numbers", "got True"]),
        ("prepare.folds", True, ["prepare.folds", "not numbers"]),
        ("nightly.tolerance", True, ["nightly.tolerance", "not numbers"]),
        ("nightly.checks.oldest", False, ["nightly.checks.oldest", "not numbers"]),
        ("nightly.checks.bounds", {"texts": [True, None]}, ["nightly.checks.bounds", "not numbers"]),
        ("tune.l2", [0.1, True], ["tune.l2", "not numbers"]),
        ("evaluate.propensity", [True, 1], ["evaluate.propensity", "not numbers"]),
        ("retrievers", {"bm25": {"k1": True}}, ["retrievers.bm25.k1", "not numbers"]),
        ("fuse.top", 0, ["fuse.top", "greater than or equal to 1"]),
        ("grid.normalizations", "zmux", ["unknown normalization 'zmux'", "Did you mean 'zmuv'"]),
        ("grid.fusions", "combmns", ["unknown fusion 'combmns'", "Did you mean 'combmnz'"]),
        ("grid.cells", ["zmuv"], ["'zmuv'", "NORMALIZATION+FUSION"]),
        ("evaluate.metrics", "ndgc@10", ["unknown metric 'ndgc'", "Did you mean 'ndcg'"]),
        ("evaluate.metrics", "ndcg", ["'ndcg'", "cut-off"]),
        ("evaluate.metrics", "ndcg@0", ["'ndcg@0'", "cut-off"]),
        ("evaluate.metrics", f"ndcg@{LARGEST_K + 1}", ["cut-off"]),
    ],
)
def test_wrong_settings(key: str, value: object, words: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        load_config(None, {key: value})
    for word in words:
        assert word in str(error.value), str(error.value)


def test_truth_values_that_are_meant() -> None:
    config = load_config(
        None,
        {
            "report.figures": True,
            "evaluate.details": False,
            "inputs.higher_is_better": {"a": False},
            "spark.conf": {"spark.ui.enabled": False},
            "retrievers": {"bm25": {"tokenizer": {"lowercase": False}}},
        },
    )
    assert config.report.figures is True
    assert config.spark.conf == {"spark.ui.enabled": False}


def test_broken_yaml(tmp_path: Path) -> None:
    file = tmp_path / "broken.yaml"
    file.write_text("grid: {scope: joint\nfuse: [1")
    with pytest.raises(ConfigError, match=r"(?s)broken\.yaml is not valid YAML.*line 2"):
        load_config(str(file))
    file.write_text("- a list")
    with pytest.raises(ConfigError, match="expected settings in YAML"):
        load_config(str(file))
    with pytest.raises(ConfigError, match="cannot read the configuration"):
        load_config(str(tmp_path / "gone.yaml"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"fuse: {top: 3}\nfuse: {top: 4}\n", ", line 2, column 1: the key 'fuse' is given twice, first in line 1"),
        (b"nightly:\n  tolerance: 1\n  alpha: 0.1\n  'tolerance': 50\n", ", line 4, column 3: the key 'tolerance'"),
        ("fuse: {top: 3}".encode("utf-16"), " is in UTF-16: save it as UTF-8"),
        ("fuse: {top: 3}".encode("utf-16-be"), " looks like UTF-16"),
        ("fuse: {top: 3}".encode("utf-32"), " is in UTF-32"),
        ("fuse: {top: 3}\n# \xe9".encode("latin-1"), ", line 2: byte 0xe9 is not UTF-8"),
        (b"nightly: {run_id: 2026-13-45}", ": month must be in 1..12"),
        (b"[" * 5000, "nested too deeply"),
    ],
)
def test_yaml_that_does_not_mean_what_it_says(tmp_path: Path, content: bytes, words: str) -> None:
    """In a file, in a dataset's file over it, and in results."""
    file = tmp_path / "odd.yaml"
    file.write_bytes(content)
    for load in (load_config, partial(overlaid, load_config()), lambda path: make_config(content, path)):
        with pytest.raises(ConfigError) as error:
            load(str(file))
        assert str(error.value).startswith(str(file)) and words in str(error.value)


def test_a_byte_order_mark_and_merged_keys_are_no_mistakes(tmp_path: Path) -> None:
    file = tmp_path / "odd.yaml"
    file.write_bytes(b"\xef\xbb\xbffuse: &top {top: 3}\nexplain: {rows: 2}\n")
    assert load_config(str(file)).fuse.top == 3
    assert parse_yaml("a: {b: &b {<<: &c {x: 1}, x: 2}}\nd: {<<: *b, x: 3}", "")["a"]["b"] == {"x": 2}


def test_set_needs_a_key_and_a_value() -> None:
    assert parse_setting("fuse.top=10") == ("fuse.top", 10)
    assert parse_setting("grid.cells=[zmuv+combmnz]") == ("grid.cells", ["zmuv+combmnz"])
    with pytest.raises(ConfigError, match="KEY=VALUE"):
        parse_setting("fuse.top")


def test_metrics_have_one_name() -> None:
    assert [str(metric) for metric in parse_metrics("P@5, nDCG@10,ndcg@10")] == ["precision@5", "ndcg@10"]


def test_a_name_is_registered_once() -> None:
    with pytest.raises(XmtcError, match="registered already"):
        fusion("combsum", reads="scores", formula="", citation="")(lambda labels: labels.total)
    assert FUSIONS["combsum"].formula == "sum(x)"


def test_runs_may_be_named_by_a_date(tmp_path: Path) -> None:
    path = tmp_path / "nightly.yaml"
    path.write_text("nightly: {baseline: 2026-03-02, run_id: 7}")
    nightly = load_config(str(path)).nightly
    assert (nightly.baseline, nightly.run_id) == ("2026-03-02", "7")


@pytest.mark.parametrize("text", ["grid: &a\n  cells: [*a]\n", "&a [1, *a]\n", "dataset: &a {b: *a}\n"])
def test_an_anchor_that_holds_itself_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "conf.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"conf\.yaml: an anchor holds itself"):
        load_config(f"{tmp_path}/conf.yaml")
