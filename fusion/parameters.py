"""Parameters of algorithms: taken from the signature of the function that computes one, with types and defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from functools import partial
from inspect import signature
from itertools import product
from typing import Any, NamedTuple, TypeVar

from fusion.errors import ConfigError, unknown_name
from fusion.names import Number, print_call, print_number

WEIGHTS, LEARNED = "weights", "learned"
"""Arguments that are no parameters of a name: one weight per list, and what was learned about each list."""
WEIGHT = 1.0
"""The weight of a retriever that is not named."""
Limits = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Parameter:
    """A number that is part of an algorithm's name."""

    name: str
    default: Number
    low: float
    high: float

    def checked(self, value: Number, algorithm: str) -> Number:
        """The value in the parameter's type."""
        whole = isinstance(self.default, int)
        if whole and not float(value).is_integer():
            raise ConfigError(f"{algorithm}: {self.name} is a whole number, not {value!r}")
        if not self.low <= value <= self.high:
            limits = f"from {print_number(self.low)} to {print_number(self.high)}"
            limits = f"at least {print_number(self.low)}" if self.high == float("inf") else limits
            raise ConfigError(f"{algorithm}: {self.name} must be {limits}, not {value!r}")
        return int(value) if whole else float(value)


class Values(NamedTuple):
    """What an algorithm is given: the parameters that differ from their defaults, and weights by retriever."""

    parameters: dict[str, Number]
    weights: dict[str, float]

    def name(self, algorithm: str) -> str:
        return print_call(algorithm, {**self.parameters, **self.weights})


@dataclass(frozen=True)
class Parameters:
    """What an algorithm can be given."""

    known: tuple[Parameter, ...] = ()
    weighted: bool = False
    """Whether retrievers have weights, each under its own name."""
    trained: bool = False
    """Whether it has to learn from judged texts first."""

    @classmethod
    def of(cls, function: Callable[..., Any], limits: Limits, skipped: int = 1) -> Parameters:
        """From the arguments of a function behind the first ones."""
        arguments = list(signature(function).parameters.values())[skipped:]
        named = {argument.name for argument in arguments}
        known = tuple(
            Parameter(argument.name, argument.default, *limits.get(argument.name, (0.0, float("inf"))))
            for argument in arguments
            if argument.name not in (WEIGHTS, LEARNED)
        )
        return cls(known, WEIGHTS in named, LEARNED in named)

    def usage(self, algorithm: str) -> str:
        """The algorithm with all its parameters, as help texts show it."""
        shown = [f"{parameter.name}={print_number(parameter.default)}" for parameter in self.known]
        shown += [f"RETRIEVER={print_number(WEIGHT)}"] if self.weighted else []
        return f"{algorithm}({','.join(shown)})" if shown else algorithm

    def combinations(self, algorithm: str, given: Mapping[str, list[Number]]) -> list[Values]:
        """Every combination of the values given, each without what is the default."""
        known = {parameter.name: parameter for parameter in self.known}
        for name in given:
            if name not in known and not self.weighted:
                raise _unknown(algorithm, name, list(known))
        ordered = [*(name for name in known if name in given), *sorted(name for name in given if name not in known)]
        combined = []
        for numbers in product(*(given[name] for name in ordered)):
            chosen = dict(zip(ordered, numbers, strict=True))
            checked = {n: known[n].checked(value, algorithm) for n, value in chosen.items() if n in known}
            parameters = {n: value for n, value in checked.items() if value != known[n].default}
            weights = {n: float(value) for n, value in chosen.items() if n not in known and value != WEIGHT}
            combined.append(Values(parameters, weights))
        return combined


Bound = TypeVar("Bound", bound="Algorithm")


class Algorithm:
    """What normalisations and fusions have in common: parameters that are part of the name."""

    name: str
    parameters: Parameters
    functions: tuple[str, ...] = ()
    """The functions that take the values of the parameters."""
    weights: dict[str, float]
    standard: bool

    @property
    def usage(self) -> str:
        """The name with every parameter and its default."""
        return self.parameters.usage(self.name)

    def bound(self: Bound, values: Values) -> Bound:
        """The same with parameters set to some values."""
        entry = copy(self)
        entry.name = values.name(self.name)
        entry.weights = values.weights
        for name in self.functions:
            if values.parameters and getattr(self, name, None) is not None:
                setattr(entry, name, partial(getattr(self, name), **values.parameters))
        return entry


def _unknown(algorithm: str, name: str, known: list[str]) -> ConfigError:
    if not known:
        return ConfigError(f"{algorithm} has no parameters, but {name!r} is given")
    return unknown_name(f"parameter of {algorithm}", name, known)
