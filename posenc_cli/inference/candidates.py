"""Which rules give frequencies that were found: RoPE and its stretched variants, and sinusoids.

Each proposal is a scheme with parameters whose frequencies agree with what was found, as well as
that is known; whether the array fits is for a trial to say. Bases, factors and contexts are snapped
to the numbers people use where these lie within the uncertainty.
Rules are evaluated in float64. Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli import catalogue
from posenc_cli.errors import PosencError
from posenc_cli.inference.rules import CONTEXTS, FACTORS, KNOWN_BASES, ladder
from posenc_cli.models import library
from posenc_cli.models.config import resolve
from posenc_cli.records import Record, fresh, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from posenc_cli.inference.rates import Rates
    from posenc_cli.numerics.arrays import Integers, Reals

RARE_FACTORS = (*FACTORS, 5.0, 12.0)
RARE_CONTEXTS = (*CONTEXTS, 1500, 3000, 6144, 12288, 40960)
"""No reference says a factor or a context here, so rarer ones are tried too. A diagnosis does not
name them: judgement, for a rare factor says less than how many times a frequency is off."""
_BETAS = ((32.0, 1.0), (64.0, 1.0), (16.0, 1.0), (32.0, 2.0), (32.0, 4.0), (8.0, 1.0), (16.0, 2.0))
"""beta_fast and beta_slow of models, the paper's first."""
_CONTEXT = 4096
"""The context that is stated where ratios alone show: that of Llama 2, which YaRN stretched."""
_MANY_RAMPS = (
    "only the ends of the ramp show: context, beta_fast and beta_slow are one choice of many",
)
_STEEPEST = 60
"""ln of the largest base that is looked for."""
_MANY_FREQUENCIES = 12
"""Of fewer the median of slopes shows no ladder, whatever some of them are."""
_FEW_OF = 4
"""One in so many: as many numbers that are wrong are as simple as a rule with as many factors."""
_NEAR = 0.02
"""Of a known base: what half-precision frequencies may make of it."""


class Proposal(Record):
    """A scheme with parameters, its frequencies in radians per position, and its amplitude."""

    scheme: str
    given: Mapping[str, Any]
    frequencies: Reals
    amplitude: float = 1.0
    cost: float = 1.0
    uncertainty: Mapping[str, float] = fresh(dict)
    notes: tuple[str, ...] = ()


class PresetProposal(Record):
    """The rotary encoding of a model's layers, as a proposal."""

    model: str
    layer_type: str | None
    proposal: Proposal


@lru_cache(maxsize=1)
def presets() -> tuple[PresetProposal, ...]:
    """The rotary encodings of all models that posenc ships."""
    proposals = []
    for name in library.names():
        for layers in resolve(library.find(name).config, name=name).layers:
            given = {key: value for key, value in layers.values().items() if key != "layout"}
            # Behind every rule that gives the same with numbers people use.
            proposal = proposal_of(layers.scheme, given, cost=3.0)
            if proposal is not None:
                proposals.append(PresetProposal(name, layers.layer_type, proposal))
    return tuple(proposals)


def proposal_of(scheme: str, given: Mapping[str, Any], **rest: Any) -> Proposal | None:
    """A proposal of a scheme made of waves; None where it is none, or cannot be so."""
    try:
        waves = catalogue.BUILT_IN[scheme].bind(given, seq_len=None).content.waves
    except PosencError:
        return None
    if waves is None:
        return None
    with np.errstate(all="ignore"):
        frequencies = np.asarray(waves.frequencies(np), np.float64)
    return Proposal(scheme, given, frequencies, float(waves.scale), **rest)


