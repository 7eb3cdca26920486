"""Fused rankings as files: every format holds the same lists, and can be read as a run again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import xmtc_fusion as xf
from fusion.cells import Cell
from jobs.cli import main
from jobs.evaluation import fuse
from jobs.evaluation.fuse import cell_folder, file_names
from jobs.settings.config import load_config
from tests.lists import random_relevant, random_texts, whole, write_tables

TEXTS = 12
MADE = random_texts(np.random.default_rng(12), TEXTS, retrievers=3, ties=False)
RUNS = {
    name: {f"t{q}": {f"l{x}": s for x, s in whole(text)[name].items()} for q, text in enumerate(MADE)}
    for name in MADE[0]
}
CELLS = ["zmuv+combmnz", "rrf(k=[10,60])", "bm25+dense: softmax+wsum(bm25=0.3)"]
FILES = ["zmuv+combmnz", "none+rrf(k=10)", "none+rrf", "bm25+dense_softmax+wsum(bm25=0.3)"]
SUFFIXES = {"trec": ".trec", "jsonl": ".jsonl", "ranx": ".json"}


@pytest.fixture(scope="module")
def trec_runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("runs")
    for name, run in RUNS.items():
        lines = [f"{text} Q0 {label} 0 {score!r} x" for text, of in run.items() for label, score in of.items()]
        (folder / f"{name}.trec").write_text("\n".join(lines) + "\n")
    return {name: str(folder / f"{name}.trec") for name in RUNS}


@pytest.mark.parametrize("kind", SUFFIXES)
def test_one_file_per_cell_reads_back(kind: str, trec_runs: dict[str, str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    settings = {"inputs.candidates": trec_runs, "grid.cells": CELLS, "fuse.format": kind, "fuse.top": 9}
    written = fuse.run(None, load_config(None, {**settings, "output.path": str(out)}))
    files = {path.name for path in out.iterdir() if path.name[0] != "."} - {"config.yaml"}
    assert files == {f"{name}{SUFFIXES[kind]}" for name in FILES}
    expected = xf.fuse(RUNS, CELLS, top=9)
    assert written == sum(len(texts) for texts in expected.values())
    cells = ["zmuv+combmnz", "none+rrf(k=10)", "none+rrf", CELLS[2]]
    assert list(expected) == cells
    for cell, name in zip(cells, FILES, strict=True):
        path = str(out / f"{name}{SUFFIXES[kind]}")
        # With a second retriever that holds nothing but what no list holds, the first one's order comes back.
        other = {"t0": {"nothing": 0.0}}
        again = xf.fuse({"fused": path, "other": other}, "none+combmax", top=9)
        scores: dict[str, dict[str, float]] = {}
        for row in again.to_pylist():
            scores[row["text_id"]] = dict(zip(row["label_ids"], row["scores"], strict=True))
        scores["t0"].pop("nothing", None)
        assert {text: scores[text] for text in expected[cell]}.keys() == expected[cell].keys()
        for text in set(expected[cell]) - {"t0"}:
            assert scores[text] == expected[cell][text]


def test_cells_on_the_command_line(trec_runs: dict[str, str], tmp_path: Path) -> None:
    options = [option for name, path in trec_runs.items() for option in ("--run", f"{name}={path}")]
    out = str(tmp_path / "out")
    cells = "zmuv+combmnz,rrf(k=[10,20]),bm25+dense: zmuv+wsum(bm25=0.3,dense=0.7)"
    assert main(["fuse", *options, "--cells", cells, "--format", "ranx", "--top", "3", "--output", out]) == 0
    assert len(list(Path(out).glob("[!.]*.json"))) == 4
    written = json.loads(Path(f"{out}/zmuv+combmnz.json").read_text())
    assert written == xf.fuse(RUNS, "zmuv+combmnz", top=3)


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_fused_lists_of_label_groups_read_back(kind: str, tmp_path: Path) -> None:
    """The lists of all labels stand beside those of the groups; who reads the file takes those of the groups."""
    relevant = random_relevant(np.random.default_rng(3), TEXTS)
    inputs = write_tables(tmp_path, MADE, relevant)
    settings = {**inputs, "grid.cells": ["zmuv+combmnz"], "fuse.format": kind, "output.path": str(tmp_path / "out")}
    fuse.run(None, load_config(None, settings))
    path = str(tmp_path / "out" / ("fused.parquet" if kind == "parquet" else "zmuv+combmnz.jsonl"))
    runs = {"fused": path, "again": path}
    judged, groups = str(inputs["inputs.judgements"]), str(inputs["inputs.label_groups"])
    for word in (groups, "none"):
        result = xf.evaluate(judged, runs, cells=["none+combmax"], metrics="ndcg@5", label_groups=word)
        figures = result.to_pandas().query("ideal == 'all'").set_index(["label_group", "fusion"])["value"]
        assert figures["all", "fused"] == figures["all", "combmax"] > 0
    direct = (
        xf.evaluate(
            judged,
            {name: _table(MADE, name) for name in MADE[0]},
            cells=["zmuv+combmnz"],
            metrics="ndcg@5",
            label_groups=groups,
        )
        .to_pandas()
        .query("ideal == 'all'")
    )
    back = xf.evaluate(judged, runs, cells=["none+combmax"], metrics="ndcg@5", label_groups=groups).to_pandas()
    for group in ("tail", "head"):
        of_fused = back.query(f"ideal == 'all' and label_group == '{group}' and fusion == 'fused'")["value"].item()
        assert of_fused == direct.query(f"label_group == '{group}' and fusion == 'combmnz'")["value"].item()


def _table(texts, name: str) -> dict[int, dict[int, float]]:
    return {q: whole(text)[name] for q, text in enumerate(texts)}


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    runs = {"a": {"t 1": {"x": 1.0}}, "b": {"t 1": {"x": 1.0}}}
    (tmp_path / "a.json").write_text(json.dumps(runs["a"]))
    settings = {"inputs.candidates": {name: str(tmp_path / "a.json") for name in runs}, "fuse.format": "trec"}
    settings |= {"grid.cells": ["rrf"], "output.path": str(tmp_path / "out")}
    with pytest.raises(xf.OutputError, match="'t 1' does not fit into a TREC file"):
        fuse.run(None, load_config(None, settings))
    assert not (tmp_path / "out").exists()
    inputs = write_tables(tmp_path, MADE, [{1}] * TEXTS)
    chosen = {
        **inputs,
        "fuse.format": "trec",
        "fuse.label_groups": ["tail", "head"],
        "output.path": str(tmp_path / "o"),
    }
    with pytest.raises(xf.ConfigError, match=r"one list per text: set fuse\.label_groups to one of tail, head"):
        fuse.run(None, load_config(None, chosen))


def test_distances_are_better_when_lower(tmp_path: Path) -> None:
    negated = {**RUNS, "dense": {text: {x: -s for x, s in of.items()} for text, of in RUNS["dense"].items()}}
    chosen = {"inputs.higher_is_better": {"dense": False, "bm25": True}}
    for cell in ("zmuv+combmnz", "rrf", "min-max+wsum(dense=0.3)"):
        assert xf.fuse(negated, cell, settings=chosen) == xf.fuse(RUNS, cell)
    judgements = {text: list(RUNS["dense"][text]) for text in RUNS["dense"]}
    figures = xf.evaluate(judgements, negated, cells=["rrf"], metrics="ndcg@5", settings=chosen).metrics
    assert figures == xf.evaluate(judgements, RUNS, cells=["rrf"], metrics="ndcg@5").metrics
    shown = xf.explain(negated, "t1", "rrf", settings=chosen).table
    assert shown == xf.explain(RUNS, "t1", "rrf").table
    with pytest.raises(xf.ConfigError, match=r"unknown retriever \(in inputs.higher_is_better\) 'dens'.*'dense'"):
        xf.fuse(RUNS, "rrf", settings={"inputs.higher_is_better": {"dens": False}})


def test_names_of_files_and_folders() -> None:
    cells = [Cell("a+b: zmuv", "isr"), Cell('a+"b c": zmuv', "isr"), Cell('a+"b%c": zmuv', "isr")]
    names = list(file_names(cells, ".trec").values())
    assert names == ["a+b_zmuv+isr.trec", "a+_b_c_zmuv+isr.trec", "a+_b_c_zmuv+isr_.trec"]
    assert cell_folder(Cell("a+b: zmuv", "wsum(a=0.5)")) == "normalization=a+b%3A zmuv/fusion=wsum(a%3D0.5)"


def test_explaining_a_subset() -> None:
    """As if there were no other retrievers."""
    explained = xf.explain(RUNS, "t2", "dense+bm25: borda+combsum")
    alone = xf.explain({name: RUNS[name] for name in ("bm25", "dense")}, "t2", "borda+combsum")
    assert explained.table == alone.table and "1 - i / C" in explained.text
    assert "splade_rank" not in explained.table.column_names and "bm25+dense: borda+combsum" in explained.text
    weighted = xf.explain(RUNS, "t2", "dense+bm25: zmuv+wsum(dense=0.5,splade=3)")
    two = {name: RUNS[name] for name in ("bm25", "dense")}
    assert weighted.table == xf.explain(two, "t2", "zmuv+wsum(dense=0.5)").table
    with pytest.raises(xf.ConfigError, match="unknown retriever"):
        xf.explain(RUNS, "t2", "dense+bm: borda+combsum")


def test_what_each_retriever_adds() -> None:
    relevant = random_relevant(np.random.default_rng(5), TEXTS)
    judgements = {f"t{q}": [f"l{x}" for x in sorted(labels)] for q, labels in enumerate(relevant)}
    chosen = {"grid.subsets": "all", "evaluate.randomizations": 1000}
    result = xf.evaluate(judgements, RUNS, cells=["zmuv+combsum", "rrf"], metrics="ndcg@5", settings=chosen)
    added = result.details["additions"].to_pylist()
    # Per cell: each of three to the other two, and each of two to the other one, for three pairs.
    assert len(added) == 2 * (3 + 6)
    figures = {(row["normalization"], row["fusion"]): row["value"] for row in result.metrics.to_pylist()}
    for row in added:
        retrievers = sorted([row["retriever"], *row["others"].split("+")])
        prefix = f"{'+'.join(retrievers)}: " if len(retrievers) == 2 else ""
        assert row["value"] == figures[f"{prefix}{row['normalization']}", row["fusion"]]
        lone = "+" not in row["others"]
        other = ("single", row["others"]) if lone else (f"{row['others']}: {row['normalization']}", row["fusion"])
        assert row["others_value"] == figures[other]
        assert row["difference"] == row["value"] - row["others_value"]
        assert row["queries"] == TEXTS and 0 <= row["p"] <= 1
    pair = xf.evaluate(judgements, {name: RUNS[name] for name in ("bm25", "dense")}, cells=["rrf"], metrics="ndcg@5")
    assert figures["bm25+dense: none", "rrf"] == pair.best("ndcg@5").mean
    assert "additions" not in pair.details


def test_too_many_columns_to_compare_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.evaluation.plan.MOST_COMPARED", 2)
    evaluation = xf.evaluate({"t0": ["l1"]}, RUNS, cells=["rrf(k=[1,2,3])"], metrics="ndcg@5")
    # Details are counted when they are first asked for.
    with pytest.raises(xf.ConfigError, match=r"3 distinct results.*evaluate\.details to false"):
        len(evaluation.details)
