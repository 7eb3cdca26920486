"""What a result says of how it was made, and what a comparison of two says differs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from jobs.cli import main
from jobs.engines.local import LocalEngine
from jobs.evaluation.result import differences, provenance
from jobs.runtime import machine
from jobs.settings.config import load_config
from jobs.storage.folders import ResultFolder
from jobs.storage.stages import run_stage, stage_fingerprint
from jobs.storage.versions import one_view

ROOT = Path(__file__).parents[2]
TABLES = ("metrics.parquet", "metrics.csv", "comparisons.parquet", "config.yaml")


def lay_out(folder: Path, best: float = 0.9) -> list[str]:
    (folder / "a.trec").write_text("".join(f"t{n} Q0 l{n % 3} 1 {best} a\nt{n} Q0 l9 2 0.5 a\n" for n in range(12)))
    (folder / "b.trec").write_text("".join(f"t{n} Q0 l9 1 0.9 b\nt{n} Q0 l{n % 3} 2 0.2 b\n" for n in range(12)))
    (folder / "q.txt").write_text("".join(f"t{n} 0 l{n % 3} 1\n" for n in range(12)))
    return ["--run", "a=a.trec", "--run", "b=b.trec", "--qrels", "q.txt", "--metrics", "ndcg@10"]


def evaluated(folder: Path, *more: str) -> dict[str, Any]:
    assert main(["evaluate", *lay_out(folder), *more]) == 0
    return json.loads(Path(more[1], "run.json").read_text())["made"]


def test_what_is_recorded(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = evaluated(tmp_path, "--output", "out")
    assert made["code"] == machine.code_origin() and made["processor"] == machine.processor()
    assert made["packages"]["numpy"] and made["engine"] == {"name": "local"}
    assert set(made["inputs"]) == {"a", "b", "judgements"} and all(
        len(known) == 16 for known in made["inputs"].values()
    )
    assert made["seeds"]["evaluate.seed"] == load_config().evaluate.seed
    assert made["seconds"] > 0


def test_a_rerun_differs_in_nothing_but_its_duration(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    one, other = evaluated(tmp_path, "--output", "one"), evaluated(tmp_path, "--output", "two")
    assert {name for name in one if one[name] != other[name]} <= {"seconds"}
    for name in TABLES[:3]:
        assert Path("one", name).read_bytes() == Path("two", name).read_bytes()
    capsys.readouterr()
    assert main(["report", "--compare", "one", "two", "--output", "compared"]) == 0
    assert "Code, packages, processor, engine and inputs are the same." in capsys.readouterr().out


def test_a_comparison_says_what_differs(tmp_path, monkeypatch, capsys) -> None:
    """Another machine, another version of a package, another input."""
    monkeypatch.chdir(tmp_path)
    evaluated(tmp_path, "--output", "one")
    monkeypatch.setattr("jobs.evaluation.result.processor", lambda: "Abacus 7, 1 core")
    monkeypatch.setattr("jobs.evaluation.result.package_versions", lambda: {"python": "3.9", "numpy": "1.0"})
    assert main(["evaluate", *lay_out(tmp_path, best=0.1), "--output", "two"]) == 0
    capsys.readouterr()
    assert main(["report", "--compare", "one", "two", "--output", "compared"]) == 0
    printed = capsys.readouterr().out
    assert "Also different: " in printed and "Abacus 7, 1 core" in printed
    shown = Path("compared/index.html").read_text()
    assert "packages: numpy" in shown and "inputs: a" in shown and "inputs: b" not in shown


def test_an_input_elsewhere_is_compared_by_its_content(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    evaluated(tmp_path, "--output", "one")
    Path("a.trec").rename("moved.trec")
    runs = ["--run", "a=moved.trec", "--run", "b=b.trec", "--qrels", "q.txt", "--metrics", "ndcg@10"]
    assert main(["evaluate", *runs, "--output", "two"]) == 0
    capsys.readouterr()
    assert main(["report", "--compare", "one", "two", "--output", "compared"]) == 0
    printed = capsys.readouterr().out
    assert "inputs are the same." in printed and "moved.trec" not in printed


def test_stages_tell_what_auto_was(tmp_path) -> None:
    """The precision that a stage took stands in its marker, and is found through the stages made from it."""

    def build(folder: ResultFolder) -> dict[str, int]:
        folder.write_parquet("lists.parquet", pa.table({"text_id": [1]}))
        return {"lists": 1}

    vectors, lists = str(tmp_path / "vectors"), str(tmp_path / "candidates/dense")
    with one_view():
        assert run_stage("encode texts", vectors, {}, build, notes={"precision": "bfloat16"})
        assert run_stage("dense candidates", lists, {"vectors": stage_fingerprint(vectors)}, build)
    config = load_config()
    made = provenance(LocalEngine(), config, {"dense": f"{lists}/lists.parquet"}, 1.0)
    assert made["resolved"] == {"encode texts: precision": "bfloat16"}
    assert [stage["stage"] for stage in made["stages"]] == ["dense candidates", "encode texts"]
    assert all(stage["seconds"] >= 0 and stage["processor"] == machine.processor() for stage in made["stages"])
    assert made["inputs"] == {"dense": stage_fingerprint(lists)}
    rounded = {**made, "resolved": {"encode texts: precision": "float32"}, "seconds": 9.0}
    assert differences(made, rounded) == [("resolved: encode texts: precision", "bfloat16", "float32")]
    assert differences({}, made) == []


@pytest.mark.parametrize(("source", "known"), [("table:a.b.c", "table:a.b.c"), ("big.parquet", "10 bytes")])
def test_inputs_that_are_not_read_again(tmp_path, monkeypatch, source, known) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("jobs.evaluation.result.MOST_HASHED", 5)
    Path("big.parquet").write_bytes(b"0123456789")
    assert provenance(LocalEngine(), load_config(), {"runs": source}, 0.0)["inputs"] == {"runs": known}


def test_where_the_code_comes_from(monkeypatch, tmp_path) -> None:
    """A checkout names its commit; an installed wheel the hash that pip recorded, or those of its files."""
    assert machine.code_origin().startswith("commit ") == (ROOT / ".git").exists()

    files = {"RECORD": "a,b,c", "direct_url.json": json.dumps({"archive_info": {"hashes": {"sha256": "f" * 64}}})}

    class Installed:
        version = "1.2"

        def read_text(self, name: str) -> str | None:
            return files.get(name)

    monkeypatch.setattr(machine, "commit", lambda: None)
    monkeypatch.setattr(machine, "distribution", lambda name: Installed())
    asked = machine.code_origin.__wrapped__
    assert asked() == f"wheel sha256 {'f' * 12}"
    del files["direct_url.json"]
    assert asked().startswith("wheel 1.2, installed files ")
