"""Models: what their configs say of positions, and the presets that posenc ships.

In: a config.json, a GGUF header or a preset's name. Out: ``Resolved``, the layers as schemes of the
catalogue, each value with its source. Start at ``config.resolve``; families are rows of JSON files,
``engines`` has what other engines read, ``gguf`` and ``diffusion`` the other kinds of files.
"""
