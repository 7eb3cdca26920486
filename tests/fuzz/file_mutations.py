"""What can be done to how a file is written, once its rows are settled: lines, JSON, YAML, bytes and compression."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import re
import zlib
from typing import Any

from tests.fuzz.hostile_data import json_id
from tests.fuzz.mutations import AGREED, ANY, EITHER, REFUSED, TAKEN, TREC, Apply, Case, add, mutation


def _before(prefix: Any) -> Apply:
    return lambda case, content: prefix + content


def _after(suffix: Any) -> Apply:
    return lambda case, content: content + suffix


def _flipped(content: bytes, rng: random.Random, first: int, stop: int) -> bytes:
    """With one bit the other way round."""
    place = rng.randrange(first, stop)
    return content[:place] + bytes([content[place] ^ (1 << rng.randrange(8))]) + content[place + 1 :]


# Lines, and the white space between words.
def _replaced(old: str, new: str, count: int = -1) -> Apply:
    def apply(case: Case, text: str) -> str | None:
        changed = text.replace(old, new, count)
        return changed if changed != text else None

    return apply


def _first(pattern: Any, new: Any) -> Apply:
    def apply(case: Case, text: Any) -> Any:
        changed, count = re.subn(pattern, lambda found: found.expand(new), text, count=1)
        return changed if count else None

    return apply


LINES = ("trec", "jsonl", "lines", "yaml")
add("CRLF", "text", TAKEN, LINES, _replaced("\n", "\r\n"))
add("CR", "text", EITHER, ["trec", "eval jsonl"], _replaced("\n", "\r"))
add("blank lines", "text", TAKEN, ["trec", "jsonl", "yaml"], _replaced("\n", "\n\n"))
add("a line of blanks", "text", TAKEN, ["trec", "jsonl"], _replaced("\n", "\n \t \n", 1))
add("no last line break", "text", TAKEN, LINES, lambda case, text: text.removesuffix("\n"))
add("tabs", "text", TAKEN, "trec", _replaced(" ", "\t"))
add("form feeds", "text", TAKEN, "trec", _replaced(" ", " \f\x0b "))
add("blanks at both ends", "text", TAKEN, "trec", _replaced("\n", " \t\n "))
for _blank in ("\u00a0", "\u2003", "\u3000", "\x1c", "\x85", "\u2028", "\u200b", ","):
    add(f"blank {_blank!r}", "text", REFUSED, "trec", _replaced(" ", _blank, 1))
for _end in ("\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\\n"):
    add(f"line end {_end!r}", "text", REFUSED, "trec", _replaced("\n", _end, 1))
for _line in ("# a comment", "text_id label_id score", "one", "a b c d e f g", "t0 Q0 l0 1 0.5 my tag", "t0,0,l0,1"):
    add(f"line {_line!r}", "text", REFUSED, "trec", _before(f"{_line}\n"))
add("nothing", "text", REFUSED, [*LINES[:3], "ranx"], lambda case, text: "")
add("only blanks", "text", REFUSED, ["trec", "eval json"], lambda case, text: " \n\t\n")
add("NUL in a number", "text", REFUSED, TREC, _first(r"(-?[\d.]+)( tag)?\n", "\\1\x00\\2\n"))


# JSON.
@mutation("a key twice", "text", REFUSED, "jsonl")
def _(case: Case, text: str) -> str:
    line = json.loads(text.splitlines()[0])
    name = case.rng.choice(list(line))
    again = line[name][::-1] if isinstance(line[name], list) else "zz"
    return text.replace("}\n", f", {json.dumps(name)}: {json_id(again)}}}\n", 1)


add("a line twice", "text", REFUSED, "run jsonl", lambda case, text: text + text.partition("\n")[0])
add(
    "a text twice",
    "text",
    REFUSED,
    "ranx",
    lambda case, text: f'{text[:-1]}, {json_id(case.row["text_id"])}: {{"l": 9.0}}}}',
)
add("escapes", "text", TAKEN, "json", lambda case, text: _escaped(text))
add("apostrophes", "text", REFUSED, "json", _replaced('"', "'"))
add("a comma too many", "text", REFUSED, "json", _first(r"\}", ",}"))
add("a comment", "text", REFUSED, "json", _first(r"\{", "{/* why */"))
add("bare keys", "text", REFUSED, "jsonl", _first(r'"(text_id|text)"', r"\1"))
add("text after it", "text", REFUSED, "json", _first(r"\}(\n|$)", r"} x\1"))
add("two objects on a line", "text", REFUSED, "jsonl", _first(r"\}\n", "} "))
add("an object on two lines", "text", REFUSED, "jsonl", _first(r", ", ",\n"))
add("a list of objects", "text", REFUSED, "eval json", lambda case, text: f"[{','.join(text.splitlines())}]")
add("half of it", "text", REFUSED, "json", lambda case, text: text[: text.rindex('"') - 1])
add("an id less", "text", REFUSED, "new jsonl", _first(r'"text_id": "[^"]*", ', ""))
add("a bad escape", "text", REFUSED, "json", _first(r'"(t|l|\d)', r'"\\q\1'))
add("a raw control character", "text", REFUSED, "json", _first(r'": ', '\x01": '))
add("a lone surrogate", "text", REFUSED, "json", _first(r'"(l|t|\d)(\d+)"', r'"\\ud800\1"'))
add("a key more", "text", TAKEN, "jsonl", _first(r"\}\n", ', "note": {"x": [1, null, "é"]}}\n'))
add("a key of another case more", "text", EITHER, "jsonl", _first(r"\}\n", ', "TEXT_ID": "zz", "TEXT": "zz"}\n'))
add("a deep value", "text", EITHER, "jsonl", _first(r"\}\n", ', "note": ' + "[" * 100_000 + "]" * 100_000 + "}\n"))
add("a deep label", "text", REFUSED, "ranx", _first(r": (-?\d[^,}]*)", ": " + "[" * 100_000 + r"\1" + "]" * 100_000))
for _key in ("text_id", "label_ids", "scores"):
    add(f"{_key} is missing", "text", REFUSED, "run jsonl", _first(rf'"{_key}"', '"other"'))
    add(f"{_key} is null", "text", REFUSED, "run jsonl", _first(rf'("{_key}": )("[^"]*"|\[[^\]]*\])', r"\1null"))
    add(f"{_key} is an object", "text", REFUSED, "run jsonl", _first(rf'("{_key}": )("[^"]*"|\[[^\]]*\])', r"\1{}"))
add("label_ids is a string", "text", REFUSED, "run jsonl", _first(r'("label_ids": )\[[^\]]*\]', r'\1"l1"'))
add("a score too many", "text", REFUSED, "run jsonl", _first(r'("scores": \[)', r"\g<1>9.5, "))
add("a label too many", "text", REFUSED, "run jsonl", _first(r'("label_ids": \[)', r'\1"zz", '))
add("an id that is true", "text", REFUSED, "run jsonl", _first(r'("text_id": )"[^"]*"', r"\1true"))
add("an id that is a number", "text", EITHER, "run jsonl", _first(r'("text_id": )"(\d+)"', r"\1\2"))
add("an id that is a fraction", "text", REFUSED, "run jsonl", _first(r'("text_id": )"[^"]*"', r"\g<1>1.5"))
add("a label that is null", "text", REFUSED, "run jsonl", _first(r'("label_ids": \[)"[^"]*"', r"\1null"))
add("an empty list", "text", TAKEN, "run jsonl", _after('{"text_id": "98", "label_ids": [], "scores": []}\n'))
add("an empty text", "text", TAKEN, "ranx", lambda case, text: f'{text[:-1]}, "98": {{}}}}')
add("a list, not an object", "text", REFUSED, "ranx", _first(r": \{[^}]*\}", ": [1.0]"))


def _escaped(text: str) -> str:
    """Every character beyond ASCII, and the first one of each id, as an escape."""
    wide = re.sub(r"[^\x00-\x7f]", lambda found: json.dumps(found.group())[1:-1], text)
    return re.sub(r'"([tl])(\d+)"', lambda found: f'"\\u{ord(found[1]):04x}{found[2]}"', wide)


# YAML, and the lines of datasets.
for _name, _old, _new in (
    ("a key twice", "nightly:", "evaluate:\n  relevant_from: 1\nnightly:"),
    ("an inner key twice", "  relevant_from: 2", "  relevant_from: 2\n  relevant_from: 3"),
    ("a run twice", "    a: one.trec", "    a: one.trec\n    a: two.trec"),
    ("an unknown key", "nightly:", "nightyl: 1\nnightly:"),
    ("a tab", "  tolerance", "\ttolerance"),
    ("infinite", "0.25", ".inf"),
    ("no number", "0.25", ".nan"),
    ("beyond all numbers", "0.25", "1.0e+400"),
    ("negative", "0.25", "-1"),
    ("5,000 digits", "0.25", "9" * 5000),
    ("a date that is none", "0.25", "2020-13-45"),
    ("an object of Python", "0.25", "!!python/object/apply:os.getcwd []"),
    ("an unknown tag", "0.25", "!x 0.25"),
    ("a list", "0.25", "[0.25]"),
    ("deep", "0.25", "[" * 100_000 + "]" * 100_000),
    ("a control character", "0.25", "0.25\x01"),
    ("an escape beyond Unicode", '"two.trec"', '"\\UFFFFFFFF"'),
    ("a lone surrogate in YAML", '"two.trec"', '"\\ud800"'),
    ("an unclosed quote", '"two.trec"', '"two.trec'),
    ("a key that is a list", "nightly:", "[1]: 2\nnightly:"),
    ("an anchor of itself", "0.25", "&x [*x]"),
    ("an unknown anchor", "0.25", "*x"),
    ("two documents", "nightly:", "---\nnightly:"),
):
    add(f"YAML: {_name}", "text", REFUSED, "yaml", _replaced(_old, _new, 1))
add("YAML: merged keys", "text", TAKEN, "yaml", _replaced("  metrics: [ndcg@3]", "  <<: {metrics: [ndcg@3]}", 1))
add("YAML: an anchor", "text", TAKEN, "yaml", _replaced("0.25", "&x 0.25"))
add("YAML: a list of settings", "text", REFUSED, "yaml", lambda case, text: "- a\n- b\n")


@mutation("YAML: ten million laughs", "text", REFUSED, "yaml")
def _(case: Case, text: str) -> str:
    levels = [f"    l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 8)]
    return "\n".join(["retrievers:", "  own.py:", "    l0: &l0 [x]", *levels, text])


def _text(text: str) -> Apply:
    return lambda case, rows: case.row.update(text=text) or rows


for _mark in ("\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\r", "\t", "\ufeff", "\x00"):
    add(
        f"text with {_mark!r}",
        "rows",
        EITHER if _mark == "\x00" else TAKEN,
        ["texts lines", "texts records"],
        _text(f"a {_mark} b"),
    )


@mutation("a CSV column twice", "text", REFUSED, "csv")
def _(case: Case, text: str) -> str:
    made = io.StringIO()
    rows = csv.reader(io.StringIO(text, newline=""))
    csv.writer(made, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([row[-1], *row] for row in rows)
    return made.getvalue()


add("blank lines of CSV", "text", TAKEN, "csv", lambda case, text: text.replace('"\n"', '"\n\n"'))
add("a quote that stays open", "text", REFUSED, "csv", lambda case, text: f'{text}"l1')
add("a field too many", "text", REFUSED, "csv", lambda case, text: f'{text}"a","l1","b"\n')
add("a column of another name", "text", REFUSED, "csv", _replaced('"labels"', '"label"', 1))
add("a blank line", "text", REFUSED, ["lines texts", "lines labels"], _replaced("\n", "\n\n", 1))
add("a line less", "text", REFUSED, ["lines texts", "lines labels"], _first(r"[^\n]*\n", ""))
for _word in ("9", "-1", "x", "1.5", "1e1", "9" * 30, "+1", "\u0661"):
    add(f"label id {_word}", "text", REFUSED, "ids", _first(r"\d+(?=[,\n ])", _word))
for _word in ('"9"', "-1", '"x"', "1.5", "true", "null", "9" * 30, "[1]"):
    add(f"label number {_word[:9]}", "text", REFUSED, "xc", _first(r"(?<=\[)\d+", _word))
for _word in ("null", "{}", '"l1"', "[null]", '[""]', "[[1]]", "[{}]", "7", "true"):
    add(f"labels {_word}", "text", REFUSED, "texts-jsonl", _first(r'("labels": )\[[^\]]*\]', rf"\g<1>{_word}"))
add("a header of other size", "text", REFUSED, "sparse", _first(r"\d+", "7"))
add("no header", "text", REFUSED, "sparse", _first(r"[^\n]*\n", ""))
add("a pickle that runs code", "bytes", REFUSED, "pickle", lambda case, content: b"cos\nsystem\n(S'true'\ntR.")
add("a pickle cut", "bytes", REFUSED, "pickle", lambda case, content: content[: case.rng.randrange(len(content))])
add("a mark before a pickle", "bytes", REFUSED, "pickle", _before(b"\xef\xbb\xbf"))


# Bytes.
def _encoded(encoding: str) -> Apply:
    def apply(case: Case, content: bytes) -> bytes | None:
        try:
            changed = content.decode().encode(encoding)
        except UnicodeError:
            return None
        return changed if changed != content else None

    return apply


add("byte order mark", "bytes", TAKEN, "text", _before(b"\xef\xbb\xbf"))
add("two byte order marks", "bytes", AGREED, "text", _before(b"\xef\xbb\xbf" * 2))
for _encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "latin-1", "cp1252", "cp037"):
    add(f"as {_encoding}", "bytes", REFUSED, "text", _encoded(_encoding))
for _wrong in (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xe9", b"\xf5\x80\x80\x80"):
    add(f"bytes {_wrong.hex()}", "bytes", REFUSED, ["trec", "json", "yaml"], _first(rb"(?<=[tl\d])(?=\d)", _wrong))
add("NULs at the end", "bytes", EITHER, "text", _after(b"\x00" * 64))
add("NULs", "bytes", REFUSED, "eval", lambda case, content: b"\x00" * len(content))
# At the end of a line of text, or of a name, it belongs to it.
add(
    "Control-Z at the end",
    "bytes",
    EITHER,
    "text",
    lambda case, content: (
        content + b"\x1a" if content.endswith(b"\n") or case.form.kind not in ("texts", "names") else None
    ),
)
add("nothing at all", "bytes", REFUSED, "table", lambda case, content: b"")
add("cut", "bytes", REFUSED, "table", lambda case, content: content[: case.rng.randrange(len(content))])
add("cut anywhere", "bytes", AGREED, "text", lambda case, content: content[: case.rng.randrange(1, len(content))])
add("mark before a table", "bytes", REFUSED, "table", _before(b"\xef\xbb\xbf"))
add("bytes after a table", "bytes", REFUSED, "table", _after(b"more"))
for _magic in (b"PK\x03\x04", b"BZh91AY", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"):
    add(f"first bytes {_magic!r}", "bytes", REFUSED, "eval plain", _before(_magic))
add("a bit of it changed", "bytes", AGREED, "text", lambda case, content: _flipped(content, case.rng, 0, len(content)))
# Parquet has checksums of its pages, and none of its footer.
add(
    "a bit of the data changed",
    "bytes",
    EITHER,
    "table",
    lambda case, content: _flipped(content, case.rng, 4, _footer(content)),
)
add(
    "a bit of the footer changed",
    "bytes",
    ANY,
    "table",
    lambda case, content: _flipped(content, case.rng, _footer(content), len(content)),
)


def _footer(content: bytes) -> int:
    return len(content) - int.from_bytes(content[-8:-4], "little") - 8


# Compressed files.
def _packed(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


def _members(plain: bytes) -> bytes:
    return _packed(plain[:40]) + _packed(plain[40:])


add("not compressed after all", "packed", TAKEN, "gzip", lambda case, content: gzip.decompress(content))
add("two compressed members", "packed", TAKEN, "gzip", lambda case, content: _members(gzip.decompress(content)))
add("compressed twice", "packed", REFUSED, "gzip", lambda case, content: _packed(content))
add("gzip cut", "packed", REFUSED, "gzip", lambda case, content: content[: case.rng.randrange(2, len(content))])
add(
    "gzip changed",
    "packed",
    REFUSED,
    "gzip",
    lambda case, content: _flipped(content, case.rng, len(content) - 8, len(content)),
)
add("bytes after gzip", "packed", EITHER, "gzip", _after(b"more"))
add("NULs after gzip", "packed", EITHER, "gzip", _after(b"\x00" * 32))
add("gzip without its name", "bytes", TAKEN, ["trec plain", "eval json plain"], lambda case, content: _packed(content))


@mutation("a gzip bomb", "packed", REFUSED, "eval gzip")
def _(case: Case, content: bytes) -> bytes:
    """100 MB of blanks before the end."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    plain = gzip.decompress(content)
    head = packer.compress(plain[:-1])
    blanks = b"".join(packer.compress(b" " * (1 << 20)) for _ in range(100))
    return head + blanks + packer.compress(plain[-1:]) + packer.flush()
