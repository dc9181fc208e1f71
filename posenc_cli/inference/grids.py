"""Hypotheses of waves that follow the rows and columns of a grid.

A pair that follows the columns of a grid repeats after each row of it; one that follows the rows
stays as it is along a row. Where every pair does one or the other, the width of the grid is known.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.errors import PosencError
from posenc_cli.formulas.inverse import KNOWN_BASES, snap
from posenc_cli.inference.candidates import known_schemes
from posenc_cli.inference.readings import bare_views, reads_columns, views
from posenc_cli.inference.tolerance import unit
from posenc_cli.inference.trial import Hypothesis
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from posenc_cli.formulas.declare import Scheme
    from posenc_cli.inference.evidence import Evidence
    from posenc_cli.inference.readings import View
    from posenc_cli.numerics.arrays import ComplexRows, Flags, Reals

_KINDS = {"rotary": "rotary", "sinusoidal": "absolute"}
"""The kind of scheme that a way to read an array is of."""
_MOST_CHOICES = 64
"""Of a scheme: each is bound, which takes about 0.1 ms."""
_MISFIT = 0.02
"""On the unit circle: judgement, other bases and conventions miss by far more."""
MOST_PLACES = 1 << 16
"""Of a grid: all are looked at."""
_MOST_CELLS = 1 << 24
"""Of all places: held as complex numbers they take 256 MiB."""
_FEW = 64
"""Rows that are looked at before all: no waves among them, none in the whole."""
_VOTES = 256
"""Rows that say which axis a pair follows."""
_DAMAGED = 0.1
"""Of the rows, that a grid is still seen in."""


def grid_hypotheses(evidence: Evidence) -> Iterator[Hypothesis]:
    """What a matrix, or two, may be as waves on a grid: the sample shows too few of its rows."""
    cells = sum(array.size for array in evidence.arrays)
    if not 4 <= evidence.count <= MOST_PLACES or cells > _MOST_CELLS or evidence.only is not None:
        return
    few_rows = np.unique(np.linspace(0, evidence.count - 1, _FEW).astype(np.int64))
    few = replace(evidence, only=few_rows, damaged=3 * _DAMAGED)
    whole = replace(evidence, only=np.arange(evidence.count), damaged=_DAMAGED)
    rounding = 2 * unit(evidence.values.name)
    bare = bare_views(whole) if _are_functions(few) else ()
    paired = views(whole) if any(True for _ in views(few)) else ()
    for view in (*bare, *paired):
        if view.pairs.shape[0] == evidence.count and view.growth is None:
            for grid in _grids(view.pairs, 3e-5 + 4 * rounding):
                yield from _on_grid(view, evidence, grid, _MISFIT + 4 * rounding)


def _are_functions(few: Evidence) -> bool:
    """Whether most rows could be cosines or sines alone."""
    largest = np.max([np.abs(sample).max(axis=1) for sample in few.sample], axis=0)  # (rows,)
    return bool(np.mean(largest > 1 + _MISFIT) <= few.damaged)


def _grids(pairs: ComplexRows, limit: float) -> Iterator[tuple[int, ...]]:
    """The shapes of grids whose axes the pairs follow."""
    count = pairs.shape[0]
    for width in (w for w in range(2, count // 2 + 1) if count % w == 0):
        along, across = _axes(pairs, width, limit)
        if not ((along | across).all() and (along & ~across).any() and (across & ~along).any()):
            continue
        outer = pairs[::width][:, across & ~along]
        yield count // width, width
        high = count // width
        for height in (h for h in range(2, high // 2 + 1) if high % h == 0):
            inner, beyond = _axes(outer, height, limit)
            if (inner | beyond).all() and (beyond & ~inner).any() and (inner & ~beyond).any():
                yield high // height, height, width


def _axes(pairs: ComplexRows, width: int, limit: float) -> tuple[Flags, Flags]:
    """Which pairs repeat after ``width`` rows, and which stay the same for as many.

    Most of some rows say so, each beside one other row: a damaged row speaks for itself alone.
    """
    count = pairs.shape[0]
    rows = np.unique(np.linspace(0, count - 1, _VOTES).astype(np.int64))
    after = (rows + width) % count
    beside = rows - rows % width + (rows % width + width // 2) % width
    repeats, stays = (_alike(pairs[rows], pairs[others], limit) for others in (after, beside))
    return repeats, stays


def _alike(first: ComplexRows, second: ComplexRows, limit: float) -> Flags:
    """Which pairs are the same in most rows; those that are no numbers do not say."""
    apart = np.abs(first - second)  # (rows, pairs)
    known = np.isfinite(apart)
    return np.asarray((apart <= limit).sum(axis=0) > (1 - 2 * _DAMAGED) * known.sum(axis=0))


def _on_grid(
    view: View, evidence: Evidence, grid: tuple[int, ...], limit: float
) -> Iterator[Hypothesis]:
    for scheme, given in _schemes(view, evidence.shape[1], grid):
        bases = (*_bases(view, grid), *KNOWN_BASES) if "base" in scheme.parameters else ()
        own = [name for name in given if scheme.parameters[name].default is None]
        for base in (None, *bases):
            settled = given if base is None else {**given, "base": base}
            if _fits(view, scheme, settled, limit):
                yield Hypothesis(
                    scheme.name,
                    settled,
                    view.tables,
                    evidence.rows,
                    # Rarer than one axis; a base or an order of its own is rarer still.
                    cost=2.0 + (0 if base is None else 0.2) + 0.1 * len({*own} - {"layout"}),
                    hidden=("layout",)
                    if view.layout is None and "layout" in scheme.parameters
                    else (),
                )
                break


def _schemes(
    view: View, width: int, grid: tuple[int, ...]
) -> Iterator[tuple[Scheme, dict[str, Any]]]:
    """Schemes with a grid whose columns are those of a view, with the parameters but the base."""
    if view.swapped:
        return
    for scheme in known_schemes():
        if scheme.kind != _KINDS[view.kind] or not {"grid", "dim"} <= {*scheme.parameters}:
            continue
        dim = 2 * view.count if view.kind == "rotary" else width
        given: dict[str, Any] = {"grid": "x".join(map(str, grid)), "dim": dim}
        if view.layout is not None and "layout" in scheme.parameters:
            given["layout"] = view.layout
        for choices in _choices(scheme):
            settled = {**choices, **given}
            if _has_columns(scheme, settled, view, width):
                yield scheme, settled


def _choices(scheme: Scheme) -> Iterator[dict[str, Any]]:
    """Every choice of words and flags that a scheme declares, those not given at their defaults."""
    values = {
        name: dict.fromkeys((parameter.default, *(parameter.choices or (False, True))))
        for name, parameter in scheme.parameters.items()
        if (parameter.choices or parameter.type is bool) and name != "layout"
    }
    for combination in itertools.islice(itertools.product(*values.values()), _MOST_CHOICES):
        chosen = zip(values, combination, strict=True)
        yield {name: v for name, v in chosen if v != scheme.parameters[name].default}


def _has_columns(scheme: Scheme, given: dict[str, Any], view: View, width: int) -> bool:
    """Whether a scheme can be so, and its sines and cosines stand where a view reads them."""
    try:
        with scheme.answerable():
            content = scheme.bind(given).content
    except PosencError:
        return False
    waves = content.waves
    if waves is None or waves.coordinates is None or waves.coordinates.at is None:
        return False
    if waves.count < view.count:
        return False
    return view.kind == "rotary" or reads_columns(view, content, width)


def _bases(view: View, grid: tuple[int, ...]) -> Iterator[float]:
    """Bases that the ladder of the columns' axis may have, from two of its pairs."""
    steps = np.nan_to_num(_steps(view, grid[-1]))
    turning = np.flatnonzero(steps > 1e-4)
    if turning.size < 2:
        return
    fast, slow = turning[0], turning[-1]
    ratio = float(np.log(steps[fast] / steps[slow]) / (slow - fast))
    for pairs in (view.count // len(grid), view.count // len(grid) - 1):
        base = float(np.exp(ratio * pairs))
        if base > 1:
            yield snap(base, 1e-3 * base)
            yield snap(base, 1e-5 * base)


def _steps(view: View, width: int) -> Reals:
    """How far each pair turns from the first place of a row to the next: the median of all rows."""
    first, second = view.pairs[::width], view.pairs[1::width]
    return np.asarray(np.nanmedian(np.angle(second * first.conj()), axis=0))


def _fits(view: View, scheme: Scheme, given: dict[str, Any], limit: float) -> bool:
    """Whether all pairs are where a hypothesis has them, on the unit circle: in the median row.

    A few pairs, which refute most hypotheses, are looked at before all.
    """
    try:
        with scheme.answerable():
            waves = scheme.bind(given).content.waves
    except PosencError:
        return False
    assert waves is not None
    assert waves.coordinates is not None
    assert waves.coordinates.at is not None
    rows = np.unique(np.linspace(0, view.pairs.shape[0] - 1, 40).astype(np.int64))
    frequencies = np.asarray(waves.frequencies(np), np.float64)
    axes = np.stack([np.asarray(axis, np.float64) for axis in waves.coordinates.at(rows)], axis=1)
    followed = np.asarray(waves.coordinates.axes)
    for pairs in (np.arange(0, view.count, -(-view.count // 16)), np.arange(view.count)):
        points = np.exp(1j * axes[:, followed[pairs]] * frequencies[pairs])  # (rows, pairs)
        if view.function:
            points = points.real if view.function == "cos" else points.imag
        apart = np.abs(points - view.pairs[np.ix_(rows, pairs)])
        if not np.nanmedian(apart, axis=0).max() <= limit:
            return False
    return True
