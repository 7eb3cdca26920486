"""A hook of MkDocs: pages may link to any file of the repository, as they do where the repository is read.

What is linked and lies outside of docs/ becomes a page of the site below repository/: Markdown as it is, other files as
a block of code, folders as a list of their files. Links are turned to where their target is in the site.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DOCS = "docs"
OWN_PLACES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "README.md": "README.md"}
"""Files that have a page of their own, or one that says the same."""
LINK = re.compile(r"(\]\(<?)([^)>\s#]+)(#[^)>\s]*)?(>?\))")
FENCED = re.compile(r"(^````.*?^````$|^```.*?^```$|^~~~.*?^~~~$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
LANGUAGES = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".java": "java"}

sources: dict[str, str] = {}
"""The path in the repository of every page that is added, by its place in the site."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    waiting = ["CHANGELOG.md", "CONTRIBUTING.md"]
    for file in files.documentation_pages():
        waiting += _linked(f"{DOCS}/{file.src_uri}", file.content_string)
    while waiting:
        path = waiting.pop()
        place = _place(path)
        if path.startswith(f"{DOCS}/") or files.get_file_from_path(place) or not (ROOT / path).exists():
            continue
        content = _content(path)
        sources[place] = path
        files.append(File.generated(config, place, content=content))
        if path.endswith(".md"):
            waiting += _linked(path, content)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    place = page.file.src_uri
    source = sources.get(place, f"{DOCS}/{place}")

    def turned(link: re.Match[str]) -> str:
        if "://" in link[2] or link[2].startswith("mailto:"):
            return link[0]
        path = _target(source, link[2])
        if path is None or not (ROOT / path).exists():
            return link[0]
        return f"{link[1]}{relpath(_place(path), str(PurePosixPath(place).parent))}{link[3] or ''}{link[4]}"

    parts = FENCED.split(markdown)
    return "".join(part if n % 2 else LINK.sub(turned, part) for n, part in enumerate(parts))


def _linked(source: str, text: str) -> list[str]:
    """The files of the repository that a page links to."""
    paths = [_target(source, link[2]) for link in LINK.finditer(FENCED.sub("", text)) if "://" not in link[2]]
    return [path for path in paths if path is not None]


def _target(source: str, link: str) -> str | None:
    """The path in the repository that a link of a page leads to; None if it leads out of it."""
    path = normpath(str(PurePosixPath(source).parent / link))
    return None if path.startswith("..") else path


def _place(path: str) -> str:
    """Where a path of the repository is in the site."""
    if path.startswith(f"{DOCS}/"):
        return path.removeprefix(f"{DOCS}/")
    if path in OWN_PLACES:
        return OWN_PLACES[path]
    if (ROOT / path).is_dir():
        return f"repository/{path}/index.md"
    return f"repository/{path}" if path.endswith(".md") else f"repository/{path}.md"


def _content(path: str) -> str:
    """The page that shows a file or a folder."""
    full = ROOT / path
    if full.is_dir():
        names = sorted(
            f"{file.name}/" if file.is_dir() else file.name for file in full.iterdir() if file.name != "__pycache__"
        )
        return f"# {path}\n\nA folder of the repository:\n\n" + "".join(f"- `{name}`\n" for name in names)
    text = full.read_text(encoding="utf-8")
    if path.endswith(".md"):
        return text
    return f"# {path}\n\n````{LANGUAGES.get(full.suffix, 'text')}\n{text}\n````\n"
