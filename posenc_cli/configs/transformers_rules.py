"""How transformers 4.52 to 4.57 depart from transformers 5, span by span of equal behaviour.

All know ``rope_theta`` and ``rope_scaling`` alone, and take the original length from the rope
object. YaRN changed twice: 4.55 learned ``truncate``, and 4.56 stopped to replace the factor by the
quotient of the two contexts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli.configs.runtime_rules import (
    ORIGINAL,
    always_truncated,
    check_spelling,
    plain,
    refused,
    stated_share,
    vllm_nested_truncate,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from posenc_cli.configs.runtime_rules import Changes, LayerReading

SPANS: Mapping[str, str] = {
    "transformers-4.57": "4.56.2 to 4.57.6",
    "transformers-4.55": "4.55.4",
    "transformers-4.54": "4.52.4 to 4.54.1",
}
"""The engines, each by its newest version, and the versions that were run, which do the same."""
STRETCHED = (
    *("cohere", "deepseek_v3", "gemma", "gemma2", "gemma3_text", "glm", "glm4", "gpt_neox"),
    *("granite", "llama", "mistral", "mixtral", "phi", "qwen2", "qwen2_moe", "qwen3"),
    *("qwen3_moe", "stablelm", "starcoder2"),
)
"""The model types whose classes were run with every rope type."""
_HEADS = ("mistral", "mixtral")
"""Those whose config leaves head_dim None, which the rules for lengths then multiply."""


def span_container(reading: LayerReading, *, runtime: str) -> Changes:
    """They know ``rope_theta`` and ``rope_scaling`` alone.

    Raises: InvalidInput.
    """
    kind, top = reading.model_type, reading.top
    if reading.container == "rope_parameters":
        raise refused(
            runtime,
            "rope_parameters is a key it does not know: it would take the base of its own class "
            "and no scaling",
        )
    check_spelling(reading, runtime)
    if reading.scheme == "rope" and stated_share(reading):
        raise refused(runtime, f"partial_rotary_factor makes its {kind} fail")
    if kind == "cohere" and reading.config and top.number("rope_theta") is None:
        raise refused(runtime, "its Cohere has another base where rope_theta is missing")
    if (
        kind in _HEADS
        and reading.scheme in ("rope-yarn", "rope-dynamic")
        and reading.config
        and top.count("head_dim") is None
    ):
        raise refused(runtime, f"its {kind} fails on this stretch without head_dim")
    return {}


def span_null(reading: LayerReading) -> Changes:
    """A rope_scaling of null is no stretch, where transformers 5 takes gpt-oss' own."""
    if "rope_scaling" in reading.config and reading.config["rope_scaling"] is None:
        return plain(reading)
    return {}


def span_llama3(reading: LayerReading, *, runtime: str) -> Changes:
    """The original length in the rope object, which must be there."""
    own = reading.entry.count(ORIGINAL)
    if own is None:
        raise refused(runtime, f"it fails where the rope object has no {ORIGINAL}")
    return {ORIGINAL: own.value}


def span_yarn(reading: LayerReading, *, runtime: str) -> Changes:
    """The original length in the rope object, else the context; before 4.56 the factor of the two.

    Raises: InvalidInput.
    """
    entry, implicit = reading.entry, runtime != "transformers-4.57"
    kind = reading.model_type
    if kind == "gpt_oss" and implicit and "rope_scaling" not in reading.config:
        return {ORIGINAL: reading.length}  # the object of its own has no length there
    own = entry.count(ORIGINAL)
    if implicit and own is None and entry.has(ORIGINAL):
        raise refused(runtime, f"it fails where {ORIGINAL} is null")
    nulls = ["factor"] if not implicit or own is None else []
    if kind == "deepseek_v3":
        nulls = ["factor", "beta_fast", "beta_slow"]
    for name in nulls:
        if entry.has(name) and entry.get(name) is None:
            raise refused(runtime, f"it fails where {name} is null")
    changes: dict[str, Any] = {ORIGINAL: own.value if own else reading.length}
    if implicit and own:
        changes["factor"] = reading.length / own.value
    if runtime == "transformers-4.54":
        changes |= always_truncated(reading)
    elif kind == "gemma3_text":
        changes |= vllm_nested_truncate(reading)
    return changes
