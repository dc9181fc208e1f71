"""Which attention patterns a head can make of positions alone, and up to what length.

In: an encoding, and a target pattern. Out: how much attention a fitted head gives to its targets
at each length. Start with ``heads``; ``position_scores`` says what a head may learn,
``regression`` fits it, and ``head_targets`` names the patterns.
"""
