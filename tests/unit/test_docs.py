"""README and docs: their blocks run and print what they say, their links lead somewhere, their figures are measured."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest
import yaml

from benchmarks import figures, times
from fusion import FUSIONS, METRICS, NORMALIZATIONS, errors
from jobs.cli import main
from jobs.help import make_parser
from jobs.settings.config import load_config
from jobs.settings.retrievers import RETRIEVERS
from tests.doc_blocks import BLOCK, LANGUAGES, OURS, PAGES, ROOT, blocks, commands, examples, lay_out
from xmtc_fusion import api, notebook

LINK = re.compile(r"\]\(<?([^)>\s]+)>?\)")
WORDS = 900
NOT_PUBLIC = ("check_all", "unknown_name", "visible")
# Blocks that need more than this process: a Spark session, a trained model, a history of nights.
NEEDS_MORE = r"spark\.table|xf\.tune|xf\.load_model|SentenceTransformer|xf\.History"
QUICK = [example for example in examples() if not re.search(NEEDS_MORE, example.code) and "\n\n@" not in example.code]
# Commands that are followed with what they need in tests/end_to_end/test_doc_commands.py.
PAST_NIGHTS = "nightly.md"

# The results that a page takes for granted, with the dataset of each.
RESULTS_OF = {
    "report.md": {
        **dict.fromkeys(("out", "a", "yesterday/results", "today/results"), "pets"),
        **dict.fromkeys(("bm25-1.2/results", "bm25-1.5/results"), "pets"),
        "b": "birds",
    }
}
AGAIN = ["--mode", "overwrite"]
FASTER = {
    "evaluate": [*AGAIN, "--set", "evaluate.randomizations=100"],
    "fuse": AGAIN,
    "report": AGAIN,
}


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    lines = re.findall(r"^#+ (.*)$", BLOCK.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines}


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    """Strict: a warning, a broken link or a missing anchor is an error."""
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr
    html = [path.read_text(encoding="utf-8") for path in tmp_path.glob("*.html")]
    assert len(html) >= 20
    # The reference describes what it names; it does not give signatures alone.
    reference = unescape(re.sub(r"<[^>]+>", "", (tmp_path / "api.html").read_text(encoding="utf-8")))
    for module in (api, notebook, errors):
        entries = [entry for entry in vars(module).values() if getattr(entry, "__module__", "") == module.__name__]
        described = [entry for entry in entries if entry.__name__ not in NOT_PUBLIC and entry.__name__[0] != "_"]
        assert described
        for entry in described:
            assert str(entry.__doc__).partition("\n")[0].replace("`", "") in reference, entry.__name__
    # It works without a network: what a page loads is its own.
    loaded = [re.findall(r"""<(?:script|img)[^>]*\bsrc="([^"]+)"|<link[^>]*\bhref="([^"]+)\"""", page) for page in html]
    assert not {address for page in loaded for found in page for address in found if address.startswith("http")}


def test_every_page_is_in_the_navigation() -> None:
    text = re.sub(r"!!python\S*", "", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    linked = set(re.findall(r"[\w/]+\.md", yaml.safe_dump(yaml.safe_load(text)["nav"])))
    assert {page.name for page in (ROOT / "docs").glob("*.md")} <= linked
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"} <= {
        link.partition("#")[0] for link in LINK.findall(index)
    }


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_say_their_language(page: Path) -> None:
    assert {language for language, _ in blocks(page)} <= LANGUAGES


