#!/usr/bin/env python3
"""Make the debtags data set from the apt lists of the Debian machine this runs on.

Reads the `Packages` and `Translation-en` lists of one suite (component main) and the debtags vocabulary, and writes
`texts.jsonl.gz` and `labels.jsonl.gz`. The same lists and vocabulary give the same bytes.

    apt-get -o Acquire::Languages=en update
    apt-get install debtags
    python3 make_snapshot.py
"""

from __future__ import annotations

import argparse
import gzip
import json
import platform
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

COMPONENT = "main"

#: Facets that say what a package is made as or built from; the others say what it is about or for.
TRIVIAL_FACETS = frozenset(
    {
        "devel",
        "implemented-in",
        "interface",
        "made-of",
        "role",
        "scope",
        "secteam",
        "special",
        "uitoolkit",
    }
)

#: The same, in a facet that is otherwise about a topic.
TRIVIAL_TAGS = frozenset({"x11::application", "x11::library"})

#: `facet::TODO` means "the right tag is missing", which no text can predict.
PLACEHOLDER = "TODO"

#: Says that the package is an empty one left behind by a renaming. The misspelling occurs in the archive.
TRANSITIONAL = re.compile(
    r"\b(?:transition(?:al)?|tranisitonal|dummy)\s+(?:(?:dummy|empty|transitional)\s+)?(?:meta-?)?package\b",
    re.IGNORECASE,
)

#: How much of the extended description must not say so. Further on, it is a remark after a real description.
OPENING = 100

#: A web address, which says nothing about the topic.
ADDRESS = re.compile(r"<?\b(?:https?|ftp)://[^\s>]*>?")

#: A list item. `o` counts only when indented further than running text, where it may be a word.
BULLET = re.compile(r"(?:\s*[-*+\u2022]|\s{2,}o)\s+")

Stanza = dict[str, str]


def read_list(path: Path) -> str:
    """Return the text of an apt list, however apt compressed it."""
    # apt may keep its lists as lz4 or zstd, which the standard library cannot read.
    command = ["/usr/lib/apt/apt-helper", "cat-file", str(path)]
    return subprocess.run(command, check=True, capture_output=True).stdout.decode("utf-8")


def stanzas(text: str) -> Iterator[Stanza]:
    """Yield the stanzas of a Debian control file; continuation lines are kept as they are, after a newline."""
    for block in re.split(r"\n{2,}", text):
        fields: dict[str, list[str]] = {}
        lines: list[str] = []
        for line in block.splitlines():
            if line.startswith((" ", "\t")):
                lines.append(line)
            elif ":" in line:
                name, value = line.split(":", 1)
                lines = fields.setdefault(name, [])
                lines.append(value.strip())
        if fields:
            yield {name: "\n".join(values) for name, values in fields.items()}


def release_fields(prefix: Path) -> Stanza:
    """Return the fields of the suite's release file, or nothing if there is none."""
    for ending in ("_InRelease", "_Release"):
        path = prefix.with_name(prefix.name + ending)
        if path.exists():
            for stanza in stanzas(path.read_text(encoding="utf-8")):
                if "Origin" in stanza:
                    return stanza
    return {}


def find_lists(folder: Path, suite: str, architecture: str) -> tuple[Path, Path, Stanza]:
    """Return the package list, the list of English descriptions and the release fields of Debian's own archive."""
    for packages in sorted(folder.glob(f"*_dists_{suite}_{COMPONENT}_binary-{architecture}_Packages*")):
        prefix = packages.with_name(packages.name.rsplit(f"_{COMPONENT}_binary-", 1)[0])
        release = release_fields(prefix)
        # A vendor's archive may use the same suite name.
        if release.get("Origin") != "Debian":
            continue
        translations = sorted(folder.glob(f"{prefix.name}_{COMPONENT}_i18n_Translation-en*"))
        if not translations:
            raise SystemExit("no Translation-en list: run `apt-get -o Acquire::Languages=en update`")
        return packages, translations[0], release
    raise SystemExit(f"no Debian list of {suite}/{COMPONENT} for {architecture} in {folder}: run `apt-get update`")


def plain(description: str) -> str:
    """Return the extended description without its mark-up: one line per paragraph or list item."""
    parts: list[list[str]] = []
    new = True
    for line in description.splitlines():
        if line.strip() in {"", "."}:
            new = True
            continue
        bullet = BULLET.match(line)
        words = line[bullet.end() :].split() if bullet else line.split()
        if bullet:
            parts.append(["-", *words])
        elif new:
            parts.append(words)
        else:
            parts[-1].extend(words)
        new = False
    return "\n".join(" ".join(words) for words in parts if words)


def cut(text: str, limit: int) -> str:
    """Return the text, cut at the last word boundary within the limit if it is longer; 0 means no limit."""
    if not limit or len(text) <= limit:
        return text
    return re.sub(r"\s+\S*$", "", text[: limit + 1])


