"""Pictures in files, drawn by matplotlib: PNG, SVG and PDF.

In: a figure and a style. Out: the bytes of a file. Start with ``image``; ``map_axes`` draws maps,
``curve_axes`` curves.
"""
