"""Backends: what computes the values. Each imports its library only when it is used.

In: waves, positions and a number format. Out: blocks of values, the same bytes from every exact
backend. Start with ``base`` (what a backend is) and ``registry`` (which there are, and which one
suits a job); ``numpy`` is the reference, ``native`` and ``fast`` the compiled kernel.
"""
