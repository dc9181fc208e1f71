"""List frequency rules that a wrong subject may follow, likeliest first.

Rules come from four sources: other schemes or parameters (:func:`alternative_of`), known mistakes
of the reference's scheme, mistakes of any frequency ladder, and rates measured on the subject, from
which the inverses of schemes guess parameters. Each is only a suspicion: the caller compares it
with the subject. Rules are evaluated in float64, which tells any two apart that float32 code can.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from posenc_cli import catalogue
from posenc_cli.errors import PosencError
from posenc_cli.formulas.context_extension.scaled import rope_dynamic, rope_ntk
from posenc_cli.formulas.inverse import (
    FACTORS,
    KNOWN_BASES,
    Guess,
)
from posenc_cli.formulas.parameters import as_text
from posenc_cli.formulas.rotary import rope
from posenc_cli.inference.candidates import (
    is_number,
    other_values,
    proposal_of,
    rotary_proposals,
    schemes_of,
    usual_values,
)
from posenc_cli.inference.codes import Cause
from posenc_cli.inference.rates import Rates
from posenc_cli.numerics.halves import COARSE, round_to_half
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from posenc_cli.formulas.declare import Scheme
    from posenc_cli.inference.fitting import Rotations
    from posenc_cli.inference.reference import Reference
    from posenc_cli.numerics.arrays import Reals


_HIGH_FREQUENCY = 4.0
"""Radians per position above which float32 rounding of a frequency shows at far positions."""

_MULTIPLES = (2.0, 0.5)
"""Multiples to try of a number that no model uses: doubling and halving are the usual changes."""

_IMPRECISE = 2e-5
"""Relative difference below which the frequencies are imprecise rather than of another base."""

_ERRORS = ((2e-6, 1e-9), (5e-4, 1e-7))
"""Errors of rates, relative and in radians: of float32 tables of a thousand rows, and of half
precision. The finer ones come first, because they determine more digits."""

_MOST_PROPOSALS = 12
"""Limit on proposals of all schemes together, for each precision: the costliest fit by chance."""

_MOST_CHANGED = 3
"""Limit on changed parameters of the reference's scheme. A ramp's context and betas are three; with
four, a ramp can fit any frequencies."""


Recalled = TypeVar("Recalled")


class Remembered(Generic[Recalled]):
    """An iterable over an iterator that can be repeated; each item is computed once, on demand.

    >>> squares = Remembered(n * n for n in range(3))
    >>> next(iter(squares)), list(squares), list(squares)
    (0, [0, 1, 4], [0, 1, 4])
    """

    def __init__(self, items: Iterable[Recalled]) -> None:
        self._items = iter(items)

    def __iter__(self) -> Iterator[Recalled]:
        self._items, again = itertools.tee(self._items)
        return again


class Alternative(Record):
    """Frequencies (pairs,) that a subject may have, with their cause and message.

    ``read_off`` says that they were measured on the subject, so that agreement with it confirms
    nothing. ``params`` are parameters of the reference's scheme that give them, perhaps with
    another amplitude; None for other rules.
    """

    cause: Cause
    message: str
    frequencies: Reals
    read_off: bool = False
    params: Mapping[str, Any] | None = None


def frequencies_of(
    scheme: Scheme, params: Mapping[str, Any], *, of_position: bool = False, **changed: Any
) -> Reals | None:
    """Return the frequencies of a rotary scheme with its parameters from ``params``.

    None if it has none with them, or if they exceed float64. With ``of_position``, also None if the
    waves follow coordinates or grow in amplitude.
    """
    given = {
        name: value
        for name, value in {**params, **changed}.items()
        if name in scheme.parameters and value is not None
    }
    proposal = proposal_of(scheme, Guess(given))
    return None if proposal is None or (of_position and proposal.placed) else proposal.frequencies


def changed_frequencies(reference: Reference, **changed: Any) -> Reals | None:
    """Return the frequencies of the reference's scheme with other parameters, or None."""
    return frequencies_of(reference.encoding.bound.scheme, reference.params, **changed)


def base_of(reference: Reference) -> float | None:
    """Return the base of the reference's frequency ladder; None if it has none.

    A scheme with several conventions may derive its base from them.
    """
    given = reference.params.get("base")
    if given is not None or "base" not in reference.params:
        return None if given is None else float(given)
    own = changed_frequencies(reference)
    for base in (10_000.0, 100.0):
        values = changed_frequencies(reference, base=base)
        if own is not None and values is not None and np.array_equal(values, own):
            return base
    return None


