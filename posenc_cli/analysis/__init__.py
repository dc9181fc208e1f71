"""Analysis: what encodings look like and which properties they have, as arrays and records.

In: an encoding, or a stored array. Out: records of numbers, for ``render`` to show. Start with
``similarity`` and ``spectrum``. ``sampling`` chooses rows and columns, ``inspection`` judges
properties, ``head_patterns`` fits attention heads, and ``planning`` extends contexts.
"""
