"""Measure ratios side by side; benchmarks report no bare seconds, and assert nothing about them."""