def ladder_base(frequencies: Reals) -> float:
    """Return the base of a geometric ladder that starts at 1, from its last frequency."""
    with np.errstate(all="ignore"):
        return float(frequencies[-1] ** (frequencies.size / (1 - frequencies.size)))


def number_text(value: float) -> str:
    """Return a base or a factor as messages show it.

    >>> number_text(500000.0), number_text(1e11)
    ('500000', '1e+11')
    """
    return f"{value:.7g}" if value < 1e7 else f"{value:g}"


def alternatives(reference: Reference, rotations: Rotations | None) -> Iterator[Alternative]:
    """Yield frequencies that the subject may have instead, likeliest first.

    Frequencies equal to the reference's are left out. ``rotations`` are the nearest to the subject,
    and suggest more rules.
    """
    suggested = () if rotations is None else _suggested_by_rates(reference, rotations)
    yield from _distinct_alternatives(reference, likely_alternatives(reference), suggested)


@lru_cache(maxsize=4)
def likely_alternatives(reference: Reference) -> Remembered[Alternative]:
    """Return the likeliest alternatives, so few that none is near a subject by chance."""
    return Remembered(_distinct_alternatives(reference, _likely_rules(reference)))


def _distinct_alternatives(
    reference: Reference, *several: Iterable[Alternative]
) -> Iterator[Alternative]:
    """Yield alternatives that are finite, new, and differ from the reference."""
    right = reference.frequencies
    seen = set()
    for alternative in itertools.chain(*several):
        values = alternative.frequencies
        if values.shape != right.shape or not np.isfinite(values).all():
            continue
        key = values.tobytes()
        if key in seen or np.allclose(values, right, rtol=1e-7, atol=0):
            continue
        seen.add(key)
        yield alternative


def _likely_rules(reference: Reference) -> Iterator[Alternative]:
    """Yield rules that need no measurement, the likeliest first."""
    base, right = base_of(reference), reference.frequencies
    known = [other for other in KNOWN_BASES if other != base]
    plain: list[dict[str, object]] = []
    if reference.encoding.bound.scheme is not rope and reference.coordinates is None:
        bases = (base, *known) if base is not None else ()
        shape = {"dim": reference.head, "partial": 2 * reference.pairs / reference.head}
        plain = [{**shape, "base": other} for other in bases]
    yield from _alternatives_of(reference, rope, plain[:1])
    for kind in COARSE:
        message = f"the frequencies were rounded to {kind}"
        yield Alternative(Cause.INV_FREQ_PRECISION, message, round_to_half(right, kind))
    yield from _wrong_exponents(reference)
    if base is not None:
        yield from _with_values(reference, "base", known)
    yield from _mistakes(reference)
    yield from _other_values(reference)
    yield from _other_schemes(reference)
    yield from _usual_multiples(reference)
    yield from _alternatives_of(reference, rope, plain[1:])
    inverse = 1 / np.where(right > 0, right, np.nan)
    for message, values in (
        ("the frequencies are in reverse order", right[::-1].copy()),
        ("each frequency is inverted, as by an exponent with the wrong sign", inverse),
        ("wavelengths (2π/frequency) are used as frequencies", 2 * math.pi * inverse),
    ):
        with np.errstate(over="ignore"):
            single = values.astype(np.float32).astype(np.float64)
        for rates in (values, single):  # float32 rounding shows in frequencies this high
            yield Alternative(Cause.FREQUENCY_RULE, message, rates)


def _alternatives_of(
    reference: Reference, scheme: Scheme, given: Iterable[Mapping[str, Any]]
) -> Iterator[Alternative]:
    """Yield alternatives of a scheme, one for each set of parameters."""
    yield from filter(None, (alternative_of(reference, scheme, params) for params in given))


def _with_values(
    reference: Reference, name: str, values: Iterable[object]
) -> Iterator[Alternative]:
    """Yield alternatives of the reference's scheme with other values of a parameter."""
    given = {key: value for key, value in reference.params.items() if value is not None}
    others = ({**given, name: value} for value in values if value != given.get(name))
    yield from _alternatives_of(reference, reference.encoding.bound.scheme, others)


