"""Render results as pictures and reports.

In: encodings, arrays and reports. Out: text, pixels, files. ``figures`` makes a ``Figure`` (values,
axes, titles, not yet drawn) and ``reports`` makes text. ``terminal``, ``drawing`` and ``html`` draw
figures. Start with ``figure``. The other modules here are shared: ticks, styles, color maps, text.
"""
