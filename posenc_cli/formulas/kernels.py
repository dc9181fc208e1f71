"""Biases that decay with distance: logarithms, powers, sums of cosines."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Annotated, Any, Literal

from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.declare import Bias, bias
from posenc_cli.formulas.inverse import KNOWN_BASES, Guess, MeasuredScores, digit_count, snap
from posenc_cli.formulas.parameters import Base, Heads, Param, as_text

_KERPLE = "Chi et al. 2022, arXiv:2205.09921"
_SANDWICH = "Chi et al. 2022, arXiv:2212.10356"
_LARGEST = 1e15

Scalars = tuple[float, ...]
"""One number for all heads, or one per head."""

Strengths = Annotated[
    Scalars,
    Param(
        "strength of the penalty: one for all heads, or one per head",
        above=0,
        maximum=_LARGEST,
        source="mean of the authors' initial values",
    ),
]

_KERPLE_COST = 1.6
"""The cost of KERPLE, all of whose numbers are fitted."""
_RARER = 1.7
"""The cost of the sandwich, chosen by judgement: rarer than KERPLE."""

_WRITTEN = 5
"""Largest number of digits of a strength that somebody wrote."""

_COSINES_AT_ONCE = 1 << 13
"""Cosines of a sandwich to compute at once. That many take hardly longer than one, because each
operation takes 10 µs.
"""


def _fitted_kernels(
    xp: Any,
    measured: MeasuredScores,
    penalty: Callable[[Any, Any, float], Any],
    second: Callable[[float, float, float], tuple[float, float]],
) -> Iterator[Guess]:
    """Fit r1 and r2 of each head whose penalties grow with the distance, from 0.

    ``second`` returns r2 and its error. Its arguments are the quotient of the penalties at the last
    and the first distance, the last distance, and the relative error of a penalty.
    """
    sided = measured.of_distances(xp)
    if sided is None:
        return
    where, values = sided
    if where[1] != 1 or xp.abs(values[:, 0]).max() > 1e-9:
        return
    slack = measured.rounding * float(xp.abs(values).max())
    if (values[:, 1:] >= 0).any() or (xp.diff(values, axis=1) > slack).any():
        return
    small = measured.rounding + 1e-9
    scalars = []
    for row in -values:
        penalties = {}
        for r2 in _short_numbers(*second(float(row[-1] / row[1]), float(where[-1]), small)):
            own = penalty(xp, where, r2)
            for r1 in (_short_strength(row, own, small), float(row[1] / own[1])):
                penalties[r1, r2] = r1 * own
        if not penalties:
            return
        scalars.append(_nearest_pair(xp, row, penalties, measured))
    r1s, r2s = (_one_or_all(column) for column in zip(*scalars, strict=True))
    linear = second is _power and all(abs(power - 1) <= 1e-6 for power in r2s)
    if linear and max(map(digit_count, r1s)) > _WRITTEN:
        return  # multiples of the distance that nobody wrote are ALiBi's slopes
    yield Guess({"heads": measured.heads, "r1": r1s, "r2": r2s}, cost=_KERPLE_COST)


def _power(ratio: float, far: float, small: float) -> tuple[float, float]:
    """Return the power r2 with far^r2 = ratio, and its error."""
    return math.log(ratio) / math.log(far), 2 * small / math.log(far)


def _short_strength(row: Any, penalties: Any, small: float) -> float:
    """Return the shortest number whose multiples all round to a row, or one nearest to them."""
    cells = [(float(cell), float(one)) for cell, one in zip(row[1:], penalties[1:], strict=True)]
    halves = [math.ldexp(small / 4, math.frexp(cell)[1] - 1) for cell, _ in cells]
    low = max((cell - half) / one for (cell, one), half in zip(cells, halves, strict=True))
    high = min((cell + half) / one for (cell, one), half in zip(cells, halves, strict=True))
    middle = (low + high) / 2
    return snap(middle, (high - low) / 2 if low < high else small * middle)


def _short_numbers(value: float, error: float) -> Iterator[float]:
    """Yield numbers of more and more digits within an error of a value, then the value."""
    if value <= 0:
        return
    place = 10.0 ** math.floor(math.log10(max(error, 1e-15 * value)) + 1)
    for step in (place, place / 10):
        least, most = max(1, math.ceil((value - error) / step)), math.floor((value + error) / step)
        for count in range(least, most + 1):
            yield float(f"{count * step:.12g}")
    yield value


def _nearest_pair(
    xp: Any, row: Any, penalties: dict[tuple[float, float], Any], measured: MeasuredScores
) -> tuple[float, float]:
    """Return the first pair that is nearest to the row: fewer digits must not lose any entry.

    Differences within float32 rounding do not count as nearer. A pair that reproduces every entry
    comes first, and before it one that does so without rounding.
    """
    for rounded in (False, True):
        for pair, cells in penalties.items():
            if xp.array_equal(measured.rounded(cells) if rounded else cells, row):
                return pair
    errors = {
        pair: float(xp.abs(measured.rounded(unrounded) - row).max())
        for pair, unrounded in penalties.items()
    }
    least = min(errors.values()) + min(measured.rounding / 2, 2.0**-23) * float(xp.abs(row).max())
    return next(pair for pair, gap in errors.items() if gap <= least)


def _one_or_all(values: Iterable[float]) -> Scalars:
    every = tuple(values)
    return every[:1] if len(set(every)) == 1 else every


def _log_scale(ratio: float, far: float, small: float) -> tuple[float, float]:
    """Return the scale a with ln(1 + a·far)/ln(1 + a) = ratio, 0 if none, and its error."""

    def errors(logarithm: float) -> float:
        scale = math.exp(logarithm)
        return ratio - math.log1p(scale * far) / math.log1p(scale)

    if (logarithm := _root(errors, -30.0, 30.0)) is None:
        return 0.0, 0.0
    slope = abs(errors(logarithm + 1e-4) - errors(logarithm - 1e-4)) / 2e-4
    scale = math.exp(logarithm)
    return scale, min(1.0, 2 * small * ratio / max(slope, 1e-12)) * scale


def _root(rising: Callable[[float], float], low: float, high: float) -> float | None:
    """Return the zero of an increasing function between two numbers, or None."""
    if rising(low) > 0 or rising(high) < 0:
        return None
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if rising(middle) > 0 else (middle, high)
    return low


def _sandwich_inverse(xp: Any, measured: MeasuredScores) -> Iterator[Guess]:
    """Guess the sum of cosines that the heads share, each with its own ratio."""
    sided = measured.of_distances(xp)
    if sided is None:
        return
    where, values = sided
    limit = measured.rounding + 1e-6
    counts = (8, 12, 16, 1, 2, 4, 32) if measured.single else (measured.heads,)
    for heads in counts:
        ratios = heads / (8 * xp.arange(1, measured.heads + 1))
        shared = values / ratios[:, None]
        if xp.abs(shared - shared[:1]).max() > limit * max(xp.abs(shared).max(), 1e-30):
            continue
        for given in _cosines(xp, where, shared[0], limit, single=measured.single):
            cost = _RARER + 0.1 * (given["base"] != KNOWN_BASES[0])
            yield Guess({"heads": heads, **given}, cost=cost, head=0 if measured.single else None)


def _cosines(
    xp: Any, where: Any, similarity: Any, limit: float, *, single: bool
) -> Iterator[dict[str, Any]]:
    """Yield dims, conventions and bases whose sums of cosines match the first similarities."""
    few = slice(0, min(where.size, 64))
    for dim, convention in _sandwich_dims(xp, similarity, single=single):
        first = 2 if convention == "nemo" else 0
        index = xp.arange(first, dim + first, 2) / dim
        for base in (*KNOWN_BASES, *_sandwich_bases(xp, similarity, where, dim, first)):
            cosines = xp.cos(where[few, None] * base**-index).sum(axis=1)
            expected = cosines - (dim // 2 if convention == "nemo" else 0)
            if xp.abs(expected - similarity[few]).max() <= 2 * limit * dim:
                yield {"dim": dim, "base": base, "convention": convention}
                break


def _sandwich_dims(xp: Any, similarity: Any, *, single: bool) -> Iterator[tuple[int, str]]:
    start = float(similarity[0])
    if start > 0.5:
        yield 2 * round(start), "sinusoidal"
    if not single and abs(start) <= 1e-6 * float(xp.abs(similarity).max()):
        for dim in range(2, 513, 2):
            yield dim, "nemo"


def _sandwich_bases(xp: Any, similarity: Any, where: Any, dim: int, first: int) -> Iterator[float]:
    """Yield the base that fits the value at the smallest distance, which grows with the base."""
    index = xp.arange(first, dim + first, 2) / dim
    target = float(similarity[1]) + (dim // 2 if first else 0)

    def value(logarithm: float) -> float:
        return float(xp.cos(where[1] * xp.exp(-logarithm * index)).sum()) - target

    logarithm = None if first else _root(value, 0.01, 40.0)
    if logarithm is not None:
        base = math.exp(logarithm)
        yield from (snap(base, error * base) for error in (1e-3, 1e-5))


@bias(
    source=f"{_KERPLE}; the authors' ParallelKerpleLog",
    formula="bias_h(i, j) = −r1_h · ln(1 + r2_h · |i − j|)",
    convention=(
        "The authors' code calls r1 bias_p and r2 bias_a, and initializes r1 uniformly from 0 to 2 "
        "and r2 uniformly from 0 to 1. The defaults are the means of these ranges. The code keeps "
        "r1 and r2 at 0.01 or more. For keys after the query, the code uses the bias 0, which a "
        "causal mask hides."
    ),
    inverse=partial(_fitted_kernels, penalty=lambda xp, d, r2: xp.log1p(r2 * d), second=_log_scale),
)
def kerple_log(
    *,
    heads: Heads = 8,
    r1: Strengths = (1.0,),
    r2: Annotated[
        Scalars,
        Param(
            "scale of distances: one for all heads, or one per head",
            above=0,
            maximum=_LARGEST,
            source="mean of the authors' initial values",
        ),
    ] = (0.5,),
) -> Bias:
    """KERPLE's logarithmic kernel: a penalty that grows with the log of the distance."""
    return _kerple(heads, r1, r2, lambda xp, scale, distances: xp.log(1 + scale * distances))


