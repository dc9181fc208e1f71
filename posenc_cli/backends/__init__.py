"""Backends: the libraries that compute the values. Each is imported only when it is used.

Input: waves, positions and a number format. Output: blocks of values, the same bytes from every
exact backend. Start with ``registry`` (the interface of a backend, the list of backends, and the
choice for a job). ``numpy`` is the reference; ``native`` and ``fast`` are the compiled kernel.
"""
