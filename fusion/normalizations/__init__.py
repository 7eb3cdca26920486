"""The normalisations: per text, retriever and label group. One file each; the order here is the order of the tables,
the paper's six first."""

from __future__ import annotations

from fusion.normalizations.min_max import min_max
from fusion.normalizations.max_score import max_score
from fusion.normalizations.sum_score import sum_score
from fusion.normalizations.zmuv import zmuv
from fusion.normalizations.rank import rank
from fusion.normalizations.borda import borda
from fusion.normalizations.borda_prose import borda_prose
from fusion.normalizations.l2 import l2
from fusion.normalizations.dbsf import dbsf
from fusion.normalizations.softmax import softmax
from fusion.normalizations.sigmoid import sigmoid
from fusion.normalizations.none import none


__all__ = [
    "borda",
    "borda_prose",
    "dbsf",
    "l2",
    "max_score",
    "min_max",
    "none",
    "rank",
    "sigmoid",
    "softmax",
    "sum_score",
    "zmuv",
]
