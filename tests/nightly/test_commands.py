"""Past nights: status, show, compare, accept, pin and rerun, from the command line."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

import xmtc_fusion as xf
from jobs.cli import main
from jobs.nights.history import History
from tests.nights import Site, Texts


@pytest.fixture
def site(tmp_path: Path, texts: Texts) -> Site:
    """A good night and a bad one."""
    site = Site(tmp_path, texts)
    site.run("good")
    site.degrade(0.25)
    assert site.run("bad").exit_code == 10
    return site


def told(site: Site, capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    capsys.readouterr()
    assert main(["nightly", *words, "--work", str(site.work)]) == code
    output = capsys.readouterr()
    return output.err if code else output.out


def test_status_show_and_compare(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    status = told(site, capsys, "status").splitlines()
    assert status[0].split() == ["night", "dataset", "verdict", "compared", "with", "what"]
    assert status[1].split() == ["good", "sample", "ok", "-"]
    assert status[2].split()[:4] == ["bad", "sample", "regression", "good"]
    assert "fell: head nDCG@10 of dense alone, " in status[2]
    shown = told(site, capsys, "show", "bad")
    assert "tail nDCG@10 of zmuv+combmnz: 40.48 over 368 texts, fell" in shown
    assert "sample: evaluate: " in shown and "MB of memory" in shown
    compared = told(site, capsys, "compare", "good", "bad")
    assert "sample   head nDCG@10 of dense alone   32.99  24.43  -8.56" in compared
    assert "sample: data changed between them" in compared


def test_what_is_asked_wrongly(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no night 'never'" in told(site, capsys, "show", "never", code=2)
    assert "there is no night 'never'" in told(site, capsys, "compare", "good", "never", code=2)
    assert "expected one of status, show NIGHT, compare NIGHT NIGHT" in told(site, capsys, "compare", "good", code=2)
    assert "give the reason" in told(site, capsys, "accept", "bad", code=2)
    assert "nothing to accept in good: sample: ok" in told(site, capsys, "accept", "good", "--because", "x", code=2)
    assert "no night 'bad' of other" in told(
        site, capsys, "accept", "bad", "--dataset", "other", "--because", "x", code=2
    )
    assert "no night 'never'" in told(site, capsys, "pin", "never", code=2)
    assert "no night 'never'" in told(site, capsys, "rerun", "never", code=2)


def test_an_empty_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nightly", "status", "--work", str(tmp_path)]) == 0
    assert "no nights in" in capsys.readouterr().out
    assert main(["nightly", "show", "never", "--work", str(tmp_path)]) == 2
    assert "there is none at all; is --work that of the nights?" in capsys.readouterr().err
    assert not (tmp_path / "history").exists()


def test_a_history_that_is_asked_wrongly(site: Site) -> None:
    place = site.history().place
    with pytest.raises(xf.ConfigError, match="at is 'yesterday'; expected a time, such as 2026-03-02T06:00:00Z"):
        xf.History(place, at="yesterday")
    with pytest.raises(xf.ConfigError, match="the place of a history is a folder"):
        xf.History(None)  # type: ignore[arg-type]
    with pytest.raises(xf.InputError, match=r"cannot answer 'SELECT x FROM nowhere'.*nowhere"):
        xf.History(Path(place)).sql("SELECT x FROM nowhere")


def test_an_accepted_night_is_the_baseline(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert site.run("again").exit_code == 10
    assert "bad is accepted for sample" in told(site, capsys, "accept", "bad", "--because", "the new model is meant")
    night = site.run("after")
    assert (night.exit_code, night["sample"].against) == (0, "bad")
    (decision,) = site.history().decisions()
    assert (decision["kind"], decision["run_id"], decision["words"]) == ("accept", "bad", "the new model is meant")
    # A further attempt of the night is another matter.
    site.degrade(0.5)
    assert site.run("bad").exit_code == 10
    assert "accepted by" in told(site, capsys, "status")


def test_a_pinned_night_is_compared_with(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert "bad is pinned" in told(site, capsys, "pin", "bad", "--because", "end of the quarter")
    night = site.run("later")
    assert night["sample"].against == "bad"
    assert {one.against for one in night["sample"].compared} == {"bad", "good"}
    assert "pinned baseline: bad" in told(site, capsys, "status")
    told(site, capsys, "pin")
    assert site.run("free")["sample"].against == "good"


def test_a_night_is_made_again_from_what_was_recorded(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    """The command that an alarm names gives the same verdict and figures, although the configuration is gone."""
    first = site.history().read("watched", ["bad"])
    assert first is not None
    site.dataset.unlink()
    assert main(shlex.split(f"nightly rerun bad --dataset sample --work {site.work}")) == 10
    assert "alarm: night bad: exit code 10" in capsys.readouterr().err
    again = site.history().read("watched", ["bad"])
    assert again is not None
    assert again.drop_columns(["attempt"]).sort_by(SORTED).equals(first.drop_columns(["attempt"]).sort_by(SORTED))
    assert again["attempt"][0].as_py() > first["attempt"][0].as_py()


def test_a_rerun_has_the_tolerance_of_the_night_and_says_if_the_inputs_differ(
    tmp_path: Path, texts: Texts, capsys: pytest.CaptureFixture[str]
) -> None:
    site = Site(tmp_path, texts)
    site.run("good")
    site.degrade(0.25)
    assert site.run("tolerant", nightly__tolerance=90).exit_code == 0
    told(site, capsys, "rerun", "tolerant", "--dataset", "sample")
    site.degrade(0.5)
    assert "sample: the inputs are not those that the night had: candidates" in told(site, capsys, "rerun", "tolerant")


SORTED = [(name, "ascending") for name in ("normalization", "fusion", "label_group")]


def test_what_a_past_night_knew(site: Site) -> None:
    """Time travel: the history as it was when the second night had not happened."""
    import time

    time.sleep(1.1)
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    time.sleep(1.1)
    site.run("later")
    assert [row["run_id"] for row in History(site.place, at=moment).runs()] == ["good", "bad"]
    assert History(site.place, at="2020-01-01T00:00:00Z").runs() == []
    assert [row["run_id"] for row in History(site.place).runs()] == ["good", "bad", "later"]