@bias(
    source=f"{_KERPLE}; the authors' ParallelKerplePower",
    formula="bias_h(i, j) = −r1_h · |i − j|^r2_h",
    convention=(
        "With r2 = 1 and ALiBi's slopes as r1, the bias is ALiBi's. The authors' code calls r1 "
        "bias_a and r2 bias_p, and initializes r1 uniformly from 0 to 1 and r2 uniformly from 0 to "
        "2. The defaults are the means of these ranges. The code keeps r1 and r2 at 0.01 or more. "
        "For keys after the query, the code uses the bias 0, which a causal mask hides."
    ),
    inverse=partial(_fitted_kernels, penalty=lambda _xp, d, r2: d**r2, second=_power),
)
def kerple_power(
    *,
    heads: Heads = 8,
    r1: Strengths = (0.5,),
    r2: Annotated[
        Scalars,
        Param(
            "exponent of the distance, at most 2 for a valid kernel: one for all heads, or one "
            "per head",
            above=0,
            maximum=2,
            source="mean of the authors' initial values",
        ),
    ] = (1.0,),
) -> Bias:
    """KERPLE's power kernel: a penalty that grows as a power of the distance."""
    return _kerple(heads, r1, r2, lambda _xp, power, distances: distances**power)


def _kerple(heads: int, r1: Scalars, r2: Scalars, penalty: Callable[[Any, Any, Any], Any]) -> Bias:
    """Return scores −r1 · penalty(r2, distance) for each head."""
    strengths, others = _one_per_head("r1", r1, heads), _one_per_head("r2", r2, heads)

    def scores(xp: Any, coefficients: Any, offsets: Any) -> Any:
        strength, other = coefficients
        return strength * (0 - penalty(xp, other, xp.abs(offsets)))

    return Bias(
        heads,
        "offset",
        lambda xp: (xp.asarray(strengths), xp.asarray(others)),
        scores,
        trained=2 * heads,
        limit=math.inf,
        domain="real",
    )


