"""Draw pictures in a terminal: cells of text, or pixels in escape sequences.

In: a figure, and the size of the terminal. Out: text. Start with ``text_pictures``, which arranges
maps from ``blocks``, which also has pixels; ``plots`` draws curves.
"""
