"""How long `report` takes: the results of one evaluation under four names, as four datasets.

    python -m benchmarks.report --results FOLDER

FOLDER is what `evaluate` or `run` wrote with the whole grid, as `make demo` does in work/debtags/results.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

from jobs.reporting import report
from jobs.settings.config import load_config

DATASETS = ("one", "two", "three", "four")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", required=True)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = [copy(Path(arguments.results), Path(folder, name)) for name in DATASETS]
        lines = ["| | seconds | page |", "|---|---|---|"]
        for what, drawn in (("page and tables", False), ("page, tables, charts as SVG and PNG", True)):
            settings = {"report.results": results, "report.figures": drawn, "output.path": f"{folder}/{drawn}"}
            begin = time.perf_counter()
            page = Path(report.run(load_config(None, settings)))
            taken = time.perf_counter() - begin
            lines.append(f"| {what} | {taken:.1f} | {page.stat().st_size / 2**20:.1f} MiB |")
    text = f"Report of {len(DATASETS)} datasets, 5 folds, 60 cells and two retrievers, 30 aspects.\n\n"
    text += "\n".join(lines) + "\n"
    (Path(__file__).parent / "results" / "report.md").write_text(text)
    print(text)


def copy(source: Path, target: Path) -> str:
    """The same results as those of another dataset."""
    # Plain files alone are results, too, and may be changed.
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(".*"))
    config = load_config(str(source / "config.yaml")).model_copy(update={"dataset": target.name})
    (target / "config.yaml").write_text(config.to_yaml())
    return str(target)


if __name__ == "__main__":
    main()
