"""What other runtimes make of the same config: their known differences, as data.

transformers 5 is what a config means. Each entry of :data:`DIFFERENCES` is one point at which
another runtime is known to compute something else, read in that runtime's own code at the version
its :class:`Runtime` names. What was not read is refused: no runtime's behaviour is guessed.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from posenc_cli.configs import (
    exllama_rules,
    mlx_rules,
    onnx_rules,
    sglang_rules,
    transformers_rules,
)
from posenc_cli.configs import runtime_rules as rules
from posenc_cli.configs.resolved import TRANSFORMERS, Departure, Sourced
from posenc_cli.configs.runtime_rules import LayerReading, UnknownReading
from posenc_cli.errors import InvalidInput, abbreviated, nearest
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from posenc_cli.configs.keys import Keys
    from posenc_cli.configs.resolved import Layers
    from posenc_cli.configs.runtime_rules import Changes
    from posenc_cli.configs.text_models import TextModel

__all__ = [
    "DIFFERENCES",
    "RUNTIMES",
    "Adjusted",
    "LayerReading",
    "Runtime",
    "RuntimeDifference",
    "UnknownReading",
    "adjust",
    "find",
    "read_as",
]


class Runtime(Record):
    """A runtime at the version whose code was read.

    ``model_types`` are those whose rotary embedding was traced through its code, each with the
    schemes for which that was done; elsewhere it is not known what the runtime does.
    """

    name: str
    version: str
    model_types: Mapping[str, frozenset[str]]


class RuntimeDifference(Record):
    """One point at which a runtime differs from transformers 5.

    ``evidence`` is where that can be read. ``rule(reading)`` gives the changes, empty where the
    difference makes none for this config. ``model_types`` limits it, empty to none.
    """

    runtime: str
    topic: str
    schemes: frozenset[str]
    what: str
    evidence: str
    rule: Callable[[LayerReading], Changes]
    model_types: frozenset[str] = frozenset()

    def applies(self, reading: LayerReading) -> bool:
        """Whether it concerns this kind of layer."""
        return reading.scheme in self.schemes and (
            not self.model_types or reading.model_type in self.model_types
        )


class Adjusted(Record):
    """What a runtime makes of a reading: the scheme, its parameters, and why they differ.

    ``reasons`` says for each parameter that differs (``scheme`` too) which difference it is, and
    ``read`` are the paths of the keys that such were read from.
    """

    scheme: str
    params: Mapping[str, Any]
    reasons: Mapping[str, RuntimeDifference]
    read: frozenset[str] = frozenset()


def find(name: str) -> Runtime:
    """The runtime of a name.

    Raises: InvalidInput with the nearest name as a hint.

    >>> find("vllm").version
    '0.33.0'
    """
    if name not in RUNTIMES:
        known = ", ".join(RUNTIMES)
        raise InvalidInput(
            f"--as {abbreviated(name)}: must be one of {known}", hint=nearest(name, RUNTIMES)
        )
    return RUNTIMES[name]


def read_as(runtime: str, reading: LayerReading) -> Adjusted:
    """What a runtime makes of what transformers reads, in plain values.

    Raises: InvalidInput for an unknown runtime, and where it is not known what this one does.
    """
    known = find(runtime)
    if runtime == TRANSFORMERS:
        return Adjusted(reading.scheme, reading.params, {})
    if reading.scheme not in known.model_types.get(reading.model_type, frozenset()):
        raise UnknownReading(
            f"--as {runtime}: what {runtime} {known.version} makes of {reading.scheme} in "
            f"{reading.model_type} was not read in its code, and is not guessed",
            hint=_known(known),
        )
    scheme, params = reading.scheme, dict(reading.params)
    reasons: dict[str, RuntimeDifference] = {}
    read: set[str] = set()
    for difference in DIFFERENCES:
        if difference.runtime != runtime or not difference.applies(reading):
            continue
        asked = replace(reading, read=set())
        changes = dict(difference.rule(asked))
        if changes:
            read |= asked.read
        scheme = changes.pop("scheme", scheme)
        changed = [name for name, value in changes.items() if params.get(name) != value]
        params = {name: value for name, value in {**params, **changes}.items() if value is not None}
        reasons |= dict.fromkeys(changed, difference)
        if scheme != reading.scheme:
            reasons["scheme"] = difference
            break  # the differences of a rule that is not followed are none
    return Adjusted(scheme, params, reasons, frozenset(read))


def adjust(
    layers: Layers, rope: Keys | None, model: TextModel, *, runtime: str
) -> tuple[Layers, tuple[Departure, ...], frozenset[str]]:
    """Layers as a runtime reads them, where it leaves transformers, and by keys of which paths.

    ``rope`` is their rope object in the config of ``model``, None of layers without.

    Raises: InvalidInput for an unknown runtime, and where it is not known what this one does.
    """
    known = find(runtime)
    if rope is None:
        if layers.scheme != "nope":
            raise UnknownReading(
                f"--as {runtime}: what {runtime} {known.version} makes of {layers.scheme} was not "
                "read in its code, and is not guessed"
            )
        return layers, (), frozenset()
    context, top = layers.derived.get("context"), model.keys
    reading = LayerReading(
        model_type=model.model_type,
        scheme=layers.scheme,
        params=layers.values(),
        config=top.values,
        rope=rope.values,
        container="" if top.values.get("rope_parameters") is None else "rope_parameters",
        context=context.value if context else None,
        name=top.name,
        prefix=top.prefix,
    )
    result = read_as(runtime, reading)
    top.read.update(result.read)
    params = {
        name: layers.params[name]
        if name in layers.params and layers.params[name].value == value
        else Sourced(value, f"{runtime}: {result.reasons[name].topic}")
        for name, value in result.params.items()
    }
    departures = dict.fromkeys(
        Departure(runtime, known.version, reason.topic, reason.what, reason.evidence)
        for reason in result.reasons.values()
    )
    read = result.read if departures else frozenset()
    return replace(layers, scheme=result.scheme, params=params), tuple(departures), read


def _known(runtime: Runtime) -> str:
    return f"known of {runtime.name}: {', '.join(sorted(runtime.model_types))}"


_PLAIN = frozenset({"rope", "rope-linear"})
_SCALED = _PLAIN | {"rope-yarn", "rope-llama3", "rope-dynamic"}


def _of(schemes: frozenset[str], *model_types: str) -> dict[str, frozenset[str]]:
    return dict.fromkeys(model_types, schemes)


_LLAMA_LIKE = ("llama", "mistral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe")

RUNTIMES: Mapping[str, Runtime] = {
    runtime.name: runtime
    for runtime in (
        Runtime(TRANSFORMERS, "5.23", {}),
        *(
            Runtime(
                name,
                version,
                {
                    **_of(_SCALED, *transformers_rules.STRETCHED),
                    **_of(_PLAIN | {"rope-longrope"}, "phi3"),
                    **(
                        _of(frozenset({"rope-yarn"}), "gpt_oss")
                        if name != "transformers-4.54"
                        else {}
                    ),
                },
            )
            for name, version in transformers_rules.SPANS.items()
        ),
        Runtime(
            "transformers-4.50",
            "4.50.3",
            {
                **_of(_SCALED, "llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "olmo2"),
                **_of(_SCALED, "gemma", "gemma2", "gemma3_text", "cohere", "starcoder2"),
                **_of(_PLAIN | {"rope-longrope"}, "phi3"),
                **_of(_SCALED, "gpt_neox", "phi", "stablelm", "granite"),
            },
        ),
        Runtime(
            "vllm",
            "0.33.0",
            {
                **_of(_SCALED, *_LLAMA_LIKE, "mixtral", "gemma2", "gemma3_text", "cohere"),
                **_of(_SCALED, "ministral3", "stablelm", "falcon"),
                **_of(_SCALED | {"rope-longrope"}, "phi3", "phimoe"),
                **_of(_PLAIN | {"rope-yarn"}, *rules.DEEPSEEK),
                **_of(frozenset({"rope-yarn"}), "gpt_oss"),
                **_of(_PLAIN | {"rope-proportional"}, "gemma4_text"),
                **_of(_SCALED | {"nope"}, "llama4_text"),
                # Their modules are transformers' own here, but for those that follow the length.
                **_of(_SCALED - {"rope-dynamic"}, "gpt_neox", "olmo2", "olmo3", "phi"),
                **_of(_SCALED - {"rope-dynamic"} | {"nope"}, "smollm3"),
            },
        ),
        Runtime(
            "vllm-0.11",
            "0.11.0",
            {
                **_of(_SCALED, *_LLAMA_LIKE, "gemma3_text"),
                **_of(_PLAIN | {"rope-yarn"}, *rules.DEEPSEEK),
                **_of(frozenset({"rope-yarn"}), "gpt_oss"),
            },
        ),
        Runtime(
            sglang_rules.NAME,
            "0.5.23",
            {
                **_of(_SCALED, *(sglang_rules.STRETCHED | sglang_rules.PLAIN)),
                **_of(_SCALED - {"rope-dynamic"}, "gemma3_text"),
                **_of(_SCALED | {"rope-ntk"}, "hunyuan_v1_dense", "hunyuan_v1_moe"),
                **_of(_SCALED | {"nope"}, "afmoe", "cohere2", "exaone4"),
                **_of(frozenset({"rope", "rope-longrope"}), "phi3", "phimoe"),
                **_of(frozenset({"rope", "rope-yarn"}), *sglang_rules.MLA),
            },
        ),
        Runtime(
            mlx_rules.NAME,
            "0.32.2",
            {
                model_type: frozenset({"rope", "rope-linear", "rope-longrope"})
                if model_type == "phi3"
                else _SCALED - {"rope-dynamic"}
                if model_type in ("gpt_oss", *rules.DEEPSEEK)
                else _SCALED
                for model_type in mlx_rules.CLASSES
            },
        ),
        Runtime(
            "llama.cpp",
            "as in llama-cpp-python 0.3.36",
            {
                **_of(_SCALED, "llama", "mistral", "mixtral"),
                **_of(_SCALED - {"rope-llama3"}, "qwen2", "qwen2_moe", "qwen3", "qwen3_moe"),
                **_of(_PLAIN, "gemma3_text"),
                **_of(_PLAIN | {"rope-yarn"}, *rules.DEEPSEEK, "ministral3", "olmo3"),
                **_of(frozenset({"rope-yarn"}), "gpt_oss"),
                **_of(frozenset({"rope", "rope-longrope"}), "phi3", "phimoe"),
            },
        ),
        Runtime(onnx_rules.NAME, "0.18.0", onnx_rules.MODEL_TYPES),
        Runtime(exllama_rules.NAME, "1.4.1", exllama_rules.MODEL_TYPES),
    )
}
"""The runtimes by name, transformers 5 first."""


def _of_span(runtime: str) -> Iterator[RuntimeDifference]:
    """The differences of versions of transformers that do the same."""
    newest = transformers_rules.SPANS[runtime].split()[-1]
    folder = f"{_HUB}/huggingface/transformers/blob/v{newest}/src/transformers"

    def difference(
        topic: str, schemes: frozenset[str], what: str, file: str, rule: Callable[..., Changes]
    ) -> RuntimeDifference:
        of_span = partial(rule, runtime=runtime)
        return RuntimeDifference(runtime, topic, schemes, what, f"{folder}/{file}", of_span)

    yield difference(
        "container",
        _SCALED | _LONGROPE,
        "reads rope_theta and rope_scaling only",
        "models/llama/configuration_llama.py",
        transformers_rules.span_container,
    )
    if runtime != "transformers-4.54":
        yield RuntimeDifference(
            runtime,
            "stretch",
            _YARN,
            "takes a rope_scaling of null as no stretch",
            f"{folder}/models/gpt_oss/configuration_gpt_oss.py",
            transformers_rules.span_null,
            frozenset({"gpt_oss"}),
        )
    yield difference(
        "original length",
        frozenset({"rope-llama3"}),
        "takes the original length of the rope object alone",
        "modeling_rope_utils.py",
        transformers_rules.span_llama3,
    )
    more = {
        "transformers-4.57": "",
        "transformers-4.55": "; replaces factor by the quotient of the two",
        "transformers-4.54": "; replaces factor by the quotient of the two, and always truncates",
    }
    yield difference(
        "original length",
        _YARN,
        "ramps from the original length of the rope object, else from max_position_embeddings"
        + more[runtime],
        "modeling_rope_utils.py",
        transformers_rules.span_yarn,
    )


_YARN = frozenset({"rope-yarn"})
_LONGROPE = frozenset({"rope-longrope"})
_DYNAMIC = frozenset({"rope-dynamic"})
_HUB = "https://github.com"
_TRANSFORMERS_450 = f"{_HUB}/huggingface/transformers/blob/v4.50.3/src/transformers"
_VLLM = f"{_HUB}/vllm-project/vllm/blob/v0.33.0/vllm/model_executor"
_VLLM_11 = f"{_HUB}/vllm-project/vllm/blob/v0.11.0/vllm/model_executor"
_MLX = f"{_HUB}/ml-explore/mlx-lm/blob/v0.32.2/mlx_lm/models"
_SGLANG = f"{_HUB}/sgl-project/sglang/blob/v0.5.23/python/sglang/srt"
_LLAMA_CPP = f"{_HUB}/ggml-org/llama.cpp"
_ONNX = f"{_HUB}/microsoft/onnxruntime-genai/blob/v0.18.0/src/python/py/models/builders"
_EXLLAMA = f"{_HUB}/turboderp-org/exllamav3/blob/v1.4.1/exllamav3"
_ROTARY = "layers/rotary_embedding"

DIFFERENCES: tuple[RuntimeDifference, ...] = (
    *(difference for runtime in transformers_rules.SPANS for difference in _of_span(runtime)),
    RuntimeDifference(
        "transformers-4.50",
        "container",
        _SCALED | _LONGROPE,
        "reads rope_theta and rope_scaling only",
        f"{_TRANSFORMERS_450}/models/llama/configuration_llama.py",
        rules.old_container,
    ),
    RuntimeDifference(
        "transformers-4.50",
        "original length",
        _YARN,
        "ramps from max_position_embeddings; knows no mscale and always truncates",
        f"{_TRANSFORMERS_450}/modeling_rope_utils.py",
        rules.old_yarn,
    ),
    RuntimeDifference(
        "transformers-4.50",
        "fields",
        _LONGROPE,
        "takes a mapping of type, short_factor and long_factor alone",
        f"{_TRANSFORMERS_450}/models/phi3/configuration_phi3.py",
        rules.old_longrope,
        frozenset({"phi3"}),
    ),
    *(
        RuntimeDifference(
            runtime,
            "fields",
            _YARN,
            "divides by beta_fast and beta_slow as they stand",
            evidence,
            partial(rules.no_beta_of_zero, runtime=runtime),
        )
        for runtime, evidence in (
            ("vllm", f"{_VLLM}/{_ROTARY}/common.py"),
            ("vllm-0.11", f"{_VLLM_11}/{_ROTARY}/common.py"),
            (mlx_rules.NAME, f"{_MLX}/rope_utils.py"),
            ("llama.cpp", f"{_LLAMA_CPP}/blob/master/ggml/src/ggml.c"),
            (exllama_rules.NAME, f"{_EXLLAMA}/util/rope.py"),
        )
    ),
    RuntimeDifference(
        "vllm",
        "partial rotation",
        frozenset({"rope"}),
        "turns only the share partial_rotary_factor states, for every model",
        f"{_VLLM}/{_ROTARY}/__init__.py",
        partial(rules.any_share, runtime="vllm"),
        frozenset(_LLAMA_LIKE),
    ),
    RuntimeDifference(
        "vllm",
        "truncate",
        _YARN,
        "honours truncate of nested rope_parameters too",
        f"{_VLLM}/{_ROTARY}/__init__.py",
        rules.vllm_nested_truncate,
        frozenset({*_LLAMA_LIKE, "gemma3_text"}),
    ),
    RuntimeDifference(
        "vllm",
        "attention factor",
        _YARN,
        "amplitude is g(mscale)/g(mscale_all_dim) with defaults 1 and 0; always truncates",
        f"{_VLLM}/{_ROTARY}/deepseek_scaling_rope.py",
        rules.vllm_deepseek,
        rules.DEEPSEEK,
    ),
    RuntimeDifference(
        "vllm",
        "attention factor",
        _YARN,
        "hands neither attention_factor nor mscale on",
        f"{_VLLM}/models/gpt_oss.py",
        rules.vllm_gpt_oss,
        frozenset({"gpt_oss"}),
    ),
    RuntimeDifference(
        "vllm",
        "choice of factors",
        _LONGROPE,
        "chooses once, by max_model_len (here seq_len; by default the original length where the "
        "top level states it); ignores factor and attention_factor",
        f"{_VLLM}/{_ROTARY}/phi3_long_rope_scaled_rope.py",
        rules.vllm_longrope,
    ),
    RuntimeDifference(
        "vllm",
        "dynamic length",
        _DYNAMIC,
        "stretches by the context over max_trained_positions, which is 1 without that key",
        f"{_VLLM}/{_ROTARY}/dynamic_ntk_scaling_rope.py",
        rules.vllm_dynamic,
    ),
    RuntimeDifference(
        "vllm",
        "factor",
        frozenset({"rope-proportional"}),
        "ignores factor",
        f"{_VLLM}/{_ROTARY}/gemma4_rope.py",
        rules.vllm_proportional,
    ),
    RuntimeDifference(
        "vllm-0.11",
        "container",
        _SCALED,
        "reads rope_theta and rope_scaling only",
        f"{_VLLM_11}/models/llama.py",
        rules.vllm11_container,
    ),
    RuntimeDifference(
        "vllm-0.11",
        "attention factor",
        _YARN,
        "reads attn_factor in place of attention_factor (gpt-oss neither), mscale in DeepSeek "
        "alone, and always truncates",
        f"{_VLLM_11}/{_ROTARY}/yarn_scaling_rope.py",
        rules.vllm11_yarn,
    ),
    RuntimeDifference(
        "vllm-0.11",
        "dynamic length",
        _DYNAMIC,
        "stretches once, for max_position_embeddings · factor positions",
        f"{_VLLM_11}/{_ROTARY}/dynamic_ntk_scaling_rope.py",
        rules.vllm11_dynamic,
    ),
    RuntimeDifference(
        mlx_rules.NAME,
        "container",
        _SCALED | _LONGROPE,
        "reads the keys that its model class names, most of them rope_theta and rope_scaling "
        "alone, and takes the base of that class where it finds none",
        f"{_MLX}/llama.py",
        mlx_rules.mlx_container,
    ),
    RuntimeDifference(
        mlx_rules.NAME,
        "stretch",
        _SCALED - {"rope"},
        "builds a plain rotation for this model, whatever rope_scaling says",
        f"{_MLX}/qwen3_moe.py",
        mlx_rules.mlx_plain,
    ),
    RuntimeDifference(
        mlx_rules.NAME,
        "attention factor",
        _YARN,
        "amplitude is g(mscale)/g(mscale_all_dim) with defaults 1 and 0, whatever attention_factor "
        "says; always truncates, and ramps from 4096 positions where the rope object has no length",
        f"{_MLX}/rope_utils.py",
        mlx_rules.mlx_yarn,
    ),
    RuntimeDifference(
        mlx_rules.NAME,
        "original length",
        frozenset({"rope-llama3"}),
        "takes 8192 where the rope object has no original length",
        f"{_MLX}/rope_utils.py",
        mlx_rules.mlx_llama3,
    ),
    RuntimeDifference(
        mlx_rules.NAME,
        "fields",
        _DYNAMIC,
        "needs max_position_embeddings",
        f"{_MLX}/rope_utils.py",
        mlx_rules.mlx_dynamic,
    ),
    RuntimeDifference(
        mlx_rules.NAME,
        "choice of factors",
        _LONGROPE,
        "takes the long factors at every length (here seq_len), the original length and the "
        "context of the top level, and neither factor nor attention_factor",
        f"{_MLX}/rope_utils.py",
        mlx_rules.mlx_longrope,
    ),
    RuntimeDifference(
        sglang_rules.NAME,
        "fields",
        _SCALED | _LONGROPE,
        "takes the columns of a head from hidden_size / num_attention_heads in some models, and "
        "from head_dim alone in others",
        f"{_SGLANG}/models/olmoe.py",
        sglang_rules.sglang_keys,
    ),
    RuntimeDifference(
        sglang_rules.NAME,
        "container",
        _SCALED,
        "reads this model by a config class of its own, which knows rope_theta and rope_scaling "
        "alone",
        f"{_SGLANG}/configs/olmo3.py",
        sglang_rules.sglang_own_class,
        sglang_rules.OWN_CLASS,
    ),
    RuntimeDifference(
        sglang_rules.NAME,
        "base",
        _SCALED,
        "takes base 1000000 whatever the file says: it looks for rope_theta where transformers 5 "
        "leaves none",
        f"{_SGLANG}/models/exaone4.py",
        sglang_rules.sglang_base,
        frozenset({"exaone4"}),
    ),
    RuntimeDifference(
        sglang_rules.NAME,
        "base",
        _SCALED | _LONGROPE,
        "cuts the base to a whole number",
        f"{_SGLANG}/models/mixtral.py",
        sglang_rules.sglang_base,
        sglang_rules.WHOLE_BASE,
    ),
    RuntimeDifference(
        sglang_rules.NAME,
        "partial rotation",
        _SCALED | _LONGROPE,
        "turns the share that its model class looks for: partial_rotary_factor of the top level, "
        "in some models none",
        f"{_SGLANG}/models/llama.py",
        sglang_rules.sglang_share,
        (sglang_rules.STRETCHED | sglang_rules.PLAIN | frozenset({"gemma3_text", "phi3", "phimoe"}))
        - sglang_rules.NESTED_SHARE,
    ),
    RuntimeDifference(
        sglang_rules.NAME,
        "stretch",
        _SCALED - {"rope"},
        "builds a plain rotation for this model, whatever rope_scaling says",
        f"{_SGLANG}/models/mixtral.py",
        sglang_rules.sglang_plain,
        sglang_rules.PLAIN,
    ),
    RuntimeDifference(
        sglang_rules.NAME,
        "fields",
        frozenset({"rope-linear"}),
        "fails on a factor without a point",
        f"{_SGLANG}/layers/rotary_embedding/base.py",
        sglang_rules.sglang_linear,
        sglang_rules.STRETCHED,
    ),
    RuntimeDifference(
        sglang_rules.NAME,
        "original length",
        _YARN | {"rope-llama3"},
        "takes the original length of the rope object, then max_position_embeddings, and the one "
        "beside the object in models that follow its Llama alone",
        f"{_SGLANG}/models/llama.py",
        sglang_rules.sglang_original,
    ),
    RuntimeDifference(
        sglang_rules.NAME,
        "truncate",
        _YARN,
        "honours truncate of nested rope_parameters too",
        f"{_SGLANG}/models/gemma3_causal.py",
        rules.vllm_nested_truncate,
        frozenset({"gemma3_text", "olmo3"}),
    ),
    RuntimeDifference(
        sglang_rules.NAME,
        "fields",
        _YARN,
        "divides by beta_fast and beta_slow as they stand",
        f"{_SGLANG}/layers/rotary_embedding/yarn.py",
        partial(rules.no_beta_of_zero, runtime=sglang_rules.NAME),
        sglang_rules.STRETCHED | sglang_rules.MLA,
    ),
    RuntimeDifference(
        sglang_rules.NAME,
        "attention factor",
        _YARN,
        "reads attn_factor in place of attention_factor, and an mscale of 0 as it stands",
        f"{_SGLANG}/layers/rotary_embedding/yarn.py",
        sglang_rules.sglang_yarn,
        sglang_rules.STRETCHED,
    ),
    RuntimeDifference(
        sglang_rules.NAME,
        "attention factor",
        _YARN,
        "amplitude is g(mscale)/g(mscale_all_dim) with defaults 1 and 0, times attn_factor, "
        "whatever attention_factor says; always truncates",
        f"{_SGLANG}/layers/rotary_embedding/rope_variant.py",
        sglang_rules.sglang_mla,
        sglang_rules.MLA,
    ),
    RuntimeDifference(
        sglang_rules.NAME,
        "dynamic length",
        _DYNAMIC,
        "stretches once, for max_position_embeddings · factor positions",
        f"{_SGLANG}/layers/rotary_embedding/rope_variant.py",
        sglang_rules.sglang_dynamic,
        sglang_rules.STRETCHED,
    ),
    RuntimeDifference(
        sglang_rules.NAME,
        "choice of factors",
        _LONGROPE,
        "takes s from the two contexts, and short_mscale and long_mscale as amplitudes; ignores "
        "factor and attention_factor, and takes the long factors one position later",
        f"{_SGLANG}/layers/rotary_embedding/rope_variant.py",
        sglang_rules.sglang_longrope,
    ),
    RuntimeDifference(
        "llama.cpp",
        "fields",
        _PLAIN | _YARN,
        "takes ministral3 with rope_type yarn, mscale_all_dim and llama_4_scaling_beta alone",
        f"{_LLAMA_CPP}/blob/master/conversion/mistral3.py",
        rules.llama_cpp_ministral,
        frozenset({"ministral3"}),
    ),
    RuntimeDifference(
        "llama.cpp",
        "original length",
        _YARN | {"rope-llama3"},
        "takes the original length in the rope object before the one beside it, and 8192 for "
        "llama3 where neither is there",
        f"{_LLAMA_CPP}/blob/master/conversion/base.py",
        rules.llama_cpp_original,
    ),
    RuntimeDifference(
        "llama.cpp",
        "fields",
        _LONGROPE | {"rope"},
        "needs an original length, stretched or not",
        f"{_LLAMA_CPP}/blob/master/conversion/phi.py",
        rules.llama_cpp_original,
        frozenset({"phi3", "phimoe"}),
    ),
    RuntimeDifference(
        "llama.cpp",
        "attention factor",
        _YARN,
        "amplitude is 1 + 0.1 ln(factor) whatever attention_factor says, over "
        "g(mscale_all_dim) in Ministral 3 and cancelled in DeepSeek; always truncates",
        f"{_LLAMA_CPP}/pull/17945",
        rules.llama_cpp_yarn,
    ),
    RuntimeDifference(
        "llama.cpp",
        "ramp",
        _YARN,
        "ramps from 32 to 1 turns whatever beta_fast and beta_slow say, but in Ministral 3: its "
        "loader of no other model reads their keys",
        f"{_LLAMA_CPP}/blob/master/src/models/mistral3.cpp",
        rules.llama_cpp_betas,
        frozenset({*_LLAMA_LIKE, "mixtral", *rules.DEEPSEEK, "olmo3", "gpt_oss"}),
    ),
    RuntimeDifference(
        "llama.cpp",
        "choice of factors",
        _LONGROPE,
        "chooses once, by the context it allocates (here seq_len; the whole context by default); "
        "ignores factor and attention_factor",
        f"{_LLAMA_CPP}/blob/master/src/llama-model.cpp",
        rules.llama_cpp_longrope,
    ),
    RuntimeDifference(
        "llama.cpp",
        "dynamic length",
        _DYNAMIC,
        "does not stretch: its converter leaves the type out",
        f"{_LLAMA_CPP}/blob/master/conversion/base.py",
        rules.llama_cpp_dynamic,
    ),
    RuntimeDifference(
        onnx_rules.NAME,
        "fields",
        _SCALED | _LONGROPE | {"rope-ntk", "mrope"},
        "fails on rope types that the class of the model does not know",
        f"{_ONNX}/base.py",
        onnx_rules.onnx_fields,
    ),
    RuntimeDifference(
        onnx_rules.NAME,
        "stretch",
        _SCALED - {"rope"},
        "builds a plain rotation whatever the rope object says, but for llama3 in Llama and "
        "Nemotron",
        f"{_ONNX}/llama.py",
        onnx_rules.onnx_plain,
        onnx_rules.LIKE_LLAMA,
    ),
    RuntimeDifference(
        onnx_rules.NAME,
        "partial rotation",
        frozenset({"rope", "rope-linear"}),
        "turns only the share partial_rotary_factor states, for every model",
        f"{_ONNX}/base.py",
        partial(rules.any_share, runtime=onnx_rules.NAME),
        onnx_rules.LIKE_LLAMA | onnx_rules.LIKE_MISTRAL,
    ),
    RuntimeDifference(
        onnx_rules.NAME,
        "attention factor",
        _YARN,
        "never truncates; amplitude is g(mscale)/g(mscale_all_dim) where both are there, mscale "
        "itself where it is alone, whatever attention_factor says",
        f"{_ONNX}/base.py",
        onnx_rules.onnx_yarn,
        onnx_rules.LIKE_MISTRAL | {"gpt_oss"},
    ),
    RuntimeDifference(
        onnx_rules.NAME,
        "choice of factors",
        _LONGROPE | {"rope"},
        "takes the original length of the top level, and neither factor nor attention_factor",
        f"{_ONNX}/phi.py",
        onnx_rules.onnx_phi3,
        frozenset({"phi3"}),
    ),
    RuntimeDifference(
        exllama_rules.NAME,
        "fields",
        _SCALED | _LONGROPE,
        "goes by the class that architectures names, and fails on dynamic",
        f"{_EXLLAMA}/util/rope.py",
        exllama_rules.exllama_fields,
    ),
    RuntimeDifference(
        exllama_rules.NAME,
        "head size",
        _SCALED | _LONGROPE,
        "takes hidden_size over num_attention_heads where head_dim is missing, for every model",
        f"{_EXLLAMA}/architecture/llama.py",
        exllama_rules.exllama_head,
    ),
    RuntimeDifference(
        exllama_rules.NAME,
        "partial rotation",
        _SCALED | _LONGROPE,
        "turns the share that partial_rotary_factor states, for every model, and else all columns",
        f"{_EXLLAMA}/model/config.py",
        exllama_rules.exllama_share,
    ),
    RuntimeDifference(
        exllama_rules.NAME,
        "container",
        _SCALED | _LONGROPE,
        "reads rope_theta at the top level before that of rope_parameters, no object by layer "
        "type, and no default of a model: 10,000 and no stretch",
        f"{_EXLLAMA}/model/config.py",
        exllama_rules.exllama_container,
    ),
    RuntimeDifference(
        exllama_rules.NAME,
        "factor",
        _YARN,
        "takes max_position_embeddings over the original length of the rope object for factor "
        "where that is there; reads mscale in DeepSeek alone",
        f"{_EXLLAMA}/util/rope.py",
        exllama_rules.exllama_yarn,
    ),
    RuntimeDifference(
        exllama_rules.NAME,
        "original length",
        frozenset({"rope-llama3"}),
        "takes 8192 where the rope object has no original length",
        f"{_EXLLAMA}/util/rope.py",
        exllama_rules.exllama_llama3,
    ),
    RuntimeDifference(
        exllama_rules.NAME,
        "choice of factors",
        _LONGROPE,
        "chooses once, by the context (here seq_len); takes the original length of the rope "
        "object first, and neither factor nor attention_factor",
        f"{_EXLLAMA}/util/rope.py",
        exllama_rules.exllama_longrope,
    ),
)
"""Every known difference, in the order in which they are applied."""
