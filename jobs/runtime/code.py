"""Which code a stage depends on: the modules it names, and all modules of this project that these import."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec

PACKAGES = ("fusion", "udfs", "jobs")
"""All code of this project."""
NOT_FOLLOWED = frozenset(
    {"jobs.config", "jobs.settings", "jobs.runtime.credentials", "jobs.runtime.log", "jobs.runtime.progress"}
)
"""Modules that cannot change what a stage writes: the settings are part of its key, and the others only give access to
storage or write the log.
Sections in modules of their own, such as jobs.settings.dense, do count: their properties are code."""


@cache
def import_closure(*entries: str) -> tuple[str, ...]:
    """The entry modules and every module of this project that they import, directly or through others; sorted.

    The `__init__` of a package counts where something is imported from the package itself. What it does besides, such
    as filling the registries, matters only to those who import the registries.
    """
    closure: set[str] = set()
    waiting = list(entries)
    while waiting:
        module = waiting.pop()
        if module not in closure and module not in NOT_FOLLOWED:
            closure.add(module)
            waiting += imported_modules(_source(module))
    return tuple(sorted(closure))


def imported_modules(source: str) -> Iterator[str]:
    """The modules of this project that a source imports wherever it may run as part of a stage."""
    waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if _is_ours(alias.name))
        elif isinstance(node, ast.ImportFrom) and node.module and _is_ours(node.module):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if _is_package(node.module) and find_spec(inner) is not None else node.module
        elif not (isinstance(node, ast.If) and _never_in_a_stage(node.test)):
            waiting += ast.iter_child_nodes(node)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in PACKAGES


def _is_package(module: str) -> bool:
    spec = find_spec(module)
    return spec is not None and spec.submodule_search_locations is not None


def _never_in_a_stage(test: ast.expr) -> bool:
    """`if __name__ == "__main__"` and `if TYPE_CHECKING`."""
    return ast.unparse(test) in ("__name__ == '__main__'", "TYPE_CHECKING")


@cache
def _source(module: str) -> str:
    spec = find_spec(module)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(f"{module} is imported, but cannot be found")
    # Loaders of files and of zip archives both have it.
    return str(spec.loader.get_source(module) or "")  # type: ignore[attr-defined]
