"""How other engines read the same config: rows of differences, one interpreter.

In: the layers that transformers reads, and the config. Out: the layers of an engine, each
difference with its evidence, or the reason why it is not known. Start at ``runtimes``; what rows
share is in ``runtime_rules``, each engine's rows in a file of its own, or of the smallest.
"""
