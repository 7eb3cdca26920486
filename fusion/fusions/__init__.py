"""The fusion algorithms. One file each; the order here is the order of `all`."""

from fusion.fusions.combmin import combmin
from fusion.fusions.combmax import combmax
from fusion.fusions.combmed import combmed
from fusion.fusions.combsum import combsum
from fusion.fusions.combanz import combanz
from fusion.fusions.combmnz import combmnz
from fusion.fusions.isr import isr
from fusion.fusions.log_isr import log_isr
from fusion.fusions.bordafuse import bordafuse
from fusion.fusions.condorcet import condorcet

__all__ = [
    "bordafuse",
    "combanz",
    "combmax",
    "combmed",
    "combmin",
    "combmnz",
    "combsum",
    "condorcet",
    "isr",
    "log_isr",
]
