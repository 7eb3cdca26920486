"""Job `init`: which columns of a file hold ids, texts and labels, guessed from their names and first values."""

from __future__ import annotations

import os
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fusion.errors import ConfigError, InputError, OutputError, visible
from jobs.datasets.look import Head, look
from jobs.settings.reference import yaml_value
from udfs.datasets.records import SEPARATORS, elements
from udfs.stores.addresses import has_scheme

COLUMNS = ("text_id", "text", "labels")
"""The settings of columns that are guessed."""
IDS = ("text_id", "id", "doc_id", "docid", "document_id", "uid", "uuid", "idx", "identifier", "nr", "number", "key")
TITLES = ("title", "headline", "heading", "caption")
BODIES = (
    "text",
    "abstract",
    "body",
    "content",
    "description",
    "summary",
    "full_text",
    "fulltext",
    "document",
    "article",
)
LABELS = (
    *("labels", "label", "tags", "tag", "topics", "topic", "categories", "category", "subjects", "subject", "classes"),
    *("class", "keywords", "descriptors", "genres", "genre", "codes", "concepts", "target", "targets", "annotations"),
)
LANGUAGES = ("language", "lang", "locale")
CODE = re.compile(r"[A-Za-z]{0,4}[-_.:/]?\d[\w.:/-]*")
"""A label that is a number or a notation and says nothing by itself."""
LIST_AS_TEXT = re.compile(r"\s*\[.*\]\s*", re.DOTALL)
LABEL_FILE = re.compile(r"label|lbl|class|topic|tag", re.IGNORECASE)
WORDY = 3.0
"""Words per value from which on a column may be a text."""
FEW = 200
"""Texts below which five folds with a tenth for validation leave too little of either."""
FOR_FEW: Mapping[str, Any] = {"folds": 3, "validation_share": 0.3}
"""The settings of prepare for fewer texts."""
STOP_WORDS = {
    "English": "the of and to in is for with on that by are from as",
    "German": "der die das und ist von mit für den im auf des ein eine nicht",
    "French": "le la les des et est dans pour une sur par du au que",
    "Spanish": "el la los las y es para una con por del en que se",
    "Italian": "il la gli che di è per una con del della in sono si",
    "Dutch": "de het een en van is voor met op dat niet zijn te in",
    "Portuguese": "o a os as e é para uma com por do da em que",
    "Polish": "i w na z do się nie jest że od przez dla oraz po",
}
CERTAIN = 0.05
"""The share of words that are stop words of a language, for a text to be in it."""


@dataclass
class Guess:
    """What was guessed about a file, and from what."""

    head: Head
    text_id: str | None = None
    text: list[str] = field(default_factory=list)
    labels: str = ""
    separator: str | None = None
    label_file: str | None = None
    label_columns: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    """A sentence on each of the things that were guessed."""

    def lines(self) -> list[str]:
        width = max(map(len, self.reasons))
        return [visible(f"{name:<{width}}  {reason}") for name, reason in self.reasons.items()]


def guess(path: str, given: Mapping[str, Any]) -> Guess:
    """What a file holds; `given` says what its user knows: the columns text_id, text and labels."""
    head = look(path)
    guessed = Guess(head)
    kind = f"{head.format}, {head.delimiter} between the columns" if head.delimiter else head.format
    count = f"{head.rows:,} texts" if head.whole else f"the first {head.rows:,} texts were looked at"
    guessed.reasons["file"] = f"{kind}; {count}; columns: {', '.join(head.columns)}"
    _check_given(head, given)
    _guess_labels(guessed, given.get("labels"))
    _guess_text(guessed, given.get("text"))
    _guess_id(guessed, given.get("text_id"))
    _guess_language(guessed)
    _guess_names(guessed, path)
    return guessed


def _check_given(head: Head, given: Mapping[str, Any]) -> None:
    for option, names in given.items():
        for name in _listed(names):
            if name not in head.columns:
                raise ConfigError(f"{head.source} has no column {name!r} ({option}); it has {', '.join(head.columns)}")


