"""The verdict of a night as a page shows it. Nights make it; the report only prints it."""

from __future__ import annotations

from dataclasses import dataclass

FALLEN = ("dataset", "what fell", "from", "to", "change [95%]", "texts tested", "p")
"""The columns of the table of figures that fell."""


@dataclass(frozen=True)
class NightBanner:
    """What every page of a night begins with."""

    run_id: str
    exit_code: int
    headline: str
    fallen: tuple[tuple[str, ...], ...] = ()
    """A row per watched figure that fell, with these columns."""
    notes: tuple[str, ...] = ()
    """Lines below the headline."""
