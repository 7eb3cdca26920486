"""The errors users see. Each message says what was wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class XmtcError(Exception):
    """Base of every error this project raises on purpose; the command line prints it without a stack trace."""

    exit_code = 2


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


def unknown_name(kind: str, name: str, known: Iterable[str]) -> ConfigError:
    """The error for an unknown name, with the nearest one that exists."""
    names = list(known)
    near = get_close_matches(name.lower(), names, n=1, cutoff=0.4)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return ConfigError(f"unknown {kind} {name!r}.{hint} Known: {', '.join(names)}.")
