"""Read how a model encodes positions: from its config.json, its GGUF header or a preset.

In: the JSON object of a config, or a GGUF header. Out: ``Resolved``, the layers of each type with a
scheme of the catalogue and its parameters, each value with its source. Start at ``config.resolve``.
Families of models are rows of JSON files. ``engines`` has the differences of other engines,
``gguf`` reads llama.cpp's files, ``diffusion`` configs of diffusers.
"""