@pytest.mark.parametrize("example", QUICK, ids=[f"{example.page}-{n}" for n, example in enumerate(QUICK)])
def test_examples_run_without_spark(example, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    code = f"{example.code}\nimport sys; assert 'pyspark' not in sys.modules\n"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    if example.output is not None:
        assert done.stdout == example.output


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that commands of the pages name."""
    lay_out(tmp_path, texts=12)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_quick_commands_run_in_the_order_of_the_page(page: Path, desk: Path, capsys: pytest.CaptureFixture) -> None:
    if page.name == PAST_NIGHTS:
        return
    for folder, dataset in RESULTS_OF.get(page.name, {}).items():
        given = ["--run", "bm25=a.trec", "--run", "dense=b.trec", "--qrels", "q.txt", "--set", f"dataset={dataset}"]
        assert main(["evaluate", *given, "--output", folder]) == 0
    for command in commands(page):
        if command.tier != "quick":
            continue
        assert command.words[0] == OURS, command
        _, *words = command.words
        words, target = (words[: words.index(">")], words[-1]) if ">" in words else (words, None)
        capsys.readouterr()
        assert main([*words, *FASTER.get(words[0], [])]) == 0, command
        if target:
            Path(target).write_text(capsys.readouterr().out)


def test_commands_parse() -> None:
    """All of ours, also those that nothing here can run."""
    ours = [command for command in commands() if command.words[0] == OURS]
    assert len(ours) >= 30
    for command in ours:
        words = command.words[1:]
        words = words[: words.index(">")] if ">" in words else words
        assert make_parser().parse_args(words).job == words[0], command


def test_commands_of_jobs_parse_inside_spark_submit() -> None:
    submitted = [command.words for command in commands() if command.words[0] == "spark-submit"]
    assert len(submitted) == 4
    for words in submitted:
        (application,) = [n for n, word in enumerate(words) if word.endswith("jobs/cli.py")]
        arguments = [word for word in words[application + 1 :] if word != "..."]
        assert make_parser().parse_args(arguments).job in ("evaluate", "run")
        assert all("=" in words[n + 1] for n, word in enumerate(words) if word == "--conf")


def test_targets_of_make_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = {command.words[1] for command in commands() if command.words[0] == "make"}
    for page in PAGES:
        named |= set(re.findall(r"`make ([a-z-]+)", page.read_text(encoding="utf-8")))
    assert len(named) >= 8
    assert not {target for target in named if not re.search(rf"^{target}:", makefile, re.MULTILINE)}


def test_settings_of_pages_are_known() -> None:
    shown = [text for page in PAGES for language, text in blocks(page) if language == "yaml"]
    assert shown
    for text in shown:
        flat = {}
        for name, value in yaml.safe_load(text).items():
            flat.update({f"{name}.{key}": below for key, below in value.items()} if isinstance(value, dict) else {})
            flat.update({} if isinstance(value, dict) else {name: value})
        known = {name: value for name, value in flat.items() if not name.startswith("retriever")}
        load_config(None, {name: value for name, value in known.items() if "alerts" not in name})


def test_no_figure_is_stale() -> None:
    """`make figures` writes them."""
    assert not figures.stale(), "make figures writes what the committed results say"


def test_figures_do_not_begin_a_line() -> None:
    """Markdown would take the line for a block of HTML."""
    for page in PAGES:
        assert not re.findall(r"^\s*<!--=[^>]*-->\S.*", page.read_text(encoding="utf-8"), re.MULTILINE), page


def test_a_stale_figure_is_named() -> None:
    known = figures.figures()
    page = "The ratio is <!--= grid.times -->1<!--/-->, it takes <!--= small.ours -->2 h<!--/-->."
    assert figures.written(page, known) == (
        f"The ratio is <!--= grid.times -->{known['grid.times']}<!--/-->, "
        f"it takes <!--= small.ours -->{known['small.ours']}<!--/-->."
    )
    with pytest.raises(KeyError, match="unheard"):
        figures.written("<!--= unheard of -->1<!--/-->", known)


@pytest.mark.parametrize("registry", [FUSIONS, NORMALIZATIONS, METRICS, RETRIEVERS], ids=lambda registry: registry.kind)
def test_every_entry_says_when_to_use_it(registry) -> None:
    entries = [entry for entry in registry if not getattr(entry, "origin", "")]
    assert entries
    assert not [entry.name for entry in entries if not entry.when or not entry.citation or entry.when[-1] != "."]


def test_the_readme_is_short_and_names_the_paper_at_once() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(re.sub(r"<!--.*?-->", "", readme).split()) <= WORDS
    assert "arXiv:2507.03761" in readme[:1200] and "França" in readme[:1200]


def test_the_citation_is_that_of_this_version() -> None:
    from fusion import __version__

    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == __version__
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_times_are_written_where_the_readme_reads_them() -> None:
    text = times.RESULT.read_text(encoding="utf-8")
    changed = times.with_time(text, "`make demo`", 8.3 * 60)
    assert "| `make demo` | about 8.5 minutes |" in changed
    assert times.with_time(changed, "`make demo`", 1000 * 60).count("about 1000 minutes") == 1
    in_a_clone = times.with_time(text, "`make demo` in a fresh clone", 1000 * 60)
    assert "| `make demo` in a fresh clone | about 1000 minutes |" in in_a_clone
