"""Names of cells: parameters, lists of values, subsets; what is printed reads back as the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion import FUSIONS, NORMALIZATIONS
from fusion.cells import Cell
from fusion.errors import ConfigError
from fusion.grid.grid import Grid, all_subsets, parse_cells
from fusion.names import print_call, quoted, split, unquoted
from fusion.parameters import Parameters
from jobs.settings.config import load_config

NUMBERS = st.floats(0, 1, allow_nan=False) | st.integers(0, 10**6)
RETRIEVERS = st.text(min_size=1, max_size=8)


@st.composite
def calls(draw: st.DrawFn, registry) -> str:
    """An algorithm of the registry with any of its parameters set, in the canonical form or not."""
    entry = draw(st.sampled_from(list(registry)))
    values = {}
    for parameter in entry.parameters.known:
        if draw(st.booleans()):
            whole = isinstance(parameter.default, int)
            low, high = max(parameter.low, 1e-6), min(parameter.high, 1e6)
            values[parameter.name] = draw(st.integers(1, 1000) if whole else st.floats(low, high))
    if entry.parameters.weighted:
        values |= draw(st.dictionaries(RETRIEVERS, NUMBERS, max_size=3))
    return print_call(entry.name, values)


@given(calls(NORMALIZATIONS), calls(FUSIONS), st.sets(RETRIEVERS, min_size=2, max_size=4) | st.none())
def test_names_read_back(normalization: str, fusion: str, subset: set[str] | None) -> None:
    cell = Cell(NORMALIZATIONS[normalization].name, FUSIONS[fusion].name)
    cell = cell.within(subset) if subset else cell
    assert parse_cells(str(cell)) == [cell]
    assert set(cell.subset) == (subset or set())
    assert NORMALIZATIONS[cell.scaling].name == cell.scaling and FUSIONS[cell.fusion].name == cell.fusion


@given(st.text())
def test_any_retriever_can_be_named(name: str) -> None:
    assert unquoted(quoted(name)) == name
    assert split(f"{quoted(name)}+{quoted(name)}", "+") == [quoted(name)] * 2


@given(st.text(alphabet='zmuv+:()[]=," rk0.5'))
def test_what_is_no_name_is_refused_with_our_error(text: str) -> None:
    try:
        cells = parse_cells(text)
    except ConfigError:
        return
    assert all(parse_cells(str(cell)) == [cell] for cell in cells)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("rrf", ["none+rrf"]),
        ("rrf(k=60)", ["none+rrf"]),
        ("rrf( k = [10, 60,100] )", ["none+rrf(k=10)", "none+rrf", "none+rrf(k=100)"]),
        ("zmuv + wsum(dense=.70, bm25=3e-1)", ["zmuv+wsum(bm25=0.3,dense=0.7)"]),
        ("zmuv+wsum(bm25=1.0)", ["zmuv+wsum"]),
        ("dense+bm25: softmax(temperature=2.0)+combsum", ["bm25+dense: softmax(temperature=2)+combsum"]),
        (
            "softmax(temperature=[1,2])+combgmnz(gamma=[1,2])",
            [
                "softmax+combgmnz(gamma=1)",
                "softmax+combgmnz",
                "softmax(temperature=2)+combgmnz(gamma=1)",
                "softmax(temperature=2)+combgmnz",
            ],
        ),
        ('"a b"+"x:y": zmuv+isr', ['"a b"+"x:y": zmuv+isr']),
    ],
)
def test_one_way_to_write_a_cell(text: str, names: list[str]) -> None:
    assert [str(cell) for cell in parse_cells(text)] == names


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("zmuv+rff", ["unknown fusion 'rff'", "Did you mean 'rrf'"]),
        ("rrf(kk=1)", ["unknown parameter of rrf 'kk'", "Did you mean 'k'"]),
        ("rrf(k=1.5)", ["k is a whole number", "1.5"]),
        ("rrf(k=-1)", ["k must be at least 0", "-1"]),
        ("rbc(phi=1.1)", ["phi must be from 0 to 1"]),
        ("zmuv+combsum(k=1)", ["combsum has no parameters"]),
        ("rrf(k=)", ["expected a number"]),
        ("rrf(k=1,k=2)", ["given twice"]),
        ("rrf(10)", ["PARAMETER=NUMBER"]),
        ("combsum", ["NORMALIZATION+FUSION"]),
        ("zmuv+combsum+isr", ["NORMALIZATION+FUSION"]),
        ("bm25: zmuv+combsum", ["two or more retrievers"]),
        ("a+b: c: zmuv+combsum", ["at most one ':'"]),
    ],
)
def test_wrong_names(text: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        parse_cells(text)
    for word in words:
        assert word in str(error.value)


def test_settings_take_cells_as_yaml_reads_them() -> None:
    cells = ["zmuv+combmnz", {"bm25+dense": "zmuv+combmnz"}, "rrf(k=[10,60])"]
    chosen = load_config(None, {"grid.cells": cells}).grid.chosen
    assert [str(cell) for cell in chosen] == [
        "zmuv+combmnz",
        "bm25+dense: zmuv+combmnz",
        "none+rrf(k=10)",
        "none+rrf",
    ]
    listed = load_config(None, {"grid.fusions": "isr,rrf(k=[10,20]),wsum(a=0.5,b=2)", "grid.normalizations": "zmuv"})
    assert [cell.fusion for cell in listed.grid.chosen] == ["isr", "rrf(k=10)", "rrf(k=20)", "wsum(a=0.5,b=2)"]


def test_all_is_the_papers_and_everything_needs_no_training() -> None:
    assert len(Grid.of("all", "all").cells) == 60
    every = Grid.of("everything", "everything")
    untrained = [entry for entry in FUSIONS if not entry.parameters.trained]
    assert len(every.cells) == len(list(NORMALIZATIONS)) * len(untrained)


def test_subsets() -> None:
    cells = all_subsets([Cell("zmuv", "combsum"), Cell("a+b: zmuv", "isr")], ["c", "a", "b"])
    assert [str(cell) for cell in cells] == [
        "zmuv+combsum",
        "a+b: zmuv+isr",
        "a+c: zmuv+combsum",
        "b+c: zmuv+combsum",
        "a+b: zmuv+combsum",
    ]
    eight = [f"r{n}" for n in range(8)]
    assert len(all_subsets([Cell("zmuv", "combsum")], eight)) == 247


def test_a_column_is_computed_once_whatever_does_not_change_it() -> None:
    names = ["softmax(temperature=[1,2,3])+rrf(k=[10,60])", "b+a: softmax+rrf", "a+b: max+rrf(k=60)"]
    grid = Grid([cell for name in names for cell in parse_cells(name)], ["a", "b"])
    assert len(grid.cells) == 8 and len(grid.columns) == 2
    three = Grid(grid.cells, ["a", "b", "c"])
    assert len(three.columns) == 3


def test_unknown_retrievers_are_refused_with_the_nearest() -> None:
    for name in ("zmuv+wsum(dens=0.5)", "bm25+dens: zmuv+combsum"):
        with pytest.raises(ConfigError, match=r"unknown retriever .*'dens'.* Did you mean 'dense'"):
            Grid(parse_cells(name), ["bm25", "dense", "splade"])


def test_parameters_come_from_the_signature() -> None:
    def kernel(candidates, depth: int = 5, *, weights) -> None: ...

    parameters = Parameters.of(kernel, {"depth": (1, 9)})
    assert parameters.usage("x") == "x(depth=5,RETRIEVER=1)" and parameters.weighted and not parameters.trained
    with pytest.raises(ConfigError, match="depth must be from 1 to 9"):
        parameters.combinations("x", {"depth": [10]})