def agrees(frequencies: Reals, rates: Rates, *, loose: float = 0.0) -> bool:
    """Whether rates a row may be whole multiples of frequencies, one multiple for all pairs."""
    count = rates.values.size
    if frequencies.size < count:
        return False
    frequencies = frequencies[:count]
    known = np.flatnonzero((frequencies > 0) & (rates.errors < 0.3 * np.abs(rates.values)))
    steps = {1.0}
    if known.size:
        slow = known[-1]
        steps.add(float(np.round(rates.values[slow] / frequencies[slow])))
    for step in steps:
        left = rates.values - step * frequencies
        left = np.abs(left - 2 * np.pi * np.round(left / (2 * np.pi)))
        limits = (1 + abs(step)) * rates.errors + loose * np.abs(step * frequencies) + 1e-12
        if step and (left <= limits).all():
            return True
    return False


def rotary_proposals(
    rates: Rates, amplitude: float | None, *, precise: float = 1e-5
) -> Iterator[Proposal]:
    """Rotary encodings whose frequencies agree with rates, the plainest first.

    ``amplitude`` is what cosines and sines are multiplied by, known to ``precise``; None where
    nothing shows it.
    """
    pairs = rates.values.size
    given = {"dim": 2 * pairs}
    for proposal in _rotary(rates, given, amplitude, precise):
        if amplitude is not None and abs(proposal.amplitude - amplitude) > 3 * precise * amplitude:
            continue
        # Plain rules are tried where half-precision frequencies are that far off.
        loose = 0.004 if proposal.cost < 2 else 0.0
        if agrees(proposal.frequencies, rates, loose=loose):
            yield proposal


def _rotary(
    rates: Rates, given: dict[str, Any], amplitude: float | None, precise: float
) -> Iterator[Proposal]:
    ladders = [*_ladder_proposals(rates, given), *_ntk(rates, given)]
    yield from sorted(ladders, key=lambda proposal: proposal.cost)
    for preset in presets():
        rotary = catalogue.BUILT_IN[preset.proposal.scheme].kind == "rotary"
        if rotary and preset.proposal.frequencies.size == rates.values.size:
            yield preset.proposal
    yield from _yarn(rates, given, amplitude, precise)
    yield from _llama3(rates, given)
    yield from _longrope(rates, given, amplitude, precise)


def _ladder_proposals(rates: Rates, given: dict[str, Any]) -> Iterator[Proposal]:
    """RoPE on one geometric ladder, divided by a factor or not."""
    pairs = rates.values.size
    turning = _turning_count(rates)
    for base, cost, error in _bases(rates, pairs):
        uncertain = {"base": error} if error else {}
        proposal = proposal_of("rope", {**given, "base": base}, cost=cost, uncertainty=uncertain)
        if proposal is not None:
            yield proposal
    for base, _, _ in _bases(rates, pairs, known_only=True):
        for factor, cost in _linear_factors(rates, base):
            extra = {**given, "base": base, "factor": factor}
            if turning < pairs:
                share = (turning + 0.5) / pairs
                shares = (0.25, 0.5, 0.75, turning / pairs, share)
                partial = next(p for p in shares if int(p * pairs) == turning)
                proposal = proposal_of(
                    "rope-proportional", {**extra, "partial": partial}, cost=1.1 + cost
                )
                if proposal is not None:
                    yield proposal
            # Pairs too slow to be seen turning may turn all the same.
            proposal = proposal_of("rope-linear", extra, cost=1 + cost)
            if proposal is not None and factor != 1:
                yield proposal


def ladders_of_most(rates: Rates) -> Iterator[Proposal]:
    """RoPE, divided by a factor or not, and models, where all but a few frequencies agree.

    The median of many slopes shows the ladder, whatever the few are.
    """
    values = rates.values
    pairs = values.size
    if pairs < _MANY_FREQUENCIES or (values <= 0).any():
        return
    index, reach = np.arange(pairs), pairs // 2
    logarithms = np.log(values)
    slope = float(np.median(logarithms[reach:] - logarithms[:-reach])) / reach
    error = 4 * float(np.median(rates.errors / values))
    factor = math.exp(-float(np.median(logarithms - slope * index)))
    candidates: list[Proposal | None] = [preset.proposal for preset in presets()]
    if 0 < -slope * pairs < _STEEPEST:
        base = math.exp(-slope * pairs)
        near = [known for known in KNOWN_BASES if abs(known / base - 1) <= error * pairs]
        extra = {"dim": 2 * pairs, "base": near[0] if near else snap(base, base * error)}
        candidates.append(proposal_of("rope", extra))
        if factor > 1 + error:
            extra["factor"] = snap(factor, factor * error * pairs)
            candidates.append(proposal_of("rope-linear", extra, cost=2.0))
    for candidate in filter(None, candidates):
        if candidate.frequencies.size == pairs and candidate.scheme.startswith("rope"):
            wrong = np.abs(values - candidate.frequencies) > rates.errors
            if 0 < _FEW_OF * wrong.sum() <= pairs:
                yield candidate


