"""Analysis: the values and the properties of encodings, as arrays and records.

In: an encoding, or a stored array. Out: records of numbers, for ``render`` to show. Start with
``similarity`` and ``spectrum``. ``sampling`` chooses rows and columns, ``inspection`` tests
properties, ``head_patterns`` fits attention heads, and ``planning`` extends contexts.
"""
