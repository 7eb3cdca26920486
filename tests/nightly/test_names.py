"""Names of datasets and nights: refused at the door, or the same everywhere."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fusion.errors import ConfigError
from jobs.nights.history import History
from jobs.nights.lease import held_lease
from jobs.settings.base import checked_name
from jobs.settings.config import load_config
from jobs.storage.workspace import Workspace
from tests.nights import Site, good_texts


@pytest.mark.parametrize(
    "name",
    ["..", ".", "", "../outside", "a/b", "a\\b", ".hidden", "x\0", "a\nb", "-option", "x.", "x" * 101, "a:b", "a'b"],
)
@pytest.mark.parametrize("setting", ["dataset", "nightly.run_id", "nightly.baseline"])
def test_names_that_are_no_folders_are_refused(name: str, setting: str) -> None:
    with pytest.raises(ConfigError, match=f"{setting}: .*part of a path"):
        load_config(None, {setting: name})


@pytest.mark.parametrize("name", ["history", "nightly", "Nightly"])
def test_a_dataset_does_not_share_the_folder_of_the_nights(name: str) -> None:
    with pytest.raises(ConfigError, match="the work folder has a folder of that name"):
        load_config(None, {"dataset": name})


@given(st.text(max_size=40))
def test_a_name_stays_within_its_folder(name: str) -> None:
    try:
        checked = checked_name(name)
    except ValueError:
        return
    assert checked == unicodedata.normalize("NFC", name) == checked_name(checked)
    place = Path("/work") / checked
    assert place.parent == Path("/work") and Path(f"/work/{checked}").resolve() == place
    work = Workspace("/work", checked)
    assert Path(work.folder).resolve().parent == Path("/work")
    assert Path(work.night(checked)).resolve().parent == Path("/work/nightly")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(st.text(min_size=1, max_size=20), min_size=2, max_size=2))
def test_names_come_back_from_the_history_as_they_went(names: list[str], tmp_path: Path) -> None:
    """Whatever is accepted as a name is found again under it, and any other text as well."""
    run_id, dataset = names
    history = History(str(tmp_path / "history"))
    with held_lease(history.storage, "x", 30) as lease:
        history.append("query_figures", pa.table({"value": [1.0]}), run_id, dataset, lease.number)
        row = {"run_id": run_id, "dataset": dataset, "attempt": lease.number, "verdict": "ok", "figures": True}
        history.commit([{**row, "started": "1", "finished": "2", "evaluated": True}])
    rows = history.read("query_figures", [run_id], dataset)
    assert rows is not None
    assert {(row["run_id"], row["dataset"]) for row in rows.to_pylist()} == {(run_id, dataset)}


@pytest.mark.parametrize("name", ["données", "日本語", "a+b c", "Amazon-670K"])
def test_a_dataset_finds_its_baseline(tmp_path: Path, name: str) -> None:
    site = Site(tmp_path, good_texts(60), dataset=name)
    site.run("nuit-1")
    night = site.run("nuit-2")
    assert night[name].against == "nuit-1"
    # The same name in another way of writing it is the same dataset.
    site.dataset.write_text(site.dataset.read_text().replace(name, unicodedata.normalize("NFD", name)))
    assert site.run("nuit-3")[name].against == "nuit-2"
