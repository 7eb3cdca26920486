"""Readers of published datasets, one small module per form. Importing the package registers all of them."""

from __future__ import annotations

from jobs.datasets.readers import generic, lines_ids, lines_names, samples_pkl, xc_json, xc_sparse
from jobs.datasets.readers.base import READERS, RawDataset, Reader, check_settings, reader

__all__ = [
    "READERS",
    "RawDataset",
    "Reader",
    "check_settings",
    "generic",
    "lines_ids",
    "lines_names",
    "reader",
    "samples_pkl",
    "xc_json",
    "xc_sparse",
]
