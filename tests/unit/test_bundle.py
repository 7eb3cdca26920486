"""The Databricks bundle, as far as it can be checked without a workspace."""

from __future__ import annotations

import importlib
import json
import os
import re
import runpy
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import setuptools
import yaml
from databricks.bundles.jobs import Job
from databricks.bundles.volumes import Volume

from jobs.cli import main, settings_of
from jobs.evaluation import pipeline
from jobs.help import make_parser
from jobs.settings.config import Config, load_config

ROOT = Path(__file__).parents[2]
BUNDLE = ROOT / "conf" / "databricks"
TARGETS = ["dev", "prod"]
JOBS = ["xmtc_fusion_dataset", "xmtc_fusion_all", "xmtc_fusion_nightly"]
# Of the keys that the bundle's documentation lists, those that are used here.
KEYS = {
    "": {"bundle", "include", "artifacts", "sync", "variables", "targets"},
    "bundle": {"name"},
    "sync": {"paths"},
    "artifacts.*": {"type", "path", "build", "dynamic_version"},
    "variables.*": {"description", "default"},
    "targets.*": {"mode", "default", "presets", "variables", "workspace"},
    "targets.*.presets": {"trigger_pause_status"},
    "targets.*.workspace": {"root_path"},
}
REFERENCE = re.compile(r"\$\{([^}]+)\}")
PARAMETER = re.compile(r"\{\{([^}]+)\}\}")


def load(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@cache
def bundle() -> dict[str, Any]:
    return load(BUNDLE / "databricks.yml")


@cache
def resources(kind: str) -> dict[str, tuple[Path, dict[str, Any]]]:
    """The resources of a kind by name, each with the file it stands in."""
    by_name = {}
    for pattern in bundle()["include"]:
        for path in sorted(BUNDLE.glob(pattern)):
            for name, resource in load(path)["resources"].get(kind, {}).items():
                assert name not in by_name, f"{name} is defined twice"
                by_name[name] = (path, resource)
    return by_name


def job(name: str) -> dict[str, Any]:
    return resources("jobs")[name][1]


def wheel_tasks() -> list[tuple[str, str]]:
    return [(name, task["task_key"]) for name in JOBS for task in job(name)["tasks"] if "python_wheel_task" in task]


@cache
def package() -> dict[str, Any]:
    """What setup.py says."""
    said: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setuptools, "setup", lambda **arguments: said.update(arguments))
        runpy.run_path(str(ROOT / "setup.py"))
    return said


def filled(text: str, target: str, parameters: dict[str, str]) -> str:
    """A text with its references resolved as a deployment and a run would do it, the workspace being this folder."""
    known = {
        "bundle.name": bundle()["bundle"]["name"],
        "bundle.target": target,
        "workspace.file_path": str(ROOT),
        "workspace.current_user.userName": "someone@example.com",
        **{f"var.{name}": about["default"] for name, about in bundle()["variables"].items()},
        **{f"var.{name}": value for name, value in bundle()["targets"][target].get("variables", {}).items()},
        **{f"resources.jobs.{name}.id": name for name in resources("jobs")},
    }
    while REFERENCE.search(text):
        text = REFERENCE.sub(lambda found: str(known[found.group(1)]), text)
    given = {f"job.parameters.{name}": value for name, value in parameters.items()}
    given["job.start_time.iso_date"] = "2026-01-31"
    return PARAMETER.sub(lambda found: given[found.group(1)], text)


def defaults(name: str, target: str) -> dict[str, str]:
    return {entry["name"]: filled(entry["default"], target, {}) for entry in job(name).get("parameters", [])}


def parsed(name: str, task_key: str, target: str) -> tuple[Any, Config]:
    """The command line of a task, and the configuration that it makes."""
    task = next(task for task in job(name)["tasks"] if task["task_key"] == task_key)
    words = [filled(word, target, defaults(name, target)) for word in task["python_wheel_task"]["parameters"]]
    arguments = make_parser().parse_args(words)
    return arguments, load_config(arguments.config, settings_of(arguments))


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from strings(item)
    elif isinstance(value, str):
        yield value


def test_jobs_and_keys_are_those_that_databricks_knows() -> None:
    """The models of the package databricks-bundles are made from the published schema and refuse other fields."""
    assert set(resources("jobs")) == set(JOBS)
    for _, about in resources("jobs").values():
        Job.from_dict(about)
    for _, about in resources("volumes").values():
        Volume.from_dict(about)
    for path in BUNDLE.glob("resources/*.yml"):
        assert set(load(path)) == {"resources"} and set(load(path)["resources"]) <= {"jobs", "volumes"}
    for place, known in KEYS.items():
        levels = [bundle()]
        for step in filter(None, place.split(".")):
            levels = [value for level in levels for name, value in level.items() if step in ("*", name)]
        assert levels and set().union(*levels) <= known, place


@pytest.mark.parametrize("target", TARGETS)
def test_every_reference_is_defined(target: str) -> None:
    for name, (_, about) in resources("jobs").items():
        for text in strings(about):
            filled(text.replace("{{input}}", ""), target, defaults(name, target))
    for text in strings([about for _, about in resources("volumes").values()] + [bundle()["targets"][target]]):
        filled(text, target, {})


@pytest.mark.parametrize("name", JOBS)
def test_tasks_fit_together(name: str) -> None:
    tasks = {task["task_key"]: task for task in job(name)["tasks"]}
    assert len(tasks) == len(job(name)["tasks"])
    after = {key: {entry["task_key"] for entry in task.get("depends_on", [])} for key, task in tasks.items()}
    assert set().union(*after.values()) <= set(tasks)
    TopologicalSorter(after).prepare()
    environments = {entry["environment_key"] for entry in job(name).get("environments", [])}
    assert environments == {task["environment_key"] for task in tasks.values() if "environment_key" in task}


