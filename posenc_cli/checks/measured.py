"""Measure what suggests bugs in a subject: positions, base, factor, heads.

Every measurement is a guess: the search compares all values before it reports one.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.checks.expected import Change, Expected, blocks_of
from posenc_cli.formulas.inverse import snap
from posenc_cli.inference.fitting import unwrapped
from posenc_cli.inference.position_maps import simplest_map
from posenc_cli.numerics.halves import COARSE, round_to_half
from posenc_cli.positions import range_texts
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from posenc_cli.numerics.arrays import ComplexRows, Integers, NumberArray, Reals

_ROWS = 1 << 14
"""Most rows whose positions are measured."""
_HALF_TURN = 3.0
"""Radians: a little less than π."""
_POSITION_ERROR = 1e-3
"""Error of a position that is measured in the fastest wave, for float32 values."""
_BASE_ERRORS = (1e-2, 1e-4, 1e-6, 1e-9)
"""Relative errors to which a measured base is rounded: people write few digits."""
_ODD_ROWS = 0.02
"""Share of the rows that may deviate from evenly spaced positions."""
_STEP_ERROR = 1e-7
"""Relative error of a measured step between positions, for float32 values."""
_USUAL_STEPS = range(1, 17)
"""Steps between positions that people set, and factors that they divide positions by."""
_FACTOR_ERROR = 1e-2
"""Relative error of a measured factor, for half precision."""
_EQUAL_SHARE = 0.99
"""Share of half-precision values that a right factor reproduces: all except near ties."""
FACTORS = {
    "√2": 2**0.5,
    "1/√2": 0.5**0.5,
    "log2 e": 1 / math.log(2),
    "ln 2": math.log(2),
    "2": 2.0,
    "1/2": 0.5,
}


def waves_of(e: Expected) -> tuple[ComplexRows, Reals] | None:
    """Return the found cosine + i · sine of each wave, and its frequency; None if there are none.

    Shapes: (n, waves), (waves,). Waves that lack a column are omitted.
    """
    if not e.is_waves:
        return None
    coordinates = e.declared_waves.coordinates
    if coordinates is not None and coordinates.domain != "real":
        return None
    sin, cos = e.wave_columns
    both = (sin >= 0) & (cos >= 0)
    found = np.asarray(e.found, np.float64)
    rates = e.frequencies[both]
    if coordinates is not None:  # angles of offsets have the opposite sign
        rates = -rates
    return found[:, cos[both]] + 1j * found[:, sin[both]], rates


def measured_bases(e: Expected, base: float) -> list[float]:
    """Return the base that the slowest wave implies, rounded to few and to more digits."""
    e = e.at_places(slice(_ROWS))
    waves = waves_of(e)
    if waves is None or waves[1].size < 2:
        return []
    phasors, rates = waves
    finite = np.isfinite(phasors).all(axis=1)
    phasors, at = phasors[finite], e.positions[finite]
    slowest = int(np.argmin(np.abs(rates)))
    if at.size < 2 or not rates[slowest]:
        return []
    steps, distances = np.diff(np.unwrap(np.angle(phasors[:, slowest]))), np.diff(at)
    speeds = np.abs(steps / distances)
    typical = np.median(speeds[speeds > 0]) if speeds.any() else 0.0
    # Exclude the places where rows repeat or restart.
    usual = (speeds > typical / 2) & (speeds < 2 * typical)
    kept = np.full_like(usual, fill_value=True), usual
    speeds_of_all = (abs(float(steps[rows].sum() / distances[rows].sum())) for rows in kept)
    exponent = -math.log(abs(rates[slowest])) / math.log(base)
    if exponent <= 0:
        return []
    # A base is infinite if it exceeds float64.
    bases = [float(np.float64(rate) ** (-1 / exponent)) for rate in speeds_of_all if 0 < rate < 1]
    finite_bases = filter(math.isfinite, bases)
    return list(
        dict.fromkeys(snap(each, error * each) for each in finite_bases for error in _BASE_ERRORS)
    )


def row_positions(e: Expected) -> Reals | None:
    """Return the position that each row holds, measured from slow waves to fast ones: (n,).

    Measurable only for waves of one axis, up to half a turn of the slowest wave; NaN beyond.
    """
    waves = waves_of(e)
    if waves is None or not waves[1].size:
        return None
    phasors, rates = waves
    order = np.argsort(np.abs(rates))
    at = unwrapped(np.angle(phasors)[:, order], rates[order], np.zeros(1, np.int64))[:, 0]
    near = np.abs(e.positions * rates[order[0]]) < _HALF_TURN
    return np.where(near, at, np.nan)


def position_changes(e: Expected) -> Iterator[Change]:
    """Yield changes of positions that give the positions measured in the rows."""
    whole, e = e, e.at_places(slice(_ROWS))
    expected = np.asarray(e.positions, np.float64)
    found = row_positions(e)
    found = _matched_rows(e) if found is None else found
    if found is None or expected.size < 2:
        return
    finite = np.isfinite(found)
    row = int(np.argmax(finite))
    complete = bool(finite.all()) and whole.places.at.size == expected.size
    if finite.sum() < 2:
        return
    found, expected = found[finite], expected[finite]
    near = np.abs(found - np.rint(found)) <= _POSITION_ERROR * (1 + 1e-4 * np.abs(found))
    found = np.where(near, np.rint(found), found)
    if complete and np.array_equal(found, np.trunc(expected)):  # perhaps evenly spaced, too
        yield moved_positions("positions are truncated to integers", np.trunc, e.parts)
        return
    yield from _evenly_spaced(expected, found, row, e.parts)
    order = np.argsort(expected, kind="stable")
    rule = simplest_map(expected[order], found[order]) if complete else None
    if rule is not None:
        yield moved_positions(rule.message, rule.at, e.parts)


def moved_positions(
    text: str, rule: Callable[[NumberArray], NumberArray], parts: int, **more: Any
) -> Change:
    """Return a change of positions by ``rule``; places count 1/parts of a position."""
    return Change(text, places=lambda p, _: p.moved(lambda at: rule(at / parts) * parts), **more)


def _evenly_spaced(expected: Reals, found: Reals, row: int, parts: int) -> Iterator[Change]:
    """Yield evenly spaced positions, by start and step.

    The step is rounded to a number that people write, or kept as exact as the rows show it.
    """
    half = expected.size // 2
    spans = (expected - expected[0])[half:]
    if not spans.all():
        return
    measured = float(np.median((found - found[0])[half:] / spans))
    for step in dict.fromkeys(
        (_rounded_to_short(measured, 1e-4), snap(measured, _STEP_ERROR * abs(measured)))
    ):
        start = _rounded_to_short(float(np.median(found - step * expected)), 1e-2)
        far = np.abs(found - start - step * expected) > _POSITION_ERROR * (1 + np.abs(found).max())
        if not step or far.mean() > _ODD_ROWS or (start == 0 and step == 1):
            continue
        code = ""
        if step == 1:
            first = f"row {row} holds position {found[0]:g}, not {expected[0]:g}"
            text = f"positions are shifted by {start:+g}: {first}"
        elif step == -1:
            text = f"positions go backward, from {found[0]:g} to {found[-1]:g}"
            code = "" if start else "direction"
        else:
            text = f"positions go in steps of {step:g}, not 1, from {found[0]:g} to {found[-1]:g}"
        usual = abs(step) in _USUAL_STEPS or 1 / abs(step) in _USUAL_STEPS
        rule = partial(_stepped, start=start, step=step)
        yield moved_positions(text, rule, parts, code=code, general=not usual)


def _stepped(at: NumberArray, *, start: float, step: float) -> NumberArray:
    return start + step * at


def _rounded_to_short(value: float, error: float) -> float:
    """Return a nearby number that people write: few digits, or a ratio of small integers."""
    for parts in (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 25, 32, 100):
        number = round(value * parts) / parts
        if number and abs(number - value) <= error * max(1.0, abs(value)) / parts:
            return number
    return 0.0 if abs(value) <= error else snap(value, error * abs(value))


def _matched_rows(e: Expected) -> Reals | None:
    """Return the position of the right row that each row equals, for tables that are looked up."""
    content: Any = e.content
    at, right = np.asarray(e.positions, np.float64), e.right()
    if e.lookup is not None and not e.is_offset:  # all rows of the table
        at = np.arange(min(content.weights.rows, _ROWS)) - float(e.params.get("offset") or 0)
        right = np.asarray(e.lookup(np.arange(at.size)), np.float64)
    keys = {row.tobytes(): place for place, row in enumerate(_quantized(right, right))}
    places = [keys.get(row.tobytes()) for row in _quantized(np.asarray(e.found, np.float64), right)]
    if len(keys) < len(right) or any(place is None for place in places):
        return None
    return at[np.array(places, np.int64)]


def _quantized(rows: NumberArray, right: NumberArray) -> NumberArray:
    """Return rows in steps far larger than any rounding."""
    step = 0.05 * float(np.abs(right).max() or 1)
    return np.rint(rows / step).astype(np.int32)


def common_factors(e: Expected) -> Iterator[tuple[str, float]]:
    """Yield factors by which all values may be multiplied, each after its text.

    The magnitude of waves shows the factor even if their rows are at wrong positions.
    """
    part = e.sample()
    found, right = np.asarray(part.found, np.float64), part.right()
    large = (np.abs(right) > 0.1 * float(np.abs(right).max() or 1)) & np.isfinite(found)
    several = [found[large] / right[large]]
    waves = waves_of(part)
    if waves is not None:
        sizes = np.abs(waves[0]) / float(e.declared_waves.scale)
        several.append(sizes[np.isfinite(sizes)])
    for ratios in several:
        factor = float(np.median(ratios)) if ratios.size else 0.0
        if not math.isfinite(factor) or not factor or abs(abs(factor) - 1) < 1e-4:
            continue
        if np.abs(ratios - factor).max() <= 2e-2 * abs(factor):
            yield from _written_factors(e, part, factor)


def _written_factors(e: Expected, part: Expected, factor: float) -> Iterator[tuple[str, float]]:
    """Yield factors near a measured one as people write them, each after a sentence.

    Several are near in half precision; factors that do not reproduce the values are dropped.
    """
    width = e.content.width if e.form == "rows" else e.params.get("dim") or 64
    names = {value: name for name, value in FACTORS.items()}
    for number in dict.fromkeys((width, 64, 80, 96, 128)):
        root = math.sqrt(number)
        for name, value in (("√{}", root), ("1/√{}", 1 / root), ("√(2/{})", math.sqrt(2) / root)):
            names.setdefault(value, f"{name.format(number)} ({value:.6g})")
    names_by_value = {
        value: name for value, name in names.items() if abs(factor / value - 1) < _FACTOR_ERROR
    }
    for error in (1e-4, _FACTOR_ERROR):
        short = snap(factor, error * abs(factor))
        names_by_value.setdefault(short, f"{short:.6g}")
    for value, name in names_by_value.items():
        if _reproduces_values(part, value):
            yield f"all values are multiplied by {name}", value


def _reproduces_values(part: Expected, factor: float) -> bool:
    """Return whether right values, multiplied and rounded to half precision, are those found."""
    half = part.rounding or part.dtype
    if half not in COARSE or part.vectors is not None:
        return True
    values = round_to_half(replace(part, rounding="").right() * factor, half)
    return bool(((values == part.found) | part.absent).mean() >= _EQUAL_SHARE)


def moved_heads(e: Expected) -> tuple[str, Integers, NumberArray] | None:
    """Return a text, the head whose values each head has, and factors: 0 for heads without values.

    Returns None if every head has its own values, or if one matches no head.
    """
    part = e.sample()
    every = replace(part, head=None)
    right, found = every.right(), np.asarray(part.found, np.float64)
    noun = "slope" if e.form == "slopes" else "scores"
    axes = tuple(range(1, right.ndim))
    if right.shape[0] < 2:
        return None
    allowed = every.tolerated(right)
    right_order, absent = e.select_heads(np.arange(right.shape[0])), part.absent
    blank = ~np.any(found, axis=axes, where=~absent) & np.any(e.select_heads(right), axis=axes)
    near = np.array(  # (found heads, heads)
        [
            ((np.abs(right - values) <= allowed) | gaps).all(axis=axes)
            for values, gaps in zip(found, absent, strict=True)
        ]
    )
    near[blank] = True
    if not near.any(axis=1).all():
        return None
    own = near[np.arange(blank.size), right_order]
    order = np.where(own, right_order, near.argmax(axis=1))
    factors = np.where(blank, 0.0, 1.0).reshape(-1, *(1 for _ in axes))
    moved = np.flatnonzero(order != right_order)
    if blank.any() and not blank.all():
        heads = ", ".join(range_texts(right_order[blank].tolist())[:4])
        text = f"no {noun} in head {heads} ({int(blank.sum())} of {blank.size} are 0)"
        return text, order, factors
    if not moved.size:
        return None
    text = f"head {right_order[moved[0]]} has the {noun} of head {order[moved[0]]}"
    return f"{text} ({moved.size} of {right_order.size} heads differ)", order, factors


def count_nonfinite(e: Expected) -> int:
    """Count the compared values that are NaN or infinite."""
    return sum(int(np.count_nonzero(~(np.isfinite(p.found) | p.absent))) for p in blocks_of(e))
