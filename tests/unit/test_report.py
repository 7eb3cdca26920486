"""Job `report`, from result folders to files, without Spark."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from fusion.errors import InputError, OutputError, SetupError
from jobs.cli import main
from jobs.evaluation import pipeline
from jobs.inputs.stages import with_tables
from jobs.reporting import report
from jobs.reporting.document import _read
from jobs.settings.base import OutputSettings
from jobs.settings.config import load_config
from jobs.storage.folders import whole_folder
from jobs.storage.workspace import Workspace
from tests.results import plain_files
from tests.unit.test_assemble import FOLDS, write_results


def test_one_report_of_two_datasets_and_the_same_bytes_again(tmp_path: Path) -> None:
    results = [
        write_results(tmp_path / "a", FOLDS),
        write_results(tmp_path / "b", FOLDS, dataset="Eurlex-4K"),
    ]
    settings = {"report.results": results, "output.path": str(tmp_path / "report"), "output.mode": "overwrite"}
    settings["report.figures"] = True
    assert report.run(load_config(None, settings)) == f"{tmp_path / 'report'}/index.html"
    first = plain_files(tmp_path / "report")
    assert {"index.html", "report.md", "all-tables.tex", "sample.tex", "sample.csv", "eurlex-4k.csv"} <= set(first)
    assert {name for name in first if name.endswith(".png")} == {
        f"figures/{dataset}_{kind}.png" for dataset in ("sample", "eurlex-4k") for kind in ("grid-tail", "gain")
    }
    text = first["report.md"].decode()
    assert "Rank correlation of the fusions with Eurlex-4K" in text
    assert "figures/sample_gain.png" in text
    row = next(csv.DictReader(first["sample.csv"].decode().splitlines()[:2]))
    assert (row["normalization"], row["fusion"]) == ("single", "dense")
    report.run(load_config(None, settings))
    assert plain_files(tmp_path / "report") == first


def test_charts_are_files_where_they_are_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"report.results": [write_results(tmp_path / "a", FOLDS)], "output.path": str(tmp_path / "report")}
    report.run(load_config(None, settings))
    assert "index.html" in plain_files(tmp_path / "report")
    assert not (tmp_path / "report" / "figures").exists()
    monkeypatch.setattr(report, "find_spec", lambda name: None)
    with pytest.raises(SetupError, match=r"report\.figures needs Matplotlib"):
        report.run(load_config(None, {**settings, "report.figures": True}))


def test_the_report_lies_with_its_results(tmp_path: Path) -> None:
    """A second result does not replace the report of the first one."""
    work = {"work.path": str(tmp_path / "work"), "dataset": "sample"}
    (tmp_path / "work" / "sample").mkdir(parents=True)
    usual = write_results(tmp_path / "work" / "sample" / "results", FOLDS)
    other = write_results(tmp_path / "other", FOLDS)
    assert report.run(load_config(None, work)) == f"{tmp_path}/work/sample/report/index.html"
    before = plain_files(tmp_path / "work" / "sample" / "report")
    # What `run --output` asks for: its report goes into its own folder, and can be made again.
    config = pipeline.reported(load_config(None, {**work, "output.path": other}))
    for _ in range(2):
        assert report.run(config) == f"{other}/report/index.html"
    # Several results have no folder in common: nothing that is there is replaced unasked.
    third = write_results(tmp_path / "third", FOLDS, dataset="another")
    with pytest.raises(OutputError, match="exists already"):
        report.run(load_config(None, {**work, "report.results": [usual, third]}))
    assert plain_files(tmp_path / "work" / "sample" / "report") == before


def test_nothing_is_lost_by_an_error(tmp_path: Path) -> None:
    good, other = write_results(tmp_path / "a", FOLDS), write_results(tmp_path / "b", FOLDS, fuse__top=12)
    out = str(tmp_path / "report")
    report.run(load_config(None, {"report.results": [good], "output.path": out}))
    before = plain_files(tmp_path / "report")
    mixed = {"report.results": f"{good},{other}", "output.path": out, "output.mode": "overwrite"}
    with pytest.raises(InputError, match=r"fuse\.top"):
        report.run(load_config(None, mixed))
    with pytest.raises(OutputError, match="exists already"):
        report.run(load_config(None, {"report.results": [good], "output.path": out}))
    assert plain_files(tmp_path / "report") == before


Damage = Callable[[bytes], bytes]


@pytest.mark.parametrize(
    ("versions", "name", "damage", "words"),
    [
        (True, "comparisons.parquet", None, "1 of 4 files are gone: comparisons.parquet"),
        (True, ".complete.json", None, ".complete.json is missing or damaged"),
        (True, "config.yaml", lambda content: content[:2000], "of another size than written: config.yaml"),
        (True, "run.json", lambda content: content[:20], "of another size than written: run.json"),
        (False, "config.yaml", lambda content: content + b"log: {", "config.yaml is not valid YAML, line "),
        (False, "config.yaml", lambda content: b"", "config.yaml: expected settings in YAML"),
        (False, "run.json", lambda content: content[:20], "run.json is cut short or damaged"),
        (False, "run.json", lambda content: b"[]", "run.json is damaged: expected a JSON object"),
        (False, "run.json", lambda content: b"\xff", "run.json: "),
    ],
)
def test_results_that_lost_something_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], versions: bool, name: str, damage: Damage | None, words: str
) -> None:
    place = Path(write_results(tmp_path / "plain", FOLDS))
    results = place
    if versions:
        results = tmp_path / "results"
        with whole_folder(OutputSettings(path=str(results))) as folder:
            for file in place.iterdir():
                folder.write_bytes(file.name, file.read_bytes())
        place = (results / "metrics.parquet").resolve().parent
    command = ["report", "--results", str(results)]
    assert main([*command, "--output", str(tmp_path / "whole")]) == 0
    if damage is None:
        (place / name).unlink()
    else:
        (place / name).write_bytes(damage((place / name).read_bytes()))
    assert main([*command, "--output", str(tmp_path / "out")]) in (2, 3)
    message = capsys.readouterr().err
    assert words in message and str(results) in message and "unexpected" not in message
    assert not (tmp_path / "out").exists()


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = write_results(tmp_path / "a", FOLDS)
    out = str(tmp_path / "report")
    more = ["--test", "queries"]
    assert main(["report", "--results", results, "--output", out, *more]) == 0
    assert f"{out}/index.html" in capsys.readouterr().out
    assert main(["report", "--results", str(tmp_path / "nowhere"), "--output", f"{out}2"]) == 3
    assert "config.yaml is missing" in capsys.readouterr().err
    assert main(["report", "--results", results, "--test", "folds,queries"]) == 2


def test_it_says_how_much_of_a_text_retrievers_read() -> None:
    """Of lists from the work folder; nobody knows what read the texts of other runs."""
    chosen = {"retrievers": {"bm25": {}, "dense": {"max_length": 64}, "static": {"model": "bundled:minilm"}}}
    config = load_config(None, chosen)
    place = Workspace.of(config)
    own = with_tables(config, {name: place.candidate_lists(name) for name in config.retrievers})
    assert _read(own) == {"read of each text": "bm25 all words, dense the first 64 tokens, static the first 512 tokens"}
    assert _read(with_tables(config, {"bm25": "a.trec", "dense": "b.trec"})) == {}
