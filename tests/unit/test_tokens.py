"""The tokeniser: what is a token, and what the settings do to it."""

from __future__ import annotations

import pickle
import re
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusion.errors import SetupError
from fusion.retrieval.tokens import HOLD_MARKS, STOP_WORDS, Tokenizer, _stemmer


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("It's X-ray_2: 3.5%", ["it", "s", "x", "ray", "2", "3", "5"]),
        ("  \t\n--- ...", []),
        ("", []),
        ("Čeština, ελληνικά; русский", ["čeština", "ελληνικά", "русский"]),
        # The same letters, composed and decomposed, with a ligature and in full width.
        ("cafe\u0301 caf\u00e9", ["caf\u00e9", "caf\u00e9"]),
        ("\ufb01ne \uff21\uff22\uff11", ["fine", "ab1"]),
        # Vowel signs and viramas are marks: without them, Hindi words would fall apart.
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        # A mark that composes with nothing stays in its word; one without a letter is nothing.
        ("x\u0301y q\u0301 _\u0301z", ["x\u0301y", "q\u0301", "z"]),
        ("東京都 2024年", ["東京都", "2024年"]),
    ],
)
def test_tokens(text: str, tokens: list[str]) -> None:
    assert Tokenizer()(text) == tokens


def test_case_is_kept_on_demand() -> None:
    assert Tokenizer(lowercase=False)("Data ÉTÉ data") == ["Data", "ÉTÉ", "data"]


def test_short_tokens_are_dropped() -> None:
    assert Tokenizer(min_length=3)("a ab abc abcd éé ééé") == ["abc", "abcd", "ééé"]


def test_stop_words_are_dropped_in_any_case() -> None:
    assert Tokenizer(stop_words="english")("The cat is on THE mat") == ["cat", "mat"]
    assert Tokenizer(stop_words="english", lowercase=False)("The cat is on THE mat") == ["cat", "mat"]
    assert len(STOP_WORDS["english"]) == 33


def test_stemming_comes_last() -> None:
    pytest.importorskip("Stemmer")
    # `this` is a stop word and `thi` its stem; `go` would be too short, but `goes` is not.
    tokens = Tokenizer(stop_words="english", stemmer="english", min_length=4)("this goes running RUNS run")
    assert tokens == ["goe", "run", "run"]


def test_a_missing_stemmer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    _stemmer.cache_clear()
    monkeypatch.setitem(sys.modules, "Stemmer", None)
    with pytest.raises(SetupError, match=r"'\.\[stemming\]'"):
        Tokenizer(stemmer="english").check()
    Tokenizer().check()


def test_workers_get_the_same_tokenizer() -> None:
    tokenizer = Tokenizer(stop_words="english", min_length=2)
    assert pickle.loads(pickle.dumps(tokenizer)) == tokenizer


@given(st.text(max_size=60))
def test_tokens_are_runs_of_letters_digits_and_marks(text: str) -> None:
    """Against the definition, character by character."""
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).lower())
    runs: list[str] = [""]
    for character in text:
        mark = unicodedata.category(character).startswith("M")
        if (mark and runs[-1]) or (not mark and re.fullmatch(r"[^\W_]", character)):
            runs[-1] += character
        else:
            runs.append("")
    assert Tokenizer()(text) == [run for run in runs if run]


def test_no_mark_lies_elsewhere() -> None:
    marks = (code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code))[0] == "M")
    assert not [code for code in marks if not any(code in held for held in HOLD_MARKS)]
