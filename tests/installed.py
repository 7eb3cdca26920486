"""What the examples of schedules and of spark-submit expect on a machine, with a small dataset: /opt/xmtc-fusion."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import yaml

from tests.steps import ROOT

PLACE = "/opt/xmtc-fusion"
SMALL = {"limit": 150, "folds": 2}


def install(folder: Path) -> Path:
    """A folder like a checkout, in which the demo's dataset is small and needs no encoder."""
    shutil.copytree(ROOT / "conf", folder / "conf")
    for name in ("jobs", "data"):
        (folder / name).symlink_to(ROOT / name)
    dataset = folder / "conf/datasets/debtags.yaml"
    settings = yaml.safe_load(dataset.read_text(encoding="utf-8"))
    settings["retrievers"] = ["bm25", "bm25-labels"]
    settings["prepare"].update(SMALL)
    settings["evaluate"] = {"randomizations": 100}
    dataset.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return folder


def the_night(installed: Path) -> dict[str, Any]:
    """What the only night left for other programs to read."""
    (summary,) = (installed / "work/nightly").glob("*/summary.json")
    facts: dict[str, Any] = json.loads(summary.read_text(encoding="utf-8"))
    return facts