def _turning_count(rates: Rates) -> int:
    """How many pairs turn: those after the last that does stand still."""
    moving = np.flatnonzero(np.abs(rates.values) > 2 * rates.errors + 1e-11)
    return int(moving[-1]) + 1 if moving.size else 0


def snap(value: float, error: float) -> float:
    """The number of fewest digits within an error of a value.

    >>> snap(9999.993, 0.5), snap(0.7071, 1e-6)
    (10000.0, 0.7071)
    """
    for digits in range(1, 13):
        short = float(f"{value:.{digits - 1}e}")
        if abs(short - value) <= error:
            return short
    return value


def _digits(value: float) -> int:
    return next(d for d in range(1, 18) if float(f"{value:.{d - 1}e}") == value)


def _bases(
    rates: Rates, steps: float, *, known_only: bool = False
) -> Iterator[tuple[float, float, float]]:
    """Bases of a ladder base^(−i/steps) that rates follow: base, cost, uncertainty."""
    fit = _fitted_base(rates, steps)
    if fit is None:
        yield 10_000.0, 1.0, 0.0
        return
    base, error = fit
    near = [b for b in KNOWN_BASES if abs(b / base - 1) <= max(_NEAR, 5 * error / base)]
    for known in sorted(near, key=lambda b: abs(math.log(b / base))):
        yield known, 1.0, 0.0
    if known_only and near:
        return
    short = snap(base, error)
    if short not in near and short > 1:
        yield short, 1.0 + 0.3 * _digits(short), 0.0 if _digits(short) <= 4 else error
    if not known_only and base > 1:
        # A fitted base explains any ladder: it is believed last.
        yield base, 6.0, error


