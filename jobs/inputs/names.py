"""Words for ids: the names of labels and the beginnings of texts, where the inputs hold them."""

from __future__ import annotations

from collections.abc import Sequence

from jobs.inputs.sources import Source, Sources, source_format, source_name
from jobs.inputs.tables import T, Tables

EXCERPT = 300
"""Characters of a text that are shown."""


def label_names(tables: Tables[T], sources: Sources, label_ids: Sequence[str]) -> dict[str, str]:
    """The names of some labels: a prepared dataset's label table has a column `name`."""
    if sources.groups_word is not None:
        return {}
    return _words(tables, sources.label_groups, "label groups", "label_id", "name", label_ids)


def text_excerpts(tables: Tables[T], sources: Sources, text_ids: Sequence[str]) -> dict[str, str]:
    """The beginnings of some texts: a prepared dataset's samples have a column `text`."""
    if sources.judgements is None:
        return {}
    texts = _words(tables, sources.judgements, "judgements", "text_id", "text", text_ids)
    return {text_id: " ".join(text[: 4 * EXCERPT].split())[:EXCERPT] for text_id, text in texts.items()}


def _words(tables: Tables[T], source: Source, name: str, key: str, value: str, ids: Sequence[str]) -> dict[str, str]:
    """The values of some ids; nothing where the table has no such column."""
    if isinstance(source, str) and source_format(source)[0] == "trec":
        return {}
    table = tables.read(source, source_name(source, name))
    kinds = tables.columns(table)
    if kinds.get(value) != "string" or key not in kinds or not ids:
        return {}
    rows = tables.arrow(tables.having(table, key, ids), [key, value])
    pairs = zip(rows[key].to_pylist(), rows[value].to_pylist(), strict=True)
    return {str(number): word for number, word in pairs if word is not None}
