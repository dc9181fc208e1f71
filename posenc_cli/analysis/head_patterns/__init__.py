"""Which attention patterns a head can express from positions alone, and up to what length.

In: an encoding, and a target pattern. Out: how much attention a fitted head gives to its targets at
each length. Start with ``heads``, which also names the patterns. ``position_scores`` defines what a
head may learn, and ``regression`` fits it.
"""
