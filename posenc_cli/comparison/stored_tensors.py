"""Find the tensors of a checkpoint that are the text model's frequencies, by name and shape.

Older code saved ``inv_freq`` with the weights. transformers and vLLM ignore such a tensor and
compute the frequencies; code that loads it rotates by its values.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from posenc_cli.files import safetensors
from posenc_cli.files.source import open_source
from posenc_cli.positions import range_texts
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.files.reading import Loaded
    from posenc_cli.numerics.arrays import Reals

_NAME = r"(?:^|[./])(?P<kind>\w+_)?inv_freq$"
_LAYER = r"[./](\d+)[./]"
_OTHER_PARTS = (
    r"(?:^|[./])(?:vis|visual|vision\w*|image\w*|video\w*|vit|audio\w*|speech\w*|mm_\w+)[./]"
)
"""Parts of multimodal models that are not the text model."""
_ORIGINAL = "original"  # dynamic rules keep the original frequencies beside the current ones
_MOST_PAIRS = 1 << 15
_LARGEST_FILE = 8 << 30


class StoredName(Record):
    """A tensor of frequencies: its file, its name, and the layer or type of layers it belongs to.

    ``layer`` is None if all layers share it, and ``layer_type`` if its name states no type.
    """

    file: str
    name: str
    layer: int | None
    layer_type: str | None


class StoredFrequencies(Record):
    """Frequencies that layers of a checkpoint share: the name of the first tensor, and its values.

    ``layers`` are those that store them; empty if the model stores them once.
    """

    name: str
    layers: tuple[int, ...]
    layer_type: str | None
    loaded: Loaded

    @property
    def values(self) -> Reals:
        """The frequencies in float64. Shape: (pairs,)."""
        return self.loaded.values.astype("float64")

    @property
    def label(self) -> str:
        """The layers, as text."""
        if not self.layers:
            return self.layer_type or self.name
        return f"layer{'s' * (len(self.layers) > 1)} {', '.join(range_texts(self.layers))}"


def stored_names(files: Sequence[str]) -> list[StoredName]:
    """Return the tensors of frequencies in .safetensors files, from their headers alone.

    Raises:
        InvalidInput: a file is malformed.
        Unavailable: it cannot be opened.
    """
    return [name for file in files for name in _names_in_file(file)]


def _names_in_file(file: str) -> list[StoredName]:
    source = open_source(file, max_bytes=_LARGEST_FILE)
    with source.file:
        headers = safetensors.headers(source)
    names = []
    for header in headers:
        match = re.search(_NAME, header.name)
        if match is None or not header.dtype.startswith(("float", "bfloat")):
            continue
        if len(header.shape) != 1 or not 0 < header.shape[0] <= _MOST_PAIRS:
            continue
        kind = (match["kind"] or "").rstrip("_")
        if kind != _ORIGINAL and not re.search(_OTHER_PARTS, header.name):
            names.append(_stored_name(file, header.name, kind))
    return names


def _stored_name(file: str, name: str, kind: str) -> StoredName:
    layer = re.search(_LAYER, name)
    layer_type = kind or None
    if layer_type is None and re.search(r"rotary_emb_local|local_rotary", name):
        layer_type = "sliding_attention"
    return StoredName(file, name, int(layer[1]) if layer else None, layer_type)
