"""`explain`: how each fused score of one text came about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fusion.grid import Cell
from fusion.label_groups import ALL
from jobs import explain as job
from jobs.config import Config
from jobs.inputs.in_memory import folds_source, groups_source, judgements_source, runs_source
from jobs.inputs.sources import Sources
from jobs.results.explanation import ExplainedText
from xmtc_fusion.evaluating import configured

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Explanation:
    """The candidates of one text in the fused order, with what every list gave them."""

    def __init__(self, explained: ExplainedText, rows: int) -> None:
        self._explained = explained
        self._rows = rows

    @property
    def table(self) -> pa.Table:
        """One row per candidate: rank, label_id, name, relevant, fused, and per retriever NAME_rank, NAME_score and
        NAME_normalized. A normalised score without a rank was imputed."""
        return self._explained.table

    @property
    def lists(self) -> pa.Table:
        """One row per retriever: size, min, max, mean and std of its list, as the normalisation reads them."""
        return self._explained.lists

    @property
    def cell(self) -> Cell:
        return self._explained.cell

    @property
    def text(self) -> str:
        """The lists, the formulas and the first candidates, as the terminal shows them."""
        from jobs.reporting.explaining import terminal

        return terminal(self._explained, self._rows)

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        from jobs.reporting.explaining import notebook

        return notebook(self._explained, self._rows)


def explain(
    runs: Any,
    text: Any,
    cell: str = "zmuv+combmnz",
    judgements: Any = None,
    *,
    label_group: str = ALL,
    label_groups: Any = "auto",
    folds: Any = None,
    scope: str | None = None,
    rows: int = 20,
    engine: str | None = None,
    config: Config | str | None = None,
    settings: Mapping[str, Any] | None = None,
    spark: SparkSession | None = None,
) -> Explanation:
    """How the fused scores of one text came about: raw, normalised, fused, and the ranks, per retriever.

    Args:
        runs: as for `evaluate`.
        text: the id of the text.
        cell: such as `"zmuv+combmnz"`.
        judgements: as for `evaluate`; without them nothing is marked as relevant.
        label_group: `"tail"`, `"head"` or another group, or `"all"` labels together.
        label_groups: as for `evaluate`.
        folds: as for `evaluate`.
        scope: as for `evaluate`.
        rows: candidates that `text` and a notebook show; `table` has them all.
        engine: `"auto"`, `"local"`, `"arrays"` or `"windows"`.
        config: a configuration, or the path of one.
        settings: dotted settings over it.
        spark: the session to use, if there is one.
    """
    chosen = {
        "explain.text": str(text),
        "explain.cell": cell,
        "explain.label_group": label_group,
        "explain.rows": rows,
        "grid.scope": scope,
        "grid.engine": engine,
    }
    given = {key: value for key, value in chosen.items() if value is not None}
    resolved = configured(config, {**given, **(settings or {})})
    sources = Sources(
        runs_source(runs),
        None if judgements is None else judgements_source(judgements),
        groups_source(label_groups),
        folds_source(folds),
        resolved.inputs.head_share,
        distances=resolved.inputs.distances,
    )
    return Explanation(job.run(spark, resolved, sources), resolved.explain.rows)
