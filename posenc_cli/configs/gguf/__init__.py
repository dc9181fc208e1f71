"""llama.cpp's reading of a GGUF file's header.

In: the keys and tensors of a header (``files/gguf`` reads them). Out: the layers of the model, each
value with its key. Start at ``gguf_model``; ``gguf_architectures`` is the table of architectures.
"""
