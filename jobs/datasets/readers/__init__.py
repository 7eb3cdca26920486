"""Readers of published datasets, one small module a form. Importing the package registers all of them."""

from __future__ import annotations

from jobs.datasets.readers import generic, lines_ids, lines_names, samples_pkl, xc_json, xc_sparse
from jobs.datasets.readers.base import READERS, Raw, Reader, check_settings, reader

__all__ = [
    "READERS",
    "Raw",
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
