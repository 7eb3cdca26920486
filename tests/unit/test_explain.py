"""How one text is explained: the numbers are those of the kernel, the reference and `fuse`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xmtc_fusion as xf
from fusion.grid.grid import Grid
from jobs.cli import main
from jobs.storage.versions import STAGE_FILE
from tests import reference
from tests.lists import of_group, random_relevant, random_texts, whole, write_tables

TEXTS = 25
MADE = random_texts(np.random.default_rng(8), TEXTS, retrievers=3)
RELEVANT = random_relevant(np.random.default_rng(9), TEXTS)
NAMES = tuple(MADE[0])
RUNS = {name: {q: whole(text)[name] for q, text in enumerate(MADE)} for name in NAMES}
JUDGEMENTS = {q: sorted(labels) for q, labels in enumerate(RELEVANT)}
GROUPS = {label: "tail" if label < 30 else "head" for label in range(50)}


def test_fused_scores_and_order_are_those_of_fuse() -> None:
    cells = list(map(str, Grid.of("all", "all").cells))
    fused = xf.fuse(RUNS, cells, top=1000)
    for q, cell in enumerate(cells):
        table = xf.explain(RUNS, q % TEXTS, cell).table
        pairs = list(zip(table["label_id"].to_pylist(), table["fused"].to_pylist(), strict=True))
        assert pairs == list(fused[cell][q % TEXTS].items())
        assert table["rank"].to_pylist() == list(range(1, len(table) + 1))


@pytest.mark.parametrize("name", xf.NORMALIZATIONS.names())
@pytest.mark.parametrize("group", ["tail", "head", "all"])
def test_normalised_scores_are_those_of_the_reference(name: str, group: str) -> None:
    for q, text in enumerate(MADE[:5]):
        lists = whole(text) if group == "all" else of_group(text, group)
        candidates, x, ranks = reference.matrices(lists, name)
        filled = [retriever for retriever in NAMES if lists[retriever]]
        explained = xf.explain(RUNS, q, f"{name}+combsum", JUDGEMENTS, label_group=group, label_groups=GROUPS)
        rows = {row["label_id"]: row for row in explained.table.to_pylist()}
        assert set(rows) == set(candidates)
        for r, retriever in enumerate(filled):
            for c, label in enumerate(candidates):
                row = rows[label]
                value, rank = row[f"{retriever}_normalized"], row[f"{retriever}_rank"]
                assert (rank is None) == np.isnan(ranks[r, c]) and (rank is None or rank == ranks[r, c])
                assert row[f"{retriever}_score"] == lists[retriever].get(label)
                assert (value is None) == np.isnan(x[r, c])
                if value is not None:
                    assert value == pytest.approx(x[r, c], abs=1e-9)
        assert {label for label, row in rows.items() if row["relevant"]} == RELEVANT[q] & set(candidates)
        for row in explained.lists.to_pylist():
            scores = list(lists[row["retriever"]].values())
            assert row["size"] == len(scores)
            if scores:
                assert [row["min"], row["max"]] == [min(scores), max(scores)]
                assert [row["mean"], row["std"]] == pytest.approx([np.mean(scores), np.std(scores)])


def test_joint_scope_normalises_over_all_labels() -> None:
    joint = xf.explain(RUNS, 3, "zmuv+combsum", label_group="tail", label_groups=GROUPS, scope="joint").table
    every = xf.explain(RUNS, 3, "zmuv+combsum", label_groups=GROUPS).table
    expected = [row for row in every.drop_columns(["rank"]).to_pylist() if row["label_id"] < 30]
    assert joint.drop_columns(["rank"]).to_pylist() == expected


def test_text_says_what_was_imputed_missed_and_left_out() -> None:
    runs = {"bm25": {"a": {"x": 2.0, "y": 1.0}}, "dense": {"a": {"y": 0.5}, "b": {"x": 1.0}}}
    explained = xf.explain(runs, "a", "borda+combsum", {"a": ["y", "z"]}, rows=1)
    assert "1 - i / C" in explained.text and "sum(x)" in explained.text
    assert "1 more candidate below." in explained.text and "Relevant, but in no list: z." in explained.text
    assert "(0.5000)" in explained.text and "imputed" in explained.text
    assert explained.text == repr(explained) and "<td>x</td>" in explained._repr_html_()
    unjudged = xf.explain(runs, "a", "max+isr")
    assert "Nobody judged" in unjudged.text and "sees ranks only" in unjudged.text
    assert unjudged.table["relevant"].null_count == 2 and unjudged.table["dense_rank"].to_pylist() == [1, None]


def test_unknown_text_and_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(xf.InputError, match=r"no text '99' among the 25 texts .*near ids: 9"):
        xf.explain(RUNS, 99)
    monkeypatch.setattr("jobs.evaluation.explain.COMPARED_IDS", 3)
    with pytest.raises(xf.InputError, match=r"no text 'zzz' among the texts of the inputs .*the first: 0, 1, 2$"):
        xf.explain(RUNS, "zzz")
    with pytest.raises(xf.ConfigError, match="Did you mean 'zmuv'"):
        xf.explain(RUNS, 1, "zmux+combsum")
    with pytest.raises(xf.ConfigError, match="unknown label group 'tial'"):
        xf.explain(RUNS, 1, label_group="tial", label_groups=GROUPS)


@pytest.fixture
def stages(tmp_path: Path) -> list[str]:
    """A work folder as `run` leaves it, with names and texts; the options that name it."""
    dataset = tmp_path / "work" / "demo"
    write_tables(tmp_path, MADE, RELEVANT, folds=2)
    lists = pq.read_table(tmp_path / "candidates.parquet")
    for name in ("bm25", "dense"):
        folder = dataset / "candidates" / name
        folder.mkdir(parents=True)
        pq.write_table(lists.filter(pa.compute.equal(lists["retriever"], name)), folder / "lists.parquet")
        (folder / STAGE_FILE).write_text('{"fingerprint": "1"}')
    (dataset / "prepared").mkdir()
    (dataset / "prepared" / STAGE_FILE).write_text('{"fingerprint": "1"}')
    samples, labels, folds = (pq.read_table(tmp_path / f"{name}.parquet") for name in ("judgements", "labels", "folds"))
    texts = pa.array([f"The  words of {q}. " + "more " * 100 for q in range(TEXTS)])
    named = pa.array([f"name of {label}" for label in range(50)])
    pq.write_table(samples.append_column("text", texts), dataset / "prepared" / "samples.parquet")
    pq.write_table(labels.append_column("name", named), dataset / "prepared" / "labels.parquet")
    pq.write_table(folds.append_column("role", pa.array(["test"] * TEXTS)), dataset / "prepared" / "folds.parquet")
    return ["--work", str(tmp_path / "work"), "--set", "dataset=demo", "--set", "retrievers=bm25,dense"]


def test_command_reads_the_stages(stages: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--text", "3", "--label-group", "tail", "--cell", "max+combsum", *stages]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith('Text 3, tail labels, max+combsum\n"The words of 3. more')
    assert "s / max(max, eps)" in printed and "name of " in printed and "dense normalised" in printed
    expected = xf.explain(
        {name: RUNS[name] for name in ("bm25", "dense")}, 3, "max+combsum", label_group="tail", label_groups=GROUPS
    ).table
    first = expected.slice(0, 1).to_pylist()[0]
    line = next(line.split() for line in printed.splitlines() if line.startswith("1 "))
    assert line[1] == str(first["label_id"]) and f"{first['fused']:.4f}" in line


def test_command_with_runs_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.trec").write_text("t1 Q0 x 1 2.0 a\nt1 Q0 y 2 1.0 a\nt2 Q0 x 1 1.0 a\n")
    (tmp_path / "b.trec").write_text("t1 Q0 y 1 0.5 b\n")
    (tmp_path / "q.txt").write_text("t1 0 y 1\n")
    runs = ["--run", f"a={tmp_path}/a.trec", "--run", f"b={tmp_path}/b.trec", "--qrels", f"{tmp_path}/q.txt"]
    assert main(["explain", "--text", "t1", "--rows", "1", *runs]) == 0
    printed = capsys.readouterr().out
    assert "Text t1, all labels, zmuv+combmnz" in printed and "1 more candidate below." in printed
    assert main(["explain", "--text", "t9", *runs]) == 3
    assert "no text 't9' among the 2 texts" in capsys.readouterr().err
    assert main(["explain", *runs]) == 2
    assert "--text ID" in capsys.readouterr().err
