"""Make figures of encodings and arrays, before anything is drawn.

In: an encoding, an array, a spectrum or a similarity. Out: a ``Figure`` (``render/figure``).
``spectra`` and ``similarities`` return text and JSON as well. Start with ``encoded``.
"""
