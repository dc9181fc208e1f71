"""Differences of mlx-lm from transformers 5: its model classes and rotations.

Each class of mlx-lm declares its own keys. Most read only ``rope_theta`` and ``rope_scaling``, so
the ``rope_parameters`` of newer files are lost. Some always build an unscaled rotation.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from posenc_cli.configs.engines.runtime_rules import (
    BY_INTERVAL,
    DYNAMIC,
    FOURTH_UNROTATED,
    HUB,
    LONGROPE,
    MIMO_KEYS,
    NO_BETA_OF_ZERO,
    ORIGINAL,
    PLAIN_ROPE,
    SCALED,
    SHARE,
    WITHIN_ANOTHER,
    YARN,
    Changes,
    LayerReading,
    Runtime,
    RuntimeDifference,
    RuntimeRefusal,
    always,
    check_share,
    dimensions_per_head,
    divided_head,
    fails_on_null,
    fails_without,
    for_keys,
    magnitude_ratio,
    mimo_changes,
    mimo_refusals,
    not_read,
    of_types,
    original_length,
    other_layers,
    other_share,
    plain,
    refused,
    stated,
)
from posenc_cli.records import Record, replace

NAME = "mlx-lm"


class MlxClass(Record):
    """The keys that a model class of mlx-lm reads, and its default base.

    A class whose ``base`` is None fails on a file without ``rope_theta``. One without ``scales``
    builds an unscaled rotation. ``reads_parameters`` is for ``rope_parameters``.
    """

    base: float | None
    scales: bool = True
    reads_parameters: bool = False


CLASSES = {
    "afmoe": MlxClass(1e4),
    "bitnet": MlxClass(1e4),
    "cohere": MlxClass(8e6, scales=False),
    "deepseek_v2": MlxClass(1e4),
    "deepseek_v3": MlxClass(1e4),
    "deepseek_v32": MlxClass(1e4),
    "dots1": MlxClass(None),
    "ernie4_5": MlxClass(None, scales=False),
    "ernie4_5_moe": MlxClass(None, scales=False),
    "gemma": MlxClass(1e4, scales=False),
    "gemma2": MlxClass(1e4, scales=False),
    "gemma3_text": MlxClass(1e6),
    "gemma4_text": MlxClass(1e6, reads_parameters=True),
    "glm4": MlxClass(None, scales=False),
    "glm_moe_dsa": MlxClass(None, reads_parameters=True),
    "gpt_neox": MlxClass(None, scales=False),
    "gpt_oss": MlxClass(150_000.0),
    "gptj": MlxClass(1e4, scales=False),
    "granite": MlxClass(None),
    "granitemoe": MlxClass(None),
    "helium": MlxClass(None, scales=False),
    "lfm2": MlxClass(1e6, scales=False, reads_parameters=True),
    "llama": MlxClass(1e4),
    "llama4_text": MlxClass(None, scales=False),
    "mimo": MlxClass(1e4),
    "mimo_v2_flash": MlxClass(None, scales=False),
    "ministral3": MlxClass(None, reads_parameters=True),
    "mistral": MlxClass(1e4),
    "mixtral": MlxClass(1e6, scales=False),
    "olmo2": MlxClass(1e4),
    "olmo3": MlxClass(None),
    "olmoe": MlxClass(1e4),
    "phi": MlxClass(1e4, scales=False),
    "phi3": MlxClass(1e4),
    "qwen2": MlxClass(1e6),
    "qwen2_5_vl_text": MlxClass(1e6),
    "qwen2_vl_text": MlxClass(1e6),
    "qwen3": MlxClass(None, reads_parameters=True),
    "qwen3_5_moe_text": MlxClass(1e5, reads_parameters=True),
    "qwen3_5_text": MlxClass(1e5, reads_parameters=True),
    "qwen3_moe": MlxClass(None, scales=False),
    "qwen3_next": MlxClass(None),
    "seed_oss": MlxClass(1e4),
    "smollm3": MlxClass(1e4),
    "stablelm": MlxClass(None, scales=False),
    "starcoder2": MlxClass(1e5, scales=False),
    "step3p5": MlxClass(1e4),
}
"""The classes whose rotation was traced, by model type."""
WITHIN = {"llama4_text": MlxClass(None)}
"""Classes for text models inside a multimodal one, if they differ from `CLASSES`."""

HYBRID = frozenset({"qwen3_5_moe_text", "qwen3_5_text"})
"""Models that read only the rope object, and find the attention layers by an interval."""
OWN_KEYS = HYBRID | frozenset({"gptj", "mimo_v2_flash", "step3p5"})
"""Models whose class reads other keys than ``rope_theta`` and one rope object."""
SEVERAL_AXES = frozenset({"qwen2_vl_text", "qwen2_5_vl_text"})
"""Models with several position axes in transformers, and one position in mlx-lm."""
SOME_UNROTATED = frozenset({"llama4_text", "smollm3"})
"""Models with unrotated layers."""
DIVIDED_HEADS = frozenset(
    {
        *("cohere", "gpt_neox", "granite", "granitemoe", "helium", "lfm2", "mimo", "mixtral"),
        *("phi", "phi3", "qwen2", "stablelm", "starcoder2", *SEVERAL_AXES),
    }
)
"""Models whose class computes the head size as hidden_size / num_attention_heads."""
WITH_ROTARY_DIM = OWN_KEYS | frozenset(
    {"gemma4_text", "glm4", "gpt_neox", "phi", "phi3", "qwen3_next", "stablelm"}
)
"""Models whose class reads the rotary dim."""
_PHI_SHARE = 0.4
_NEEDED = {
    "gpt_neox": ("rotary_emb_base", "rotary_pct"),
    "afmoe": ("layer_types",),
    "ernie4_5": ("head_dim",),
    "glm4": ("head_dim", SHARE),
    "glm_moe_dsa": ("rope_parameters",),
    "helium": ("head_dim",),
    "llama4_text": ("no_rope_layers",),
    "mimo_v2_flash": (
        *("hybrid_layer_pattern", "head_dim", "swa_head_dim", "rope_theta", "swa_rope_theta"),
        SHARE,
    ),
    "qwen3": ("head_dim",),
    "qwen3_moe": ("head_dim",),
    "qwen3_next": ("head_dim", SHARE),
    "seed_oss": ("head_dim",),
    "stablelm": (SHARE,),
}
"""Keys that a class requires, by model type."""
_NEEDED_WITHIN = {"llama4_text": ("head_dim", "max_position_embeddings", "rope_scaling")}
"""Keys that a class of `WITHIN` requires."""
_BASE_PLACES = {"qwen3": ("top", "entry"), "glm_moe_dsa": ("entry",)}
"""Where a class that reads ``rope_parameters`` looks for the base, if not there first."""
_LFM2_LAYER_KEYS = ("layer_types", "full_attn_idxs")


def _class_of(reading: LayerReading) -> MlxClass:
    """Return the class that reads a text model, alone or inside another one."""
    within = WITHIN.get(reading.model_type) if reading.prefix else None
    return within or CLASSES[reading.model_type]


def mlx_container(reading: LayerReading) -> Changes:
    """Return the base, and an unscaled rotation if the class does not read the file's rope object.

    Raises: InvalidInput if the class fails.
    """
    known = _class_of(reading)
    if reading.model_type == "gemma4_text":  # reads one rope object per layer type
        return {}
    whole = reading.config.get("rope_scaling")
    if not whole and known.reads_parameters:
        whole = reading.config.get("rope_parameters")
    return {**({} if whole else plain(reading)), "base": _base(reading, known)}


def _missing_key_text(reading: LayerReading) -> str | None:
    """Return the error text for the first key that a class requires and the file lacks, or None."""
    kind, values = reading.model_type, reading.config
    needed = _NEEDED_WITHIN if kind in WITHIN and reading.prefix else _NEEDED
    missing = [key for key in needed.get(kind, ()) if values and key not in values]
    return f"its {kind} fails on a file without {missing[0]}" if missing else None


def _base(reading: LayerReading, known: MlxClass) -> float:
    """Return the base that a class reads from the file, or its default.

    Raises: InvalidInput if there is neither.
    """
    if reading.model_type == "gemma3_text":
        return float(reading.params["base"])
    nested = known.reads_parameters and reading.container == "rope_parameters"
    places = _BASE_PLACES.get(reading.model_type, ("entry", "top")) if nested else ("top",)
    key = "rotary_emb_base" if reading.model_type == "gpt_neox" else "rope_theta"
    base = stated(reading, key, *places) or known.base
    if base is None:
        raise refused(
            NAME,
            f"its {reading.model_type} fails on a file without rope_theta"
            + ("" if known.reads_parameters else " at the top level"),
        )
    return base


def _lacks_outer_model(reading: LayerReading) -> bool:
    """Return whether a file holds only a text model that mlx-lm reads inside another model."""
    own = reading.config.get("model_type", "") in SEVERAL_AXES
    return bool(reading.config) if reading.model_type in HYBRID else own


def mlx_hybrid(reading: LayerReading) -> Changes:
    """Return Qwen 3.5 with one position, and base and share from ``rope_parameters`` or defaults.

    Raises: InvalidInput.
    """
    nested = bool(reading.config.get("rope_parameters"))
    # Without the key, the class has a default object.
    places = ("entry",) if nested else ("top",) if "rope_parameters" in reading.config else ()
    changes: dict[str, Any] = {} if nested and reading.scheme in SCALED else plain(reading)
    if reading.top.count("head_dim") is None:
        changes["dim"] = dimensions_per_head(reading) or reading.params["dim"]
    changes["partial"] = stated(reading, SHARE, *places) or 0.25
    changes["base"] = stated(reading, "rope_theta", *places) or CLASSES[reading.model_type].base
    check_share(NAME, SHARE, changes["partial"], changes.get("dim") or reading.params["dim"])
    return changes


def mlx_step(reading: LayerReading) -> Changes:
    """Return Step 3.5's changes: scaling only in layers of the types in ``yarn_only_types``.

    Raises: InvalidInput if layers of one type differ in base or share, or for unread scaling.
    """
    theta = reading.config.get("rope_theta", CLASSES["step3p5"].base)
    if isinstance(theta, list) and len(theta) <= max(reading.layers):
        raise refused(NAME, f"rope_theta has {len(theta)} values, fewer than there are layers")
    shares = reading.config.get("partial_rotary_factors") or ()
    own = {
        (theta[layer] if isinstance(theta, list) else theta, *shares[layer : layer + 1])
        for layer in reading.layers
    }
    if len(own) > 1:
        raise other_layers(NAME, "it reads base and share for each layer, not for each layer type")
    named = reading.config.get("yarn_only_types") or (reading.layer_type,)
    scaled = reading.layer_type in named and reading.config.get("rope_scaling")
    if scaled and reading.scheme == "rope":
        raise not_read(NAME, "step3p5 whose layers other than full ones are scaled")
    return {} if scaled else plain(reading)


def mlx_longrope(reading: LayerReading) -> Changes:
    """Return Phi-3's long factors for every length, with s from the two top-level contexts."""
    if reading.rope.get("type") not in ("longrope", "su"):
        return plain(reading)
    original = original_length(reading, NAME, "top", 4096, null=False)
    context = reading.top.count("max_position_embeddings")
    return {
        "factor": None,
        ORIGINAL: original,
        "max_position_embeddings": context.value if context else 131_072,
        "attention_factor": None,
        "seq_len": original + 1,
    }


