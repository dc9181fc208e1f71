"""Exact numerics: 60-digit reals, double-double arithmetic, correct rounding, and waves."""
