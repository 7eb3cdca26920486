"""Retrieval inside the workers."""
