"""What bounds the length of models that no recipe scales."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli import catalogue
from posenc_cli.configs.conclusions import lengths_of
from posenc_cli.errors import InvalidInput
from posenc_cli.files.gguf import GGUFHeader
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from posenc_cli.configs.resolved import Layers, Resolved


class NoPlan(Record):
    """Why there is nothing to set, and what bounds the model's length instead.

    ``fits`` is whether the length is within that, None where nothing bounds it that is known.
    """

    model_type: str
    layer_type: str | None
    to: int
    scheme: str
    trained: int | None
    reason: str
    fits: bool | None


def not_planned(
    layers: Layers, config: Mapping[str, Any] | GGUFHeader, resolved: Resolved, to: int
) -> NoPlan | None:
    """What bounds layers that no recipe is for, None where recipes are.

    Raises: InvalidInput where positions are no sequence, or no length is said.
    """
    stated = lengths_of(layers).stated
    window = window_of(layers, config, resolved)
    scheme = catalogue.find(layers.scheme)

    def answer(reason: str, *, fits: bool | None = None) -> NoPlan:
        return NoPlan(
            resolved.model_type, layers.layer_type, to, layers.scheme, stated, reason, fits
        )

    if layers.scheme == "nope":
        return answer("these layers have no positions: nothing in them limits the length")
    if scheme.kind == "rotary":
        if layers.scheme in ("rope-axial", "xpos"):
            raise InvalidInput(
                f"--to {to}: {layers.scheme} does not encode positions in a sequence"
            )
        if window is None or (stated is not None and window > stated):
            return None
        return answer(
            f"these layers see a window of {window} positions: no distance is longer, so "
            "there is nothing to extend",
            fits=True,
        )
    content = scheme.bind(layers.values()).content
    if content.capacity is not None:
        rows = content.capacity.positions
        enough = " are enough" if to <= rows else f", and {to} positions need {to}"
        return answer(
            f"positions are rows of a learned table: {rows} rows{enough}; no recipe makes "
            "untrained rows (posenc resize interpolates them)",
            fits=to <= rows,
        )
    if scheme.kind == "bias":
        return answer(
            "scores go by distance, and have a value at any: no bound of the length is known; "
            "distances past those of the training were never seen"
        )
    known = f"; the config states {stated} positions, later ones are unseen"
    trained = "" if stated is None else known
    return answer(
        f"{layers.scheme} has a value at any position{trained}: no known recipe extends it "
        "without training"
    )


_LLAMA4_CHUNK = 8192
"""The chunk of Llama 4's layers where its config has none, as in transformers."""
_ALL_SLIDE = ("mistral", "mixtral", "phi3", "starcoder2")
"""Model types all of whose layers see a window, where their config has one and no list of types."""


def window_of(
    layers: Layers, config: Mapping[str, Any] | GGUFHeader, resolved: Resolved
) -> int | None:
    """How many positions these layers see, None where they see all."""
    if "window" in layers.derived:
        return int(layers.derived["window"].value)
    if isinstance(config, GGUFHeader):
        return None
    label = layers.layer_type
    texts = [config, *(part for part in config.values() if isinstance(part, dict))]
    values = next((part for part in texts if _window_of(part, label) is not None), None)
    if values is None:
        return None
    if label is None and resolved.model_type not in _ALL_SLIDE:
        return None
    return _window_of(values, label)


def _window_of(values: Mapping[str, Any], label: str | None) -> int | None:
    if label is None:
        slides = values.get("use_sliding_window", True) and "layer_types" not in values
        window = values.get("sliding_window") if slides else None
    elif "chunked" in label:
        window = values.get("attention_chunk_size")
        if window is None and values.get("model_type") == "llama4_text":
            window = _LLAMA4_CHUNK
    elif "sliding" in label:
        window = values.get("sliding_window")
    else:
        window = None
    return window if isinstance(window, int) and not isinstance(window, bool) else None
