"""How llama.cpp departs from transformers 5: what its converter writes, and its loader reads.

The converter takes what transformers 4.57 reads of a config, and each of its classes writes keys of
its own: some write neither base nor scaling, and the loader takes 10,000 and none.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from posenc_cli.configs.engines.llama_cpp_models import (
    BASE,
    NAME,
    base_without,
    check_by_type,
    check_gemma4,
    check_mimo,
    leaves_out,
    llama_cpp_apertus,
    llama_cpp_cohere,
    llama_cpp_cohere2,
    llama_cpp_exaone4,
    llama_cpp_minimax,
    llama_cpp_ministral,
    llama_cpp_nemotron,
    llama_cpp_null,
    llama_cpp_olmo3,
    llama_cpp_original,
)
from posenc_cli.configs.engines.runtime_rules import (
    DEEPSEEK,
    DYNAMIC,
    HUB,
    LONGROPE,
    MIMO_KEYS,
    ORIGINAL,
    PLAIN_ROPE,
    SCALED,
    YARN,
    Runtime,
    RuntimeDifference,
    always,
    always_truncated,
    any_share,
    check_fourth,
    check_full,
    check_interval,
    divided_head,
    no_beta_of_zero,
    not_read,
    null_is_plain,
    of_types,
    other_layers,
    own_mimo,
    plain,
    refused,
)
from posenc_cli.configs.keys import first
from posenc_cli.records import replace

if TYPE_CHECKING:
    from posenc_cli.configs.engines.runtime_rules import Changes, LayerReading

OF_LLAMA = frozenset(
    {
        *("apertus", "arcee", "exaone4", "granite_swa", "llama", "llama4_text", "mistral"),
        "mixtral",
    }
)
"""Those whose class writes the divisors of Llama 3's rule, and whose graph divides by them."""
STRETCHED = frozenset(
    {
        *("ernie4_5", "glm4", "glm4_moe", "minimax_m2", "olmo", "olmo2", "olmoe", "qwen2"),
        *("qwen2_moe", "qwen3", "qwen3_moe", "seed_oss", "smollm3", "starcoder2"),
    }
)
"""Those whose class writes the base, and a linear scaling or YaRN."""
GRANITE = frozenset({"granite", "granitemoe"})
"""Those whose class is Llama's, but for what their architecture has no tensor for."""
LOST = frozenset({"falcon", "gemma", "gemma2", "gpt_neox", "phi", "stablelm"})
"""Those whose class writes neither base nor scaling."""
SEEING = frozenset({"qwen2_vl_text", "qwen2_5_vl_text", "qwen3_vl_text", "qwen3_vl_moe_text"})
"""Those whose pairs follow several axes."""
HYBRID = frozenset({"qwen3_5_moe_text", "qwen3_5_text"})
"""Those whose axes its graph knows, and whose layers that attend its loader counts."""
EVERY_FOURTH = {"llama4_text": "llama4", "smollm3": "smollm3"}
"""Those whose graph, in a file of that name, leaves every fourth layer unrotated."""
SOME_STILL = frozenset({"cohere2", "exaone4"})
"""Those that rotate sliding layers alone, where any slide."""
WRITING_SHARES = frozenset({"glm4", "glm4_moe", "gpt_neox", "minimax_m2", "nemotron"}) | {
    *("phi", "phi3", "phimoe", "stablelm")
}
"""Those whose class writes how many dimensions rotate."""
DIVIDED = frozenset({"gpt_neox", "granite_swa", "phi", "stablelm", *GRANITE})
"""Those whose class takes hidden_size over num_attention_heads for the columns of a head."""
_SHARE_OF_NEOX = 0.25
_STRETCH = (
    *("factor", ORIGINAL, "beta_fast", "beta_slow", "mscale", "mscale_all_dim"),
    *("attention_factor", "truncate"),
)
"""The parameters that YaRN has beside plain rope's."""


def llama_cpp_lost(reading: LayerReading) -> Changes:
    """What is left of a file that has neither base nor scaling."""
    changes = {**plain(reading), "base": BASE}
    if reading.model_type == "gpt_neox":
        share = reading.top.number("rotary_pct")
        changes["partial"] = float(share.value) if share else _SHARE_OF_NEOX
    return changes


