"""Test properties of an encoding: each has a number, a place, and a proof or a measurement.

In: encodings, parts of a hybrid, arrays. Out: an ``Inspection`` of each. Start with ``properties``,
which computes the verdicts. ``inspected`` defines the rows that are inspected. ``distances``
measures distances between rows.
"""

PROPERTIES = {
    "unique": "smallest distance of rows",
    "bounded": "largest absolute value",
    "norm": "spread of row norms",
    "linear-shift": "error of one linear map",
    "linear-shift-held-out": "same map on later rows",
    "relative": "spread at equal distance",
    "decay": "distance, then below half",
    "defined-beyond": "positions there are",
    "distinct-float16": "distinct rows",
    "distinct-bfloat16": "distinct rows",
}
"""The properties in order, and the meaning of each one's value."""
