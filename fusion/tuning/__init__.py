"""Choosing and learning fusions on judged texts."""
