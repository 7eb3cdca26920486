"""Settings that nobody but their receiver may see: addresses with tokens, passwords."""

from __future__ import annotations

import os
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from fusion.errors import ConfigError

HIDDEN = "**********"
REFERENCE = "env:"


class Secret:
    """A setting that is printed as stars, or as the reference to the environment that it is (`env:NAME`)."""

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The secret itself; the environment is asked only now."""
        if self._value == HIDDEN:
            raise ConfigError("a secret was written out as stars: give it again, or as env:NAME")
        if not self._value.startswith(REFERENCE):
            return self._value
        name = self._value.removeprefix(REFERENCE)
        if not os.environ.get(name):
            raise ConfigError(f"a setting refers to {self._value}, but the environment has no {name}")
        return os.environ[name]

    def __str__(self) -> str:
        return self._value if self._value.startswith(REFERENCE) else HIDDEN

    def __repr__(self) -> str:
        return f"Secret({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def read(value: Any) -> Secret:
            return value if isinstance(value, Secret) else cls(value)

        text = core_schema.union_schema([core_schema.is_instance_schema(cls), core_schema.str_schema(min_length=1)])
        # JSON is for files and people. Python's own form keeps the secret, for the next layer of settings.
        written = core_schema.plain_serializer_function_ser_schema(str, when_used="json")
        return core_schema.no_info_after_validator_function(read, text, serialization=written)


SECRETS = ("nightly.alerts", "nightly.mlflow", "retriever_settings", "spark.conf", "storage")
"""Sections that hold secrets, or whatever a retriever of somebody's own needs."""


def is_secret(setting: str) -> bool:
    """Whether what is given for a setting, by its dotted name, may be or hold a secret: also where it is given for a
    whole section, or for the whole configuration."""
    around = f"{setting}." if setting else ""
    return any(f"{setting}.".startswith(f"{name}.") or name.startswith(around) for name in SECRETS)