def _listed(names: str | list[str]) -> list[str]:
    """Columns as they are given: one, several with commas between them, or a list."""
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)


def _named(head: Head, names: Sequence[str]) -> list[str]:
    """The columns with one of some names, in the order of these."""
    plain = {re.sub(r"[\s-]+", "_", name.strip()).lower(): name for name in head.columns}
    return [plain[name] for name in names if name in plain]


def _strings(head: Head, column: str) -> list[str]:
    """The values of a column that are strings and not blank."""
    return [value for value in head.columns[column] if isinstance(value, str) and value.strip()]


def _is_list(head: Head, column: str) -> bool:
    values = [value for value in head.columns[column] if value is not None]
    return bool(values) and all(isinstance(value, list) for value in values)


def _words(values: Sequence[str]) -> float:
    return sum(len(value.split()) for value in values) / max(len(values), 1)


def _guess_labels(guessed: Guess, given: str | None) -> None:
    head = guessed.head
    lists = [name for name in head.columns if _is_list(head, name)]
    named = _named(head, LABELS)
    candidates = [given] if given else [name for name in named if name in lists] or lists or named
    if not candidates:
        candidates = [name for name in head.columns if name not in _named(head, IDS) and _repeats(head, name)]
    if len(candidates) != 1 and not (candidates and candidates[0] in named):
        what = f"{' and '.join(map(repr, candidates))} may hold labels" if candidates else "no column looks like labels"
        raise InputError(
            f"{head.source}: {what}; say which one does with --labels COLUMN. The columns: {', '.join(head.columns)}"
        )
    guessed.labels = candidates[0]
    guessed.separator, how = _label_form(head, guessed.labels)
    every = _label_values(guessed)
    if not every:
        raise InputError(f"{head.source}: column {guessed.labels!r} holds no label")
    why = "as you said" if given else "by its name" if guessed.labels in named else "since its values repeat"
    shown = ", ".join(label for label, _ in Counter(every).most_common(3))
    numbers = f"{len(set(every)):,} different ones, {len(every) / head.rows:.1f} per text; {shown}"
    guessed.reasons["labels"] = f"{guessed.labels}, {why}; {how}, {numbers}"


def _label_form(head: Head, column: str) -> tuple[str | None, str]:
    """What is between the labels of a column, None if they are lists; and the same in words."""
    if _is_list(head, column):
        return None, "lists"
    values = [str(value) for value in head.columns[column] if value is not None]
    if values and all(LIST_AS_TEXT.fullmatch(value) for value in values):
        raise InputError(
            f"{head.source}: column {column!r} holds lists that were written as text, as in {values[0][:60]!r}; write "
            "JSON lines, or labels with ; between them"
        )
    separator = _separator(values)
    return separator, "one label each" if separator == "single" else f"strings with a {separator} between labels"


def _label_values(guessed: Guess) -> list[str]:
    """The labels of all records that were looked at."""
    values = [value for value in guessed.head.columns[guessed.labels] if value is not None]
    if guessed.separator is None:
        return [str(label) for value in values for label in value]
    return [label for value in values for label in elements(str(value), SEPARATORS[guessed.separator])]


def _repeats(head: Head, column: str) -> bool:
    """Whether the values of a column, taken apart, are short and occur again and again."""
    values = _strings(head, column)
    if not values or _words(values) > 4 * WORDY:
        return False
    pieces = [piece for value in values for piece in elements(value, SEPARATORS[_separator(values)])]
    return len(values) > 0.5 * head.rows and len(set(pieces)) <= 0.5 * len(pieces) and _words(pieces) <= 5


def _separator(values: Sequence[str]) -> str:
    """What is between labels: the first of these that many values have; white space only between notations."""
    for name, least in (("semicolon", 0.05), ("pipe", 0.05), ("tab", 0.05), ("comma", 0.1)):
        having = [value for value in values if re.search(SEPARATORS[name], value)]
        if len(having) > least * len(values) and _words(elements(";".join(having), SEPARATORS[name])) < 8:
            return name
    several = [value for value in values if len(value.split()) > 1]
    if several and all(CODE.fullmatch(word) for value in several for word in value.split()):
        return "space"
    return "single"


