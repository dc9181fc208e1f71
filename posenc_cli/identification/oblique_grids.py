"""Hypotheses of waves whose pairs follow the rows and the columns of a grid at once: RoPE-Mixed.

Each pair has a frequency along either axis, which Gauss and Newton's steps find from the cells: the
first place has the angle 0, and its neighbors say where to begin.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.formulas.draws import uniform
from posenc_cli.formulas.inverse import snap
from posenc_cli.formulas.mixed import rope_mixed
from posenc_cli.inference.trial import Hypothesis
from posenc_cli.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.identification.readings import View
    from posenc_cli.inference.evidence import Evidence
    from posenc_cli.numerics.arrays import Integers, Reals

_ROWS, _COLUMNS, _FEW_PAIRS = 6, 12, 3
"""Of a grid, its first places, and pairs: where these are no such waves, no others are."""
_MOST_ROWS = 1 << 12
"""Places that frequencies are solved with."""
_STEPS = 8
"""Of Gauss and Newton's."""
_LIMIT = 1e-5
"""On the unit circle: what cells of float32 code leave on a grid, and few other numbers do."""
_SEEDS = 16
"""Of posenc's own draws, from 0 on: judgement, few take others."""
_DRAWN_TO = 2.0**-31
"""What frequencies that are drawn may be off by: they are multiples of 2^-32."""
_DRAWN = 2.6
"""What a drawn direction costs; a list of frequencies tells more, and costs as LongRoPE's."""


class _AxisFrequencies(Record):
    """Radians a column and a row of each pair, and what they may be off by. Shapes: (pairs,)."""

    x: Reals
    y: Reals
    errors: Reals

    def numbers(self, values: Reals) -> tuple[float, ...]:
        """Values of as few digits as their errors leave."""
        return tuple(snap(v, e) for v, e in zip(values.tolist(), self.errors, strict=True))


