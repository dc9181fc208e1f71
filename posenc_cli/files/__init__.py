"""Files: read from anywhere, and written so that they appear whole or not at all.

In: a matrix of blocks, or the path of a file. Out: a file, or its arrays. Start with ``save`` to
write and ``reading`` to read; ``formats`` lists the formats, one module each, and ``atomic``
replaces a file once its successor is complete.
"""