_KEY_REFUSALS = (
    RuntimeRefusal(
        refused,
        "posenc does not read its own key rope_traditional",
        when=lambda r: r.config.get("rope_traditional"),
    ),
    RuntimeRefusal(refused, _missing_key_text),
    RuntimeRefusal(
        refused,
        f"its lfm2 fails on a file without {_LFM2_LAYER_KEYS[0]}",
        when=lambda r: r.model_type == "lfm2" and not any(map(r.config.get, _LFM2_LAYER_KEYS)),
    ),
    *for_keys(
        refused,
        "its ministral3 fails on a file without {}",
        ("llama_4_scaling_beta", ORIGINAL),
        lambda key, r: (
            r.model_type == "ministral3" and key not in (r.config.get("rope_parameters") or {})
        ),
    ),
    *for_keys(
        refused,
        "its phi3 fails on a file without {}",
        ("long_factor", "type"),
        lambda key, r: r.model_type == "phi3" and r.scaling and key not in r.scaling,
    ),
    RuntimeRefusal(
        refused,
        "its deepseek_v2 fails on a file without rope_scaling",
        when=lambda r: r.model_type == "deepseek_v2" and r.config and not r.scaling,
    ),
    RuntimeRefusal(
        refused,
        "it fails if rope_theta is null",
        when=lambda r: r.config.get("rope_theta", 0) is None and r.model_type != "gemma4_text",
    ),
    RuntimeRefusal(
        refused,
        "its Gemma 3 does not read rope_parameters, and takes its own bases",
        when=lambda r: r.container == "rope_parameters" and r.model_type == "gemma3_text",
    ),
    RuntimeRefusal(
        refused,
        lambda r: f"its {r.model_type} reads type in rope_scaling; transformers does not",
        when=lambda r: (
            r.model_type in ("gemma3_text", "olmo3")
            and "type" in r.scaling
            and "rope_type" not in r.scaling
        ),
    ),
)
"""Configs on which a class fails, or which it reads in a way that posenc cannot express."""