def oblique_hypotheses(view: View, evidence: Evidence, rounding: float) -> Iterator[Hypothesis]:
    """What pairs that follow no one axis may be, on each grid of as many places."""
    count = view.pairs.shape[0]
    for width in (w for w in range(2, count // 2 + 1) if count % w == 0):
        found = _solved(view, width, rounding)
        if found is None or _is_line(found, width):
            continue
        for given, cost in _parameters(found):
            shown = {} if view.layout is None else {"layout": view.layout}
            grid = {"dim": 2 * view.count, "grid": (count // width, width)}
            yield Hypothesis(
                rope_mixed.name,
                {**grid, **shown, **given},
                view.tables,
                evidence.rows,
                cost=cost,
                hidden=() if shown else ("layout",),
            )


def _is_line(found: _AxisFrequencies, width: int) -> bool:
    """Whether one row of the grid goes on where the one before it ends: any width would do.

    Or whether all pairs turn by one angle from row to row, as from cosines to sines.
    """
    alike = np.ptp(np.abs(found.y)) <= 8 * found.errors.max()
    apart = np.abs(np.exp(1j * (found.y - width * found.x)) - 1)
    return bool(alike or (apart <= width * (_LIMIT + 8 * found.errors)).all())


def _parameters(found: _AxisFrequencies) -> Iterator[tuple[dict[str, Any], float]]:
    """A seed and a base that draw frequencies, and the frequencies themselves."""
    half = found.x.size // 2
    sizes = np.hypot(found.x, found.y)[:half]
    if half > 1 and 2 * half == found.x.size and 0 < sizes[-1] < 1:
        base = float(sizes[-1]) ** (-half / (half - 1))
        off = found.errors + _DRAWN_TO  # (pairs,)
        error = 2 * base * half / (half - 1) * float(off[half - 1] / sizes[-1])
        turn = math.atan2(found.y[0], found.x[0]) / (2 * math.pi) % 1
        for seed in range(_SEEDS):
            if abs(float(uniform(seed, 0)) - turn) <= off[0] and base > 1:
                yield {"base": snap(base, error), "seed": seed}, _DRAWN
    lists = {"x_frequencies": found.numbers(found.x), "y_frequencies": found.numbers(found.y)}
    yield lists, _DRAWN + 1


def _solved(view: View, width: int, rounding: float) -> _AxisFrequencies | None:
    """The frequencies on a grid of a width that give all pairs of a view; None where none do."""
    limit = _LIMIT + 4 * rounding
    places = np.arange(view.pairs.shape[0])
    near = places[(places < _ROWS * width) & (places % width < _COLUMNS)]
    many = places[:: -(-places.size // _MOST_ROWS)]
    found = None
    for pairs in (np.arange(view.count)[:: -(-view.count // _FEW_PAIRS)], np.arange(view.count)):
        ways = [_nearest(view, width, near, pairs, start) for start in _starts(view, width, pairs)]
        best = np.argmin([missed for _, _, _, missed in ways], axis=0)[None]  # (1, pairs)
        x, y = (np.take_along_axis(np.array([w[i] for w in ways]), best, 0)[0] for i in (0, 1))
        *found, missed = _nearest(view, width, near, pairs, (x, y))
        if not missed.max() <= limit:
            return None
    assert found is not None
    x, y, errors, missed = _nearest(view, width, many, np.arange(view.count), (found[0], found[1]))
    return _AxisFrequencies(x, y, errors) if missed.max() <= limit else None


def _starts(view: View, width: int, pairs: Integers) -> list[tuple[Reals, Reals]]:
    """Frequencies that the second place of the first row, and that of the second row, may have.

    A cosine does not show a sign, nor a sine on which side of a quarter turn it is.
    """
    right, below = view.pairs[1, pairs], view.pairs[width, pairs]
    if view.function == "cos":
        x, y = (np.arccos(np.clip(cell.real, -1, 1)) for cell in (right, below))
        return [(x, y), (x, -y)]
    if view.function == "sin":
        x, y = (np.arcsin(np.clip(cell.real, -1, 1)) for cell in (right, below))
        return [(a, b) for a in (x, np.pi - x) for b in (y, np.pi - y)]
    return [(np.angle(right), np.angle(below))]


def _nearest(
    view: View, width: int, places: Integers, pairs: Integers, start: tuple[Reals, Reals]
) -> tuple[Reals, Reals, Reals, Reals]:
    """The frequencies near a start that come nearest to some cells, their errors and the gaps.

    Shapes: (pairs,) each; the gap is that of nine in ten places at most, for others may be damaged.
    """
    (rows, columns), (x, y) = np.divmod(places, width), start
    cells = view.pairs[np.ix_(places, pairs)]
    for step in range(_STEPS + 1):
        points = np.exp(1j * (np.multiply.outer(columns, x) + np.multiply.outer(rows, y)))
        gaps, slopes = cells - view.seen(points), view.seen(1j * points)
        gaps = np.where(np.isfinite(gaps), gaps, 0)
        along, across = slopes * columns[:, None], slopes * rows[:, None]
        a, b, c = (
            (first * second.conj()).real.sum(axis=0)
            for first, second in ((along, along), (along, across), (across, across))
        )
        power = a * c - b**2
        power = np.where(power > 0, power, np.inf)
        noise = np.sqrt(np.mean(np.abs(gaps) ** 2, axis=0)) + 1e-17
        errors = 2 * noise * np.sqrt(np.maximum(a, c) / power)
        if step < _STEPS:
            to_x, to_y = ((gaps * way.conj()).real.sum(axis=0) for way in (along, across))
            x = x + np.clip((c * to_x - b * to_y) / power, -0.1, 0.1)
            y = y + np.clip((a * to_y - b * to_x) / power, -0.1, 0.1)
    x, y = ((value + np.pi) % (2 * np.pi) - np.pi for value in (x, y))
    return x, y, errors, np.quantile(np.abs(gaps), 0.9, axis=0)
