"""Spark sessions, and whether this machine can run jobs."""
