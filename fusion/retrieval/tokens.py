r"""Tokens: the words of a text, as sparse retrieval counts them.

A text is put into Unicode's normal form NFKC, put in lower case, and cut into tokens: a token is a maximal run
of letters and digits of any script, with the combining marks that belong to them. As a regular expression, where
`\M` stands for the marks (Unicode categories Mn, Mc and Me):

    [^\W_]+(?:\M+[^\W_]*)*

Everything else separates: white space, punctuation, hyphens, apostrophes, underscores, symbols. So `It's X-ray_2`
gives `it s x ray 2`. Scripts written without spaces, such as Chinese, give one token for each run.
Tokens that are too short are dropped, then stop words, and the rest is stemmed if asked for.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, Literal

from fusion.errors import SetupError

_LUCENE = """a an and are as at be but by for if in into is it no not of on or such that the their then there these
they this to was will with"""
STOP_WORDS = {"none": frozenset[str](), "english": frozenset(_LUCENE.split())}
"""For English, Lucene's classic list."""

HOLD_MARKS = range(0x300, 0x20000), range(0xE0000, 0xE1000)
"""Where Unicode has its marks: to look at every character of it would take half a second of every process."""
_PLAIN = re.compile(r"[^\W_]+")
"""The expression above, for texts without marks: the same tokens, several times faster."""


@dataclass(frozen=True)
class Tokenizer:
    """From a text to its tokens. Small and picklable, so that Python workers get it as it is."""

    lowercase: bool = True
    stop_words: Literal["none", "english"] = "none"
    stemmer: Literal["none", "english"] = "none"
    min_length: int = 1
    """Shorter tokens are dropped; counted in characters, before stemming."""

    def __call__(self, text: str) -> list[str]:
        if text.isascii():
            tokens = _PLAIN.findall(text.lower() if self.lowercase else text)
        else:
            # Lower case may take a text out of its normal form, so it is normalised last.
            text = unicodedata.normalize("NFKC", text)
            text = unicodedata.normalize("NFKC", text.lower()) if self.lowercase else text
            marks, with_marks = _marks()
            tokens = (_PLAIN if marks.isdisjoint(text) else with_marks).findall(text)
        if self.min_length > 1:
            tokens = [token for token in tokens if len(token) >= self.min_length]
        if self.stop_words != "none":
            dropped = STOP_WORDS[self.stop_words]
            tokens = [token for token in tokens if token.lower() not in dropped]
        return tokens if self.stemmer == "none" else _stemmer(self.stemmer).stemWords(tokens)

    def check(self) -> None:
        """Refuse a stemmer that is not installed, before any work is done."""
        if self.stemmer != "none":
            _stemmer(self.stemmer)


@lru_cache(maxsize=1)
def _marks() -> tuple[frozenset[str], re.Pattern[str]]:
    """All marks, and the expression with the marks spelt out, since Python's `re` knows no Unicode categories."""
    marks = [chr(code) for code in chain(*HOLD_MARKS) if unicodedata.category(chr(code))[0] == "M"]
    return frozenset(marks), re.compile(rf"[^\W_]+(?:[{''.join(marks)}]+[^\W_]*)*")


@lru_cache(maxsize=4)
def _stemmer(language: str) -> Any:
    try:
        import Stemmer
    except ImportError:
        raise SetupError(
            f"the stemmer {language!r} needs PyStemmer, which is not installed: pip install '.[stemming]', "
            "or set sparse.tokenizer.stemmer to none"
        ) from None
    return Stemmer.Stemmer(language)