def _mistakes(reference: Reference) -> Iterator[Alternative]:
    """Yield known mistakes in implementing the reference's scheme."""
    scheme = reference.encoding.bound.scheme
    messages: dict[bytes, list[str]] = {}
    # A mistake may raise large parameters beyond float64.
    beyond = contextlib.suppress(PosencError, ArithmeticError, ValueError)
    with beyond, scheme.answerable(), np.errstate(all="ignore"):
        for mistake in scheme.mistakes(np, reference.params) if scheme.mistakes else ():
            values = np.asarray(mistake.frequencies, np.float64)
            single = values.astype(np.float32).astype(np.float64)
            values = np.where(np.abs(values) > _HIGH_FREQUENCY, single, values)
            messages.setdefault(values.tobytes(), []).append(mistake.message)
    for content, alike in messages.items():
        yield Alternative(Cause.FREQUENCY_RULE, ", or ".join(alike), np.frombuffer(content))


def _other_values(reference: Reference) -> Iterator[Alternative]:
    """Yield other values of the scheme's parameters except the base, those of models first."""
    scheme, params = reference.encoding.bound.scheme, reference.params
    for name, parameter in scheme.parameters.items():
        right = params.get(name)
        if name == "base" or name in SHAPE or right is None or parameter.is_list:
            continue
        usual: list[object] = []
        if is_number(parameter):
            near = [parameter.type(right * step) for step in _MULTIPLES]
            usual = [*usual_values(parameter), *near]
        yield from _with_values(reference, name, other_values(parameter, right, usual))


def _other_schemes(reference: Reference) -> Iterator[Alternative]:
    """Yield other schemes with the parameters that they share with the reference."""
    own, params = reference.encoding.bound.scheme, reference.params
    if reference.coordinates is not None:
        return
    for scheme in schemes_of("rotary"):
        if scheme.build in (own.build, rope.build):
            continue
        shared = {
            name: value
            for name, value in params.items()
            if name in scheme.parameters and value is not None
        }
        yield from _alternatives_of(reference, scheme, [shared])


def _wrong_exponents(reference: Reference) -> Iterator[Alternative]:
    """Yield ladders with wrong exponents; base^(−2i/d) is right."""
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
        ("the exponents are (2i + 1)/d, not 2i/d", (2 * pairs + 1) / rotated),
        ("the exponents are integers: 2i // d is 0", 0 * pairs),
        ("the exponents are integers: −2i // d is −1 from pair 1 on", np.minimum(pairs, 1)),
        (
            "frequencies are computed per dimension, base^(−2⌊i/2⌋/d), not per pair",
            2 * (pairs // 2) / rotated,
        ),
    ]
    if reference.coordinates is not None:
        one = "all axes share one sequence of frequencies, base^(−2i/d), pair after pair"
        counted.insert(0, (one, 2 * pairs / rotated))
    if head != rotated:
        whole = f"the exponents divide by the head dim {head}, not the rotary dim {rotated}"
        counted.insert(0, (whole, 2 * pairs / head))
    for message, exponents in counted:
        yield Alternative(Cause.FREQUENCY_RULE, message, base**-exponents)


def _usual_multiples(reference: Reference) -> Iterator[Alternative]:
    right = reference.frequencies
    known = [(math.pi / 180, "read as degrees, not radians"), (2 * math.pi, "multiplied by 2π"),
             (1 / (2 * math.pi), "divided by 2π: turns, not radians"),
             (math.pi, "multiplied by π"), (2.0, "multiplied by 2"),
             (0.5, "divided by 2")]  # fmt: skip
    known += [(1 / factor, f"divided by {number_text(factor)}") for factor in FACTORS[1:]]
    for ratio, text in known:
        yield Alternative(Cause.FREQUENCY_RULE, f"all frequencies are {text}", right * ratio)


# Rules that only measured rates suggest.


def _suggested_by_rates(reference: Reference, rotations: Rotations) -> Iterator[Alternative]:
    """Yield frequencies suggested by measured rotations, likeliest first."""
    rates = np.abs(rotations.frequencies)
    if rates.shape != reference.frequencies.shape or not np.isfinite(rates).all():
        return
    for rules in (_measured_multiple, _dynamic_ntk_of_length, _measured_schemes):
        for alternative in rules(reference, rates):
            yield replace(alternative, read_off=True)


