"""Schemes of positional encoding: declarations and pure formulas."""
