"""Analysis: what encodings look like and which properties they have, as arrays and records."""