def _fitted_base(rates: Rates, steps: float) -> tuple[float, float] | None:
    """The base of the ladder that the rates follow from the slow end on, and its uncertainty."""
    values, errors = rates.values, rates.errors
    last = _turning_count(rates)
    usable = (values > 0) & (errors < 0.5 * np.abs(values)) & (np.arange(values.size) < last)
    where = np.flatnonzero(usable)
    if where.size < 2:
        return None
    logarithms, spread = np.log(values[where]), errors[where] / values[where]
    begin = where.size - 2
    slope = (logarithms[-1] - logarithms[0]) / (where[-1] - where[0])
    if values.size > 2:
        middle = max(0, where.size - max(3, where.size // 2))
        slope = (logarithms[-1] - logarithms[middle]) / (where[-1] - where[middle])
    while begin > 0:
        predicted = logarithms[-1] + slope * (where[begin - 1] - where[-1])
        if abs(predicted - logarithms[begin - 1]) > 0.05 + 3 * (spread[begin - 1] + spread[-1]):
            break
        begin -= 1
    x, y, w = where[begin:].astype(float), logarithms[begin:], 1 / spread[begin:] ** 2
    centre = (w @ x) / w.sum()
    power = float(w @ (x - centre) ** 2)
    if power == 0:
        return None
    slope = float((w * (x - centre)) @ (y - (w @ y) / w.sum())) / power
    if not 0 < -slope * steps < 60:
        return None
    base = math.exp(-slope * steps)
    error = base * steps * max(1 / math.sqrt(power), 2e-7 / max(float(np.ptp(x)), 1.0))
    return base, error


def _linear_factors(rates: Rates, base: float) -> Iterator[tuple[float, float]]:
    """Factors that all frequencies of a base are divided by, one for all pairs; cost of each."""
    pairs = rates.values.size
    turning = _turning_count(rates)
    if turning == 0:
        return
    plain = ladder(base, np.arange(pairs) / pairs)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = plain[:turning] / rates.values[:turning]
        spread = rates.errors[:turning] / np.abs(rates.values[:turning])
    good = np.isfinite(ratios) & (ratios > 0)
    if not good.any():
        return
    best = np.flatnonzero(good)[np.argmin(spread[good])]
    ratio, error = float(ratios[best]), float(3 * spread[best] * ratios[best])
    if turning < pairs and abs(ratio - 1) <= error:
        yield 1.0, 1.0
        return
    short = snap(ratio, error)
    if short > 1:
        yield short, 0.5 + 0.3 * _digits(short)
    for factor in RARE_FACTORS:
        if factor != short and abs(factor / ratio - 1) <= _NEAR:
            yield factor, 2.0
    yield from _stepped_factors(ratio, error)


def _stepped_factors(ratio: float, error: float) -> Iterator[tuple[float, float]]:
    """Factors where rows are several positions apart: ratio = factor/step, the small steps first.

    Nothing but the ratio shows.
    """
    for factor in RARE_FACTORS if 0 < ratio < 1 else ():
        step = round(factor / ratio)
        if step > 1 and step != factor and abs(step * ratio / factor - 1) <= error / ratio + 1e-9:
            yield factor, 3.0 + 1e-4 * step


def _ntk(rates: Rates, given: dict[str, Any]) -> Iterator[Proposal]:
    pairs = rates.values.size
    fit = _fitted_base(rates, pairs)
    if fit is None or pairs < 2:
        return
    base, error = fit
    power = (2 * pairs - 2) / (2 * pairs)
    for known in KNOWN_BASES[:10]:
        factor = (base / known) ** power
        if not 1.0002 < factor < 2000:
            continue
        spread = 2 * factor * error / base
        short = snap(factor, spread)
        usual = next(
            (f for f in RARE_FACTORS[:7] if abs(f - factor) <= max(spread, 0.004 * f)), None
        )
        # A usual factor at a usual base is met by chance more than a plain base is.
        cost = 1.4 if usual else 1.9 + 0.3 * _digits(short)
        if known not in (1e4, 5e5, 1e6):
            cost += 0.5
        for value in dict.fromkeys(filter(None, (usual, short))):
            proposal = proposal_of("rope-ntk", {**given, "base": known, "factor": value}, cost=cost)
            if proposal is not None:
                yield proposal


def _fast_bases(rates: Rates) -> Iterator[float]:
    """Bases that fast pairs, which no scaling changes, may have."""
    pairs = rates.values.size
    bases: dict[float, None] = {}
    for pair in sorted({1, 2, 3, max(1, pairs // 8), max(1, pairs // 4), max(1, pairs // 3)}):
        if pair >= pairs or not 0 < rates.values[pair] < 1:
            continue
        logarithm = -math.log(rates.values[pair]) * pairs / pair
        error = rates.errors[pair] / rates.values[pair] * pairs / pair
        if not 1e-3 < logarithm < 60:
            continue
        base = math.exp(logarithm)
        for known in KNOWN_BASES:
            if abs(math.log(known) - logarithm) <= 2 * error + 0.004:
                bases[known] = None
        bases[snap(base, min(base * error, 0.01 * base))] = None
    yield from [base for base in bases if base > 1][:12]


def _shares(rates: Rates, base: float, factor: float) -> tuple[Reals, Reals]:
    """How far each pair is slowed, 0 not and 1 by the factor, and the error of that."""
    pairs = rates.values.size
    plain = ladder(base, np.arange(pairs) / pairs)
    full = 1 - 1 / factor if factor != 1 else 1.0
    return (1 - rates.values / plain) / full, rates.errors / plain / full


def _slowings(rates: Rates, base: float) -> list[float]:
    """Factors that the slowest pairs may be slowed by."""
    pairs = rates.values.size
    plain = ladder(base, np.arange(pairs) / pairs)
    factors: list[float] = []
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios, spread = plain / rates.values, rates.errors / np.abs(rates.values)
    good = np.flatnonzero((rates.values > 0) & (spread < 0.3))
    for pair in good[-1:-4:-1]:
        ratio = float(ratios[pair])
        if ratio > 1.05:
            factors.append(snap(ratio, max(3 * float(spread[pair]), 1e-6) * ratio))
    return list(dict.fromkeys([*factors, *RARE_FACTORS]))


def _yarn(
    rates: Rates, given: dict[str, Any], amplitude: float | None, precise: float
) -> Iterator[Proposal]:
    pairs = rates.values.size
    if pairs < 4:
        return
    for base in _fast_bases(rates):
        for factor in _slowings(rates, base):
            share, error = _shares(rates, base, factor)
            if share[0] > 3 * error[0] + 1e-3 or (share > 1.02 + 4 * error).any():
                continue
            if np.abs(share).max() < 0.01:
                continue
            settled = {**given, "base": base, "factor": factor}
            usual = list(_usual_ramps(base, share, error))
            for ramp, cost in usual or _fitted_ramps(base, share, error):
                for proposal in _with_amplitude({**settled, **ramp}, amplitude, precise, cost):
                    yield proposal if usual else replace(proposal, notes=_MANY_RAMPS)


def _usual_ramps(base: float, share: Reals, error: Reals) -> Iterator[tuple[dict[str, Any], float]]:
    """Parameters of ramps that slow pairs by these shares, of numbers that people use."""
    pairs = share.size
    scale = pairs / math.log(base)
    for (fast, slow), context in itertools.product(_BETAS, RARE_CONTEXTS):
        ends = [scale * math.log(context / (2 * math.pi * beta)) for beta in (fast, slow)]
        for truncate in (True, False):
            low = max(math.floor(ends[0]) if truncate else ends[0], 0)
            high = min(math.ceil(ends[1]) if truncate else ends[1], 2 * pairs - 1)
            ramp = np.clip((np.arange(pairs) - low) / (high - low or 1e-3), 0, 1)
            if (np.abs(ramp - share) <= 4 * error + 1e-3).all():
                # Three numbers that people use; the paper's betas, and its rounding, first.
                cost = 2.2 + (0.4 if (fast, slow) != _BETAS[0] else 0) + 0.3 * (not truncate)
                yield _ramp_parameters(context, fast, slow, truncate=truncate), cost


def _fitted_ramps(
    base: float, share: Reals, error: Reals
) -> Iterator[tuple[dict[str, Any], float]]:
    """Parameters of a ramp whose ends are read off: one choice of context and betas for many."""
    pairs = share.size
    inside = np.flatnonzero((share > 0.02 + 3 * error) & (share < 0.98 - 3 * error))
    if inside.size < 2:
        return
    slope, intercept = np.polyfit(inside, share[inside], 1, w=1 / error[inside])
    if slope <= 0:
        return
    low, high = float(-intercept / slope), float((1 - intercept) / slope)
    whole = abs(low - round(low)) < 0.01 and abs(high - round(high)) < 0.01
    if whole:
        # Any pair of numbers that rounds outward to these ends.
        low, high = round(low) + 0.5, round(high) - 0.5
    turns = [_CONTEXT / (2 * math.pi) * base ** (-end / pairs) for end in (low, high)]
    fast, slow = (float(f"{turn_count:.{3 if whole else 8}g}") for turn_count in turns)
    if fast > slow > 0:
        yield _ramp_parameters(_CONTEXT, fast, slow, truncate=whole), 3.4 + 0.3 * (not whole)


def _ramp_parameters(context: int, fast: float, slow: float, *, truncate: bool) -> dict[str, Any]:
    return {
        "original_max_position_embeddings": context,
        "truncate": truncate,
        "beta_fast": fast,
        "beta_slow": slow,
    }


def _with_amplitude(
    given: dict[str, Any], amplitude: float | None, precise: float, cost: float
) -> Iterator[Proposal]:
    """YaRN with the amplitude that was found: the rule's own, DeepSeek's, or a number."""
    plain = proposal_of("rope-yarn", given, cost=cost)
    if plain is None:
        return
    if amplitude is None or abs(plain.amplitude - amplitude) <= 3 * precise * amplitude:
        yield plain
        return
    for top, bottom in ((1.0, 1.0), (0.707, 1.0), (1.0, 0.707)):
        extra = {**given, "mscale": top, "mscale_all_dim": bottom}
        # DeepSeek's two numbers, then any one number: each says more than the rule's own.
        proposal = proposal_of("rope-yarn", extra, cost=cost + 0.3)
        if proposal is not None and abs(proposal.amplitude - amplitude) <= 3 * precise * amplitude:
            yield proposal
            return
    short = snap(amplitude, 0.05 * precise * amplitude)
    proposal = proposal_of("rope-yarn", {**given, "attention_factor": short}, cost=cost + 0.6)
    if proposal is not None:
        yield proposal


def _llama3(rates: Rates, given: dict[str, Any]) -> Iterator[Proposal]:
    pairs = rates.values.size
    for base in _fast_bases(rates):
        plain = ladder(base, np.arange(pairs) / pairs)
        for factor in _slowings(rates, base):
            if factor <= 1:
                continue
            share, error = _shares(rates, base, factor)
            if np.abs(share).max() < 0.01 or (share > 1.02 + 4 * error).any():
                continue
            turns = plain / (2 * math.pi)
            inside = np.flatnonzero((share > 0.01 + 3 * error) & (share < 0.99 - 3 * error))
            usual: list[tuple[float, float, int]] = [(1.0, 4.0, c) for c in RARE_CONTEXTS]
            fitted: list[tuple[float, float, int]] = []
            if inside.size >= 2:
                # Only the ratios of the context and the two factors show.
                ends = _line_ends(8192 * turns[inside], 1 - share[inside])
                fitted = [(*ends, 8192)]
            for cost, choices in ((2.3, usual), (3.0, fitted)):
                proposals = [
                    _llama3_proposal(given, base, factor, ends, cost)
                    for ends in choices
                    if 0 < ends[0] < ends[1]
                    and (
                        np.abs(
                            1
                            - np.clip((ends[2] * turns - ends[0]) / (ends[1] - ends[0]), 0, 1)
                            - share
                        )
                        <= 4 * error + 2e-3
                    ).all()
                ]
                yield from filter(None, proposals)
                if any(proposals):
                    break


def _llama3_proposal(
    given: dict[str, Any],
    base: float,
    factor: float,
    ends: tuple[float, float, int],
    cost: float,
) -> Proposal | None:
    low, high, context = ends
    settled = {
        **given,
        "base": base,
        "factor": factor,
        "low_freq_factor": low,
        "high_freq_factor": high,
        "original_max_position_embeddings": context,
    }
    return proposal_of("rope-llama3", settled, cost=cost)


def _line_ends(x: Reals, y: Reals) -> tuple[float, float]:
    """Where the line through points reaches 0 and 1, to few digits."""
    slope, intercept = np.polyfit(x, y, 1)
    if slope <= 0:
        return 0.0, 0.0
    low, high = -intercept / slope, (1 - intercept) / slope
    return snap(float(low), 0.004 * abs(low)), snap(float(high), 0.004 * abs(high))


def _longrope(
    rates: Rates, given: dict[str, Any], amplitude: float | None, precise: float
) -> Iterator[Proposal]:
    """LongRoPE, where the factors of a known base come out as numbers of few digits.

    A factor for each pair explains any frequencies: only that such digits are no accident tells,
    of the factors that not most pairs share.
    """
    pairs = rates.values.size
    if pairs < 4 or (rates.values <= 0).any():
        return
    for base in KNOWN_BASES[:10]:
        plain = ladder(base, np.arange(pairs) / pairs)
        ratios = plain / rates.values
        errors = ratios * rates.errors / rates.values
        short = np.array([snap(float(f), float(e)) for f, e in zip(ratios, errors, strict=True)])
        digits = np.array([_digits(float(factor)) for factor in short])
        certain = errors < 3e-3 * ratios
        if certain.sum() < 0.6 * pairs or (ratios < 0.5).any() or np.ptp(short) == 0:
            continue
        usual, times = np.unique(short, return_counts=True)
        shared = usual[times == max(2, times.max())]
        own = certain & ~np.isin(short, shared)
        # A few factors of their own are as many frequencies that are wrong.
        if _FEW_OF * own.sum() <= pairs:
            continue
        if digits[certain].max() > 6 or not _is_no_accident(ratios[own], errors[own], digits[own]):
            continue
        factors = tuple(float(factor) for factor in short)
        settled = {**given, "base": base, "short_factor": factors, "long_factor": factors}
        if amplitude is not None and abs(amplitude - 1) > precise:
            settled |= _longrope_amplitude(amplitude, precise)
        notes = ("one of the two lists of factors: the array does not show the other",)
        # A list of factors is the most that is told: last of the rules.
        proposal = proposal_of("rope-longrope", settled, cost=3.5, notes=notes)
        if proposal is not None:
            yield proposal


def _is_no_accident(values: Reals, errors: Reals, digits: Integers) -> bool:
    """Whether numbers lie nearer to some of few digits than numbers that no rule made would.

    Any number lies near one of as many digits as its error leaves it. That so few do by chance has
    a probability for each; Fisher's method combines them.
    """
    chances = np.minimum(1.0, 2 * errors * 10.0 ** (digits - 1) / values)
    total = -float(np.log(np.maximum(chances, 1e-300)).sum())
    # Of n independent chances −Σ ln p exceeds x with the probability e^−x · Σ_{k<n} x^k/k!.
    terms = [k * math.log(total) - math.lgamma(k + 1) - total for k in range(values.size)]
    largest = max(terms) if total > 0 else 0.0
    return total > 0 and largest + math.log(values.size) < math.log(_BY_CHANCE)


_BY_CHANCE = 1e-9
"""The probability that the digits of a list of factors are an accident, for all bases tried."""

_LARGEST_AMPLITUDE = 2.0
"""√(1 + ln s / ln L) for a factor s as large as the context L itself is √2."""


def _longrope_amplitude(amplitude: float, precise: float) -> dict[str, Any]:
    """The parameters that give LongRoPE an amplitude √(1 + ln s / ln L), or the number itself."""
    for context in RARE_CONTEXTS if amplitude < _LARGEST_AMPLITUDE else ():
        factor = math.exp((amplitude**2 - 1) * math.log(context))
        error = 2 * amplitude**2 * math.log(context) * factor * precise / 4
        short = snap(factor, error)
        if short in RARE_FACTORS:
            return {"factor": short, "original_max_position_embeddings": context}
    return {"attention_factor": snap(amplitude, 0.05 * precise * amplitude)}


def sinusoidal_proposals(
    rates: Rates, *, columns: str, order: str, odd: str, dim: int
) -> Iterator[Proposal]:
    """Sinusoidal matrices whose frequencies agree with rates."""
    spacings: Sequence[str] = ("vaswani", "tensor2tensor")
    pairs = dim // 2 if odd == "pad" else (dim + 1) // 2
    for spacing in spacings:
        steps: float = max(pairs - 1, 1)
        if spacing == "vaswani":
            steps = dim / 2 if odd == "split" else pairs
        extra = 0.0 if spacing == "vaswani" else 0.2
        for base, cost, error in _bases(rates, steps):
            given = {"dim": dim, "base": base, "layout": columns, "spacing": spacing}
            given |= {"order": order, "odd": odd}
            proposal = proposal_of(
                "sinusoidal",
                given,
                cost=cost + extra,
                uncertainty={"base": error} if error else {},
            )
            if proposal is not None and agrees(proposal.frequencies, rates, loose=0.004):
                yield proposal