def llama_cpp_llama3(reading: LayerReading) -> Changes:
    """Llama 3's rule is in divisors, which other classes do not write.

    Raises: InvalidInput.
    """
    if reading.model_type in GRANITE:
        raise refused(NAME, f"its converter fails on llama3 in {reading.model_type}")
    return plain(reading)


def llama_cpp_hybrid(reading: LayerReading) -> Changes:
    """Qwen 3.5's layers are counted by an interval, and its columns written as head_dim says.

    Raises: InvalidInput.
    """
    if reading.config and reading.top.count("head_dim") is None:
        raise not_read(NAME, f"{reading.model_type} without head_dim")
    return check_interval(reading, runtime=NAME)


def llama_cpp_layer_bases(reading: LayerReading) -> Changes:
    """The converter of Granite's sliding models writes one base.

    Raises: InvalidInput where a layer does not rotate.
    """
    bases = reading.config.get("layer_rope_theta") or ()
    if not all(bases):
        raise other_layers(
            NAME, "it rotates every layer by rope_theta, whatever layer_rope_theta says"
        )
    nested = replace(reading, rope=reading.config.get("rope_parameters") or {})
    stated = first(nested.entry.number("rope_theta"), reading.top.number("rope_theta"))
    return {"base": float(stated.value) if stated else BASE} if bases else {}


def llama_cpp_yarn(reading: LayerReading) -> Changes:
    """llama.cpp: 1 + 0.1 ln s, over g(mscale_all_dim) in two families; nothing without a factor."""
    if leaves_out(reading):
        return {"scheme": "rope", **dict.fromkeys(_STRETCH)}
    if reading.rope.get("extrapolation_factor", 1) != 1:
        raise refused(NAME, "extrapolation_factor has no counterpart in rope-yarn")
    changes: dict[str, Any] = {
        **always_truncated(reading),
        "attention_factor": None,
        "mscale": None,
        "mscale_all_dim": None,
    }
    all_dim = reading.entry.number("mscale_all_dim", minimum=0)
    if all_dim is None or not all_dim.value:
        return changes
    if reading.model_type in DEEPSEEK:
        return {**changes, "attention_factor": 1.0}
    if reading.model_type == "ministral3":
        return {**changes, "mscale": 1.0, "mscale_all_dim": all_dim.value}
    return changes


def llama_cpp_betas(reading: LayerReading) -> Changes:
    """llama.cpp ramps from 32 to 1 rotations whatever a file says, but in Ministral 3."""
    usual = {"beta_fast": 32.0, "beta_slow": 1.0}
    params = reading.params
    return {name: None for name, turns in usual.items() if params.get(name, turns) != turns}


def llama_cpp_longrope(reading: LayerReading) -> Changes:
    """llama.cpp chooses the factors once, and takes s from the two contexts."""
    return {
        "factor": None,
        "max_position_embeddings": reading.length,
        "attention_factor": None,
        "seq_len": reading.length,
    }


_LLAMA_CPP = f"{HUB}/ggml-org/llama.cpp"
_WITHOUT_SHARE = (OF_LLAMA | STRETCHED | GRANITE | LOST | DEEPSEEK) - WRITING_SHARES | {
    *("cohere", "cohere2", "gemma3_text", "gpt_oss", "ministral3", "olmo3")
}
"""Those whose class does not write how many dimensions rotate."""

