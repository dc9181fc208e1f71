"""Rows that are turned as positions between the whole ones, by one function of their own position.

They may be spaced evenly by a number near 1, as ``linspace`` with a wrong end spaces them, go on
more slowly from one row on, or grow as a logarithm or a power. What stands in the rows is read off
the pairs; the function that it shows is then held against every cell.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.checks.reproduced import reproduced, turned_by
from posenc_cli.checks.verdict import Explanation
from posenc_cli.checks.wording import either, with_residual
from posenc_cli.formulas.inverse import snap
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.defects import Defect
from posenc_cli.inference.position_maps import read_coordinates
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from posenc_cli.checks.wording import Suspect
    from posenc_cli.inference.reference import Reference
    from posenc_cli.inference.sample import Sample
    from posenc_cli.numerics.arrays import Reals

_FEWEST_ROWS = 16
"""That show a function of the position: fewer may lie on one by chance."""

_LEAST_RANGE = 0.1
"""Of a position, between the first row and the last: what moves by less stands still."""

_NEAR = 2e-4
"""Of the numbers that a function is recognised by: every cell then decides."""

_ROUGH = 1e-4
"""Of a number that is read off: what digits of it nothing shows are left out."""

_COARSE = 0.01
"""Of 1: a factor that is read off a half precision misses 1 by no more."""

_FAR = 0.5
"""Of 1: a ratio so far from it is more likely one of frequencies."""

_SLOWEST = 4096
"""Times as slowly as right positions go on: slower ones stand still."""

_SHOWN = 3
"""Rows that a message has."""


class RealMap(Record):
    """Position p is turned as ``at(p)``: in words, and as a function of positions (n,).

    ``ratio`` is that of all frequencies that would do the same, None where none would.
    """

    message: str
    at: Callable[[Reals], Reals]
    ratio: float | None = None


def real_position_cause(suspect: Suspect) -> Explanation | None:
    """The cause where rows are turned as real positions that one function gives."""
    sample, reference = suspect.sample, suspect.sample.reference
    if suspect.examination.subject.frequencies is not None or reference.coordinates is not None:
        return None
    if sample.positions.size < _FEWEST_ROWS or sample.positions.min() < 0 or not sample.amplitude:
        return None
    if not np.isfinite(sample.factors).all() or not (reference.frequencies > 0).any():
        return None
    order = np.argsort(sample.positions, kind="stable")
    positions = sample.positions[order].astype(np.float64)
    read = read_coordinates(sample)[order]
    right = reference.frequencies
    if np.ptp(read) < _LEAST_RANGE:
        return None
    for tried in _maps(positions, read, reference):
        missed = np.abs(tried.at(positions) - read)
        if np.median(missed) > _NEAR * max(1.0, float(np.abs(read).max())):
            continue

        def used(piece: Sample, tried: RealMap = tried) -> Reals:
            return tried.at(piece.positions.astype(np.float64))

        turned = turned_by(right, replace(sample, positions=used(sample)))
        farther = np.maximum(np.abs(sample.positions), np.abs(used(sample)))
        if not sample.explained_cells(turned, right, farther).all():
            continue
        whole = suspect.whole.changed(lambda piece: replace(piece, amplitude=sample.amplitude))
        residual = reproduced(whole, lambda piece: turned_by(right, piece), right, turned_as=used)
        if residual.whole:
            wrong = ~Defect().explained(sample).all(axis=1)
            some = np.sort(sample.positions[wrong])[:_SHOWN].astype(np.float64)
            shown = ", ".join(
                f"{p:g} as {q:.7g}" for p, q in zip(some, tried.at(some), strict=True)
            )
            cause = Explanation(Cause.POSITION_OFFSET, tried.message, f"position {shown}")
            return _or_frequencies(with_residual(cause, residual), tried.ratio)
    return None


def _or_frequencies(cause: Explanation, ratio: float | None) -> Explanation:
    """The cause, beside it the ratio of all frequencies that does the same, the likelier first."""
    if ratio is None:
        return cause
    near = abs(ratio - 1) < _FAR
    times = f"1 {'+' if ratio > 1 else '−'} {abs(ratio - 1):.6g}" if near else f"{ratio:.6g}"
    message = f"all frequencies are {times} times the right ones"
    other = replace(cause, cause=Cause.FREQUENCY_RULE, message=message)
    return either([cause], [other])[0] if near else either([other], [cause])[0]


def _maps(positions: Reals, read: Reals, reference: Reference) -> Iterator[RealMap]:
    """Functions that may give what is read at ascending positions, both (n,)."""
    yield from _spaced(positions, read, reference)
    yield from _slowed(positions, read)
    yield from _curves(positions, read)


def _spaced(positions: Reals, read: Reals, reference: Reference) -> Iterator[RealMap]:
    """Evenly spaced positions, as ``linspace`` gives them between wrong ends."""
    step, start = (float(number) for number in np.polyfit(positions, read, 1))
    rows = int(positions[-1]) + 1
    for begin, end, count, times in _linspaces(rows, reference):
        slope = times * (end - begin) / (count - 1)
        if abs(slope - 1) < 1e-12 or abs(slope / step - 1) > _NEAR / rows:
            continue
        if abs(times * begin - start) > _NEAR * max(1.0, abs(begin)):
            continue
        base = f"{begin:g} + " if begin else ""
        stretched = "" if times == 1 else " of the context before it was stretched"
        message = (
            f"positions are those of linspace({begin:g}, {end:g}, {count}){stretched}: p is turned "
            f"as {base}p · {_fraction(times * (end - begin), count - 1)}"
        )
        line = partial(_line, start=times * begin, slope=slope)
        yield RealMap(message, line, None if begin else slope)


def _line(positions: Reals, *, start: float, slope: float) -> Reals:
    """Points of a line at positions (n,)."""
    return np.asarray(start + slope * positions, np.float64)


def _linspaces(rows: int, reference: Reference) -> Iterator[tuple[float, float, int, float]]:
    """Ends and counts that are mistaken for 0, L − 1 and L, and what they are multiplied by."""
    yield from (
        (0.0, rows, rows, 1.0),
        (0.0, rows - 1, rows + 1, 1.0),
        (0.0, rows + 1, rows, 1.0),
        (0.0, 1.0, rows, 1.0),
        (0.0, 1.0, rows + 1, 1.0),
        (-1.0, 1.0, rows, 1.0),
        (-1.0, 1.0, rows + 1, 1.0),
    )
    factor = reference.params.get("factor")
    if factor and factor != 1:
        shorter = rows / factor
        yield 0.0, shorter - 1, rows, float(factor)
        yield 0.0, shorter, rows, float(factor)


def _fraction(above: float, below: int) -> str:
    """A quotient as it is made.

    >>> _fraction(4096.0, 4095)
    '4096/4095'
    """
    return f"{above:.10g}/{below}"


def _slowed(positions: Reals, read: Reals) -> Iterator[RealMap]:
    """Positions that go on by a share of 1 from one on, as those of Leaky ReRoPE do."""
    off = np.abs(read - positions) > _NEAR * np.maximum(1.0, positions)
    if off.all() or not off.any():
        return
    tail = slice(int(np.argmax(off)), None)
    if positions[tail].size < _FEWEST_ROWS // 2 or np.ptp(positions[tail]) == 0:
        return
    step, start = (float(number) for number in np.polyfit(positions[tail], read[tail], 1))
    if not 1 / _SLOWEST < step < 1:
        return
    factor = snap(1 / step, _ROUGH / step)
    first = round(start / (1 - step))
    if first <= 0:
        return  # all positions are divided, or all frequencies
    yield RealMap(
        f"positions go on by 1/{factor:g} from {first} on: p is turned as {first} + (p − {first})"
        f"/{factor:g}, as by Leaky ReRoPE",
        lambda p: np.where(p < first, p, first + (p - first) / factor),
    )


def _curves(positions: Reals, read: Reals) -> Iterator[RealMap]:
    """Positions that grow as a logarithm or a power of their own."""
    last, top = float(positions[-1]), float(read[-1])
    if top <= 0 or last < _FEWEST_ROWS:
        return
    for name, curve in (
        ("ln(1 + p)", np.log1p),
        ("log2(1 + p)", lambda p: np.log2(1 + p)),
        ("log10(1 + p)", lambda p: np.log10(1 + p)),
    ):
        times = top / float(curve(last))
        # What a half precision leaves of the last row does not show a number well.
        likely = (1.0,) if abs(times - 1) < _COARSE else ()
        for short in dict.fromkeys((*likely, snap(times, _ROUGH * times))):
            product = name if short == 1 else f"{short:g} · {name}"
            message = f"positions grow as a logarithm: p is turned as {product}"
            yield RealMap(message, partial(_multiplied, times=short, curve=curve))
    power = math.log(top) / math.log(last)
    if abs(power - 1) > _NEAR and 0 < power < 4:
        short = snap(power, _ROUGH * power)
        message = f"positions grow as a power: p is turned as p^{short:g}"
        yield RealMap(message, lambda p: np.asarray(p**short, np.float64))


def _multiplied(positions: Reals, *, times: float, curve: Callable[[Reals], Reals]) -> Reals:
    """A number times a function of positions (n,)."""
    return np.asarray(times * curve(positions), np.float64)
