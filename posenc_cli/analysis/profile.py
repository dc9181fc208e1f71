"""Similarities that depend only on m − n: their value at each offset.

The proof that they do is read from a scheme's declaration. The values are in float64.

- Waves. If every wave has as many sines as cosines, rows m and n have the dot product Σ w_i ·
  scale² · (cos mω_i · cos nω_i + sin mω_i · sin nω_i) = Σ w_i · scale² · cos((m − n)ω_i). The same
  holds for queries and keys of one content, each rotated by its position, where w_i is the squared
  length of the content of pair i. One cosine per wave and offset then stands for all pairs of
  positions at that offset. Waves that follow several axes or lack a sine prove nothing.
- Biases. The declaration says whether scores are a formula or a bucket of the offset.

A value is the correctly rounded sum of float64 products, up to d · 2^−53 of the largest.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from posenc_cli.encoding.engine import Engine, wave_filler
from posenc_cli.encoding.precision import Precision
from posenc_cli.encoding.scores import score_rule
from posenc_cli.numerics import exact
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.numerics.placements import Placement
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from posenc_cli.formulas.declare import Content, RowLookup, Waves
    from posenc_cli.numerics.arrays import Integers, Reals

_BLOCK_VALUES = 1 << 17  # cosines held at a time: a megabyte, which stays in the cache
_PRECISION = Precision.of(FLOAT64, None)


class Profile(Record):
    """A similarity as a function of the offset m − n, and the proof that it is one.

    ``at(offsets)`` → float64 values of int64 offsets (n,); a value does not depend on the other
    offsets in the call. ``even`` says that values at −Δ and Δ are proven equal. If values are means
    of a random distribution, ``deviation(offsets)`` is their standard deviation. ``bound`` is
    RoFormer's, if there is one.
    """

    at: Callable[[Integers], Reals]
    even: bool
    proof: str
    deviation: Callable[[Integers], Reals] | None = None
    bound: RoFormerBound | None = None


class RoFormerBound(Record):
    """The bound of Su et al. 2021, section 3.4.3, on a sum of rotated pairs, |Σ w_i e^(jΔω_i)|.

    ``average(offsets)`` → (n,) is the mean of |S_i| over i = 1 … pairs, with S_i the sum of the
    first i terms e^(jΔω). By summation by parts, ``constant`` times the average is never less than
    the sum. The constant is pairs times the largest |w_(i+1) − w_i|, with 0 after the last w. It is
    None if the w are random.
    """

    average: Callable[[Integers], Reals]
    constant: float | None


def wave_weights(waves: int, placements: Sequence[Placement]) -> Reals | None:
    """Return how many sine and cosine column pairs each wave has.

    It is None if a wave has different numbers of sines and cosines: dot products of rows at one
    distance may then differ.

    Shape: (waves,).

    >>> wave_weights(2, [Placement("sin", slice(0, 2)), Placement("cos", slice(2, 4))])
    array([1., 1.])
    >>> wave_weights(2, [Placement("sin", slice(0, 2)), Placement("cos", slice(2, 3), slice(0, 1))])
    """
    counts = {"sin": np.zeros(waves), "cos": np.zeros(waves)}
    for placement in placements:
        if placement.function != "zero":
            counts[placement.function][placement.waves] += 1
    return counts["cos"] if np.array_equal(counts["sin"], counts["cos"]) else None


def content_weights(content: Reals, waves: int, placements: Sequence[Placement]) -> Reals:
    """Return the squared length of each dimension pair of a content that is rotated.

    Shape: ``content`` (d,); ``placements`` those of the full table of cosines; result (waves,).
    """
    weights = np.zeros(waves)
    for placement in placements:
        weights[placement.waves] += content[placement.columns] ** 2
    return weights


def wave_profile(waves: Waves, weights: Reals, engine: Engine) -> Profile | None:
    """Return the dot products of rows of ``waves``, each wave counted ``weights`` times.

    It is None if the declaration of the waves proves nothing: they follow several axes, or there
    are none. Waves that grow with the position shrink the query m and grow the key n, whichever
    table the declaration is for: a negative span is that of keys.
    """
    if waves.coordinates is not None or not waves.count:
        return None
    rates = _growth_rates(waves)
    tables = _wave_tables(waves, engine, ("cos",))
    weights = weights * float(waves.scale) ** 2

    def at(offsets: Integers) -> Reals:
        values = np.empty(len(offsets))
        # Values that overflow become infinite, and sums of opposite infinities NaN.
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            for part, table in tables(offsets):
                # Not a matrix product, whose sums may change with the number of rows.
                values[part] = (table * weights).sum(axis=1)
        return values

    proof_text = "each frequency pair rotates both rows by the same angle per position"
    if rates is None:
        return Profile(
            at,
            even=True,
            proof=proof_text,
            bound=roformer_bound(waves, engine, weights),
        )
    return Profile(at, even=False, proof=f"{proof_text}, and what one grows the other shrinks")


def roformer_bound(waves: Waves, engine: Engine, weights: Reals | None) -> RoFormerBound:
    """Return RoFormer's bound on sums of rotated pairs.

    Shape: ``weights`` (waves,); None means random ones.
    """
    tables = _wave_tables(waves, engine, ("cos", "sin"))

    def average(offsets: Integers) -> Reals:
        values = np.empty(len(offsets))
        for part, table in tables(offsets):
            cosines, sines = np.split(table, 2, axis=1)  # (offsets, waves) each
            values[part] = np.hypot(cosines.cumsum(axis=1), sines.cumsum(axis=1)).mean(axis=1)
        return values

    if weights is None:
        return RoFormerBound(average, None)
    return RoFormerBound(average, waves.count * float(np.abs(np.diff(weights, append=0.0)).max()))


def _wave_tables(
    waves: Waves, engine: Engine, functions: Sequence[Literal["sin", "cos"]]
) -> Callable[[Integers], Iterator[tuple[slice, Reals]]]:
    """Return a function that computes cos and sin of offset · frequency in blocks.

    The waves' growth is included. Each block comes with its slice of the offsets.

    Shape: (offsets, functions · waves).
    """
    rates = _growth_rates(waves)
    filler = wave_filler(replace(waves, scale=1, growth=None), engine)
    columns = tuple(
        Placement(function, slice(place * waves.count, (place + 1) * waves.count))
        for place, function in enumerate(functions)
    )
    rows = max(1, _BLOCK_VALUES // max(1, waves.count))

    def tables(offsets: Integers) -> Iterator[tuple[slice, Reals]]:
        for begin in range(0, len(offsets), rows):
            part = offsets[begin : begin + rows]
            table = np.empty((part.size, len(functions) * waves.count))
            filler.fill(table, part, columns, dtype=FLOAT64)
            if rates is not None:
                table *= np.tile(np.exp(part[:, None] * rates), len(functions))
            yield slice(begin, begin + len(part)), table

    return tables


def _growth_rates(waves: Waves) -> Reals | None:
    """Return the exponential growth rate of q·k per offset for each wave, or None without growth.

    Shape: (waves,).
    """
    if waves.growth is None:
        return None
    logarithms = exact.log(waves.growth.bases(exact)) / abs(waves.growth.span)
    # Larger rates overflow at the next position anyway; an infinite rate would give NaN at offset
    # 0.
    return np.clip([float(rate) for rate in logarithms], -1e300, 1e300)


def independent_profile(waves: Waves, engine: Engine) -> Profile:
    """Return the mean and deviation of q·k / d for rotated independent standard normal q and k.

    Their cosine (scale 1) has a variance of 1 / d.

    A rotated normal vector is normal again at any angle. So pair i of the d/2 adds scale² · g_i(Δ)
    · (q₁k₁ + q₂k₂), with mean 0 and variance 2 · scale⁴ · g_i(Δ)². The growth g_i of the waves is 1
    for plain rotations: the deviation is then scale² / √d at every offset.
    """
    rates = _growth_rates(waves)
    factor = float(waves.scale) ** 2
    columns = 2 * waves.count
    rows = max(1, _BLOCK_VALUES // max(1, waves.count))

    def deviation(offsets: Integers) -> Reals:
        if rates is None:
            return np.full(len(offsets), factor / np.sqrt(columns))
        values = np.empty(len(offsets))
        for begin in range(0, len(offsets), rows):
            part = offsets[begin : begin + rows]
            with np.errstate(over="ignore", under="ignore"):
                growth = np.exp(2 * part[:, None] * rates)  # (offsets, waves), squared
            values[begin : begin + rows] = factor / columns * np.sqrt(2 * growth.sum(axis=1))
        return values

    return Profile(
        lambda offsets: np.zeros(len(offsets)),
        even=rates is None,
        proof="independent normal q and k keep their distribution when each is rotated",
        deviation=deviation,
        bound=roformer_bound(waves, engine, None)
        if rates is None and waves.coordinates is None
        else None,
    )


def bias_profile(content: Content, head: int, lookup: RowLookup | None, engine: Engine) -> Profile:
    """Return scores of one head of a bias by offset; the key is at offset −Δ from the query."""
    scores = score_rule(content, lookup, precision=_PRECISION, engine=engine)
    what = "a formula" if content.weights is None else "the bucket"
    return Profile(
        lambda offsets: scores(head, -offsets),
        even=False,
        proof=f"the score is {what} of the offset",
    )