def _guess_text(guessed: Guess, given: str | list[str] | None) -> None:
    head = guessed.head
    if given:
        guessed.text = _listed(given)
        guessed.reasons["text"] = f"{' + '.join(guessed.text)}, as you said"
        return
    free = [name for name in head.columns if name != guessed.labels and _strings(head, name)]
    titles = [name for name in _named(head, TITLES) if name in free]
    bodies = [name for name in _named(head, BODIES) if name in free]
    if not bodies:
        wordy = [name for name in free if name not in titles and _words(_strings(head, name)) >= WORDY]
        bodies = sorted(wordy, key=lambda name: -_words(_strings(head, name)))
    guessed.text = [*titles[:1], *bodies[:1]]
    if not guessed.text:
        raise InputError(
            f"{head.source}: no column looks like a text; say which ones do with --text COLUMN, or --text TITLE,TEXT. "
            f"The columns: {', '.join(head.columns)}"
        )
    words = sum(_words(_strings(head, name)) for name in guessed.text)
    by_name = all(name in _named(head, (*TITLES, *BODIES)) for name in guessed.text)
    why = "by name" if by_name else "the column with the most words"
    guessed.reasons["text"] = f"{' + '.join(guessed.text)}, {why}; {words:,.0f} words per text"


def _guess_id(guessed: Guess, given: str | None) -> None:
    head = guessed.head
    if given:
        if (repeated := _repeated(head.columns[given])) is not None:
            raise InputError(f"{head.source}: column {given!r} cannot hold the ids: {repeated!r} occurs more than once")
        guessed.text_id, guessed.reasons["id"] = given, f"{given}, as you said"
        return
    ending = [name for name in head.columns if re.search(r"(^|[_\s-])id$", name, re.IGNORECASE)]
    free = [
        name for name in dict.fromkeys([*_named(head, IDS), *ending]) if name not in (guessed.labels, *guessed.text)
    ]
    for name in free:
        values = head.columns[name]
        repeated = _repeated(values)
        if repeated is None and all(isinstance(value, str | int) and str(value).strip() for value in values):
            guessed.text_id = name
            guessed.reasons["id"] = f"{name}, by its name; every value is different, as in {values[0]!r}"
            return
        reason = "some values are missing" if repeated is None else f"{repeated!r} occurs more than once"
        guessed.reasons["id"] = f"none, texts are numbered; {name} is not one, since {reason}"
    guessed.reasons.setdefault("id", "none, texts are numbered in the order of the file")


def _repeated(values: Sequence[Any]) -> str | None:
    """A value that occurs more than once."""
    return next((value for value, count in Counter(map(str, values)).most_common(1) if count > 1), None)


def _guess_language(guessed: Guess) -> None:
    head = guessed.head
    for name in _named(head, LANGUAGES):
        counts = Counter(_strings(head, name)).most_common(3)
        shown = ", ".join(f"{value} ({count:,})" for value, count in counts)
        guessed.reasons["language"] = f"{shown}, from the column {name}"
        return
    sample = " ".join(value for name in guessed.text for value in _strings(head, name)[:FEW])
    words = re.findall(r"\w+", sample.lower())
    shares = {
        language: sum(map(Counter(words).__getitem__, stop_words.split())) / max(len(words), 1)
        for language, stop_words in STOP_WORDS.items()
    }
    best = max(shares, key=lambda language: shares[language])
    guessed.reasons["language"] = (
        f"{best}, since {100 * shares[best]:.0f}% of the words are its most frequent ones"
        if shares[best] >= CERTAIN
        else "not recognised; the default retrievers work with any"
    )


