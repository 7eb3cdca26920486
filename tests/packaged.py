"""The code packed as users ship it: the wheel in an environment of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from dataclasses import dataclass
from pathlib import Path

from tests.steps import ROOT

BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Package:
    """The packed environment, and the same one unpacked for the driver."""

    archive: Path
    unpacked: Path

    @property
    def code(self) -> Path:
        return next(self.unpacked.glob("lib/python*/site-packages"))


def copy_source(folder: Path) -> None:
    """Copy what a build reads, since a build leaves files behind."""
    for name in ("setup.py", "pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, folder)
    for name in ("conf", "data", "fusion", "jobs", "udfs", "xmtc_fusion"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))


def packed(folder: Path) -> Package:
    """What `make package` makes, but for the dependencies: those are found in the tests' own environment, since
    packing and unpacking them takes minutes."""
    copy_source(folder)
    environment, unpacked, archive = folder / "made", folder / "environment", folder / "environment.tar.gz"
    _call(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder / "dist", folder)
    _call(sys.executable, "-m", "venv", "--without-pip", environment)
    (wheel,) = folder.glob("dist/*.whl")
    _call(sys.executable, "-m", "pip", "--python", environment / "bin/python", "install", "--quiet", "--no-deps", wheel)
    found = next(environment.glob("lib/python*/site-packages"))
    # Searched after the packages of the environment; the .pth file of this project's own install does not count there.
    places = [sysconfig.get_path(name) for name in ("purelib", "platlib")]
    (found / "dependencies.pth").write_text(f"import sys; sys.path.extend({places})\n")
    _call(BIN / "venv-pack", "--quiet", "--prefix", environment, "--output", archive)
    with tarfile.open(archive) as files:
        files.extractall(unpacked)
    return Package(archive, unpacked)


def _call(*command: str | Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([str(part) for part in command], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
