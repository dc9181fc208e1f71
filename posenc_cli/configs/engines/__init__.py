"""How other engines read the same config: rows of differences, one interpreter.

In: the layers that transformers reads, and the config. Out: the layers of an engine, each
difference with its evidence, or an error if the engine's reading is unknown. Start at ``runtimes``.
What rows share is in ``runtime_rules``; each engine has a file, except three in
``converter_rules``.
"""
