"""Measurements behind the README's figures. Each writes its table to benchmarks/results/."""
