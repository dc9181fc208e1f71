"""Exact numerics: 60-digit reals, double-double arithmetic, correct rounding, and waves.

Input: formulas over an array namespace, and positions. Output: correctly rounded values. Start with
``waves``. ``exact`` and ``bounded`` evaluate formulas, ``phasors`` computes points of the unit
circle, ``rounding`` rounds once, and ``judge`` decides values near a rounding tie.
"""