def _measured_multiple(reference: Reference, rates: Reals) -> Iterator[Alternative]:
    right = reference.frequencies
    rotating = right > 0
    if not rotating.any():
        return
    ratio = float(np.median(rates[rotating] / right[rotating]))
    if 1e-9 < ratio < 1e9 and abs(ratio - 1) > 1e-5:  # the message has six digits
        message = f"all frequencies are {ratio:.6g} times the reference's"
        yield Alternative(Cause.FREQUENCY_RULE, message, right * ratio)


def _dynamic_ntk_of_length(reference: Reference, rates: Reals) -> Iterator[Alternative]:
    """Yield dynamic NTK for the length that scales the base to the base of the rates."""
    params, base = reference.params, base_of(reference)
    dynamic = reference.encoding.bound.scheme is rope_dynamic and (rates > 0).all()
    if not dynamic or base is None or reference.pairs < 2:
        return
    limit, factor = params["max_position_embeddings"], params["factor"]
    scaling, own = (
        max(ladder_base(ladder) / base, 1) ** (1 - 1 / reference.pairs)
        for ladder in (rates, reference.frequencies)
    )
    length = round(limit / factor * (scaling + factor - 1))
    frequencies = changed_frequencies(reference, seq_len=length) if length > limit else None
    if frequencies is not None:
        message = f"the base is scaled for a length of {length}"
        if own > 1:
            message += f", or by the factor {number_text(factor * (scaling - 1) / (own - 1))}"
        yield Alternative(Cause.FREQUENCY_RULE, message, frequencies)


def _measured_schemes(reference: Reference, rates: Reals) -> Iterator[Alternative]:
    """Yield alternatives that the inverses of all schemes find for the rates."""
    if reference.coordinates is not None:
        return
    for share, least in _ERRORS:
        measured = Rates(rates, share * rates + least, rates.size)
        for proposal in itertools.islice(rotary_proposals(measured, None), _MOST_PROPOSALS):
            try:
                scheme = catalogue.find(proposal.scheme)
            except PosencError:
                continue
            own = scheme.build is reference.encoding.bound.scheme.build
            kept = {n: v for n, v in reference.params.items() if v is not None} if own else {}
            changed = [name for name, value in proposal.given.items() if kept.get(name) != value]
            if own and len(changed) > _MOST_CHANGED:
                continue
            # A note says that the numbers are one choice of many: try each alone.
            choices = [[name] for name in changed] if own and proposal.notes else [changed]
            for names in choices:
                given = {name: proposal.given[name] for name in names} if own else proposal.given
                alternative = alternative_of(reference, scheme, {**kept, **given})
                if alternative is not None and _has_other_frequencies(alternative, reference):
                    yield alternative


def _has_other_frequencies(alternative: Alternative, reference: Reference) -> bool:
    """Return whether an alternative has the reference's number of frequencies, but other values."""
    right = reference.frequencies
    found = alternative.frequencies
    return found.shape == right.shape and not np.allclose(found, right, rtol=_IMPRECISE, atol=0)


SHAPE = ("dim", "partial", "layout")
"""Parameters that determine which columns rotate, but not how fast."""
_SAME_RULE = 1e-9
"""Relative difference below which two frequencies in float64 follow the same rule."""


def alternative_of(
    reference: Reference, scheme: Scheme, params: Mapping[str, Any]
) -> Alternative | None:
    """Return the alternative of a subject with the frequencies of a scheme with these parameters.

    Parameters that are not in ``params`` have their defaults. None if the scheme has no frequencies
    with them.
    """
    own = scheme.build is reference.encoding.bound.scheme.build
    frequencies = frequencies_of(scheme, params, of_position=not own)
    if frequencies is None:
        return None
    if own:
        cause, message = _changed_parameters(reference, params, frequencies)
    elif scheme is rope and base_of(reference) is not None:
        cause, message = _without_scaling(reference, float(params["base"]))
    else:
        cause, message = Cause.FREQUENCY_RULE, _other_rule_text(reference, scheme, params)
    return Alternative(cause, message, frequencies, params=params if own else None)


