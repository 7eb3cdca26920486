"""The errors users see. Each message says what was wrong, where, and what to do."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from difflib import get_close_matches

JOINERS = "\u200c\u200d"
"""Within words of some scripts, and within emoji."""
HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Categories of Unicode: controls, marks of format and direction, halves of characters, ends of lines."""


def visible(text: str, lines: bool = False) -> str:
    """The text with every control character written out as its escape, line breaks too unless `lines` are kept."""
    if text.isprintable():
        return text
    kept = JOINERS + "\n\t" * lines
    return "".join(
        sign.encode("unicode_escape").decode() if unicodedata.category(sign) in HIDDEN and sign not in kept else sign
        for sign in text
    )


class XmtcError(Exception):
    """Base of every error this project raises on purpose; the command line prints it without a stack trace."""

    exit_code = 2
    reasons: tuple[XmtcError, ...] = ()
    """The errors that this one puts together, if it does."""

    def __str__(self) -> str:
        # Messages quote names and ids of the input.
        return visible(super().__str__(), lines=True)


class ConfigError(XmtcError):
    """Raised when a setting, an option or the name of an algorithm is not valid."""


class InputError(XmtcError):
    """Raised when a table or file cannot be read or holds rows that cannot be used."""

    exit_code = 3


class OutputError(XmtcError):
    """Raised when results cannot be written where they should go."""

    exit_code = 4


class SetupError(XmtcError):
    """Raised when the machine lacks something, such as Java or an optional package."""

    exit_code = 5


class AlarmError(XmtcError):
    """Raised when `nightly` found that a figure fell, a dataset is missing or failed, or the data drifted."""

    exit_code = 10

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def check_all(*checks: Callable[[], object]) -> None:
    """Make every check, and report all problems, each once, in one error of the kind of the first."""
    found: dict[str, XmtcError] = {}
    for check in checks:
        try:
            check()
        except XmtcError as error:
            found |= {str(reason): reason for reason in error.reasons or [error]}
    errors = list(found.values())
    if len(errors) == 1:
        raise errors[0]
    if errors:
        lines = "".join(f"\n  {line}" for reason in found for line in reason.split("\n"))
        several = type(errors[0])(f"nothing was begun, for {len(errors)} reasons:{lines}")
        several.reasons = tuple(errors)
        raise several


def unknown_name(kind: str, name: str, known: Iterable[str]) -> ConfigError:
    """The error for an unknown name, with the nearest one that exists."""
    names = list(known)
    near = get_close_matches(name.lower(), names, n=1, cutoff=0.4)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return ConfigError(f"unknown {kind} {name!r}.{hint} Known: {visible(', '.join(names))}.")