def _guess_names(guessed: Guess, path: str) -> None:
    """Whether labels say what they mean: as they are, or through a file of labels next to the texts."""
    labels = set(_label_values(guessed))
    codes = sum(1 for label in labels if CODE.fullmatch(label))
    if 2 * codes < len(labels):
        guessed.reasons["names"] = "the labels are words, and are their own names"
        return
    for file in _label_files(guessed.head.source, path):
        columns = _label_columns(file, labels)
        if columns:
            guessed.label_file, guessed.label_columns = posixpath.basename(file), columns
            where = f"{guessed.label_file}, whose {columns['label']} has the labels"
            guessed.reasons["names"] = f"{columns['name']} of {where}"
            return
    remedy = "if a file has their names, set prepare.label_file, so that the words of labels are used"
    guessed.reasons["names"] = f"none, since the labels are codes; {remedy}"


def _label_files(source: str, path: str) -> list[str]:
    """Files next to that of the texts that are called after labels."""
    if has_scheme(path):
        return []
    files = [file for file in sorted(Path(source).parent.iterdir()) if LABEL_FILE.search(file.name)]
    return [str(file) for file in files if file.is_file() and file != Path(source)]


def _label_columns(file: str, labels: Iterable[str]) -> dict[str, str] | None:
    """The columns of a file of labels with the labels and their names; None if it is no such file."""
    try:
        head = look(file)
    except InputError:
        return None
    wanted = set(labels)
    for name, values in head.columns.items():
        if wanted <= {str(value) for value in values if not isinstance(value, list)}:
            others = [other for other in head.columns if other != name and _strings(head, other)]
            called = [*_named(head, ("name", "label_name", "title", "preflabel")), *others]
            return {"label": name, "name": next((other for other in called if other in others), name)}
    return None


def settings_of(guessed: Guess, path: str, output: str | None) -> dict[str, Any]:
    """The settings of the dataset; its folder is as seen from the file that they are written to."""
    head = guessed.head
    folder, name = posixpath.split(path)
    if not has_scheme(path):
        folder = os.path.relpath(folder or ".", Path(output).parent if output else ".")
    prepare: dict[str, Any] = {"format": head.format}
    if folder not in ("", "."):
        prepare["folder"] = folder
    prepare["parts"] = [{"name": "all", "texts": name}]
    if head.delimiter not in (None, "comma"):
        prepare["delimiter"] = head.delimiter
    if guessed.separator and (head.format, guessed.separator) != ("csv", "single"):
        prepare["label_separator"] = guessed.separator
    if guessed.label_file:
        prepare["label_file"] = guessed.label_file
    text = guessed.text[0] if len(guessed.text) == 1 else guessed.text
    columns = {"text_id": guessed.text_id, "text": text, "labels": guessed.labels, **guessed.label_columns}
    prepare["columns"] = {key: value for key, value in columns.items() if value is not None}
    if head.whole and head.rows < FEW:
        prepare |= FOR_FEW
    return {"dataset": _dataset(name), "prepare": prepare}


def _written(settings: Mapping[str, Any]) -> str:
    """The configuration as YAML."""
    lines = [f"  {key}: {yaml_value(value)}" for key, value in settings["prepare"].items()]
    return "\n".join([f"dataset: {yaml_value(settings['dataset'])}", "prepare:", *lines]) + "\n"


def _dataset(name: str) -> str:
    stem = re.sub(r"(\.(jsonl|json|ndjson|csv|tsv|txt|parquet|gz))+$", "", name, flags=re.IGNORECASE)
    return re.sub(r"[^\w-]+", "-", stem, flags=re.ASCII).strip("-") or "my-dataset"


def run(path: str, output: str | None, given: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Write the configuration for a file of texts; its content, and what was guessed."""
    if output is not None and Path(output).exists():
        raise OutputError(f"{output} is there already: remove it, or choose another name with --output")
    guessed = guess(path, given)
    content = _written(settings_of(guessed, path, output))
    if output is not None:
        try:
            Path(output).parent.mkdir(parents=True, exist_ok=True)
            Path(output).write_text(content, encoding="utf-8")
        except OSError as error:
            raise OutputError(f"cannot write {output}: {error}") from None
    return content, guessed.lines()
