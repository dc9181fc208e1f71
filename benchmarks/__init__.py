"""Benchmarks: ratios measured side by side, never seconds, and nothing asserts on them."""
