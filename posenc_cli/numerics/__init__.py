"""Exact numerics: 60-digit reals, double-double arithmetic, correct rounding, and waves.

In: formulas over an array namespace, and positions. Out: correctly rounded values. Start with
``waves``; ``exact`` and ``bounded`` evaluate formulas, ``phasors`` gives points of the unit circle,
``rounding`` rounds once, and ``judge`` decides the values near a rounding tie.
"""