_AXIS_REFUSALS = (
    RuntimeRefusal(
        refused,
        lambda r: f"it has no class for the text model of {r.model_type} by itself",
        when=lambda r: (
            r.prefix not in ("", "text_config.") or (not r.prefix and _lacks_outer_model(r))
        ),
    ),
    RuntimeRefusal(
        refused,
        "it fails on the type mrope without mrope_section",
        when=lambda r: (
            r.model_type in SEVERAL_AXES
            and (r.scaling.get("type") or r.scaling.get("rope_type")) == "mrope"
            and "mrope_section" not in r.scaling
        ),
    ),
    RuntimeRefusal(
        not_read,
        "rope_scaling beside rope_parameters",
        when=lambda r: r.model_type in HYBRID and "rope_parameters" in r.config and r.scaling,
    ),
)
"""Configs on which its multimodal classes fail."""

_MLX = f"{HUB}/ml-explore/mlx-lm/blob/v0.32.2/mlx_lm/models"

RUNTIME = Runtime(
    NAME,
    "0.32.2",
    {
        **of_types(SCALED, *CLASSES),
        **of_types(SCALED - DYNAMIC, "deepseek_v3", "glm_moe_dsa", "gpt_oss"),
        **of_types(SCALED | {"nope"}, *SOME_UNROTATED),
        **of_types(SCALED | {"mrope"}, *HYBRID),
        **of_types(frozenset({"mrope"}), *SEVERAL_AXES),
        "deepseek_v2": frozenset({"rope", "rope-yarn"}),
        "gemma4_text": PLAIN_ROPE | {"rope-proportional"},
        "gptj": frozenset({"rope"}),
        "phi3": PLAIN_ROPE | LONGROPE,
    },
    {
        "mistral": "llama",
        "text_config.llama4_text": "llama4",
        **dict.fromkeys(SEVERAL_AXES, "qwen2"),
        **dict.fromkeys(HYBRID, "qwen3_5"),
    },
)

