"""ALiBi: a penalty on attention scores, linear in distance, with one slope per head."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from posenc_cli.formulas.declare import Bias, bias, within_length
from posenc_cli.formulas.inverse import Guess, MeasuredScores, snap, written_numbers
from posenc_cli.formulas.parameters import Heads, Param, SequenceLength

SlopesRule = Literal["press", "naive"]
MaxBias = Annotated[
    float,
    Param(
        "exponent of the last slope: 2^−max_bias",
        above=0,
        maximum=1024,
        source="Press et al. 2021 §3",
    ),
]
Convention = Annotated[
    SlopesRule,
    Param(
        "press: the authors' rule, also used in MPT and BLOOM; naive: 2^(−max_bias·h/heads) for "
        "any number of heads",
        source="Press et al. 2021, the authors' code",
    ),
]

_USUAL = 8.0
"""The max_bias of the paper and of most models."""
_HEADS = (8, 12, 16, 32, 6, 4, 2, 1, 24, 20, 40, 48, 64, 96, 112, 128)
"""Head counts of models, the most common first."""
_MULTIPLIED = 1.0
"""Cost of a factor on all scores: as much as three of its digits. Chosen by judgement."""
_PER_HEAD = 1e-7
"""Relative error of a slope per head. Peers raise a rounded base to the powers 1 … heads, which
multiplies its error.
"""


def _inverse(xp: Any, measured: MeasuredScores) -> Iterator[Guess]:
    """Guess from scores that are multiples of the distance, or of the key as in BLOOM and MPT."""
    values, where = measured.values, measured.indices
    if measured.by == "offset":
        distances = xp.abs(where)
        far = int(xp.argmax(xp.where(xp.isfinite(values[0]), distances, -1)))
        if distances[far]:
            given = {"form": "symmetric", "seq_len": measured.keys}
            yield from _with_slopes(xp, -values[:, far] / distances[far], given, measured)
        return
    if not xp.isfinite(values).all():
        return
    slopes = (values[:, -1] - values[:, 0]) / (measured.keys - 1)
    if not slopes.all():
        return
    first = round(float(xp.median(values[:, 0] / slopes)))  # the key with score 0 is 0 or the last
    if first == where[0]:
        yield from _with_slopes(xp, slopes, {"form": "bloom"}, measured)
    elif first < 0:
        yield from _with_slopes(xp, slopes, {"form": "mpt", "seq_len": 1 - first}, measured)


def _with_slopes(
    xp: Any, slopes: Any, given: dict[str, Any], measured: MeasuredScores
) -> Iterator[Guess]:
    """Yield guesses whose heads have these slopes, or slopes proportional to them."""
    limit = 3e-6 + measured.rounding + _PER_HEAD * slopes.size
    if not xp.isfinite(slopes).all() or (slopes <= 0).any():
        return
    if measured.single:
        yield from _of_one_head(float(slopes[0]), limit, given)
        return
    heads = {**given, "heads": slopes.size}
    fitting = list(rules_of(slopes.tolist(), limit))
    for max_bias, rule, _ in fitting:
        rest = {"max_bias": max_bias, "slopes": rule}
        yield Guess({**heads, **rest}, cost=1.0 + 0.2 * (max_bias != _USUAL))
    ratios = slopes / xp.asarray(exact_slopes(slopes.size, max_bias=_USUAL, rule="press"))
    if not fitting and xp.ptp(ratios) <= limit * ratios[0]:
        multiplier = snap(float(ratios[0]), 2 * limit * float(ratios[0]))
        yield Guess(heads, cost=1.0 + _MULTIPLIED, multiplier=multiplier)


def _of_one_head(slope: float, limit: float, given: dict[str, Any]) -> Iterator[Guess]:
    """Yield common head counts that have this slope, or else a multiple of the first of 8 heads."""
    note = "one head: other numbers of heads have the same slope"
    fits = False
    for rank, heads in enumerate(_HEADS):
        slopes = exact_slopes(heads, max_bias=_USUAL, rule="press")
        near = [head for head, own in enumerate(slopes) if abs(own / slope - 1) <= limit]
        fits = fits or bool(near)
        for head in near[:1]:
            yield Guess({**given, "heads": heads}, cost=1.2 + 0.01 * rank, notes=(note,), head=head)
    if not fits:
        first = exact_slopes(_HEADS[0], max_bias=_USUAL, rule="press")[0]
        yield Guess(
            {**given, "heads": _HEADS[0]},
            cost=1.2 + _MULTIPLIED,
            notes=(f"slope {snap(slope, limit * slope):.9g}, not that of a usual number of heads",),
            head=0,
            multiplier=snap(slope / first, limit * slope / first),
        )


@bias(
    source="Press et al. 2021, arXiv:2108.12409 §3; the authors' code for other head counts",
    formula=(
        "symmetric: −m_h · |i − j|; mpt: m_h · (j − (seq_len − 1)); bloom: m_h · j; "
        "m_h = 2^(−max_bias·h/heads) for h = 1 … heads, if heads is a power of two"
    ),
    convention=(
        "In a causal score matrix, the forms differ by a constant per row, which the softmax "
        "removes. Falcon uses bloom, in bfloat16 and divided by √head_dim."
    ),
    inverse=_inverse,
)
def alibi(
    *,
    heads: Heads = 8,
    max_bias: MaxBias = 8.0,
    slopes: Convention = "press",
    form: Annotated[
        Literal["symmetric", "mpt", "bloom"],
        Param("form of the penalty (see the formula)", source="Press et al. 2021 §3"),
    ] = "symmetric",
    seq_len: SequenceLength = None,
) -> Bias:
    """Attention with linear biases: a penalty proportional to the distance."""
    last = (seq_len or 1) - 1

    def scores(xp: Any, slope: Any, indices: Any) -> Any:
        if form == "symmetric":
            return slope * (0 - xp.abs(indices))
        return slope * (indices - last if form == "mpt" else indices)

    return Bias(
        heads,
        "offset" if form == "symmetric" else "key",
        lambda xp: slopes_of_heads(xp, heads, max_bias=max_bias, rule=slopes),
        scores,
        capacity=within_length(seq_len) if form == "mpt" else None,
        limit=None if form == "mpt" else math.inf,
        domain="real",
    )


def slopes_of_heads(xp: Any, heads: int, *, max_bias: float, rule: SlopesRule) -> Any:
    """Return one slope per head.

    If the number of heads is not a power of two, the authors' rule uses the slopes of the largest
    power of two below it, then every other slope of twice that power.

    >>> from posenc_cli.numerics import exact
    >>> [float(m) for m in slopes_of_heads(exact, 3, max_bias=8.0, rule="press")]
    [0.0625, 0.00390625, 0.25]
    """
    power = 1 << (heads.bit_length() - 1)
    if rule == "naive" or power == heads:
        return _geometric(xp, heads, heads, 1, max_bias)
    return xp.concat(
        [
            _geometric(xp, power, power, 1, max_bias),
            _geometric(xp, heads - power, 2 * power, 2, max_bias),
        ]
    )


def _geometric(xp: Any, count: int, heads: int, step: int, max_bias: float) -> Any:
    """Return 2^(−max_bias·h/heads) for ``count`` values h = 1, 1 + step, …."""
    return 2 ** (-max_bias * xp.arange(1, 1 + count * step, step) / heads)


def exact_slopes(heads: int, *, max_bias: float, rule: SlopesRule) -> list[float]:
    """Return the slope of each head, correctly rounded to float64."""
    from posenc_cli.numerics import exact

    return [float(m) for m in slopes_of_heads(exact, heads, max_bias=max_bias, rule=rule)]


def rules_of(
    given: Sequence[float], error: float
) -> Iterator[tuple[float, SlopesRule, list[float]]]:
    """Yield each max_bias and rule that gives these slopes within a relative error, and its slopes.

    The slopes must be positive. The usual max_bias comes first, then those that all slopes agree
    on, the shortest first.
    """
    heads = len(given)
    if not all(0 < slope < math.inf for slope in given):
        return
    power = 1 << (heads.bit_length() - 1)
    rules: tuple[SlopesRule, ...] = ("press",) if power == heads else ("press", "naive")
    for rule in rules:
        steps = power if rule == "press" else heads
        exponents = [-math.log2(m) * steps / h for h, m in enumerate(given[:steps], 1)]
        exponent = math.fsum(exponents) / steps
        if exponent <= 0:
            continue
        scatter = 2 * max(abs(own - exponent) for own in exponents)
        written = [number for number, _ in written_numbers(exponent, scatter)]
        rough = snap(exponents[0], max(1e-6, 2 * error * steps))
        for max_bias in dict.fromkeys((_USUAL, *written, rough, snap(exponent, scatter))):
            expected = exact_slopes(heads, max_bias=max_bias, rule=rule)
            if all(abs(g - e) <= error * e for g, e in zip(given, expected, strict=True)):
                yield max_bias, rule, expected
