"""Pictures in a terminal: cells of text, or pixels in escape sequences.

In: a figure, and the room that the terminal has. Out: text. Start with ``text_pictures``;
``plates`` lays out maps of ``blocks``, ``plots`` curves.
"""