@pytest.mark.parametrize(("name", "task_key"), wheel_tasks())
def test_entry_points_exist(name: str, task_key: str) -> None:
    task = next(task for task in job(name)["tasks"] if task["task_key"] == task_key)
    wheel = task["python_wheel_task"]
    assert wheel["package_name"] == package()["name"]
    scripts = dict(line.split(" = ") for line in package()["entry_points"]["console_scripts"])
    module, function = scripts[wheel["entry_point"]].split(":")
    assert callable(getattr(importlib.import_module(module), function))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("name", "task_key"), wheel_tasks())
def test_parameters_are_a_command_line(name: str, task_key: str, target: str) -> None:
    arguments, config = parsed(name, task_key, target)
    assert arguments.job == task_key.partition("_")[0]
    synchronised = [(BUNDLE / path).resolve() for path in bundle()["sync"]["paths"]]
    file = Path(arguments.config)
    assert file.is_file() and any(file.is_relative_to(folder) for folder in synchronised)
    assert config.work.path.startswith("/Volumes/")


def test_the_tasks_of_a_dataset_do_what_run_does(tmp_path: Path) -> None:
    """One after the other, with a folder in place of the volume: the figures of job `run`, and a report of them."""
    given = defaults("xmtc_fusion_dataset", "dev") | {"data": str(ROOT / "data"), "work": str(tmp_path / "work")}
    small = ["--set=prepare.limit=300", "--set=prepare.folds=2", "--set=retrievers=bm25,bm25-labels"]
    for task in job("xmtc_fusion_dataset")["tasks"]:
        words = [filled(word, "dev", given) for word in task["python_wheel_task"]["parameters"]]
        assert main([*words, *small]) == 0, task["task_key"]
    place = tmp_path / "work" / "debtags"
    assert (place / "report" / "index.html").is_file()
    settings = {"prepare.limit": 300, "prepare.folds": 2, "retrievers": "bm25,bm25-labels"}
    config = load_config(str(ROOT / "conf/datasets/debtags.yaml"), {**settings, "work.path": str(tmp_path / "run")})
    expected = pipeline.run(None, config).metrics
    assert pq.read_table(place / "results" / "metrics.parquet").equals(expected)


def test_environments_hold_the_wheel_and_the_extras() -> None:
    built = (BUNDLE / bundle()["artifacts"]["wheel"]["path"]).resolve()
    assert (built / "setup.py").is_file()
    extras = {"core": [], **package()["extras_require"]}
    for path, about in resources("jobs").values():
        for environment in about.get("environments", []):
            wheel, *others = environment["spec"]["dependencies"]
            assert (path.parent / wheel).resolve() == built / "dist" / "*.whl"
            assert others == [line for name in environment["environment_key"].split("_") for line in extras[name]]
    # Older ones come with Spark 3, over which pip would install another Spark.
    assert int(bundle()["variables"]["environment_version"]["default"]) >= 4


@pytest.mark.parametrize("target", TARGETS)
def test_nightly_reads_settings_from_the_volume(target: str) -> None:
    """A copy of `conf` next to the data there: the paths in a file are relative to it."""
    _, config = parsed("xmtc_fusion_nightly", "nightly", target)
    storage = filled("${var.storage}", target, {})
    folder = load(ROOT / "conf/datasets/debtags.yaml")["prepare"]["folder"]
    assert os.path.normpath(Path(config.nightly.datasets[0]).parent / folder) == f"{storage}/data/debtags"
    assert config.nightly.datasets == [f"{storage}/conf/datasets/debtags.yaml"]
    assert config.work.path == f"{storage}/work"
    assert config.nightly.run_id == "2026-01-31"


def test_each_dataset_runs_the_job_of_one_dataset() -> None:
    (task,) = job("xmtc_fusion_all")["tasks"]
    loop = task["for_each_task"]
    called = job(filled(loop["task"]["run_job_task"]["job_id"], "dev", {}))
    assert set(loop["task"]["run_job_task"]["job_parameters"]) <= {entry["name"] for entry in called["parameters"]}
    assert loop["concurrency"] <= called["max_concurrent_runs"]
    names = json.loads(filled(loop["inputs"], "dev", defaults("xmtc_fusion_all", "dev")))
    for name in names:
        assert load_config(str(ROOT / "conf" / "datasets" / f"{name}.yaml")).dataset == name


def test_nightly_runs_by_the_clock_in_prod_only() -> None:
    schedule = job("xmtc_fusion_nightly")["schedule"]
    fields = schedule["quartz_cron_expression"].split()
    assert len(fields) in (6, 7)
    assert (fields[3] == "?") != (fields[5] == "?")
    assert schedule["pause_status"] == "UNPAUSED"
    assert bundle()["targets"]["dev"]["presets"]["trigger_pause_status"] == "PAUSED"
    assert "presets" not in bundle()["targets"]["prod"]
    assert [job(name).get("schedule") for name in JOBS[:2]] == [None, None]


def test_a_task_fails_if_its_job_does(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A wheel task calls the function and ignores what it returns; even `SystemExit(0)` counts as a failure."""
    module, function = dict(line.split(" = ") for line in package()["entry_points"]["console_scripts"])[
        "xmtc-fusion"
    ].split(":")
    run = getattr(importlib.import_module(module), function)
    monkeypatch.setattr("sys.argv", ["xmtc-fusion", "config"])
    run()
    assert "dataset: unnamed" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["xmtc-fusion", "config", "--config", "nowhere.yaml"])
    with pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == 2