DIFFERENCES = (
    RuntimeDifference(
        NAME,
        "fields",
        YARN,
        "divides by beta_fast and beta_slow even if they are 0",
        f"{_MLX}/rope_utils.py",
        always(),
        refusals=(*NO_BETA_OF_ZERO,),
    ),
    RuntimeDifference(
        NAME,
        "head size",
        SCALED | LONGROPE | {"mrope"},
        "uses hidden_size / num_attention_heads instead of head_dim",
        f"{_MLX}/{{model}}.py",
        divided_head,
        DIVIDED_HEADS,
    ),
    RuntimeDifference(
        NAME,
        "positions",
        frozenset({"mrope"}),
        "rotates every pair by the same position, and reads only rope_theta and rope_scaling",
        f"{_MLX}/qwen2_vl.py",
        lambda r: {**mlx_container(r), **plain(r), "partial": None},
        SEVERAL_AXES,
        refusals=(*_AXIS_REFUSALS, *_KEY_REFUSALS),
    ),
    RuntimeDifference(
        NAME,
        "positions",
        SCALED | {"mrope"},
        "rotates every pair by the same position, and reads only rope_parameters. By default, the "
        "base is 100000 and the rotary share is 0.25",
        f"{_MLX}/qwen3_5.py",
        mlx_hybrid,
        HYBRID,
        refusals=(BY_INTERVAL, *_AXIS_REFUSALS),
    ),
    RuntimeDifference(
        NAME,
        "container",
        SCALED,
        MIMO_KEYS,
        f"{_MLX}/mimo_v2_flash.py",
        partial(mimo_changes, runtime=NAME),
        frozenset({"mimo_v2_flash"}),
        refusals=mimo_refusals(*_NEEDED["mimo_v2_flash"]),
    ),
    RuntimeDifference(
        NAME,
        "container",
        SCALED,
        "reads a base and a rotary share for each layer, and scales only the layer types in "
        "yarn_only_types (default: all)",
        f"{_MLX}/step3p5.py",
        mlx_step,
        frozenset({"step3p5"}),
        refusals=(
            WITHIN_ANOTHER,
            RuntimeRefusal(
                not_read,
                "rope_scaling.type of step3p5",
                when=lambda r: "type" in r.scaling,
            ),
            RuntimeRefusal(refused, lambda r: fails_without(r, "head_dim")),
        ),
    ),
    RuntimeDifference(
        NAME,
        "fields",
        SCALED | {"nope"},
        "leaves every fourth layer of a multimodal model unrotated",
        f"{_MLX}/llama4.py",
        always(),
        frozenset({"llama4_text"}),
        refusals=(replace(FOURTH_UNROTATED, when=lambda r: r.prefix and FOURTH_UNROTATED.when(r)),),
    ),
    RuntimeDifference(
        NAME,
        "partial rotation",
        SCALED,
        "rotates whole heads, because its class ignores partial_rotary_factor",
        f"{_MLX}/{{model}}.py",
        always(partial=None),
        frozenset(CLASSES) - WITH_ROTARY_DIM - SEVERAL_AXES,
    ),
    RuntimeDifference(
        NAME,
        "partial rotation",
        SCALED,
        "reads the rotary share at the top level (default for Phi: 0.4)",
        f"{_MLX}/phi.py",
        lambda r: other_share(
            r, NAME, (stated(r, SHARE, "top") or _PHI_SHARE) if r.config else None
        ),
        frozenset({"phi"}),
    ),
    RuntimeDifference(
        NAME,
        "container",
        SCALED | LONGROPE,
        "reads only the keys of its model class, mostly rope_theta and rope_scaling",
        f"{_MLX}/{{model}}.py",
        mlx_container,
        frozenset(CLASSES) - OWN_KEYS,
        refusals=_KEY_REFUSALS,
    ),
    RuntimeDifference(
        NAME,
        "scaling",
        SCALED - {"rope"},
        "ignores scaling for this model",
        f"{_MLX}/{{model}}.py",
        lambda r: {} if _class_of(r).scales else plain(r),
    ),
    RuntimeDifference(
        NAME,
        "attention factor",
        YARN,
        "always truncates, ignores attention_factor, and uses the amplitude "
        "g(mscale)/g(mscale_all_dim). The default original length is 4096",
        f"{_MLX}/rope_utils.py",
        lambda r: {
            ORIGINAL: original_length(r, NAME, "entry", 4096, null=False),
            **magnitude_ratio(r, NAME),
        },
        refusals=(RuntimeRefusal(refused, lambda r: fails_on_null(r, "factor")),),
    ),
    RuntimeDifference(
        NAME,
        "original length",
        frozenset({"rope-llama3"}),
        "uses 8192 if the rope object has no original length",
        f"{_MLX}/rope_utils.py",
        lambda r: {ORIGINAL: original_length(r, NAME, "entry", 8192, null=False)},
    ),
    RuntimeDifference(
        NAME,
        "fields",
        DYNAMIC,
        "needs max_position_embeddings",
        f"{_MLX}/rope_utils.py",
        always(),
        refusals=(
            RuntimeRefusal(
                refused,
                "it fails if max_position_embeddings is missing",
                when=lambda r: r.top.count("max_position_embeddings") is None,
            ),
        ),
    ),
    RuntimeDifference(
        NAME,
        "choice of factors",
        LONGROPE,
        "uses the long factors at every length, and ignores factor and attention_factor",
        f"{_MLX}/rope_utils.py",
        mlx_longrope,
        refusals=(
            RuntimeRefusal(
                refused,
                "its Phi-3 reads type in rope_scaling, not rope_type",
                when=lambda r: r.rope.get("type") is None,
            ),
        ),
    ),
)
"""mlx-lm's known differences, in the order in which they apply."""
