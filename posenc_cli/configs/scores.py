"""Read attention settings besides the rotation: windows, scale and soft cap of the scores.

By default, scores are multiplied by 1/√d, where d is the head dim. Some models read another scale
from a key. Some apply a soft cap c: c · tanh(s / c). Some multiply the scores of the query at
position m by 1 + a · ln(1 + ⌊(m + o) / L⌋).

Source: the attention classes of transformers 5.24, recorded in tests/golden/config_scores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli.configs.layer_types import sliding_window
from posenc_cli.configs.resolved import WINDOW, WINDOW_OF_ALL, Layers, Sourced
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from posenc_cli.configs.keys import Keys
    from posenc_cli.configs.rope_objects import RopeObject
    from posenc_cli.configs.text_models import TextModel


class ScoreScale(Record):
    """The scale of a family's scores: the value of a key raised to a power, or a number.

    ``default`` is the value without the key, or None for 1/√d. An empty ``key`` means that no key
    states the scale.
    """

    key: str
    power: float = 1.0
    default: float | None = None


_SCALAR = ScoreScale("query_pre_attn_scalar", -0.5, 256.0)
_ONE = ScoreScale("", default=1.0)
_MULTIPLIER = ScoreScale("attention_multiplier", 1.0, 1.0)

SCALES: Mapping[str, ScoreScale] = {
    **dict.fromkeys(("gemma2", "gemma3_text", "vaultgemma"), _SCALAR),
    **dict.fromkeys(("t5_gemma_module", "t5gemma2_text", "t5gemma2_decoder"), _SCALAR),
    "step3p5": ScoreScale("query_pre_attn_scalar", -0.5),
    **dict.fromkeys(("granite", "granitemoe", "granitemoeshared"), _MULTIPLIER),
    **dict.fromkeys(("granite_swa", "granitemoe_swa", "granitemoehybrid"), _MULTIPLIER),
    "granite4_vision_text": _MULTIPLIER,
    "granite_docling_text": ScoreScale("attention_multiplier", 1.0, 0.015625),
    "hyperclovax": ScoreScale("attention_multiplier"),
    **dict.fromkeys(("gemma3n_text", "gemma4_text", "gemma4_unified_text"), _ONE),
    "embedding_gemma2_text": _ONE,
}
"""The model types whose scores have another scale than 1/√d."""

CAPS: Mapping[str, float | None] = {
    **dict.fromkeys(("gemma2", "vaultgemma", "t5_gemma_module"), 50.0),
    **dict.fromkeys(("gemma3_text", "t5gemma2_text", "t5gemma2_decoder"), None),
}
"""The default soft cap of each model type that reads ``attn_logit_softcapping``."""

_LLAMA4 = {"attn_scale": 0.1, "floor_scale": 8192}

_WINDOWS = {
    "sliding": ("sliding_window", "local_attention", "attention_window_size"),
    "chunked": ("attention_chunk_size",),
}
"""The keys of a window, by a part of the name of the layer type."""
_CHUNK = 8192
"""The default chunk size of Llama 4's chunked layers."""

SCORES = ("attention_scale", "softcap", "temperature_scale", "temperature_length")
"""The settings of scores that are compared: keys of Layers.derived."""


def with_scores(layers: Layers, model: TextModel, rope: RopeObject | None) -> Layers:
    """Return layers with their window, and the scale and soft cap of their scores, if any.

    Raises: InvalidInput for a value that is not a number.
    """
    found = dict(_window(model, layers.layer_type))
    found |= dict(_scale_and_cap(model.keys, model.model_type))
    found |= dict(_temperature(model, rope, rotates=layers.scheme != "nope"))
    return replace(layers, derived={**layers.derived, **found}) if found else layers


def without_window(layers: Layers) -> Layers:
    """Return layers without their window."""
    derived = {name: value for name, value in layers.derived.items() if "window" not in name}
    return replace(layers, derived=derived)


def _window(model: TextModel, label: str | None) -> Iterator[tuple[str, Sourced]]:
    """Yield the window of layers that do not attend to all positions."""
    text, family = model.keys, model.family
    names = [name for kind, keys in _WINDOWS.items() if kind in (label or "") for name in keys]
    if family is not None and family.window:
        own = sliding_window(text, family)
        whole = family.window["layers"] == "all" and not text.values.get("layer_types")
        sizes = [own] if names or whole else []
    else:
        sizes = [*map(text.get, names)]
        if model.model_type == "llama4_text" and names and not text.has(names[0]):
            sizes = [Sourced(_CHUNK, "default of llama4_text")]
    for size in sizes:
        if size is not None and type(size.value) is int and size.value > 0:
            yield WINDOW if label else WINDOW_OF_ALL, size
            return


def _scale_and_cap(text: Keys, model_type: str) -> Iterator[tuple[str, Sourced]]:
    scale = SCALES.get(model_type)
    if scale is not None:
        stated = _stated_number(text, scale.key, scale.default, model_type)
        if stated.value is not None:
            derived = scale.power < 0 and text.has(scale.key)
            source = f"derived: {stated.source}^(−1/2)" if derived else stated.source
            yield "attention_scale", Sourced(float(stated.value) ** scale.power, source)
    if model_type in CAPS:
        cap = _stated_number(text, "attn_logit_softcapping", CAPS[model_type], model_type)
        if cap.value:
            yield "softcap", cap


def _stated_number(text: Keys, key: str, default: Any, model_type: str) -> Sourced:
    """Return the number of a key, None if it is null, else the model type's default."""
    if text.values.get(key, default) is None:
        return Sourced(None, text.path(key))
    return text.number(key) or Sourced(default, f"default of {model_type}")


def _temperature(
    model: TextModel, rope: RopeObject | None, *, rotates: bool
) -> Iterator[tuple[str, Sourced]]:
    """Yield Llama 4's temperature, in its unrotated layers or in all layers of Ministral 3."""
    text, family = model.keys, model.family
    scale = length = None
    offset = 0
    if model.model_type == "llama4_text" and not rotates:
        offset = 1
        if text.values.get("attn_temperature_tuning", True):
            scale, length = (
                _stated_number(text, key, _LLAMA4[key], model.model_type)
                for key in ("attn_scale", "floor_scale")
            )
    elif family is not None and family.scales_queries and rope is not None:
        scale = rope.number("llama_4_scaling_beta", minimum=0)
        length = rope.number("original_max_position_embeddings", minimum=0)
    if scale is not None and scale.value and length is not None:
        yield "temperature_scale", scale
        yield "temperature_length", length
        yield "temperature_offset", Sourced(offset, f"the code of {model.model_type}")
