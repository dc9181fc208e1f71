"""Interpolation along an axis by the rules of torch's ``interpolate``: exact, or bit for bit.

This module computes which rows of a table contribute to each row of a resized table, and their
weights. With ``align_corners=False`` row i of ``target`` is read at (i + 1/2) · source/target −
1/2. All of this is rational, and is held as integers.

In float32 and float64 it follows the order of operations of torch 2.13 on x86 processors with AVX2,
for which compilers fuse most products into sums. AVX-512 gives the same results; processors without
AVX2 do not. Which operations are fused was found by experiment, and goldens test it
(``resized_torch``).

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.numerics.blends import RationalWeights
from posenc_cli.numerics.fused import fused
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from posenc_cli.encoding.methods import Method
    from posenc_cli.numerics.arrays import Floats, Integers

_SUPPORT = {"linear": 1, "bicubic": 2}
"""How many rows a method's kernel reaches on each side."""


class ResizedAxis(Record):
    """An axis of ``source`` rows that becomes one of ``target`` rows.

    ``offset`` is DINOv2's ``interpolate_offset``. Coordinates are then scaled by (target + offset)
    / source, a float64, instead of target / source.
    """

    source: int
    target: int
    offset: float = 0.0

    @property
    def scale(self) -> float | None:
        """The ``scale_factor`` passed to torch, or None if the size is passed."""
        return (self.target + self.offset) / self.source if self.offset else None

    @property
    def step(self) -> Fraction:
        """Rows of the source per row of the target."""
        if self.scale is None:
            return Fraction(self.source, self.target)
        return 1 / Fraction(self.scale)

    def nearest(self, method: Method, first: int, last: int) -> Integers:
        """Return the rows that target rows ``first`` … ``last`` − 1 repeat.

        Shape: (last − first,).
        """
        doubled = 2 * np.arange(first, last) + (method == "nearest-exact")
        return np.minimum(doubled * self.source // (2 * self.target), self.source - 1)

    def weights(
        self, method: Method, first: int, last: int, *, antialias: bool
    ) -> tuple[Integers, RationalWeights]:
        """Return the rows that contribute to some target rows, and their weights.

        If the axis keeps its length, each row is itself. With ``antialias`` the kernel is as wide
        as the step if that is longer than a row. It is normalized, ends where the table ends, and
        its cubic has a = −1/2 instead of −3/4.

        Shapes: (last − first, taps) each.
        """
        outputs = range(first, last)
        kept = self.source == self.target and (antialias or method == "linear" or not self.offset)
        if kept:
            ones = RationalWeights.of([[1]] * len(outputs), [1] * len(outputs))
            return np.arange(first, last)[:, None], ones
        if antialias:
            taps = [self._antialiased(method, output) for output in outputs]
        elif method == "linear":
            taps = [self._linear(output) for output in outputs]
        else:
            taps = [self._cubic(output) for output in outputs]
        longest = max(len(numerators) for _, numerators, _ in taps)
        rows, numerators, denominators = [], [], []
        for start, own, denominator in taps:
            rows.append(range(start, start + longest))
            numerators.append([*own, *[0] * (longest - len(own))])
            denominators.append(denominator)
        return np.clip(rows, 0, self.source - 1), RationalWeights.of(numerators, denominators)

    def _place(self, output: int) -> tuple[int, int]:
        """Return the place in the source where a target row is read, as a fraction."""
        above, below = self.step.as_integer_ratio()
        return (2 * output + 1) * above - below, 2 * below

    def _linear(self, output: int) -> tuple[int, Sequence[int], int]:
        """Return the first of a target row's taps, their numerators, and the denominator."""
        place, unit = self._place(output)
        start, share = divmod(place, unit)
        return start, (unit - share, share), unit

    def _cubic(self, output: int) -> tuple[int, Sequence[int], int]:
        place, unit = self._place(output)
        start = min(place // unit, self.source - 1)
        after = min(max(place - start * unit, 0), unit)
        before = unit - after
        # The cubic convolution kernel with a = −3/4 at 1 + t, t, 1 − t and 2 − t, times 4.
        numerators = (
            -3 * after * before**2,
            5 * after**3 - 9 * after**2 * unit + 4 * unit**3,
            5 * before**3 - 9 * before**2 * unit + 4 * unit**3,
            -3 * after**2 * before,
        )
        return start - 1, numerators, 4 * unit**3

    def _antialiased(self, method: Method, output: int) -> tuple[int, Sequence[int], int]:
        above, below = self.step.as_integer_ratio()
        centre, unit = (2 * output + 1) * above, 2 * max(above, below)
        reach = _SUPPORT[method] * unit
        start = max(0, (centre - reach - below) // (2 * below) + 1)
        stop = min(self.source, -((below - centre - reach) // (2 * below)))
        kernel = _keys if method == "bicubic" else lambda away, unit: unit - away  # a triangle
        numerators = [
            kernel(abs((2 * row + 1) * below - centre), unit) for row in range(start, stop)
        ]
        return start, numerators, sum(numerators)


def _keys(distance: int, unit: int) -> int:
    """Return Keys' cubic convolution, a = −1/2, times 2 · unit³."""
    if distance < unit:
        return 3 * distance**3 - 5 * distance**2 * unit + 2 * unit**3
    if distance < 2 * unit:
        return -(distance**3) + 5 * distance**2 * unit - 8 * distance * unit**2 + 4 * unit**3
    return 0


_VECTOR_BYTES, _HALF_VECTOR_BYTES = 32, 16
_SMALL_GRID = 128
"""If rows + columns are at most this, torch uses its vector kernel for any number of channels."""
_FEW_CHANNELS = 3


class FloatTaps(Record):
    """Rows that contribute to target rows, and their float weights, in summation order.

    Shapes: (outputs, taps) each. ``counts`` is the number of taps of each output; None means all.
    """

    rows: Integers
    weights: Floats
    counts: Integers | None = None


def _places(axis: ResizedAxis, outputs: Integers, form: Any) -> Floats:
    """Return the places in the source where target rows are read. Shape: (outputs,)."""
    halves = outputs.astype(form) + form(0.5)
    return fused(_step(axis, form), halves, form(-0.5))


def _step(axis: ResizedAxis, form: Any) -> Any:
    if axis.scale is None:
        return form(axis.source) / form(axis.target)
    return form(1 / axis.scale)


def _floor(places: Floats) -> Integers:
    """Return the floor as torch computes it: of float32, for every format."""
    return np.floor(places.astype(np.float32)).astype(np.int64)


def _linear_taps(axis: ResizedAxis, outputs: Integers, form: Any) -> FloatTaps:
    if axis.source == axis.target:
        weights = np.broadcast_to(np.array([1, 0], form), (outputs.size, 2))
        return FloatTaps(np.stack([outputs, outputs], axis=1), weights)
    places = np.maximum(_places(axis, outputs, form), form(0))
    below = np.minimum(_floor(places), axis.source - 1)
    share = np.clip(places - below.astype(form), form(0), form(1))
    above = np.minimum(below + 1, axis.source - 1)
    return FloatTaps(np.stack([below, above], axis=1), np.stack([form(1) - share, share], axis=1))


def _cubic_taps(axis: ResizedAxis, outputs: Integers, form: Any) -> FloatTaps:
    places = _places(axis, outputs, form)
    below = np.minimum(_floor(places), axis.source - 1)
    after = np.clip(places - below.astype(form), form(0), form(1))
    before = form(1) - after

    def near(x: Floats) -> Any:
        return fused(form(1.25), x, form(-2.25)) * x * x + form(1)

    def far(x: Floats) -> Any:
        inner = fused(fused(form(-0.75), x, form(3.75)), x, form(-6))
        return inner * x + form(3)

    weights = far(after + form(1)), near(after), near(before), far(before + form(1))
    rows = np.clip(below[:, None] + np.arange(-1, 3), 0, axis.source - 1)
    return FloatTaps(rows, np.stack(weights, axis=1))


def _antialiased_taps(axis: ResizedAxis, method: Method, outputs: Integers, form: Any) -> FloatTaps:
    step = _step(axis, form)
    widened = max(step, form(1))
    support = form((1 if method == "linear" else 2) * float(widened))
    most = 2 * math.ceil(support) + 1
    shrink = form(1 / float(widened))
    centres = (float(step) * (outputs + 0.5)).astype(form)
    start = ((centres - support).astype(np.float64) + 0.5).astype(np.int64).clip(0)
    stop = ((centres + support).astype(np.float64) + 0.5).astype(np.int64).clip(None, axis.source)
    counts = (stop - start).clip(0, most)
    taps = np.arange(most)
    rows = start[:, None] + taps  # (outputs, taps)
    away = (rows.astype(form) - centres[:, None]).astype(np.float64) + 0.5
    distances = np.abs((away * float(shrink)).astype(form))
    heights = np.maximum(form(1) - distances, form(0))
    if method == "bicubic":
        heights = _float_keys(distances, form)
    heights = np.where(taps < counts[:, None], heights, form(0))
    total = np.zeros(outputs.size, form)
    for tap in taps:
        total = total + heights[:, tap]
    return FloatTaps(np.minimum(rows, axis.source - 1), heights / total[:, None], counts)


def _float_keys(distances: Floats, form: Any) -> Floats:
    x = distances
    near = fused(fused(form(1.5), x, form(-2.5)) * x, x, form(1))
    far = fused(fused(fused(form(-0.5), x, form(2.5)), x, form(-4)), x, form(2))
    return np.where(x < 1, near, np.where(x < 2, far, form(0)))


def float_taps(
    axis: ResizedAxis, method: Method, first: int, last: int, form: Any, *, antialias: bool
) -> FloatTaps:
    """Return the taps of target rows ``first`` … ``last`` − 1 of an axis, in a float format."""
    outputs = np.arange(first, last)
    if antialias and axis.source == axis.target:  # each row is itself
        ones = np.ones((outputs.size, 1), form)
        return FloatTaps(outputs[:, None], ones, np.ones(outputs.size, np.int64))
    if antialias:
        return _antialiased_taps(axis, method, outputs, form)
    return (_linear_taps if method == "linear" else _cubic_taps)(axis, outputs, form)


def float_nearest(
    axis: ResizedAxis, method: Method, first: int, last: int, form: Any, *, vector: bool
) -> Integers:
    """Return the rows that target rows repeat; ``vector`` selects torch's float32 vector kernel.

    Shape: (last − first,).
    """
    outputs = np.arange(first, last)
    if vector:
        step = np.float32(axis.source) / np.float32(axis.target)
        if method == "nearest-exact":
            rows = _floor((outputs + 0.5) * float(step))
        else:
            rows = _floor(outputs.astype(np.float32) * step)
    elif method == "nearest-exact":
        places = np.maximum(_places(axis, outputs, form), form(0))
        rows = _floor(places.astype(np.float64) + 0.5)
    else:
        rows = _floor(_step(axis, form) * outputs.astype(form))
    return np.minimum(rows, axis.source - 1)


def has_vector_kernel(height: int, width: int, channels: int) -> bool:
    """Return whether torch resizes a grid, in the layout of vision models, by its vector kernel."""
    return channels > _FEW_CHANNELS or height + width <= _SMALL_GRID


def along(values: Floats, taps: FloatTaps) -> Floats:
    """Return rows summed by taps: (rows, …) → (outputs, …), in the order of torch's kernels."""
    beside = (slice(None), *[None] * (values.ndim - 1))
    terms = [
        (values[taps.rows[:, tap]], taps.weights[:, tap][beside])
        for tap in range(taps.rows.shape[1])
    ]
    if taps.counts is not None:
        return _in_lanes(terms, taps.counts[beside])
    (first, first_weight), (second, second_weight), *others = terms
    total = fused(first, first_weight, second * second_weight)
    for row, weight in others:
        total = fused(row, weight, total)
    return total


def _in_lanes(terms: Sequence[tuple[Floats, Floats]], counts: Integers) -> Floats:
    """Return a sum whose taps after the first are multiplied in lanes; the last few are fused."""
    (first, weight), *others = terms
    total = first * weight
    lanes = _HALF_VECTOR_BYTES // total.itemsize
    for place, (row, weight) in enumerate(others):
        full = (place // lanes + 1) * lanes < counts
        added = np.where(full, total + row * weight, fused(row, weight, total))
        total = np.where(place + 1 < counts, added, total)
    return total


def bilinear(corners: Sequence[Floats], weights: Sequence[Floats]) -> Floats:
    """Return sums of four rows each, as the vector kernel computes them; single columns come last.

    ``corners`` are above left, above right, below left and below right, (outputs, columns) each;
    ``weights`` are (outputs,).
    """
    lanes = _VECTOR_BYTES // corners[0].itemsize
    whole = corners[0].shape[1] // lanes * lanes
    terms = [(corner, weight[:, None]) for corner, weight in zip(corners, weights, strict=True)]

    def chained(columns: slice, order: Sequence[int]) -> Floats:
        (first, weight), *others = [(terms[at][0][:, columns], terms[at][1]) for at in order]
        total: Floats = first * weight
        for corner, weight in others:
            total = fused(corner, weight, total)
        return total

    vectors, rest = slice(0, whole), slice(whole, None)
    return np.concatenate([chained(vectors, (2, 3, 1, 0)), chained(rest, (1, 0, 2, 3))], axis=1)