RUNTIME = Runtime(
    NAME,
    "as in llama-cpp-python 0.3.36",
    {
        **of_types(SCALED, *OF_LLAMA, *STRETCHED, *GRANITE, *LOST, "cohere", "nemotron"),
        **of_types(SCALED | {"nope"}, *EVERY_FOURTH, *SOME_STILL, "granite_swa"),
        **of_types(PLAIN_ROPE, "gemma3_text"),
        **of_types(frozenset({"rope"}), "mimo_v2_flash", "modernbert"),
        **of_types(frozenset({"mrope"}), *SEEING, *HYBRID),
        **of_types(PLAIN_ROPE | {"rope-proportional"}, "gemma4_text"),
        **of_types(PLAIN_ROPE | YARN, *DEEPSEEK, "glm_moe_dsa", "ministral3", "olmo3"),
        **of_types(frozenset({"rope-yarn"}), "gpt_oss"),
        **of_types(frozenset({"rope", "rope-longrope"}), "phi3", "phimoe"),
    },
    {
        **dict.fromkeys(("apertus", "arcee", "mistral", "mixtral", "smollm3"), "llama"),
        **dict.fromkeys(("cohere", "cohere2"), "command_r"),
        **dict.fromkeys(DEEPSEEK, "deepseek"),
        **dict.fromkeys(("gemma2", "gemma3_text"), "gemma"),
        **dict.fromkeys(("glm4", "glm4_moe"), "glm"),
        **dict.fromkeys(("granite_swa", "granitemoe"), "granite"),
        **dict.fromkeys(("olmo2", "olmo3", "olmoe", "seed_oss"), "olmo"),
        **dict.fromkeys(("qwen2", "qwen2_moe", "qwen3", "qwen3_moe"), "qwen"),
        "ernie4_5": "ernie",
        "exaone4": "exaone",
        "gpt_neox": "gptneox",
        "llama4_text": "llama4",
        "mimo_v2_flash": "mimo",
        "minimax_m2": "minimax",
        "ministral3": "mistral3",
        "starcoder2": "starcoder",
    },
)

