"""The blocks of README and docs: Python, shell commands and settings, and which of the commands a test can run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Literal, NamedTuple

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^(?:    )?```(\w*)\n(.*?)^(?:    )?```$", re.MULTILINE | re.DOTALL)
LANGUAGES = {"bash", "dockerfile", "python", "text", "yaml"}
OURS = "xmtc-fusion"
Tier = Literal["quick", "drill", "not run"]

NOT_RUN = {
    r"^spark-submit|start-connect-server|sc://HOST": "a cluster (`tests/cluster` submits to a small standalone one, "
    "`tests/connect` starts a server)",
    r"^databricks |conf/databricks|/Volumes/": "a Databricks workspace (`tests/unit/test_bundle.py` checks the bundle)",
    r"table:main\.": "a catalog of tables (`tests/spark/test_predict.py` writes one)",
    r"--folder FOLDER": "a published dataset (`tests/unit/test_readers.py` reads small files of each form)",
    r"fuse --model": "lists of new texts (`tests/unit/test_tune.py` applies model files)",
    r"^pip install": "a fresh environment, and PyPI (`tests/unit/test_package.py` installs the wheel)",
    r"^make |^pre-commit ": "minutes, or the whole of these tests; that the targets exist is tested",
}
"""What commands need that the tests do not have, by a pattern of theirs."""

DRILL = "|".join(
    [
        r"^xmtc-fusion (run|retrieve|prepare|doctor|tune|fit|predict)\b",
        r"--results (work|tuned)\b",
        r"^xmtc-fusion explain --text 817",
        r"--config conf/nightly.yaml",
        r"--datasets a.yaml",
    ]
)
"""Commands that start Spark or take more than a few seconds."""


class Command(NamedTuple):
    """A command line of a page, with lines that go on joined."""

    page: str
    text: str

    @property
    def needs(self) -> str | None:
        """What it needs that tests do not have."""
        return next((needs for pattern, needs in NOT_RUN.items() if re.search(pattern, self.text)), None)

    @property
    def tier(self) -> Tier:
        if self.needs is not None:
            return "not run"
        return "drill" if re.search(DRILL, self.text) else "quick"

    @property
    def short(self) -> str:
        """The program, and what it is asked to do."""
        program, *others = [word for word in self.words if "=" not in word]
        return f"{program} {others[0]}" if program in (OURS, "databricks", "make", "pip") else Path(program).name

    @property
    def words(self) -> list[str]:
        return shlex.split(re.sub(r"\s#.*", "", self.text))


class Example(NamedTuple):
    """A Python block with the output that follows it directly, if any."""

    page: str
    code: str
    output: str | None


def blocks(page: Path) -> list[tuple[str, str]]:
    """The blocks of a page, each with its language."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def commands(page: Path | None = None) -> list[Command]:
    """Every command line of the pages, or of one of them."""
    return [
        Command(source.name, line.strip())
        for source in ([page] if page else PAGES)
        for language, text in blocks(source)
        if language == "bash"
        for line in text.replace("\\\n", " ").splitlines()
        if line.strip() and not line.lstrip().startswith("#")
    ]


def examples() -> list[Example]:
    """Every Python block of the pages."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for block in BLOCK.finditer(text):
            if block[1] == "python":
                output = BLOCK.match(text, block.end() + 2)
                shown = output[2] if output is not None and output[1] == "text" else None
                found.append(Example(page.name, block[2], shown))
    return found


def lay_out(folder: Path, texts: int) -> None:
    """Two TREC runs and their judgements, under the names that commands of the pages use."""
    labels = ["cat", "dog", "bird", "pet", "fish"]
    for name, step in (("a", 2), ("b", 3)):
        lines = [
            f"t{n + 1} Q0 {labels[(n * step + rank) % 5]} {rank} {5 - rank} {name}\n"
            for n in range(texts)
            for rank in range(1, 5)
        ]
        (folder / f"{name}.trec").write_text("".join(lines))
    (folder / "q.txt").write_text("".join(f"t{n + 1} 0 {labels[n % 5]} 1\n" for n in range(texts)))
    for name in ("conf", "data", "docs"):
        (folder / name).symlink_to(ROOT / name)


def not_run() -> list[list[str]]:
    """What is only parsed: what it would need, the commands in short, and their pages, for CONTRIBUTING.md."""
    rows = []
    for needs in NOT_RUN.values():
        chosen = [command for command in commands() if command.needs == needs]
        short = [command.short for command in chosen]
        pages = dict.fromkeys(command.page for command in chosen)
        rows.append([needs, ", ".join(f"`{words}`" for words in dict.fromkeys(short)), ", ".join(pages)])
    return rows
