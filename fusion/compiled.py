"""Functions that numba compiles when they are first called.

numba takes a quarter of a second to import, which a `--help` or a wrong setting should not wait for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, update_wrapper
from typing import Any


class Compiled:
    """A function that is compiled for the types it is called with; it runs without the interpreter's lock."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        return self.dispatcher(*arguments)

    @cached_property
    def dispatcher(self) -> Any:
        """numba's own object for the function."""
        from fusion.code_cache import make_dispatcher

        # Compiled code calls compiled code, and numba knows only its own objects.
        names = self._function.__globals__
        for name in self._function.__code__.co_names:
            if isinstance(names.get(name), Compiled):
                names[name] = names[name].dispatcher
        dispatcher = make_dispatcher(self._function)
        # Later calls need not come through here; small calls are many.
        if names.get(self._function.__name__) is self:
            names[self._function.__name__] = dispatcher
        return dispatcher


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function when it is first called, and keep the code on disk (see code_cache)."""
    return Compiled(function)
