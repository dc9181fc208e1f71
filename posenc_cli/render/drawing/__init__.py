"""Draw pictures in files with matplotlib: PNG, SVG and PDF.

In: a figure and a style. Out: the bytes of a file. Start with ``image``; ``axes`` draws maps and
curves.
"""
