"""The arithmetic of rank fusion: normalisations, fusions, metrics, and the kernel that computes a whole grid.

No Spark, no files, no clock.
"""

from __future__ import annotations

from fusion import fusions, metrics, normalizations
from fusion.registry import FUSIONS, METRICS, NORMALIZATIONS

__version__ = "0.2.0"
__all__ = ["FUSIONS", "METRICS", "NORMALIZATIONS", "__version__", "fusions", "metrics", "normalizations"]
