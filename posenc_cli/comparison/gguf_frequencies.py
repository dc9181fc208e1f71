"""The frequencies that llama.cpp computes from a GGUF file and its divisors.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli import catalogue
from posenc_cli.configs.config_file import read_config
from posenc_cli.configs.gguf.gguf_architectures import FACTOR_TENSORS, FREQS, LONG, SHORT
from posenc_cli.configs.gguf.gguf_file import begins_a_gguf
from posenc_cli.errors import InvalidInput, quoted_name
from posenc_cli.files.gguf import GGUFHeader
from posenc_cli.files.reading import Loaded
from posenc_cli.inference.evidence import StatedEncoding
from posenc_cli.records import Record

if TYPE_CHECKING:
    from posenc_cli.configs.resolved import Layers, Resolved


class GGUFFrequencies(Record):
    """The frequencies of a GGUF file, encodings that it states in whole, what to be warned of."""

    loaded: Loaded
    stated: tuple[StatedEncoding, ...]
    warnings: tuple[str, ...]


def gguf_frequencies(path: str) -> GGUFFrequencies | None:
    """The frequencies of a GGUF file, or by one of the tensors that divide them: FILE:TENSOR.

    None where the path names no such file, or another tensor. They are rounded to float32, in which
    llama.cpp computes them. A file that has divisors for short and for long sequences states both,
    of which frequencies show one.

    Raises: InvalidInput where llama.cpp does not load the file, or its layers differ.
    """
    place, _, member = path.rpartition(":") if not Path(path).exists() else (path, "", "")
    if (member and member not in FACTOR_TENSORS) or not place:
        return None
    try:
        if not begins_a_gguf(place):
            return None
    except OSError:
        return None
    from posenc_cli.configs.gguf.gguf_model import resolve_gguf  # late: most arrays need no rules

    header = read_config(place, flag=None)
    assert isinstance(header, GGUFHeader)
    if member and member not in header.numbers:
        raise InvalidInput(f"{quoted_name(place)}: has no tensor {member}")
    resolved = resolve_gguf(header)
    layers = _only_layers(path, place, resolved)
    if catalogue.find(layers.scheme).kind != "rotary":
        raise InvalidInput(f"{quoted_name(place)}: is {layers.scheme}, which has no frequencies")
    tensor = member or _divisors(layers, header)
    divisors = header.numbers.get(tensor)
    if divisors is None:
        waves = catalogue.find(layers.scheme).bind(layers.values()).rotation.waves
        frequencies = np.asarray(waves.frequencies(np), np.float64)
    else:
        base, pairs = layers.params["base"].value, len(divisors)
        ladder = [math.pow(base, -pair / pairs) for pair in range(pairs)]
        frequencies = np.array(ladder) / np.array(divisors)  # (pairs,)
    loaded = Loaded(frequencies.astype(np.float32), "float32", path)
    if tensor not in (LONG, SHORT) or not {LONG, SHORT} <= set(header.numbers):
        return GGUFFrequencies(loaded, (), resolved.headlines)
    original = layers.params["original_max_position_embeddings"].value
    context = max(layers.derived["context"].value, original + 1)
    length = original if tensor == SHORT else context
    note = f"the file has both lists of factors; these are frequencies by {tensor}"
    stated = StatedEncoding(layers.scheme, {**layers.values(), "seq_len": length}, note)
    return GGUFFrequencies(loaded, (stated,), resolved.headlines)


def _only_layers(path: str, place: str, resolved: Resolved) -> Layers:
    """The layers of a file, where all are alike.

    Raises: InvalidInput where they are not.
    """
    first, *others = resolved.layers
    if not all(first.same_encoding(group) for group in others):
        raise InvalidInput(
            f"{quoted_name(path)}: its layers differ, and so do their frequencies",
            hint=f"posenc generate --config {quoted_name(place)} --layer-type "
            f"{first.layer_type} --table inv-freq writes those of one type",
        )
    return first


def _divisors(layers: Layers, header: GGUFHeader) -> str:
    """The tensor that llama.cpp divides by at the context that it allocates."""
    if FREQS in header.numbers:
        return FREQS
    original = layers.params.get("original_max_position_embeddings")
    context = layers.derived["context"].value
    return LONG if original is not None and context > original.value else SHORT
