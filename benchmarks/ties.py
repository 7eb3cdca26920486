"""What mean ranks for labels of equal score are worth, in every fusion that reads ranks.

    python -m benchmarks.ties --config conf/datasets/debtags.yaml --work WORK [--write]

Reads the lists that `xmtc-fusion run` left in the work folder. Figures are means over all test texts, in points;
fusions that read scores are the same with either setting and are left out.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fusion.cells import Cell
from fusion.kernel.candidates import Policies
from fusion.metrics import parse_metrics
from fusion.registry import FUSIONS
from jobs.engines.local import LocalEngine
from jobs.inputs.lists import load_lists
from jobs.inputs.sources import Sources
from jobs.inputs.stages import with_inputs
from jobs.inputs.tables import InputTables
from jobs.settings.config import load_config
from jobs.tuning.validation import count_cells
from udfs.plan import EvaluationPlan

RESULTS = Path(__file__).parent / "results"
METRICS = tuple(parse_metrics("precision@1,ndcg@10"))
CELLS = tuple(Cell("none", entry.name) for entry in FUSIONS if entry.reads == "ranks" and not entry.parameters.trained)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--retrievers", default="bm25,static")
    parser.add_argument("--write", action="store_true", help="write results/ties-DATASET.md")
    arguments = parser.parse_args()
    settings = {"work.path": arguments.work, "retrievers": arguments.retrievers, "grid.engine": "local"}
    config = with_inputs(load_config(arguments.config, settings))
    lists = load_lists(InputTables(LocalEngine(), Sources.of(config.inputs)), True)
    layout = lists.layout.of_read
    views = layout.views
    figures = {}
    for tied in ("by_id", "mean_rank"):
        plan = EvaluationPlan(layout, CELLS, views, "group", METRICS, policies=Policies(tied=tied))
        total = plan.new_tally()
        for tally in count_cells(lists, plan, None, None).values():
            total.counts += tally.counts
        for v, view in enumerate(views):
            for metric in METRICS:
                values = total.values(v, 0, metric)
                figures[tied, view, metric] = [100 * (values[plan.grid.column_of[cell]] or 0.0) for cell in CELLS]
    header = [f"{view} {metric}" for view in views for metric in METRICS]
    lines = [
        f"{config.dataset}: {', '.join(layout.retrievers)}. By label id, then the change with mean ranks.",
        "",
        f"| fusion | {' | '.join(header)} |",
        "|---" * (len(header) + 1) + "|",
    ]
    for n, cell in enumerate(CELLS):
        pairs = [(figures["by_id", v, m][n], figures["mean_rank", v, m][n]) for v in views for m in METRICS]
        lines.append(f"| {cell.fusion} | {' | '.join(f'{old:.2f} {new - old:+.2f}' for old, new in pairs)} |")
    print("\n".join(lines))
    if arguments.write:
        (RESULTS / f"ties-{config.dataset}.md").write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
