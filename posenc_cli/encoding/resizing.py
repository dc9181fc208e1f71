"""Learned position tables, resized as vision models and BERTs do.

This module selects the rows to resize (after a prefix, along one axis or on a grid), splits the
result into blocks, and chooses between exact numbers and torch itself.

It interpolates by the rules of torch's ``interpolate``, in exact numbers. With
``align_corners=False`` row i of ``target`` is read at (i + 1/2) · source/target − 1/2. All of this
is rational, and is held as integers.

Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.backends.torch import library
from posenc_cli.errors import InvalidInput
from posenc_cli.numerics.blends import Blend, RationalWeights
from posenc_cli.numerics.memory import LRUCache
from posenc_cli.numerics.rounding import narrow
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from posenc_cli.formulas.learned import Method, ResizeArithmetic
    from posenc_cli.numerics.arrays import Floats, Integers, NumberArray, StoredRows
    from posenc_cli.numerics.dtypes import DType


Sides = tuple[int, int]
"""Rows and columns of a grid of positions, in row-major order."""

_NEAREST = "nearest", "nearest-exact"
"""The methods that repeat rows and do not blend them."""

_SIDES = "source", "target"
_BLOCK_VALUES, _MOST_OUTPUTS = 1 << 16, 1 << 10
"""The approximate number of values of a block, and the maximum number of its rows."""
_CHUNKS_KEPT = 64
_LIKELY_PREFIX = 16
"""The largest prefix before a grid that a message proposes: a class token and registers."""


class Resizing(Record):
    """How a table of positions is resized.

    ``axes`` is one axis, or rows and columns of a grid. The first ``prefix`` rows (class and
    register tokens) stay unchanged.
    """

    axes: tuple[ResizedAxis, ...]
    method: Method
    prefix: int = 0
    antialias: bool = False

    @classmethod
    def of(
        cls,
        shape: tuple[int, ...],
        name: str,
        *,
        length: int | None,
        grid: tuple[Sides, Sides] | None,
        method: Method | None = None,
        prefix: int = 0,
        antialias: bool = False,
        interpolate_offset: float = 0.0,
    ) -> Resizing:
        """Return the resizing of the table ``name`` of a ``shape``, (rows, d) or (1, rows, d).

        Args:
            length: number of positions in the result, without the prefix.
            grid: (rows, columns) of the positions, and those of the result.
            method: by default bicubic for a grid, else linear.
            interpolate_offset: as in `ResizedAxis`.

        Raises: InvalidInput if the table cannot be resized this way.
        """
        if (length is None) == (grid is None):
            given = "are both given" if grid else "neither is given"
            raise InvalidInput(f"--len and --grid: {given}; give one of the two")
        if method is None:
            method = "linear" if grid is None else "bicubic"
        if method in _NEAREST and antialias:
            raise InvalidInput(f"--antialias cannot go with --method {method}")
        if interpolate_offset and (grid is None or method in _NEAREST):
            raise InvalidInput("--interpolate-offset needs --grid, and --method bicubic or linear")
        rows = _rows_of(shape, name)
        if prefix >= rows:
            raise InvalidInput(
                f"--prefix {prefix}: {name} has {rows} rows, so none is left to resize"
            )
        if grid is None:
            assert length is not None
            return cls((ResizedAxis(rows - prefix, length),), method, prefix, antialias)
        old, new = grid
        _check_grid(rows, prefix, old, new, name)
        axes = tuple(
            ResizedAxis(*sides, interpolate_offset) for sides in zip(old, new, strict=True)
        )
        for axis in axes:
            made = axis.target if axis.scale is None else int(axis.source * axis.scale)
            if made != axis.target:
                raise InvalidInput(
                    f"--interpolate-offset {axis.offset:g}: torch would make {made} of "
                    f"{axis.source} rows, not {axis.target}"
                )
        return cls(axes, method, prefix, antialias)

    @property
    def rows(self) -> int:
        """The number of rows of the result, including the prefix."""
        count = self.axes[0].target
        return self.prefix + (count * self.axes[1].target if self.axes[1:] else count)

    @property
    def description(self) -> str:
        """The resizing in a few words: ``bicubic 14x14 to 16x12, 1 row kept``."""
        old, new = ("x".join(str(getattr(axis, side)) for axis in self.axes) for side in _SIDES)
        kept = f", {self.prefix} row{'s' if self.prefix > 1 else ''} kept" if self.prefix else ""
        antialiased = " antialiased" if self.antialias else ""
        offset = self.axes[0].offset
        by = f", interpolate_offset {offset:g}" if offset else ""
        return f"{self.method}{antialiased} {old} to {new}{kept}{by}"

    @property
    def fields(self) -> dict[str, Any]:
        """The resizing as fields for JSON."""
        old, new = ([getattr(axis, side) for axis in self.axes] for side in _SIDES)
        return {
            "from": old,
            "to": new,
            "method": self.method,
            "prefix": self.prefix,
            "antialias": self.antialias,
            "interpolate_offset": self.axes[0].offset,
        }

    def checked(self, values: NumberArray, name: str) -> NumberArray:
        """Return the rows of a table called ``name``, all finite.

        Shape: (rows, d).
        Raises: InvalidInput if a number is not finite.
        """
        table = values.reshape(values.shape[-2:])
        if not np.isfinite(table).all():
            raise InvalidInput(f"{name} holds NaN or infinity")
        return table

    def blocks(
        self, table: NumberArray, dtype: DType, arithmetic: ResizeArithmetic = "exact"
    ) -> Iterator[StoredRows]:
        """Yield the rows of the result in the storage of ``dtype``, some at a time.

        ``table`` is (rows, d), of float16, float32 or float64, and finite. Every value is correctly
        rounded, or is the value that torch computes in float32 or float64 from a table of that
        format; it is then rounded to ``dtype``.

        Raises: Unavailable if torch is to compute and is not installed.
        """
        outputs = max(1, min(_MOST_OUTPUTS, _BLOCK_VALUES // table.shape[1]))
        for first, last in _spans(self.prefix, outputs):
            yield narrow(np.asarray(table[first:last], np.float64), None, dtype)
        table = table[self.prefix :]
        if arithmetic != "exact":
            form = np.float32 if arithmetic == "float32" else np.float64
            with np.errstate(over="ignore"):
                resized = self._by_torch(table.astype(form))
            yield narrow(resized.astype(np.float64), None, dtype)
        elif self.method in _NEAREST:
            for block in self._nearest(table, outputs):
                yield narrow(block.astype(np.float64), None, dtype)
        else:
            for blend in self._blends(outputs):
                yield blend.rounded(table, dtype)

    def _blends(self, outputs: int) -> Iterator[Blend]:
        """Yield the result in exact numbers, at most ``outputs`` rows at a time."""
        *outer, inner = self.axes

        def weights(axis: ResizedAxis, first: int, last: int) -> Any:
            return axis.weights(self.method, first, last, antialias=self.antialias)

        kept = LRUCache[Any](_CHUNKS_KEPT)
        for place in range(outer[0].target if outer else 1):
            above = weights(outer[0], place, place + 1) if outer else None
            for first, last in _spans(inner.target, outputs):
                rows, own = kept.get(first, lambda at=(first, last): weights(inner, *at))  # type: ignore[misc]
                if above is None:
                    yield Blend(rows, own)
                else:
                    cells = above[0][0][None, :, None] * inner.source + rows[:, None, :]
                    yield Blend(cells.reshape(rows.shape[0], -1), own, above[1])

    def _nearest(self, table: NumberArray, outputs: int) -> Iterator[NumberArray]:
        *outer, inner = self.axes
        for place in range(outer[0].target if outer else 1):
            row = outer[0].nearest(self.method, place, place + 1)[0] if outer else 0
            for first, last in _spans(inner.target, outputs):
                yield table[row * inner.source + inner.nearest(self.method, first, last)]

    def _by_torch(self, table: Floats) -> Floats:
        """Return the rows that torch's ``interpolate`` computes, in the layout of vision models."""
        torch = library()
        sources, targets = ([getattr(axis, side) for axis in self.axes] for side in _SIDES)
        scales = [axis.scale for axis in self.axes]
        mode, more = str(self.method), dict[str, Any]()
        if self.method not in _NEAREST:
            more = {"align_corners": False, "antialias": self.antialias}
            if len(sources) == 1 and (self.antialias or mode == "bicubic"):
                sources, targets, scales = [1, *sources], [1, *targets], [1.0, *scales]
            mode = "bilinear" if mode == "linear" and len(sources) == 2 else mode
        scaled = scales[-1] is not None
        resized = torch.nn.functional.interpolate(
            torch.from_numpy(table).reshape(1, *sources, -1).movedim(-1, 1),  # (1, d, …)
            size=None if scaled else tuple(targets),
            scale_factor=tuple(scales) if scaled else None,
            mode=mode,
            **more,
        )
        return np.asarray(resized[0].flatten(1).T.numpy())


