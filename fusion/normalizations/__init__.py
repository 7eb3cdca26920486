"""The normalisations: per text, retriever and label group. One file each; the order here is the order of `all`."""

from fusion.normalizations.min_max import min_max
from fusion.normalizations.max_score import max_score
from fusion.normalizations.sum_score import sum_score
from fusion.normalizations.zmuv import zmuv
from fusion.normalizations.rank import rank
from fusion.normalizations.borda import borda
from fusion.normalizations.borda_prose import borda_prose

__all__ = ["borda", "borda_prose", "max_score", "min_max", "rank", "sum_score", "zmuv"]
