"""What each rope type reads of its object: the scheme it stands for, and its parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from posenc_cli.errors import InvalidInput
from posenc_cli.models.keys import json_text
from posenc_cli.models.resolved import Sourced

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from posenc_cli.models.rope import RopeReader
    from posenc_cli.models.rope_objects import Entry

    Read = tuple[str, dict[str, Sourced]]

ORIGINAL = "original_max_position_embeddings"
CONTEXT = "max_position_embeddings"
_STEP = (
    "transformers only warns of equal factors and takes them for a step; in a copy of the file, "
    "a high_freq_factor a little larger says the same"
)
MAGNITUDE = ("attention_factor", "logit_multiplier")
"""The derived values that :func:`magnitude` gives."""


def default(reader: RopeReader, entry: Entry, rotated: int) -> Read:
    """Plain rope, or that of a model whose tokens have positions on three axes."""
    family = reader.family
    found = None
    if family.mrope is not None or not family.known:
        found = entry.having("mrope_section").counts("mrope_section")
    if family.mrope is None and found is None:
        return "rope", {}
    mrope = family.mrope or {}
    sections = found or Sourced(tuple(mrope["sections"]), reader.default_source)
    if found is None:
        reader.notes.size("mrope_section", Sourced(list(sections.value), sections.source))
    if len(sections.value) != 3 or sum(sections.value) != rotated // 2:
        raise InvalidInput(
            f"{reader.text.name}: mrope_section {list(sections.value)} ({sections.source}): must "
            f"be three numbers whose sum is {rotated // 2}, the pairs of {rotated} columns"
        )
    params = {"sections": sections}
    dealt = entry.having("mrope_interleaved").get("mrope_interleaved")
    interleaved = Sourced(bool(mrope.get("interleaved")), reader.default_source)
    if dealt is not None and not family.known:
        interleaved = Sourced(dealt.value is True, dealt.source)
    elif dealt is not None and dealt.value is not interleaved.value:
        reader.notes.warn(
            f"{dealt.source} {json_text(dealt.value)} has no effect: "
            f"{family.model_type} deals its axes out "
            f"{'pair by pair' if interleaved.value else 'in whole sections'}"
        )
    if interleaved.value:
        params["interleaved"] = interleaved
    if "order" in mrope:
        params["order"] = Sourced(mrope["order"], reader.default_source)
    return "mrope", params


def linear(reader: RopeReader, entry: Entry, _rotated: int) -> Read:
    """Positions divided by a factor."""
    return "rope-linear", {"factor": reader.needed(entry, "factor")}


def dynamic(reader: RopeReader, entry: Entry, rotated: int) -> Read:
    """A base that grows with the sequence; HunYuan's, with its alpha, does not."""
    if rotated == 2:
        raise InvalidInput(f"{reader.text.name}: rope_type dynamic needs more than one pair")
    if reader.family.alpha:
        alpha = entry.number("alpha", minimum=0)
        if alpha is not None and alpha.value:
            return "rope-ntk", {"factor": alpha}
    return "rope-dynamic", {
        "factor": reader.needed(entry, "factor"),
        CONTEXT: reader.needed_count(CONTEXT),
    }


def yarn(reader: RopeReader, entry: Entry, _rotated: int) -> Read:
    """YaRN; a factor of null is the ratio of the contexts."""
    original = reader.original(entry)
    if entry.having("factor").has("factor") and entry.having("factor").get("factor") is None:
        context = reader.needed_count(CONTEXT)
        factor = Sourced(
            context.value / original.value, f"derived: {context.source} / {original.source}"
        )
    else:
        factor = reader.needed(entry, "factor")
        _note_lengths(reader, entry, factor, original)
    params = {"factor": factor, ORIGINAL: original}
    for name in ("beta_fast", "beta_slow"):
        found = entry.number(name, minimum=0)
        # transformers reads 0 as if it were not there.
        if found is not None and found.value:
            params[name] = found
    fast, slow = (
        params[name].value if name in params else default
        for name, default in (("beta_fast", 32), ("beta_slow", 1))
    )
    if fast < slow:
        reader.notes.warn(
            f"{entry.having('beta_fast').path('beta_fast')} {fast:g} is below beta_slow {slow:g}: "
            "transformers warns of it"
        )
        reader.notes.contradict(entry.having("beta_fast").path("beta_fast"))
    params |= _yarn_magnitude(reader, entry)
    if not reader.family.nested:
        truncate = entry.having("truncate").flag("truncate")
        if truncate is not None:
            params["truncate"] = truncate
    elif entry.having("truncate").values.get("truncate") is False:
        reader.notes.warn(
            f"{entry.having('truncate').path('truncate')} false has no effect: transformers looks "
            "for truncate beside the layer types"
        )
    return "rope-yarn", params


def _note_lengths(reader: RopeReader, entry: Entry, factor: Sourced, original: Sourced) -> None:
    """Warn of a factor that is not the ratio of the lengths, where transformers does.

    A context that is the original one says that it was never raised; transformers passes it.
    """
    context = reader.count(CONTEXT)
    before = entry.having(ORIGINAL).count(ORIGINAL) or original
    if context is None or context.value in (before.value, factor.value * before.value):
        return
    reader.notes.warn(
        f"{factor.source} {factor.value:g} contradicts {CONTEXT} {context.value} / {before.source} "
        f"{before.value}, which is {context.value / before.value:g}: transformers warns of it, and "
        "takes the factor"
    )
    reader.notes.contradict(factor.source)


