"""Versioned folders: results, stages and the work folder."""
