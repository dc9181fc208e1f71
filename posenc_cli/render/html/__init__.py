"""Write figures as one interactive HTML page, readable without network and script.

In: sections of figures. Out: the bytes of a page. Start with ``page``, next to its style and
script. ``html_plots`` writes a figure, ``live`` the interactive parts, and ``lecture`` collects the
sections of explore.
"""
