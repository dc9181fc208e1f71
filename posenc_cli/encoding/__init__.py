"""From a request to its matrix, block by block.

Input: a scheme, its parameters and positions. Output: a matrix whose blocks are computed when they
are read. Start with ``request`` (Request → Plan → matrix), then ``blocks``, which computes each
kind of content. ``engine`` names the backend, the device and the arithmetic that compute it.
"""