def read_vocabulary(path: Path) -> dict[str, dict[str, Any]]:
    """Return the label record of every tag of the vocabulary."""
    records: dict[str, dict[str, Any]] = {}
    for stanza in stanzas(path.read_text(encoding="utf-8")):
        if "Tag" in stanza and stanza.get("Description"):
            name, _, longer = stanza["Description"].partition("\n")
            tag = stanza["Tag"]
            records[tag] = {"label": tag, "name": name, "alt_names": [], "description": plain(longer)}
    return records


def is_topical(tag: str) -> bool:
    """Tell whether a tag says what a package is about."""
    facet, _, value = tag.partition("::")
    return facet not in TRIVIAL_FACETS and tag not in TRIVIAL_TAGS and value != PLACEHOLDER


def make_texts(
    packages: Iterable[Stanza], descriptions: dict[str, str], known: Iterable[str], limit: int
) -> tuple[list[dict[str, Any]], Counter[str]]:
    """Return the text records, sorted by package name, and how many packages were left out for which reason."""
    topical = {tag for tag in known if is_topical(tag)}
    chosen: dict[str, dict[str, Any]] = {}
    left_out: Counter[str] = Counter()
    for stanza in packages:
        package = stanza["Package"]
        labels = sorted(topical.intersection(re.split(r"[,\s]+", stanza.get("Tag", ""))))
        if not labels:
            left_out["no topical tag"] += 1
            continue
        # The package list has the short description only; the sum names the full one.
        full = descriptions.get(stanza.get("Description-md5", ""), stanza.get("Description", ""))
        short, _, longer = ADDRESS.sub("", full).partition("\n")
        body = plain(longer)
        if TRANSITIONAL.search(f"{short}\n{body[:OPENING]}"):
            left_out["transitional"] += 1
        elif not short or not body:
            left_out["no description"] += 1
        elif package in chosen:
            left_out["second version"] += 1
        else:
            stop = "" if short.endswith((".", "!", "?")) else "."
            # "Source" is absent where it equals the package, and may end in a version in brackets.
            source = stanza.get("Source", package).split(" ", 1)[0]
            text = f"{package}: {' '.join(short.split())}{stop} {cut(body, limit)}"
            chosen[package] = {"key": source, "text": text, "labels": labels}
    return [{"text_id": i, **chosen[package]} for i, package in enumerate(sorted(chosen))], left_out


def write_jsonl(path: Path, records: Iterable[dict[str, Any]]) -> None:
    """Write the records as compressed JSON lines."""
    lines = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    # No time and no file name in the header, so that the bytes depend on the records alone.
    with path.open("wb") as raw, gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=raw, mtime=0) as out:
        out.write(lines.encode("utf-8"))


def main() -> None:
    """Make the snapshot and print its figures."""
    parser = argparse.ArgumentParser(description="Make the debtags data set from this machine's apt lists.")
    parser.add_argument("--lists", type=Path, default=Path("/var/lib/apt/lists"), help="folder of the apt lists")
    parser.add_argument("--vocabulary", type=Path, default=Path("/usr/share/debtags/vocabulary"))
    parser.add_argument("--output", type=Path, default=Path(__file__).resolve().parent, help="folder to write to")
    parser.add_argument("--suite", help="code name of the release; this machine's if not given")
    parser.add_argument("--architecture", help="Debian architecture; this machine's if not given")
    parser.add_argument("--max-chars", type=int, default=600, help="cut long descriptions here; 0 keeps them whole")
    arguments = parser.parse_args()

    suite = arguments.suite or platform.freedesktop_os_release()["VERSION_CODENAME"]
    architecture = (
        arguments.architecture
        or subprocess.run(["dpkg", "--print-architecture"], check=True, capture_output=True, text=True).stdout.strip()
    )
    packages, translation, release = find_lists(arguments.lists, suite, architecture)
    descriptions = {
        stanza["Description-md5"]: stanza["Description-en"]
        for stanza in stanzas(read_list(translation))
        if "Description-en" in stanza
    }
    vocabulary = read_vocabulary(arguments.vocabulary)
    texts, left_out = make_texts(stanzas(read_list(packages)), descriptions, vocabulary, arguments.max_chars)
    counts = Counter(label for text in texts for label in text["labels"])

    arguments.output.mkdir(parents=True, exist_ok=True)
    write_jsonl(arguments.output / "texts.jsonl.gz", texts)
    write_jsonl(arguments.output / "labels.jsonl.gz", [vocabulary[label] for label in sorted(counts)])

    print(f"Debian {release.get('Version', '')} {suite}/{COMPONENT} {architecture}, {release.get('Date', '')}")
    print(f"{len(texts)} texts of {len({text['key'] for text in texts})} source packages, {len(counts)} labels")
    print(f"{sum(counts.values()) / max(len(texts), 1):.2f} labels per text")
    print("left out:", ", ".join(f"{number} {reason}" for reason, number in sorted(left_out.items())))
    print("most frequent:", ", ".join(f"{label} {number}" for label, number in counts.most_common(10)))


if __name__ == "__main__":
    main()
