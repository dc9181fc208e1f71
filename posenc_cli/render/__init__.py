"""Rendering: what was computed, as pictures and reports.

In: encodings, arrays and reports. Out: text, pixels, files. ``figures`` and ``reports`` make a
``Figure`` (values, axes, titles, no drawing) or words; ``terminal``, ``drawing`` and ``html`` paint
figures. Start with ``figure``. The rest here is shared: ticks, styles, colours, text, names.
"""
