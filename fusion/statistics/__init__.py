"""Whole-number counts, the figures that follow from them, and the tests that compare figures."""
