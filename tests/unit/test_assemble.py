"""From metrics to what a report shows: winners, corrected tests, verdicts, missing folds, and mixed-up results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

from fusion.cells import Cell
from fusion.errors import ConfigError, InputError
from fusion.metrics import Aspect
from jobs.evaluation.result import read_results
from jobs.evaluation.schemas import COMPARISONS_SCHEMA, METRICS_SCHEMA
from jobs.reporting.dataset import DatasetReport
from jobs.reporting.formats import verdict
from jobs.reporting.judge import paper_figures
from jobs.reporting.model import Verdict
from jobs.settings.config import load_config

ASPECT = Aspect("tail", "ndcg", 10)
BEST, NEAR, FAR, LUCKY = (
    Cell("zmuv", "combmnz"),
    Cell("zmuv", "combsum"),
    Cell("sum", "combmin"),
    Cell("rank", "combmax"),
)
DENSE, BM25 = Cell("single", "dense"), Cell("single", "bm25")
FOLDS = {
    BEST: [0.52, 0.54, 0.50, 0.53, 0.51],
    NEAR: [0.50, 0.55, 0.49, 0.54, 0.50],  # as good as the best
    FAR: [0.42, 0.44, 0.40, 0.43, 0.42],  # worse in every fold
    LUCKY: [0.51, 0.53, 0.49, 0.52, 0.505],  # worse in every fold, but not over the texts
    DENSE: [0.48, 0.49, 0.46, 0.49, 0.47],
    BM25: [0.38, 0.39, 0.36, 0.39, 0.37],
}
P_TEXTS = {NEAR: 0.4, FAR: 0.001, LUCKY: 0.03, DENSE: 0.001, BM25: 0.001}


def write_results(
    folder: Path, folds: dict[Cell, list[float]], numbers: list[int] | None = None, **settings: Any
) -> str:
    """A result folder with the given values; those of fold n in the n-th place."""
    folder.mkdir()
    chosen = {key.replace("__", "."): value for key, value in settings.items()}
    config = load_config(None, {"dataset": "sample", "inputs.folds": "folds.parquet", **chosen})
    (folder / "config.yaml").write_text(config.to_yaml())
    (folder / "run.json").write_text(json.dumps({"version": "1.2", "input_counts": {"judged_texts": 50}}))
    metrics = [
        (fold, *cell, "tail", "ndcg", 10, "all", value, 10)
        for cell, values in folds.items()
        for fold, value in zip(numbers or range(len(values)), values, strict=True)
    ]
    _write(folder / "metrics.parquet", metrics, METRICS_SCHEMA)
    compared = [
        ("tail", "ndcg", 10, "all", *cell, *BEST, 50, -0.02, 0.1, -2.0, p, -0.03, -0.01, -0.2, p)
        for cell, p in P_TEXTS.items()
    ]
    compared += [
        ("tail", "ndcg", 10, "all", *cell, *DENSE, 50, 0.04, 0.1, 2.0, 0.001, 0.03, 0.05, 0.4, 0.002)
        for cell in (BEST, NEAR, FAR, LUCKY)
    ]
    _write(folder / "comparisons.parquet", compared, COMPARISONS_SCHEMA)
    return str(folder)


def _write(path: Path, rows: list[tuple[Any, ...]], schema: pa.Schema) -> None:
    pq.write_table(pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema), path)


def values(path: str, test: Any = "folds") -> dict[Cell, Any]:
    dataset = DatasetReport(read_results([path])[0], test, 0.05)
    return {row.cell: row.values[ASPECT] for row in dataset.rows}


def test_bold_face_is_the_best_and_its_ties(tmp_path: Path) -> None:
    path = write_results(tmp_path / "r", FOLDS)
    by_folds = values(path)
    assert {cell for cell, value in by_folds.items() if value.bold} == {BEST, NEAR}
    assert [cell for cell, value in by_folds.items() if value.best] == [BEST]
    expected = stats.ttest_rel(FOLDS[NEAR], FOLDS[BEST]).pvalue
    assert by_folds[NEAR].against_best.p_folds == pytest.approx(expected, rel=1e-10)
    # Over the texts, 0.03 among three hypotheses is no proof.
    assert {cell for cell, value in values(path, "queries").items() if value.bold} == {BEST, NEAR, LUCKY}


def test_holms_correction_is_over_fused_cells(tmp_path: Path) -> None:
    found = values(write_results(tmp_path / "r", FOLDS))
    corrected = {cell: found[cell].against_best.p_queries for cell in (FAR, LUCKY, NEAR, DENSE)}
    assert corrected == pytest.approx({FAR: 0.003, LUCKY: 0.06, NEAR: 0.4, DENSE: 0.001})


def test_fusions_that_read_ranks_are_one_hypothesis(tmp_path: Path) -> None:
    same = {Cell(norm, "isr"): FOLDS[FAR] for norm in ("zmuv", "rank", "sum", "max")}
    folder = tmp_path / "r"
    write_results(folder, {BEST: FOLDS[BEST], **same})
    rows = [
        ("tail", "ndcg", 10, "all", *cell, *BEST, 50, -0.02, 0.1, -2.0, 0.02, -0.03, -0.01, -0.2, 0.02) for cell in same
    ]
    _write(folder / "comparisons.parquet", rows, COMPARISONS_SCHEMA)
    assert {found.against_best.p_queries for cell, found in values(str(folder)).items() if cell != BEST} == {0.02}


def test_better_needs_folds_and_texts(tmp_path: Path) -> None:
    dataset = DatasetReport(read_results([write_results(tmp_path / "a", FOLDS)])[0], "folds", 0.05)
    gain = dataset.gains[0]
    assert (gain.best, gain.better_single, gain.verdict) == (BEST, "dense", Verdict("better", 5, 50))
    assert gain.comparison.p_queries == pytest.approx(0.004)
    # Without comparisons by text there is nothing to trust but folds.
    (tmp_path / "a" / "comparisons.parquet").unlink()
    dataset = DatasetReport(read_results([str(tmp_path / "a")])[0], "folds", 0.05)
    assert dataset.gains[0].verdict.outcome == "not tested"


@pytest.mark.parametrize("test", ["folds", "queries", "randomization"])
def test_with_one_fold_the_texts_decide(tmp_path: Path, test: Any) -> None:
    one = {cell: found[:1] for cell, found in FOLDS.items()}
    dataset = DatasetReport(read_results([write_results(tmp_path / "r", one)])[0], test, 0.05)
    assert dataset.test == ("queries" if test == "folds" else test)
    assert dataset.gains[0].verdict == Verdict("better", 1, 50)
    assert verdict(dataset.gains[0].verdict) == "better (tested over 50 texts)"
    found = {row.cell: row.values[ASPECT] for row in dataset.rows}
    assert found[NEAR].std is None
    assert found[NEAR].against_best.p_folds is None
    assert {cell for cell, value in found.items() if value.bold} == {BEST, NEAR, LUCKY}
    # Without figures per text one fold tells nothing.
    (tmp_path / "r" / "comparisons.parquet").unlink()
    dataset = DatasetReport(read_results([str(tmp_path / "r")])[0], test, 0.05)
    assert dataset.gains[0].verdict.outcome == "not tested"
    assert {row.cell for row in dataset.rows if row.values[ASPECT].bold} == {BEST}


def test_missing_folds_are_told(tmp_path: Path) -> None:
    three = {cell: found[:3] for cell, found in FOLDS.items()}
    [results] = read_results([write_results(tmp_path / "r", three, [0, 1, 3])])
    assert (results.folds, results.missing_folds) == ((0, 1, 3), (2,))
    work = {"work__path": "w", "inputs__folds": "w/sample/prepared/folds.parquet"}
    [results] = read_results([write_results(tmp_path / "s", three, **work)])
    assert results.missing_folds == (3, 4)
    one = {cell: found[:1] for cell, found in FOLDS.items()}
    for split in ("published", "hash"):
        [results] = read_results([write_results(tmp_path / split, one, **work, prepare__split=split)])
        assert (results.folds, results.missing_folds) == ((0,), ())


def test_folds_of_one_dataset_from_several_folders(tmp_path: Path) -> None:
    first = write_results(tmp_path / "a", {cell: found[:3] for cell, found in FOLDS.items()})
    second = write_results(tmp_path / "b", {cell: found[3:] for cell, found in FOLDS.items()}, [3, 4])
    [results] = read_results([first, second])
    assert results.folds == (0, 1, 2, 3, 4)
    assert not results.details
    assert values_of(results)[BEST].mean == pytest.approx(sum(FOLDS[BEST]) / 5)


def values_of(results: Any) -> dict[Cell, Any]:
    return {row.cell: row.values[ASPECT] for row in DatasetReport(results, "folds", 0.05).rows}


def test_mixed_up_results_are_refused(tmp_path: Path) -> None:
    one = write_results(tmp_path / "a", FOLDS)
    with pytest.raises(InputError, match=r"figures occur twice in .*a and .*a, first: fold 0"):
        read_results([one, one])
    other = write_results(tmp_path / "b", FOLDS, fuse__top=12)
    with pytest.raises(InputError, match=r"different configurations: fuse\.top is 64 in the first and 12"):
        read_results([one, other])
    joint = write_results(tmp_path / "c", FOLDS, dataset="another", grid__scope="joint")
    with pytest.raises(InputError, match=r"grid\.scope is 'group' in the first and 'joint'"):
        read_results([one, joint])
    another = write_results(tmp_path / "d", FOLDS, dataset="another", fuse__top=12)
    assert [found.config.dataset for found in read_results([one, another])] == ["sample", "another"]


def test_bad_results_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--results"):
        read_results([])
    with pytest.raises(InputError, match=r"nowhere holds no results of 'evaluate': config\.yaml is missing"):
        read_results([str(tmp_path / "nowhere")])
    path = write_results(tmp_path / "r", FOLDS)
    metrics = pq.read_table(f"{path}/metrics.parquet")
    pq.write_table(metrics.drop_columns(["ideal"]), f"{path}/metrics.parquet")
    with pytest.raises(InputError, match=r"metrics\.parquet lacks the column 'ideal'"):
        read_results([path])
    wrong = metrics.set_column(7, "value", pa.array([51.5] * len(metrics)))
    pq.write_table(wrong, f"{path}/metrics.parquet")
    with pytest.raises(InputError, match=r"'value' holds 51\.5, not a share of 1, first at fold 0"):
        read_results([path])
    Path(f"{path}/metrics.parquet").write_bytes(b"PAR1 broken")
    with pytest.raises(InputError, match=r"cannot read .*metrics\.parquet"):
        read_results([path])


def test_the_papers_figures() -> None:
    """Its own figures agree with themselves; sound cells are compared."""
    found = paper_figures("eurlex-4k", {})
    assert found is not None
    assert len(found.values) == 60 * 12
    assert found.values[BEST, Aspect("tail", "ndcg", 1)] == pytest.approx((0.515, 0.017))
    ours: dict[Aspect, dict[Cell, float]] = {}
    for (cell, aspect), (mean, _) in found.values.items():
        ours.setdefault(aspect, {})[cell] = mean
    again = paper_figures("Eurlex-4K", ours)
    assert again is not None
    assert list(again.rank_correlation.values()) == pytest.approx([1] * 12)
    assert again.compared == 60 - 6 - 3
    assert paper_figures("debtags", {}) is None