def _one_per_head(name: str, values: Scalars, heads: int) -> Scalars:
    """Return a number for each head; a single one serves all.

    >>> _one_per_head("r1", (0.5,), 3)
    (0.5, 0.5, 0.5)

    Raises: InvalidInput for any other count.
    """
    if len(values) not in (1, heads):
        shown = as_text(values[:4]) + ("…" if len(values) > 4 else "")
        raise InvalidInput(
            f"--set {name} {shown}: must be one number, or one for each of the {heads} heads; "
            f"there are {len(values)}"
        )
    return values * heads if len(values) == 1 else values


@bias(
    source=f"{_SANDWICH}; NVIDIA NeMo's SandwichRelativePositionEmbedding",
    formula=(
        "bias_h(i, j) = S(i − j) · heads / (8h), h = 1 … heads, S(Δ) = Σ_i cos(Δ · base^(−2i/dim)) "
        "with sinusoidal: i = 0 … dim/2 − 1; nemo: i = 1 … dim/2, minus dim/2"
    ),
    convention=(
        "convention=sinusoidal uses the inner product of two rows of the sinusoidal encoding with "
        "this dim and base. With convention=nemo, the exponents start at 2/dim, and the bias is 0 "
        "at distance 0. The softmax removes the constant difference, but not the effect of the "
        "other exponents."
    ),
    inverse=_sandwich_inverse,
)
def sandwich(
    *,
    heads: Heads = 8,
    dim: Annotated[
        int,
        Param("dimensions of the sinusoids", minimum=2, maximum=65536, source=_SANDWICH),
    ] = 128,
    base: Base = 10_000.0,
    convention: Annotated[
        Literal["sinusoidal", "nemo"], Param("range of the sum (see the formula)")
    ] = "sinusoidal",
) -> Bias:
    """Inner products of sinusoidal encodings, scaled by a ratio for each head."""
    if dim % 2:
        raise InvalidInput(f"--dim {dim}: sandwich sums a cosine for each pair; dim must be even")
    first = 2 if convention == "nemo" else 0

    def profile(xp: Any, offsets: Any) -> Any:
        frequencies = 1 / base ** (xp.arange(first, dim + first, 2) / dim)
        distances = xp.abs(offsets)
        total = xp.cos(distances * frequencies[0])
        # For few distances, compute many pairs at once; they are still added one after another.
        count = offsets.shape[0]
        step = max(1, _COSINES_AT_ONCE // count)
        for begin in range(1, dim // 2, step):
            pairs = range(begin, min(begin + step, dim // 2))
            columns = [pair for pair in pairs for _ in range(count)]
            cosines = xp.cos(distances[[*range(count)] * len(pairs)] * frequencies[columns])
            for start in range(0, len(columns), count):
                total = total + cosines[start : start + count]
        return total - dim // 2 if convention == "nemo" else total

    # The sum of dim/2 cosines in head 1, or twice that if dim/2 is subtracted.
    limit = heads * dim / (8 if convention == "nemo" else 16)
    return Bias(
        heads,
        "offset",
        lambda xp: 8 * xp.arange(1, heads + 1),
        lambda _xp, ratio, similarity: similarity * heads / ratio,
        profile=profile,
        limit=limit,
        domain="real",
    )
