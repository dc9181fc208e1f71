"""Frequencies that a subject may have in place of the right ones: known mistakes, by their rule.

Each alternative is a hypothesis that a subject can be compared with. Rules are evaluated in
float64, which tells any two of them apart that float32 code can.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli import catalogue
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.formats import HALVES, round_to_half
from posenc_cli.inference.rules import (
    Alternative,
    base_of,
    changed_frequencies,
    frequencies_of,
    ladder,
    number_text,
)
from posenc_cli.inference.stretched import scaling_mistakes
from posenc_cli.schemes.inverse import CONTEXTS, FACTORS, KNOWN_BASES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from posenc_cli.inference.fitting import Rotations
    from posenc_cli.inference.reference import Reference
    from posenc_cli.schemes.declare import Scheme

_STRETCHED = ("rope-linear", "rope-ntk", "rope-dynamic", "rope-yarn", "rope-llama3")


_NEARLY = 2e-5
"""Nearer to the right base, it is the precision of the frequencies that lacks, not the base."""


def alternatives(reference: Reference, rotations: Rotations | None) -> Iterator[Alternative]:
    """What the frequencies may be instead, the likeliest first; none equals the right ones.

    ``rotations`` are those that the subject comes nearest to: bases and factors are read off.
    """
    right = reference.frequencies
    for alternative in _all(reference, rotations):
        values = alternative.frequencies
        if values.shape != right.shape or not np.isfinite(values).all():
            continue
        if np.allclose(values, right, rtol=1e-7, atol=0):
            continue
        yield alternative


def _all(reference: Reference, rotations: Rotations | None) -> Iterator[Alternative]:
    scheme, params = reference.encoding.bound.scheme, reference.params
    base = base_of(reference)
    if scheme.name != "rope" and base is not None and reference.coordinates is None:
        plain = frequencies_of(catalogue.BUILT_IN["rope"], params, partial=_share(reference))
        if plain is not None:
            yield Alternative(
                Cause.SCALING_MISSING,
                f"the scaling of {scheme.name} is not applied: the table is plain base "
                f"{number_text(base)}",
                plain,
            )
    for dtype in HALVES:
        yield Alternative(
            Cause.INV_FREQ_PRECISION,
            f"the frequencies were rounded to {dtype}",
            round_to_half(reference.frequencies.astype(np.float32).astype(np.float64), dtype),
        )
    known = [other for other in KNOWN_BASES if other != base]
    right = base or 1.0
    fitted = [b for b in _fitted_bases(reference, rotations) if abs(b / right - 1) > _NEARLY]
    yield from _exponents(reference)
    yield from _other_bases(reference, known)
    yield from scaling_mistakes(reference)
    yield from _other_rules(reference, scheme, params)
    yield from _constant_ratios(reference, rotations)
    yield from _needless_scalings(reference)
    yield from _plain_bases(reference, known)
    yield from _other_bases(reference, fitted)
    yield from _plain_bases(reference, fitted, fitted=True)
    yield Alternative(
        Cause.FREQUENCY_RULE, "the frequencies are in reverse order", reference.frequencies[::-1]
    )
    if (reference.frequencies > 0).all():
        message = "each frequency is its inverse, as of an exponent with the wrong sign"
        yield Alternative(Cause.FREQUENCY_RULE, message, 1 / reference.frequencies)


def _share(reference: Reference) -> float:
    """The share of the columns that turns."""
    return 2 * reference.pairs / reference.head


def _other_bases(reference: Reference, bases: list[float]) -> Iterator[Alternative]:
    """The rule of the reference with other bases."""
    right = base_of(reference)
    if right is None:
        return
    for base in bases:
        values = changed_frequencies(reference, base=base)
        if values is not None:
            yield Alternative(
                Cause.BASE, f"the base is {number_text(base)}, not {number_text(right)}", values
            )


def _plain_bases(
    reference: Reference, bases: list[float], *, fitted: bool = False
) -> Iterator[Alternative]:
    """Other bases, and the scaling left out as well.

    Where scaling is another base, a fitted one is that of another rule.
    """
    right, name = base_of(reference), reference.encoding.bound.scheme.name
    if right is None or name == "rope" or reference.coordinates is not None:
        return
    for base in bases:
        values = frequencies_of(
            catalogue.BUILT_IN["rope"], reference.params, base=base, partial=_share(reference)
        )
        if values is None:
            continue
        if fitted and name in ("rope-ntk", "rope-dynamic"):
            message = (
                f"the base {number_text(right)} is stretched to {number_text(base)}: another rule"
            )
            yield Alternative(Cause.FREQUENCY_RULE, message, values)
            continue
        yield Alternative(
            Cause.SCALING_MISSING,
            f"the scaling is not applied and the base is {number_text(base)}, not "
            f"{number_text(right)}",
            values,
        )


def _fitted_bases(reference: Reference, rotations: Rotations | None) -> Iterator[float]:
    """Bases read off fast pairs, which no scaling changes, to as few digits as they may have."""
    if rotations is None or rotations.frequencies.size != reference.pairs or reference.pairs < 2:
        return
    rates = np.abs(rotations.frequencies)
    for pair in sorted({1, 2, reference.pairs // 4, reference.pairs // 2, reference.pairs - 1}):
        if not 0 < pair < reference.pairs or not 0 < rates[pair] < 1:
            continue
        logarithm = -math.log(rates[pair]) * reference.pairs / pair
        if not 0 < logarithm < 60:
            continue
        base = math.exp(logarithm)
        for digits in (1, 2, 3, 5, 7):
            yield float(f"{base:.{digits - 1}e}")


def _exponents(reference: Reference) -> Iterator[Alternative]:
    """Ladders whose exponents are counted otherwise: base^(−2i/d) is right."""
    base = base_of(reference)
    if base is None:
        return
    pairs = np.arange(reference.pairs, dtype=np.float64)
    rotated, head = 2 * reference.pairs, reference.head
    counted = [
        ("the exponents are i/(d/2 − 1), not 2i/d", pairs / max(reference.pairs - 1, 1)),
        ("the exponents are i/d, not 2i/d", pairs / rotated),
        ("the exponents are 4i/d, not 2i/d", 4 * pairs / rotated),
        ("the exponents start at 2/d, not at 0", 2 * (pairs + 1) / rotated),
        ("the exponents are 2i/(d − 2), not 2i/d", 2 * pairs / max(rotated - 2, 1)),
        ("the exponents are (2i + 1)/d, not 2i/d", (2 * pairs + 1) / rotated),
    ]
    if head != rotated:
        whole = f"the exponents divide by the {head} columns of the head, not the {rotated} turning"
        counted.insert(0, (whole, 2 * pairs / head))
    elif reference.encoding.bound.scheme.name == "rope-proportional":
        turning = max(int(np.count_nonzero(reference.frequencies)), 1)
        own = np.where(reference.frequencies > 0, ladder(base, pairs / turning), 0)
        yield Alternative(
            Cause.FREQUENCY_RULE,
            f"the exponents divide by the {2 * turning} columns that turn, not by all {head}",
            own,
        )
    for message, exponents in counted:
        yield Alternative(Cause.FREQUENCY_RULE, message, ladder(base, exponents))
    yield Alternative(
        Cause.FREQUENCY_RULE,
        "each frequency is that of a column, base^(−2⌊i/2⌋/d), not of a pair",
        ladder(base, 2 * (pairs // 2) / rotated),
    )


def _other_rules(
    reference: Reference, scheme: Scheme, params: Mapping[str, Any]
) -> Iterator[Alternative]:
    factor = params.get("factor")
    if factor is not None:
        yield from _other_factors(reference, factor)
    for name in ("original_max_position_embeddings", "max_position_embeddings"):
        for context in CONTEXTS if params.get(name) is not None else ():
            values = changed_frequencies(reference, **{name: context})
            if values is not None and context != params[name]:
                yield Alternative(
                    Cause.FREQUENCY_RULE, f"{name} is {context}, not {params[name]}", values
                )
    for name in _STRETCHED if factor is not None else ():
        if name == scheme.name:
            continue
        values = frequencies_of(catalogue.BUILT_IN[name], params)
        if values is not None:
            yield Alternative(Cause.FREQUENCY_RULE, f"the rule is that of {name}", values)


def _other_factors(reference: Reference, factor: float) -> Iterator[Alternative]:
    tried = [
        (f"the factor is {number_text(other)}, not {number_text(factor)}", other)
        for other in FACTORS
    ]
    tried.append(("the factor is applied twice", factor * factor))
    for message, other in tried:
        values = changed_frequencies(reference, factor=other)
        if values is not None:
            yield Alternative(Cause.FREQUENCY_RULE, message, values)
    if reference.encoding.bound.scheme.name == "rope-ntk":
        values = frequencies_of(
            catalogue.BUILT_IN["rope"],
            reference.params,
            base=reference.params["base"] * factor,
            partial=_share(reference),
        )
        if values is not None:
            message = "the base is stretched by the factor without its exponent d/(d − 2)"
            yield Alternative(Cause.FREQUENCY_RULE, message, values)


def _needless_scalings(reference: Reference) -> Iterator[Alternative]:
    """Scalings of a scheme that has none."""
    if reference.encoding.bound.scheme.name != "rope":
        return
    tried: list[tuple[str, dict[str, float]]] = [
        ("rope-ntk", {"factor": factor}) for factor in FACTORS
    ]
    for factor in (8.0, 32.0):
        blend = {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
        context = {"original_max_position_embeddings": 8192}
        tried.append(("rope-llama3", {"factor": factor, **blend, **context}))
    tried += [
        ("rope-yarn", {"factor": factor, "original_max_position_embeddings": context})
        for context in (2048, 4096, 8192, 32768)
        for factor in (2.0, 4.0, 8.0, 16.0, 32.0, 40.0)
    ]
    for name, given in tried:
        values = frequencies_of(catalogue.BUILT_IN[name], reference.params, **given)
        if values is not None:
            message = f"the scaling of {name} is applied, factor {number_text(given['factor'])}"
            yield Alternative(Cause.FREQUENCY_RULE, f"{message}; the reference has none", values)


def _constant_ratios(reference: Reference, rotations: Rotations | None) -> Iterator[Alternative]:
    """All frequencies times one number."""
    right = reference.frequencies
    known = [(math.pi / 180, "degrees, not radians"), (2 * math.pi, "times 2π"),
             (1 / (2 * math.pi), "divided by 2π: turns, not radians"),
             (math.pi, "times π"), (2.0, "times 2"), (0.5, "divided by 2")]  # fmt: skip
    known += [(1 / factor, f"divided by {number_text(factor)}") for factor in FACTORS[1:]]
    for ratio, text in known:
        yield Alternative(Cause.FREQUENCY_RULE, f"all frequencies are {text}", right * ratio)
    if rotations is None or rotations.frequencies.size != right.size:
        return
    turning = right > 0
    if turning.any():
        ratio = float(np.median(np.abs(rotations.frequencies[turning]) / right[turning]))
        if 1e-9 < ratio < 1e9 and abs(ratio - 1) > 0.01:
            yield Alternative(
                Cause.FREQUENCY_RULE,
                f"all frequencies are {ratio:.6g} times the right ones",
                right * ratio,
            )