def _spans(count: int, most: int) -> Iterator[Sides]:
    """Yield ranges of at most ``most`` out of ``count`` rows."""
    for first in range(0, count, most):
        yield first, min(first + most, count)


def _rows_of(shape: tuple[int, ...], name: str) -> int:
    if len(shape) == 2 or (len(shape) == 3 and shape[0] == 1):
        return shape[-2]
    raise InvalidInput(
        f"{name}: must be a table (rows, columns) or (1, rows, columns); its shape is "
        f"{'×'.join(map(str, shape))}"
    )


def _check_grid(rows: int, prefix: int, old: Sides, new: Sides, name: str) -> None:
    """Refuse a grid that does not match a table's rows after the prefix.

    Raises: InvalidInput with a hint: a prefix, and perhaps a square, that would fit.
    """
    cells = old[0] * old[1]
    if rows == prefix + cells:
        return
    after = f" after --prefix {prefix}" if prefix else ""
    likely, proposal = old, "--prefix"
    side = isqrt(rows - prefix)
    whole = 1 < side * side == rows - prefix
    if whole or not 0 <= rows - cells <= _LIKELY_PREFIX:
        likely = (side, side) if whole else (isqrt(rows), isqrt(rows))
        proposal = f"--grid {_text(likely)}:{_text(new)} --prefix"
    more = rows - likely[0] * likely[1]
    hint = f"{rows} rows are {_text(likely)} and {more} more: {proposal} {more}"
    raise InvalidInput(
        f"--grid {_text(old)} takes {cells} rows{after}, and {name} has {rows - prefix}",
        hint=hint if more <= _LIKELY_PREFIX else None,
    )


def _text(grid: Sides) -> str:
    return "x".join(map(str, grid))


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