def _yarn_magnitude(reader: RopeReader, entry: Entry) -> dict[str, Sourced]:
    """What says how YaRN multiplies cosines and sines."""
    scale = entry.number("attention_factor")
    mscales = {name: entry.number(name, minimum=0) for name in ("mscale", "mscale_all_dim")}
    given = {name: each for name, each in mscales.items() if each is not None and each.value}
    if scale is not None:
        return {"attention_factor": scale}
    if len(given) == 1:
        (only,) = given.values()
        reader.notes.warn(
            f"{only.source} alone has no effect on cosines and sines: transformers wants mscale "
            "and mscale_all_dim both, and not 0; the attention factor is 0.1 ln(factor) + 1"
        )
    return given if len(given) == 2 else {}


def llama3(reader: RopeReader, entry: Entry, _rotated: int) -> Read:
    """Llama 3.1's stretching of long wavelengths."""
    names = ("factor", "low_freq_factor", "high_freq_factor")
    params = {name: reader.needed(entry, name) for name in names}
    low, high = params["low_freq_factor"], params["high_freq_factor"]
    if high.value <= low.value:
        raise InvalidInput(
            f"{reader.text.name}: {high.source} {high.value:g}: must be above {low.source} "
            f"{low.value:g}, which the blend between them divides by",
            hint=_STEP if high.value == low.value else None,
        )
    original, context = reader.original(entry), reader.count(CONTEXT)
    if (
        context is not None
        and original.value >= context.value
        and original.source != context.source
    ):
        reader.notes.warn(
            f"{original.source} {original.value} is not below {CONTEXT} {context.value}: "
            "transformers warns of it"
        )
        reader.notes.contradict(original.source)
    return "rope-llama3", {**params, ORIGINAL: original}


def longrope(reader: RopeReader, entry: Entry, rotated: int) -> Read:
    """LongRoPE's two lists of factors."""
    params = {}
    for name in ("short_factor", "long_factor"):
        part = entry.having(name)
        found = part.numbers(name)
        if found is None:
            raise InvalidInput(f"{reader.text.name}: {part.path(name)} is missing")
        if len(found.value) != rotated // 2:
            raise InvalidInput(
                f"{reader.text.name}: {found.source} has {len(found.value)} numbers: {rotated} "
                f"rotated columns make {rotated // 2} pairs"
            )
        params[name] = found
    original = params[ORIGINAL] = reader.original(entry)
    factor, scale = entry.number("factor"), entry.number("attention_factor")
    if factor is not None:
        params["factor"] = factor
    else:
        params[CONTEXT] = reader.needed_count(CONTEXT)
    if scale is not None:
        params["attention_factor"] = scale
    elif original.value == 1:
        raise InvalidInput(f"{reader.text.name}: {original.source} 1: must be at least 2")
    if reader.family.model_type == "phimoe":
        params |= _phimoe(reader, entry, params)
    return "rope-longrope", params


def _phimoe(reader: RopeReader, entry: Entry, params: Mapping[str, Sourced]) -> dict[str, Sourced]:
    """What PhiMoE has of its own: factors for short texts throughout, and two amplitudes."""
    short, long = (reader.needed(entry, name) for name in ("short_mscale", "long_mscale"))
    reader.notes.warn(
        f"transformers' phimoe uses short_factor at any length; past {params[ORIGINAL].value} "
        f"positions its attention factor is {long.source} {long.value:g}"
    )
    factors = params["short_factor"]
    return {
        "attention_factor": short,
        "long_factor": Sourced(factors.value, f"{factors.source}, as phimoe uses it"),
    }


def proportional(_reader: RopeReader, entry: Entry, _rotated: int) -> Read:
    """A share of the pairs that turns, the others at rest."""
    factor = entry.number("factor")
    return "rope-proportional", {} if factor is None else {"factor": factor}


RULES: Mapping[str, Callable[[RopeReader, Entry, int], Read]] = {
    "default": default,
    "linear": linear,
    "dynamic": dynamic,
    "yarn": yarn,
    "longrope": longrope,
    "llama3": llama3,
    "proportional": proportional,
}
"""What reads each rope type."""


def magnitude(scheme: str, params: Mapping[str, Sourced]) -> dict[str, Sourced]:
    """What a scheme multiplies cosines and sines by, and so logits; empty where by nothing."""
    factor = attention_factor(scheme, {name: each.value for name, each in params.items()})
    if factor is None:
        return {}
    given = params.get("attention_factor")
    source = given.source if given else f"derived: the rule of {scheme}"
    return {
        "attention_factor": Sourced(factor, source),
        "logit_multiplier": Sourced(factor**2, "derived: attention_factor²"),
    }


def attention_factor(scheme: str, params: Mapping[str, Any]) -> float | None:
    """What a scheme multiplies cosines and sines by, None where it has no such factor.

    >>> attention_factor("rope-yarn", {"factor": 32.0})
    1.3465735902799727
    """
    from posenc_cli.schemes import scaled

    if scheme not in ("rope-yarn", "rope-longrope"):
        return None
    if "attention_factor" in params:
        return float(params["attention_factor"])
    if scheme == "rope-yarn":
        mscales = {name: params.get(name) for name in ("mscale", "mscale_all_dim")}
        return float(scaled.yarn_attention_factor(params["factor"], **mscales))
    original = params[ORIGINAL]
    stretched = params.get(CONTEXT, original)
    return float(scaled.longrope_attention_factor(params.get("factor"), stretched, original))
