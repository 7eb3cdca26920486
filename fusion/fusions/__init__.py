"""The fusion algorithms. One file each; the order here is the order of the tables, the paper's ten first."""

from __future__ import annotations

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
from fusion.fusions.rrf import rrf
from fusion.fusions.rbc import rbc
from fusion.fusions.combgmnz import combgmnz
from fusion.fusions.logn_isr import logn_isr
from fusion.fusions.wsum import wsum
from fusion.fusions.wmnz import wmnz
from fusion.fusions.mixed import mixed
from fusion.fusions.weighted_bordafuse import weighted_bordafuse
from fusion.fusions.weighted_condorcet import weighted_condorcet
from fusion.fusions.bayesfuse import bayesfuse
from fusion.fusions.mapfuse import mapfuse
from fusion.fusions.posfuse import posfuse
from fusion.fusions.probfuse import probfuse
from fusion.fusions.segfuse import segfuse
from fusion.fusions.slidefuse import slidefuse


__all__ = [
    "bayesfuse",
    "bordafuse",
    "combanz",
    "combgmnz",
    "combmax",
    "combmed",
    "combmin",
    "combmnz",
    "combsum",
    "condorcet",
    "isr",
    "log_isr",
    "logn_isr",
    "mapfuse",
    "mixed",
    "posfuse",
    "probfuse",
    "rbc",
    "rrf",
    "segfuse",
    "slidefuse",
    "weighted_bordafuse",
    "weighted_condorcet",
    "wmnz",
    "wsum",
]