DIFFERENCES = (
    RuntimeDifference(
        NAME,
        "fields",
        frozenset({"rope"}),
        "fails on a MiMo without its own keys, and where sliding layers have heads of another size",
        f"{_LLAMA_CPP}/blob/master/conversion/mimo.py",
        check_mimo,
        frozenset({"mimo_v2_flash"}),
    ),
    RuntimeDifference(
        NAME,
        "container",
        frozenset({"rope"}),
        MIMO_KEYS + " (10000 for a base that is missing)",
        f"{_LLAMA_CPP}/blob/master/conversion/mimo.py",
        partial(own_mimo, runtime=NAME, needed=(), base=BASE, shared=False, nulls=()),
        frozenset({"mimo_v2_flash"}),
    ),
    RuntimeDifference(
        NAME,
        "partial rotation",
        SCALED,
        "rotates whole heads: its converter writes the rotated dimensions of other models alone",
        f"{_LLAMA_CPP}/blob/master/conversion/{{model}}.py",
        always(partial=None),
        _WITHOUT_SHARE,
        converted=True,
    ),
    RuntimeDifference(
        NAME,
        "head size",
        SCALED,
        "takes hidden_size / num_attention_heads in place of head_dim",
        f"{_LLAMA_CPP}/blob/master/conversion/{{model}}.py",
        divided_head,
        DIVIDED,
        converted=True,
    ),
    *(
        RuntimeDifference(
            NAME,
            "fields",
            SCALED | {"nope"},
            "leaves every fourth layer unrotated, whatever no_rope_layers says",
            f"{_LLAMA_CPP}/blob/master/src/models/{file}.cpp",
            partial(check_fourth, runtime=NAME),
            frozenset({kind}),
        )
        for kind, file in EVERY_FOURTH.items()
    ),
    RuntimeDifference(
        NAME,
        "fields",
        frozenset({"mrope"}),
        "counts the layers that attend by full_attention_interval, whatever layer_types says",
        f"{_LLAMA_CPP}/blob/master/src/models/qwen35.cpp",
        llama_cpp_hybrid,
        HYBRID,
    ),
    RuntimeDifference(
        NAME,
        "base",
        SCALED | {"nope"},
        "takes rope_theta for every layer: its converter does not write layer_rope_theta",
        f"{_LLAMA_CPP}/blob/master/conversion/granite.py",
        llama_cpp_layer_bases,
        frozenset({"granite_swa"}),
        converted=True,
    ),
    RuntimeDifference(
        NAME,
        "partial rotation",
        PLAIN_ROPE | YARN,
        "rotates only the share partial_rotary_factor states",
        f"{_LLAMA_CPP}/blob/master/conversion/glm.py",
        partial(any_share, runtime=NAME),
        frozenset({"glm_moe_dsa"}),
        converted=True,
    ),
    RuntimeDifference(
        NAME,
        "fields",
        PLAIN_ROPE | YARN,
        "takes a rope object for each layer type: one for all layers was not read",
        f"{_LLAMA_CPP}/blob/master/conversion/base.py",
        check_by_type,
        frozenset({"gemma3_text", "olmo3"}),
    ),
    RuntimeDifference(
        NAME,
        "fields",
        PLAIN_ROPE,
        "has every sixth layer full, whatever layer_types says",
        f"{_LLAMA_CPP}/blob/master/src/models/gemma3.cpp",
        partial(check_full, runtime=NAME, step=6, name="sixth"),
        frozenset({"gemma3_text"}),
    ),
    RuntimeDifference(
        NAME,
        "base",
        SCALED,
        "takes base 10000 and no scaling: its converter writes neither of this model",
        f"{_LLAMA_CPP}/blob/master/conversion/{{model}}.py",
        llama_cpp_lost,
        LOST,
        converted=True,
    ),
    RuntimeDifference(
        NAME,
        "scaling",
        SCALED,
        "builds a plain rotation for this model, whatever rope_scaling says",
        f"{_LLAMA_CPP}/blob/master/conversion/command_r.py",
        llama_cpp_cohere,
        frozenset({"cohere"}),
        converted=True,
    ),
    RuntimeDifference(
        NAME,
        "fields",
        SCALED | {"nope"},
        "has every fourth layer full, whatever layer_types says",
        f"{_LLAMA_CPP}/blob/master/src/models/cohere2.cpp",
        partial(check_full, runtime=NAME, step=4, name="fourth"),
        frozenset({"cohere2"}),
    ),
    RuntimeDifference(
        NAME,
        "partial rotation",
        SCALED | {"nope"},
        "rotates the share that rotary_pct, which it needs, states of hidden_size / "
        "num_attention_heads, and does not scale",
        f"{_LLAMA_CPP}/blob/master/conversion/command_r.py",
        llama_cpp_cohere2,
        frozenset({"cohere2"}),
        converted=True,
    ),
    RuntimeDifference(
        NAME,
        "scaling",
        SCALED,
        "takes any factor, of the top level first, for a linear one, and the share of hidden_size "
        "over num_attention_heads",
        f"{_LLAMA_CPP}/blob/master/conversion/nemotron.py",
        llama_cpp_nemotron,
        frozenset({"nemotron"}),
        converted=True,
    ),
    RuntimeDifference(
        NAME,
        "partial rotation",
        SCALED,
        "rotates the columns of rotary_dim, whatever share partial_rotary_factor states, and takes "
        "10000 for a base that is missing",
        f"{_LLAMA_CPP}/blob/master/conversion/minimax.py",
        llama_cpp_minimax,
        frozenset({"minimax_m2"}),
        converted=True,
    ),
    RuntimeDifference(
        NAME,
        "container",
        frozenset({"rope-llama3"}),
        "takes rope_theta beside a rope object that is missing, and one of null as no scaling",
        f"{_LLAMA_CPP}/blob/master/conversion/base.py",
        llama_cpp_apertus,
        frozenset({"apertus"}),
        converted=True,
    ),
    RuntimeDifference(
        NAME,
        "fields",
        SCALED | {"nope"},
        "rotates all layers but every fourth of an EXAONE 4 of 64 layers, and every one of others",
        f"{_LLAMA_CPP}/blob/master/src/models/exaone4.cpp",
        llama_cpp_exaone4,
        frozenset({"exaone4"}),
    ),
    RuntimeDifference(
        NAME,
        "container",
        SCALED - {"rope"},
        "takes rope_parameters of null before rope_scaling, as no scaling",
        f"{_LLAMA_CPP}/blob/master/conversion/base.py",
        llama_cpp_null,
        (_WITHOUT_SHARE | WRITING_SHARES) - LOST - {"ministral3", "phi3", "phimoe"},
        converted=True,
    ),
    RuntimeDifference(
        NAME,
        "scaling",
        frozenset({"rope-llama3"}),
        "does not scale: its converter writes the divisors of Llama's kin alone",
        f"{_LLAMA_CPP}/blob/master/conversion/{{model}}.py",
        llama_cpp_llama3,
        STRETCHED | GRANITE,
        converted=True,
    ),
    RuntimeDifference(
        NAME,
        "scaling",
        YARN,
        "takes a rope_scaling of null as no scaling",
        f"{_LLAMA_CPP}/blob/master/conversion/gpt_oss.py",
        null_is_plain,
        frozenset({"gpt_oss"}),
        converted=True,
    ),
    RuntimeDifference(
        NAME,
        "factor",
        PLAIN_ROPE | {"rope-proportional"},
        "ignores factor of proportional layers, and fails on a Gemma 4 without them",
        f"{_LLAMA_CPP}/blob/master/conversion/gemma.py",
        lambda r: {
            **check_gemma4(r),
            **({"factor": None} if r.scheme == "rope-proportional" else {}),
        },
        frozenset({"gemma4_text"}),
        converted=True,
    ),
    RuntimeDifference(
        NAME,
        "base",
        frozenset({"mrope"}),
        "takes 5000000 for a base that is missing, as transformers 4.57 does",
        f"{_LLAMA_CPP}/blob/master/conversion/base.py",
        partial(base_without, base=5e6),
        frozenset({"qwen3_vl_text", "qwen3_vl_moe_text"}),
        converted=True,
    ),
    RuntimeDifference(
        NAME,
        "base",
        PLAIN_ROPE | YARN,
        "takes rope_theta of the full layers for every layer, and 10000 without it",
        f"{_LLAMA_CPP}/blob/master/conversion/olmo.py",
        llama_cpp_olmo3,
        frozenset({"olmo3"}),
        converted=True,
    ),
    RuntimeDifference(
        NAME,
        "fields",
        YARN,
        "divides by beta_fast and beta_slow as they stand",
        f"{_LLAMA_CPP}/blob/master/ggml/src/ggml.c",
        partial(no_beta_of_zero, runtime=NAME),
    ),
    RuntimeDifference(
        NAME,
        "fields",
        PLAIN_ROPE | YARN,
        "takes ministral3 with rope_type yarn, mscale_all_dim and llama_4_scaling_beta alone",
        f"{_LLAMA_CPP}/blob/master/conversion/mistral3.py",
        llama_cpp_ministral,
        frozenset({"ministral3"}),
    ),
    RuntimeDifference(
        NAME,
        "original length",
        YARN | {"rope-llama3"},
        "takes the original length in the rope object before the one beside it, and 8192 for "
        "llama3 where neither is there",
        f"{_LLAMA_CPP}/blob/master/conversion/base.py",
        llama_cpp_original,
    ),
    RuntimeDifference(
        NAME,
        "fields",
        LONGROPE | {"rope"},
        "needs an original length, scaled or not",
        f"{_LLAMA_CPP}/blob/master/conversion/phi.py",
        llama_cpp_original,
        frozenset({"phi3", "phimoe"}),
    ),
    RuntimeDifference(
        NAME,
        "attention factor",
        YARN,
        "amplitude is 1 + 0.1 ln(factor) whatever attention_factor says, over "
        "g(mscale_all_dim) in Ministral 3 and cancelled in DeepSeek; always truncates",
        f"{_LLAMA_CPP}/pull/17945",
        llama_cpp_yarn,
    ),
    RuntimeDifference(
        NAME,
        "ramp",
        YARN,
        "ramps from 32 to 1 rotations whatever beta_fast and beta_slow say, but in Ministral 3: "
        "its loader of no other model reads their keys",
        f"{_LLAMA_CPP}/blob/master/src/llama-hparams.h",
        llama_cpp_betas,
        OF_LLAMA | STRETCHED | GRANITE | DEEPSEEK | {"glm_moe_dsa", "gpt_oss", "olmo3"},
    ),
    RuntimeDifference(
        NAME,
        "choice of factors",
        LONGROPE,
        "chooses once, by the context it allocates (here seq_len; the whole context by default); "
        "ignores factor and attention_factor",
        f"{_LLAMA_CPP}/blob/master/src/llama-model.cpp",
        llama_cpp_longrope,
    ),
    RuntimeDifference(
        NAME,
        "dynamic length",
        DYNAMIC,
        "does not scale: its converter leaves the type out",
        f"{_LLAMA_CPP}/blob/master/conversion/base.py",
        always(scheme="rope", factor=None, max_position_embeddings=None, seq_len=None),
    ),
)
"""Its known differences, in the order in which they are applied."""
