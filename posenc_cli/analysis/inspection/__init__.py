"""Properties of an encoding: each with a number, its place, and how it is known.

In: encodings, parts of a hybrid, arrays. Out: an ``Inspection`` of each. Start with
``inspections``, then ``properties``, which reaches the verdicts; ``bounds``, ``distances``,
``fading`` and ``shift`` measure what they need, and ``property_names`` lists all properties.
"""
