"""Learned fusions: features, models and their scores."""