def _changed_parameters(
    reference: Reference, params: Mapping[str, Any], frequencies: Reals
) -> tuple[Cause, str]:
    """Return the cause and the message for changed parameters of the reference's scheme."""
    scheme = reference.encoding.bound.scheme
    values = {name: parameter.default for name, parameter in scheme.parameters.items()} | {**params}
    changed = [
        name
        for name, value in values.items()
        if name not in SHAPE and value is not None and value != reference.params[name]
    ]
    if len(changed) > 1:
        # Drop parameters that change the amplitude only.
        changed = [
            name
            for name in changed
            if (other := frequencies_of(scheme, {**values, name: reference.params[name]})) is None
            or other.shape != frequencies.shape
            or not np.allclose(frequencies, other, rtol=_SAME_RULE, atol=0)
        ]
    own = {**reference.params, "base": base_of(reference)}
    cause = Cause.BASE if "base" in changed else Cause.FREQUENCY_RULE
    if not changed:  # the parameters differ only in which columns rotate
        cause = Cause.ROTARY_DIM
        changed = [name for name in SHAPE if name in own and values[name] != own[name]]
    texts = []
    for name in sorted(changed, key=lambda name: name != "base"):
        right = own[name]
        meaning = f" ({scheme.parameters[name].rules.help})" if isinstance(right, bool) else ""
        texts.append(value_text(name, values[name], right) + meaning)
    return cause, ", and ".join(texts)


def value_text(name: str, value: Any, right: Any) -> str:
    """Return the message on one parameter with another value.

    >>> value_text("base", 500000.0, 10000.0), value_text("beta_fast", 16.0, 32.0)
    ('the base is 500000, not 10000', 'beta_fast is 16, not 32')
    """
    article = "the " if name in ("base", "factor") else ""
    return f"{article}{name} is {_value_words(value)}, not {_value_words(right)}"


def _value_words(value: Any) -> str:
    return number_text(value) if isinstance(value, float) else as_text(value)


def _without_scaling(reference: Reference, base: float) -> tuple[Cause, str]:
    """Return the cause and the message for plain RoPE with a base, in place of a scaled one."""
    right, shown = base_of(reference), number_text(base)
    assert right is not None
    if base == right:
        return Cause.SCALING_MISSING, (
            f"{reference.encoding.bound.scheme.name} scaling is not applied: the table is plain "
            f"RoPE, base {shown}"
        )
    if reference.encoding.bound.scheme in (rope_ntk, rope_dynamic) and base not in KNOWN_BASES:
        scaled = number_text(ladder_base(reference.frequencies))
        return Cause.FREQUENCY_RULE, f"the scaled base is {shown}, not {scaled}"
    return Cause.SCALING_MISSING, (
        f"the scaling is not applied and the base is {shown}, not {number_text(right)}"
    )


def _other_rule_text(reference: Reference, scheme: Scheme, params: Mapping[str, Any]) -> str:
    """Return the message on another scheme's rule, with the parameters that differ."""
    defaults = {name: parameter.default for name, parameter in scheme.parameters.items()}
    values = {**defaults, **params}
    needless = reference.encoding.bound.scheme is rope and values.get("factor") not in (None, 1)
    expected = {**defaults, **reference.params, "base": base_of(reference)}
    hidden = (*SHAPE, "factor") if needless else SHAPE
    shown = "".join(
        f", {name} {_value_words(value)}"
        for name, value in values.items()
        if name not in hidden
        and value not in (None, expected[name])
        and not isinstance(value, tuple)
    )
    if needless:
        applied = f"{scheme.name} scaling is applied, factor {number_text(values['factor'])}{shown}"
        return f"{applied}; the reference has none"
    return f"the frequencies follow {scheme.name}{shown}"


def has_amplitude(
    rule: Alternative | None, reference: Reference, amplitude: float, precise: float
) -> bool:
    """Return whether a rule keeps the reference's amplitude, or has the measured one.

    ``precise`` is the allowed difference. Parameters may change the amplitude: LongRoPE's depends
    on the original context.
    """
    if rule is None or rule.params is None:
        return True
    given = {name: value for name, value in rule.params.items() if value is not None}
    changed = proposal_of(reference.encoding.bound.scheme, Guess(given))
    wanted = (amplitude, reference.scale)
    return changed is not None and any(abs(changed.amplitude - one) <= precise for one in wanted)
