"""`doctor` on a session that works, and on places that cannot be written."""

from __future__ import annotations

from pathlib import Path

from jobs.engines import doctor
from jobs.settings.config import load_config


def test_a_good_installation(spark, tmp_path: Path) -> None:
    lines: list[str] = []
    config = load_config(settings={"work.path": str(tmp_path / "work"), "output.path": str(tmp_path / "a" / "out")})
    assert doctor.run(config, lines.append) == 0, "\n".join(lines)
    subjects = [line.split()[1] for line in lines if line.startswith("ok ")]
    assert {"Python", "code", "pyspark", "Java", "Spark", "workers", "kernels", "memory", "Arrow", "work.path"} <= set(
        subjects
    )
    assert lines[-1].startswith("Ready: ")
    # A look leaves nothing behind.
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_cannot_be_written(spark, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    config = load_config(settings={"work.path": str(tmp_path), "output.path": str(tmp_path / "file" / "out")})
    last = list(doctor.findings(config))[-1]
    assert (last.state, last.subject) == ("problem", "output.path")
    assert str(tmp_path / "file") in last.text and last.remedy
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
