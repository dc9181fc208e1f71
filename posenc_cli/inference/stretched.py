"""Known mistakes in the rules that stretch a context: YaRN, Llama 3, LongRoPE and dynamic NTK."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.inference.causes import Cause
from posenc_cli.inference.rules import (
    Alternative,
    changed_frequencies,
    ladder,
    number_text,
)
from posenc_cli.positions import LARGEST_POSITION
from posenc_cli.schemes.inverse import CONTEXTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from posenc_cli.inference.reference import Reference


def scaling_mistakes(reference: Reference) -> Iterator[Alternative]:
    """What the frequencies of a stretched scheme may be instead, the likeliest first."""
    params = reference.params
    yield from _yarn(reference, params)
    yield from _llama3(reference, params)
    yield from _longrope(reference, params)
    if reference.encoding.bound.scheme.name == "rope-dynamic":
        yield from _dynamic(reference, params)


def _dynamic(reference: Reference, params: Mapping[str, Any]) -> Iterator[Alternative]:
    limit = params["max_position_embeddings"]
    for length in (
        int(min(limit * params["factor"], LARGEST_POSITION)),
        limit + 1,
        limit,
        *CONTEXTS,
    ):
        values = changed_frequencies(reference, seq_len=length)
        if values is not None:
            yield Alternative(
                Cause.FREQUENCY_RULE, f"the base is stretched for a length of {length}", values
            )


def _yarn(reference: Reference, params: Mapping[str, Any]) -> Iterator[Alternative]:
    if "beta_fast" not in params:
        return
    flipped = not params["truncate"]
    values = changed_frequencies(reference, truncate=flipped)
    if values is not None:
        ends = "rounded to whole pairs" if flipped else "not rounded to whole pairs"
        yield Alternative(
            Cause.FREQUENCY_RULE, f"the ends of the ramp are {ends} (truncate)", values
        )
    base, factor = params["base"], params["factor"]
    pairs = np.arange(reference.pairs, dtype=np.float64)
    kept = ladder(base, pairs / reference.pairs)
    fast, slow = (_turning_pair(reference, params[name]) for name in ("beta_fast", "beta_slow"))
    if params["truncate"]:
        fast, slow = math.floor(fast), math.ceil(slow)
    low, high = max(fast, 0), min(slow, 2 * reference.pairs - 1)
    ramp = np.clip((pairs - low) / max(high - low, 1e-3), 0, 1)
    swapped_low, swapped_high = (
        max(math.floor(_turning_pair(reference, params["beta_slow"])), 0),
        (min(math.ceil(_turning_pair(reference, params["beta_fast"])), 2 * reference.pairs - 1)),
    )
    length = swapped_high - swapped_low or 1e-3
    swapped = np.clip((pairs - swapped_low) / length, 0, 1)
    for message, share in (
        ("beta_fast and beta_slow are swapped", swapped),
        ("the ramp of YaRN runs the wrong way: slow pairs are kept, fast ones stretched", 1 - ramp),
        (
            "the ramp counts columns, not pairs",
            np.clip((2 * pairs - low) / max(high - low, 1e-3), 0, 1),
        ),
        ("all pairs are interpolated: there is no ramp", np.ones_like(pairs)),
    ):
        yield Alternative(Cause.FREQUENCY_RULE, message, kept / factor * share + kept * (1 - share))
    yield Alternative(
        Cause.FREQUENCY_RULE,
        "the ramp blends wavelengths, not frequencies",
        1 / (ramp * factor / kept + (1 - ramp) / kept),
    )
    for name, others in (("beta_fast", (16.0, 64.0, 8.0)), ("beta_slow", (2.0, 4.0, 0.5))):
        for other in others:
            values = changed_frequencies(reference, **{name: other})
            if values is not None and other != params[name]:
                yield Alternative(
                    Cause.FREQUENCY_RULE,
                    f"{name} is {number_text(other)}, not {number_text(params[name])}",
                    values,
                )


def _turning_pair(reference: Reference, beta: float) -> float:
    """The pair that makes ``beta`` turns within the original context."""
    params = reference.params
    context = params["original_max_position_embeddings"]
    # Of each part: their quotient may be too small or too large for a number.
    logarithm = math.log(context) - math.log(2 * math.pi) - math.log(beta)
    return reference.pairs * logarithm / math.log(params["base"])


def _llama3(reference: Reference, params: Mapping[str, Any]) -> Iterator[Alternative]:
    if "low_freq_factor" not in params:
        return
    base, factor = params["base"], params["factor"]
    low, high = params["low_freq_factor"], params["high_freq_factor"]
    kept = ladder(base, np.arange(reference.pairs) / reference.pairs)
    turns = params["original_max_position_embeddings"] * kept / (2 * math.pi)
    smooth = (turns - low) / (high - low)
    share = np.clip(smooth, 0, 1)
    between = (smooth > 0) & (smooth < 1)
    stretched = kept / factor
    radians = np.clip((turns * 2 * math.pi - low) / (high - low), 0, 1)
    for message, values in (
        ("the fast pairs are slowed, not the slow ones", share * stretched + (1 - share) * kept),
        (
            "the blend between kept and slowed pairs runs the wrong way",
            np.where(
                between,
                share * stretched + (1 - share) * kept,
                np.where(smooth >= 1, kept, stretched),
            ),
        ),
        (
            "pairs between the two are kept: there is no blend",
            np.where(smooth > 0, kept, stretched),
        ),
        (
            "pairs between the two are slowed: there is no blend",
            np.where(smooth < 1, stretched, kept),
        ),
        (
            "wavelengths are taken as 1/frequency, without 2π",
            radians * kept + (1 - radians) * stretched,
        ),
    ):
        yield Alternative(Cause.FREQUENCY_RULE, message, values)
    for name, other in (
        ("low_freq_factor", low * 2),
        ("high_freq_factor", high / 2),
        ("high_freq_factor", high * 2),
        ("low_freq_factor", low / 2),
    ):
        changed = changed_frequencies(reference, **{name: other})
        if changed is not None:
            yield Alternative(
                Cause.FREQUENCY_RULE,
                f"{name} is {number_text(other)}, not {number_text(params[name])}",
                changed,
            )


def _longrope(reference: Reference, params: Mapping[str, Any]) -> Iterator[Alternative]:
    if "short_factor" not in params:
        return
    kept = ladder(params["base"], np.arange(reference.pairs) / reference.pairs)
    for name in ("short_factor", "long_factor"):
        factors = np.array(params[name], np.float64)
        if factors.size == reference.pairs:
            yield Alternative(
                Cause.FREQUENCY_RULE, f"{name} is applied at this length", kept / factors
            )
            yield Alternative(
                Cause.FREQUENCY_RULE, f"{name} multiplies frequencies, not divides", kept * factors
            )
