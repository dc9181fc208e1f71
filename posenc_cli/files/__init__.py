"""Files: read from anywhere, and written so that they appear whole or not at all.

Input: a matrix of blocks, or the path of a file. Output: a file, or its arrays. Start with
``formats`` to write and ``reading`` to read. ``formats`` lists the formats, one module each, and
``atomic`` replaces a file once its successor is complete.
"""
