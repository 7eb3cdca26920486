"""README and docs: their code runs and prints what they say, their commands parse, their links lead somewhere."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.command_line.parser import make_parser
from tests import algorithm_tables

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(<?([^)>\s]+)>?\)")
WORDS = 900


def blocks(page: Path) -> list[tuple[str, str]]:
    """The blocks of a page, each with its language."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def examples() -> list[tuple[str, str, str | None]]:
    """Python blocks, each with the output that follows it directly, if any."""
    found = []
    for page in (ROOT / "README.md", ROOT / "docs" / "runs.md"):
        text = page.read_text(encoding="utf-8")
        for n, block in enumerate(block for block in BLOCK.finditer(text) if block[1] == "python"):
            output = BLOCK.match(text, block.end() + 2)
            shown = output[2] if output is not None and not output[1] else None
            found.append((f"{page.name}-{n}", block[2], shown))
    return found


def commands() -> list[str]:
    """Every command line of ours, with lines that go on joined."""
    return [
        line
        for page in PAGES
        for _, text in blocks(page)
        for line in text.replace("\\\n", " ").splitlines()
        if line.startswith("xmtc-fusion ")
    ]


EXAMPLES, COMMANDS = examples(), commands()


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    lines = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines}


@pytest.mark.parametrize(("code", "output"), [row[1:] for row in EXAMPLES], ids=[row[0] for row in EXAMPLES])
def test_examples_run_without_spark(code: str, output: str | None, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    code += "\nimport sys; assert 'pyspark' not in sys.modules\n"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    if output is not None:
        assert done.stdout == output


def test_examples_are_found() -> None:
    assert len(EXAMPLES) >= 4 and sum(output is not None for _, _, output in EXAMPLES) >= 4
    assert len(COMMANDS) >= 10


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_parse(command: str) -> None:
    words = shlex.split(command, comments=True)[1:]
    if ">" in words:
        words = words[: words.index(">")]
    assert make_parser().parse_args(words).job == words[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    for link in LINK.findall(text):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name} links to {link}"
        assert not anchor or anchor in headings(target), f"{page.name} links to {link}"


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    linked = {link.partition("#")[0] for link in LINK.findall(index)}
    assert {page.name for page in PAGES[1:]} - {"README.md"} <= linked


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= WORDS


def test_readme_names_what_was_measured() -> None:
    """Figures about speed are those of the committed measurements."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    grid = (ROOT / "benchmarks/results/grid.md").read_text(encoding="utf-8")
    arrays = re.search(r"\| `arrays` \| ([\d,.]+) \| \d+% \| ([\d,]+) \|", grid)
    comb = re.search(r"ranx [\d.]+: (\d+) times", grid)
    bm25 = re.search(r"Met, with (\d+) times", (ROOT / "benchmarks/results/bm25.md").read_text(encoding="utf-8"))
    assert arrays and comb and bm25
    speed = f"{float(arrays[1].replace(',', '')):,.0f} texts per second"
    small = (ROOT / "benchmarks/results/small.md").read_text(encoding="utf-8")
    warm = [re.search(rf"\| {name}[^|]* \| [\d.]+ \| ([\d.]+) \|", small) for name in ("`xmtc-fusion", "ranx")]
    seconds = [f"{row[1]} s" for row in warm if row]
    assert len(seconds) == 2
    for figure in (speed, f"{arrays[2]} times", f"{comb[1]} times", f"{bm25[1]} times", *seconds):
        assert figure in " ".join(readme.split()), figure


def test_the_page_on_engines_shows_what_was_measured() -> None:
    page = (ROOT / "docs/engines.md").read_text(encoding="utf-8")
    measured = (ROOT / "benchmarks/results/grid.md").read_text(encoding="utf-8").replace("|  |", "| |")
    for row in re.findall(r"^\| .*\d.*$", measured, re.MULTILINE):
        assert row in page, row


def test_the_tables_of_algorithms_are_those_of_the_registry() -> None:
    """`python -m tests.algorithm_tables` writes them."""
    page = algorithm_tables.PAGE.read_text(encoding="utf-8")
    assert page == algorithm_tables.written(page)


def test_the_examples_of_new_algorithms_work(tmp_path: Path) -> None:
    """The files of docs/algorithms.md, added to their packages without touching the checkout."""
    rooms = set()
    for text in [text for language, text in blocks(ROOT / "docs" / "algorithms.md") if language == "python"]:
        place = re.match(r"# fusion/(\w+)/(\w+)\.py\n", text)
        assert place
        (tmp_path / place[1]).mkdir()
        (tmp_path / place[1] / f"{place[2]}.py").write_text(text, encoding="utf-8")
        rooms.add(place[1])
    assert rooms == {"fusions", "normalizations"}
    code = f"""
import math
import fusion.fusions, fusion.normalizations
fusion.fusions.__path__.append({str(tmp_path / "fusions")!r})
fusion.normalizations.__path__.append({str(tmp_path / "normalizations")!r})
import fusion.fusions.power, fusion.normalizations.bounded
import xmtc_fusion as xf
from fusion import reference
from jobs.command_line.parser import make_parser
runs = {{"a": {{"t": {{"l1": 9.0, "l2": 2.0, "l3": 1.0}}}}, "b": {{"t": {{"l3": 0.9, "l2": 0.8}}}}}}
lists = {{name: run["t"] for name, run in runs.items()}}
for cell in ("power", "power(p=0.5)", "bounded+combsum", "bounded(b=0.5)+combsum"):
    fused = xf.fuse(runs, cell)["t"]
    normalization, _, name = ("rank+" + cell if cell.startswith("power") else cell).rpartition("+")
    plain = reference.fuse(lists, normalization, name)
    assert [label for label, _ in plain] == list(fused), (plain, fused)
    assert all(math.isclose(score, fused[label], rel_tol=1e-6, abs_tol=1e-7) for label, score in plain)
assert abs(xf.fuse(runs, "power(p=2)")["t"]["l3"] - (1 / 9 + 1)) < 1e-7
assert "sum(r^-p)" in xf.explain(runs, "t", "power(p=2)").text
try:
    xf.fuse(runs, "power(p=11)")
except xf.ConfigError as error:
    assert "p must be from 0 to 10" in str(error)
chosen = dict(normalizations="all,bounded(b=[1,2])", fusions="power", metrics="ndcg@3")
print(len(xf.evaluate({{"t": ["l3"]}}, runs, **chosen).metrics))
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout == f"{8 + 2}\n", done.stderr
