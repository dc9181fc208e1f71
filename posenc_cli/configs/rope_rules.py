"""Read the parameters of each rope type, and return its scheme.

Each function of ``RULES`` takes the config's keys, the rope object and the rotary dim.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from posenc_cli.configs.keys import CONTEXT, ORIGINAL, FamilyKeys, first
from posenc_cli.configs.resolved import Sourced

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from posenc_cli.configs.rope_objects import RopeObject

    Params = dict[str, Sourced]

RENAMED = {"su": "longrope", "mrope": "default"}
"""Older names of rope types; only a few classes of transformers know them."""
_BETAS = {"beta_fast": 32, "beta_slow": 1}
"""Default ends of YaRN's ramp, in rotations over the original context."""
MAGNITUDE = ("attention_factor", "logit_multiplier")
"""Derived values that :func:`magnitude` returns."""


def default(keys: FamilyKeys, rope: RopeObject, rotated: int) -> tuple[str, Params]:
    """Return plain RoPE, or M-RoPE for models whose tokens have positions on three axes."""
    family, mrope = keys.family, keys.family.mrope or {}
    sections = rope.counts("mrope_section") if mrope or not family.known else None
    if not mrope and sections is None:
        return "rope", {}
    if sections is None:
        sections = keys.default(tuple(mrope["sections"]))
        keys.notes.size("mrope_section", keys.default(list(sections.value)))
    fits = len(sections.value) == 3 and sum(sections.value) == rotated // 2
    dealt = mrope.get("interleaved") and family.known and not mrope.get("exact")
    if not fits and dealt and len(sections.value) == 3:
        sections = _interleaved_sections(sections, rotated // 2)
    elif not fits:
        raise keys.error(
            f"mrope_section {list(sections.value)} ({sections.source}): must be three numbers "
            f"whose sum is {rotated // 2}, the pairs of {rotated} columns"
        )
    params = {"sections": sections}
    stated = rope.get("mrope_interleaved")
    interleaved = keys.default(bool(mrope.get("interleaved")))
    if stated is not None and not family.known:
        interleaved = Sourced(stated.value is True, stated.source)
    elif stated is not None and stated.value is not interleaved.value:
        keys.notes.ineffective(
            stated,
            f"{family.model_type} assigns pairs to axes "
            f"{'one by one' if interleaved.value else 'in whole sections'}",
        )
    if interleaved.value:
        params["interleaved"] = interleaved
    if "order" in mrope:
        params["order"] = keys.default(mrope["order"])
    return "mrope", params


def _interleaved_sections(sections: Sourced, pairs: int) -> Sourced:
    """Return the pairs of each axis if sections that do not fit the head are interleaved.

    transformers assigns every third pair to height, up to 3 × its section, then to width, and the
    others to time. It checks no sum (apply_interleaved_mrope of its Qwen3-VL).

    >>> _interleaved_sections(Sourced((11, 11, 10), "mrope_section"), 8).value
    (3, 3, 2)
    """
    height, width = (len(range(axis, min(pairs, 3 * sections.value[axis]), 3)) for axis in (1, 2))
    dealt = (pairs - height - width, height, width)
    return Sourced(dealt, f"derived: {sections.source} dealt out to {pairs} pairs")


def dynamic(keys: FamilyKeys, rope: RopeObject, rotated: int) -> tuple[str, Params]:
    """Return a base that grows with the sequence; HunYuan's, with an alpha, is constant."""
    if rotated == 2:
        raise keys.error("rope_type dynamic needs more than one pair")
    if keys.family.alpha:
        alpha = rope.number("alpha", minimum=0)
        if alpha is not None and alpha.value:
            return "rope-ntk", {"factor": alpha}
    return "rope-dynamic", {
        "factor": _needed_number(keys, rope, "factor"),
        CONTEXT: keys.needed_count(CONTEXT),
    }


def yarn(keys: FamilyKeys, rope: RopeObject, _rotated: int) -> tuple[str, Params]:
    """Return YaRN; a null factor is the ratio of the contexts."""
    original = _original_context(keys, rope)
    if rope.has("factor") and rope.get("factor") is None:
        context = keys.needed_count(CONTEXT)
        factor = Sourced(
            context.value / original.value, f"derived: {context.source} / {original.source}"
        )
    else:
        factor = _needed_number(keys, rope, "factor")
        _note_context_ratio(keys, rope, factor, original)
    params = {"factor": factor, ORIGINAL: original}
    # transformers treats 0 like a missing key.
    params |= _nonzero({name: rope.number(name, minimum=0) for name in _BETAS})
    fast, slow = (
        params[name].value if name in params else default_beta
        for name, default_beta in _BETAS.items()
    )
    if fast < slow:
        path = rope.path("beta_fast")
        text = f"{path} {fast:g} is below beta_slow {slow:g}: transformers warns of it"
        keys.notes.doubt(path, text)
    params |= _yarn_attention_factor(keys, rope)
    if not keys.family.nested:
        truncate = rope.flag("truncate")
        if truncate is not None:
            params["truncate"] = truncate
    return "rope-yarn", params


def _nonzero(numbers: Mapping[str, Sourced | None]) -> Params:
    return {name: number for name, number in numbers.items() if number and number.value}


def _note_context_ratio(
    keys: FamilyKeys, rope: RopeObject, factor: Sourced, original: Sourced
) -> None:
    """Warn of a factor that is not the ratio of the contexts, if transformers warns.

    Equal contexts mean that max_position_embeddings was not raised; transformers accepts them.
    """
    context = keys.count(CONTEXT)
    before = rope.count(ORIGINAL) or original
    if context is None or context.value in (before.value, factor.value * before.value):
        return
    keys.notes.doubt(
        factor.source,
        f"{factor.source} {factor.value:g} contradicts {CONTEXT} {context.value} / {before.source} "
        f"{before.value}, which is {context.value / before.value:g}: transformers warns of it, and "
        "takes the factor",
    )


def _yarn_attention_factor(keys: FamilyKeys, rope: RopeObject) -> Params:
    """Return the parameters of YaRN's attention factor."""
    scale = rope.number("attention_factor")
    mscales = {name: rope.number(name, minimum=0) for name in ("mscale", "mscale_all_dim")}
    if scale is not None:
        return {"attention_factor": scale}
    given = _nonzero(mscales)
    if len(given) == 1 and given != {"mscale": Sourced(1.0, rope.path("mscale"))}:
        (only,) = given.values()  # mscale 1 alone is the same as no mscale (Devstral 2)
        keys.notes.warnings.append(
            f"{only.source} alone has no effect on cosines and sines: transformers needs both "
            "mscale and mscale_all_dim, and not 0; the attention factor is 0.1 ln(factor) + 1"
        )
        if "mscale" in given or not keys.family.slice:  # latent attention scales its softmax by it
            keys.notes.contradicted.append(only.source)
    return given if len(given) == 2 else {}


def llama3(keys: FamilyKeys, rope: RopeObject, _rotated: int) -> tuple[str, Params]:
    """Return Llama 3.1's scaling of low frequencies."""
    names = ("factor", "low_freq_factor", "high_freq_factor")
    params = {name: _needed_number(keys, rope, name) for name in names}
    low, high = params["low_freq_factor"], params["high_freq_factor"]
    if high.value < low.value:
        raise keys.error(
            f"{high.source} {high.value:g}: must be at least {low.source} {low.value:g}"
        )
    if high.value == low.value:  # Llama 4 Scout: the ramp has no width and becomes a step
        step = f"{high.source}, just above {low.source}: a step"
        params["high_freq_factor"] = Sourced(math.nextafter(high.value, math.inf), step)
    original, context = _original_context(keys, rope), keys.count(CONTEXT)
    if context is not None and original.value >= context.value and original.source != CONTEXT:
        keys.notes.doubt(
            original.source,
            f"{original.source} {original.value} is not below {CONTEXT} {context.value}: "
            "transformers warns of it",
        )
    return "rope-llama3", {**params, ORIGINAL: original}


def longrope(keys: FamilyKeys, rope: RopeObject, rotated: int) -> tuple[str, Params]:
    """Return LongRoPE with its two lists of factors."""
    params = {}
    for name in ("short_factor", "long_factor"):
        factors = rope.numbers(name)
        if factors is None:
            raise keys.error(f"{rope.path(name)} is missing")
        if len(factors.value) != rotated // 2:
            raise keys.error(
                f"{factors.source} has {len(factors.value)} numbers: {rotated} rotated columns "
                f"make {rotated // 2} pairs"
            )
        params[name] = factors
    original = params[ORIGINAL] = _original_context(keys, rope)
    factor, scale = rope.number("factor"), rope.number("attention_factor")
    if factor is not None:
        params["factor"] = factor
    else:
        params[CONTEXT] = keys.needed_count(CONTEXT)
    if scale is not None:
        params["attention_factor"] = scale
    elif original.value == 1:
        raise keys.error(f"{original.source} 1: must be at least 2")
    if keys.family.model_type == "phimoe":
        params |= _phimoe(keys, rope, params)
    return "rope-longrope", params


def _phimoe(keys: FamilyKeys, rope: RopeObject, params: Mapping[str, Sourced]) -> Params:
    """Return PhiMoE's own parameters: short factors at every length, and its attention factor."""
    short, long = (_needed_number(keys, rope, name) for name in ("short_mscale", "long_mscale"))
    keys.notes.warnings.append(
        f"transformers' phimoe uses short_factor at any length; past {params[ORIGINAL].value} "
        f"positions its attention factor is {long.source} {long.value:g}"
    )
    factors = params["short_factor"]
    return {
        "attention_factor": short,
        "long_factor": Sourced(factors.value, f"{factors.source}, as phimoe uses it"),
    }


def _needed_number(keys: FamilyKeys, rope: RopeObject, key: str) -> Sourced:
    """Return a required number of the rope object.

    Raises: InvalidInput if it is missing.
    """
    number = rope.number(key)
    if number is None:
        raise keys.error(f"{rope.path(key)} is missing")
    if key == "factor" and number.value < 1:
        keys.notes.warnings.append(
            f"{number.source} {number.value:g} is below 1: transformers warns of it"
        )
    return number


def _original_context(keys: FamilyKeys, rope: RopeObject) -> Sourced:
    """Return the original context.

    With one rope object for all layers, a number at the top of the config has precedence over the
    object's. With one object for each layer type, the top is not read. If neither is given, it is
    the context.

    Raises: InvalidInput if the context is missing too.
    """
    own = rope.count(ORIGINAL)
    top = None if keys.family.nested else keys.count(ORIGINAL)
    if top is not None and own is not None and top.value != own.value:
        keys.notes.doubt(
            own.source,
            f"{top.source} {top.value} takes precedence over {own.source} {own.value}, as in "
            "transformers",
        )
    length = first(top, own)
    if length is None:
        length = _context(keys)
        keys.notes.doubt(
            ORIGINAL,
            f"{rope.path(ORIGINAL)} is not given: {length.source} {length.value} is used, as in "
            "transformers",
            of=keys.notes.defaulted,
        )
    elif length is top and length.source == keys.default_source:
        keys.notes.size(ORIGINAL, length)
    return length


def _context(keys: FamilyKeys) -> Sourced:
    """Return the context, which replaces a missing original context.

    Raises: InvalidInput if it is missing.
    """
    if keys.family.own_original:
        return keys.text.count(CONTEXT) or keys.default(keys.family.defaults[CONTEXT])
    return keys.needed_count(CONTEXT)


RULES: Mapping[str, Callable[[FamilyKeys, RopeObject, int], tuple[str, Params]]] = {
    "default": default,
    "linear": lambda keys, rope, _: (
        "rope-linear",
        {"factor": _needed_number(keys, rope, "factor")},
    ),
    "dynamic": dynamic,
    "yarn": yarn,
    "longrope": longrope,
    "llama3": llama3,
    "proportional": lambda _keys, rope, _: (
        "rope-proportional",
        _nonzero({"factor": rope.number("factor")}),
    ),
}
"""The function that reads each rope type."""


def magnitude(scheme: str, params: Mapping[str, Sourced]) -> Params:
    """Return the attention factor and the factor of the logits; empty if the scheme has none."""
    factor = attention_factor(scheme, {name: param.value for name, param in params.items()})
    if factor is None:
        return {}
    given = params.get("attention_factor")
    source = given.source if given else f"derived: the rule of {scheme}"
    return {
        "attention_factor": Sourced(factor, source),
        "logit_multiplier": Sourced(factor**2, "derived: attention_factor²"),
    }


def attention_factor(scheme: str, params: Mapping[str, Any]) -> float | None:
    """Return the factor of cosines and sines of a scheme; None if it has none.

    >>> attention_factor("rope-yarn", {"factor": 32.0})
    1.3465735902799727
    """
    from posenc_cli import catalogue

    if scheme not in ("rope-yarn", "rope-longrope"):
        return None
    return float(catalogue.find(scheme).bind(params).rotation.waves.scale)


def softmax_multiplier(factor: float, over_all: float) -> Sourced:
    """Return the factor of scores in latent attention, besides the rotation, for mscale_all_dim.

    >>> round(softmax_multiplier(40.0, 1.0).value, 4)
    1.8739
    """
    multiplier = yarn_factor(factor, over_all)
    return Sourced(multiplier**2, "derived: (0.1 · mscale_all_dim · ln(factor) + 1)²")


def yarn_factor(factor: float, weight: float = 1.0) -> float:
    """Return YaRN's attention factor; ``weight`` multiplies the logarithm of the factor.

    >>> round(yarn_factor(40.0), 4), yarn_factor(0.5)
    (1.3689, 1.0)
    """
    from posenc_cli.formulas.context_extension.yarn import yarn_magnitude

    return float(yarn_magnitude(factor, weight))
