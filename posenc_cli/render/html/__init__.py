"""Figures as one HTML page, which moves, and needs neither network nor script to be read.

In: sections of figures. Out: the bytes of a page. Start with ``page``, beside its style and script;
``html_plots`` writes a figure, ``live`` what moves, and ``lecture`` collects what explore shows.
"""
