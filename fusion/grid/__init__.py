"""The grid of cells over a text block, and the hits of each."""
