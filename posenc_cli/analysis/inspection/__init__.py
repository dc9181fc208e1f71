"""Test properties of an encoding: each has a number, a place, and a proof or a measurement.

In: encodings, parts of a hybrid, arrays. Out: an ``Inspection`` of each. Start with ``properties``,
which computes the verdicts. ``inspected`` defines the rows that are inspected. ``distances``
measures distances between rows.
"""

PROPERTIES = {
    "unique": "smallest row distance",
    "bounded": "largest absolute value",
    "norm": "spread of row norms",
    "linear-shift": "error of the linear map",
    "linear-shift-held-out": "error on later rows",
    "relative": "spread at equal distance",
    "decay": "first distance below half",
    "defined-beyond": "number of positions",
    "distinct-float16": "distinct rows",
    "distinct-bfloat16": "distinct rows",
}
"""The properties in order, and the meaning of each one's value."""
