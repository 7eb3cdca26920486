"""Histories of earlier versions: folders of Parquet files, partitioned by night and dataset."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.monitoring import migration
from jobs.monitoring.history_tables import KEYS
from tests.nights import Site, good_texts

DATASET = "données"
OLD_RUNS = (
    "verdict",
    "reason",
    "baseline",
    "data",
    "configuration",
    "code",
    "started",
    "finished",
    "version",
    "evaluated",
)


def old_history(site: Site, folder: Path) -> None:
    """What version 0 left, made from a history of today: two complete nights and one that was killed."""
    history = site.history()
    for run_id in ("night-1", "night-2", "killed"):
        source = "night-2" if run_id == "killed" else run_id
        for name in migration.OLD_TABLES[: 1 if run_id == "killed" else None]:
            rows = history.read(name, [source])
            assert rows is not None
            rows = rows.drop_columns(list(KEYS))
            if name == "runs":
                rows = rows.select(OLD_RUNS)
            elif name == "watched":
                # The first version did not keep which figure fell.
                rows = rows.drop_columns(["fell", "new_texts", "gone_texts"])
            path = folder / name / f"run_id={run_id}" / f"dataset={quote(DATASET, safe='')}"
            path.mkdir(parents=True)
            pq.write_table(rows, path / "part-00000.snappy.parquet")
            (path / "_SUCCESS").touch()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A work folder whose history an earlier version has written."""
    texts = good_texts()
    before = Site(tmp_path / "before", texts, DATASET)
    for run_id in ("night-1", "night-2"):
        before.run(run_id)
    site = Site(tmp_path / "after", texts, DATASET)
    old_history(before, Path(site.place))
    return site


def test_an_old_history_goes_on(site: Site) -> None:
    night = site.run("night-3")
    assert (night.exit_code, night.against(DATASET)) == (0, "night-2")
    # Texts are known again, although their judgements had another digest.
    assert {(change.difference, change.new, change.gone) for change in night.changes.values()} == {(0.0, 0, 0)}
    assert [run_id for run_id, _, _ in site.verdicts()] == ["night-1", "night-2", "night-3"]
    site.degrade(0.25)
    assert site.run("night-4").exit_code == 10


def test_a_drop_is_seen_across_the_versions(site: Site) -> None:
    site.degrade(0.25)
    night = site.run("night-3")
    assert (night.exit_code, night.against(DATASET)) == (10, "night-2")


def test_it_happens_once(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.run("night-3")
    assert "of an earlier version was taken over: 2 nights" in capsys.readouterr().err
    rows = site.history().storage.read("metrics")
    assert rows is not None
    counted = len(rows)
    site.run("night-3")
    assert "taken over: 2" not in capsys.readouterr().err
    rows = site.history().storage.read("metrics")
    assert rows is not None and len(rows) == counted * 4 // 3


def test_a_migration_that_is_killed_begins_anew(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every write of it in turn."""
    from jobs.monitoring.delta_tables import DeltaTables

    history, write = site.history(), DeltaTables.append
    for survived in range(20):
        left = [survived]

        def dying(self: DeltaTables, name: str, rows: pa.Table, left: list[int] = left) -> None:
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
            write(self, name, rows)

        with monkeypatch.context() as patched:
            patched.setattr(DeltaTables, "append", dying)
            from jobs.monitoring.lease import held_lease

            try:
                with held_lease(history.storage, "night-3", 30):
                    history.take_over()
                break
            except KeyboardInterrupt:
                assert history.runs() == []
    assert survived == 10
    for name in migration.OLD_TABLES:
        rows = history.storage.read(name)
        assert rows is not None
        once = history.read(name, ["night-1"]), history.read(name, ["night-2"])
        assert len(rows) == sum(len(table) for table in once if table is not None)
