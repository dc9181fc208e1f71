"""Measurements of a subject that suggest bugs: positions, base, factor, heads.

Everything that is measured here is a guess: the search compares all values before it is said.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.checks.expected import Change
from posenc_cli.formulas.inverse import snap
from posenc_cli.inference.formats import COARSE, round_to_half
from posenc_cli.positions import range_texts
from posenc_cli.records import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from posenc_cli.checks.expected import Expected
    from posenc_cli.numerics.arrays import ComplexRows, Integers, NumberArray, Reals

_ROWS = 1 << 14
"""Rows whose positions are measured at most."""
_HALF_TURN = 3.0
"""Radians: some less than π."""
_NEAR = 1e-3
"""Of a position: what float32 values leave of it where the fastest wave tells it."""
_DIGITS = (1e-2, 1e-4, 1e-6, 1e-9)
"""What is dropped of a base that is measured, as a share: people write few digits."""
_MOST_LISTED = 4
"""Positions that are listed by number."""
_FEW_ROWS = 0.02
"""Of the rows: so many may hold something else than evenly spaced positions."""
_EXACT = 1e-7
"""Of a step between positions: what float32 values leave of it."""
_STEPS = range(1, 17)
"""Steps between positions that people set, and factors that they divide positions by."""
_NEAR_FACTOR = 1e-2
"""Of a factor: what half precision leaves of it."""
_EQUAL = 0.99
"""Of the values: a right factor, in half precision, gives all but those next to a tie."""
FACTORS = {
    "√2": 2**0.5,
    "1/√2": 0.5**0.5,
    "log2 e": 1 / math.log(2),
    "ln 2": math.log(2),
    "2": 2.0,
    "1/2": 0.5,
}


def waves_of(e: Expected) -> tuple[ComplexRows, Reals] | None:
    """Cosine + i · sine of each wave as it was found, and its frequency; None of what has none.

    Shapes: (n, waves), (waves,). Waves that lack a column are left out.
    """
    if not e.is_waves:
        return None
    content = e.content
    assert content.waves is not None
    if content.waves.coordinates is not None and content.waves.coordinates.domain != "real":
        return None
    sin, cos = e.wave_columns
    both = (sin >= 0) & (cos >= 0)
    found = np.asarray(e.found, np.float64)
    rates = e.frequencies[both]
    if content.waves.coordinates is not None:  # of offsets, which are followed backward
        rates = -rates
    return found[:, cos[both]] + 1j * found[:, sin[both]], rates


def bases_of(e: Expected, base: float) -> list[float]:
    """The base that the slowest wave has, in few digits and in more; none where it has none."""
    e = e.at_places(slice(_ROWS))
    known = waves_of(e)
    if known is None or known[1].size < 2:
        return []
    turns, rates = known
    told = np.isfinite(turns).all(axis=1)
    turns, at = turns[told], e.positions[told]
    slowest = int(np.argmin(np.abs(rates)))
    if at.size < 2 or not rates[slowest]:
        return []
    steps = np.diff(np.unwrap(np.angle(turns[:, slowest])))
    apart = np.diff(at)
    exponent = -math.log(abs(rates[slowest])) / math.log(base)
    bases: dict[float, None] = {}
    speeds = np.abs(steps / apart)
    typical = np.median(speeds[speeds > 0]) if speeds.any() else 0.0
    usual = (speeds > typical / 2) & (speeds < 2 * typical)  # where no rows repeat or restart
    for kept in (np.full_like(usual, fill_value=True), usual):
        moved = apart[kept].sum()
        rate = abs(float(steps[kept].sum() / moved)) if moved else 0.0
        if not 0 < rate < 1 or exponent <= 0:
            continue
        found = float(np.float64(rate) ** (-1 / exponent))  # infinite where it is past float64
        if math.isfinite(found):
            bases |= dict.fromkeys(snap(found, error * found) for error in _DIGITS)
    return list(bases)


def row_positions(e: Expected) -> Reals | None:
    """The position that each row holds, of waves of one axis, from slow ones to fast ones: (n,).

    It is told up to half a turn of the slowest wave: where others belong, there are NaN.
    """
    known = waves_of(e)
    if known is None or not known[1].size:
        return None
    turns, rates = known
    order = np.argsort(np.abs(rates))
    phases = np.angle(turns)
    at = phases[:, order[0]] / rates[order[0]]
    for wave in order[1:]:
        rate = rates[wave]
        whole = np.rint((at * rate - phases[:, wave]) / (2 * np.pi))
        at = (phases[:, wave] + 2 * np.pi * whole) / rate
    near = np.abs(e.positions * rates[order[0]]) < _HALF_TURN
    return np.where(near, at, np.nan)


def row_maps(e: Expected) -> Iterator[Change]:
    """How the positions of rows differ from those that belong there; none where they do not."""
    whole, e = e, e.at_places(slice(_ROWS))
    expected = np.asarray(e.positions, np.float64)
    found = row_positions(e)
    found = _matched_rows(e) if found is None else found
    if found is None or expected.size < 2:
        return
    told = np.isfinite(found)
    row = int(np.argmax(told))
    complete = bool(told.all()) and whole.places.at.size == expected.size
    if told.sum() < 2:
        return
    found, expected = found[told], expected[told]
    near = np.abs(found - np.rint(found)) <= _NEAR * (1 + 1e-4 * np.abs(found))
    found = np.where(near, np.rint(found), found)
    if np.array_equal(found, expected):
        return
    cut = complete and np.array_equal(found, np.trunc(expected))  # which spaces rows evenly, too
    if not cut:
        yield from _evenly(expected, found, row, e.parts)
    if complete:
        yield from _repeated(e, found, expected)


def _repeated(e: Expected, found: Reals, expected: Reals) -> Iterator[Change]:
    """Positions that are clamped, or start again."""
    last, shift = found.max(), found[0] - expected[0]
    firsts = np.flatnonzero(np.diff(found) <= 0) + 1
    starts = np.concatenate([[0.0], expected[firsts] - found[firsts]])
    late = expected[int(np.argmax(found - expected != shift))]
    by = found[-1] - expected[-1]
    off = f"positions are shifted by {shift:+g} and " if shift else "positions are "
    rules: dict[str, Callable[[NumberArray], NumberArray]] = {
        "positions are truncated to integers": np.trunc,
        f"every row is the row of position {last:g}": lambda at: 0 * at + last,
        f"{off}clamped at {last:g}: later rows repeat its row": (
            lambda at: np.minimum(at + shift, last)
        ),
        f"positions restart at 0 after {last:g}": lambda at: at % (last + 1),
        f"the first {np.sum(found == found[0])} rows repeat the row of position {found[0]:g}; "
        f"later positions are shifted by {by:+g}": lambda at: np.maximum(at + by, found[0]),
        f"positions restart at 0 at {_listed(starts[1:])}": (
            lambda at: at - starts[np.searchsorted(starts[1:], at, side="right")]
        ),
        f"{off if shift else ''}positions from {late:g} on are shifted by {by:+g}": (
            lambda at: at + np.where(at < late, shift, by)
        ),
    }
    for text, rule in rules.items():
        if np.array_equal(found, rule(expected)):
            yield _moved(text, rule, e.parts)
            return


def _moved(
    text: str, rule: Callable[[NumberArray], NumberArray], parts: int, **more: Any
) -> Change:
    """Rows that hold the positions by a rule; places are whole numbers of 1/parts."""
    return Change(text, places=lambda p, _: p.moved(lambda at: rule(at / parts) * parts), **more)


def _listed(positions: Reals) -> str:
    """Some positions, the first of them by number."""
    more = f" … ({positions.size} times)" if positions.size > _MOST_LISTED else ""
    first = ", ".join(f"{at:g}" for at in positions[:_MOST_LISTED])
    return f"position{'s' if positions.size > 1 else ''} {first}{more}"


def _evenly(expected: Reals, found: Reals, row: int, parts: int) -> Iterator[Change]:
    """Positions that are evenly spaced where others belong, by start and step.

    The step is a number that people write, or any other, as exactly as rows show it.
    """
    half = expected.size // 2
    spans = (expected - expected[0])[half:]
    if not spans.all():
        return
    measured = float(np.median((found - found[0])[half:] / spans))
    for step in dict.fromkeys((_short(measured, 1e-4), snap(measured, _EXACT * abs(measured)))):
        start = _short(float(np.median(found - step * expected)), 1e-2)
        far = np.abs(found - start - step * expected) > _NEAR * (1 + np.abs(found).max())
        if not step or far.mean() > _FEW_ROWS or (start == 0 and step == 1):
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
        usual = abs(step) in _STEPS or 1 / abs(step) in _STEPS
        rule = partial(_stepped, start=start, step=step)
        yield _moved(text, rule, parts, code=code, general=not usual)


def _stepped(at: NumberArray, *, start: float, step: float) -> NumberArray:
    return start + step * at


def _short(value: float, error: float) -> float:
    """A number that people write, near a measured one: few digits, or a ratio of small numbers."""
    for parts in (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 25, 32, 100):
        number = round(value * parts) / parts
        if number and abs(number - value) <= error * max(1.0, abs(value)) / parts:
            return number
    return 0.0 if abs(value) <= error else snap(value, error * abs(value))


def _matched_rows(e: Expected) -> Reals | None:
    """The position of the right row that each row equals, of tables that are looked up."""
    content: Any = e.content
    if e.form != "rows" or waves_of(e) is not None:
        return None
    at, right = np.asarray(e.positions, np.float64), e.right()
    if e.lookup is not None and not e.is_offset:  # all rows that there are
        at = np.arange(min(content.weights.rows, _ROWS)) - float(e.params.get("offset") or 0)
        right = np.asarray(e.lookup(np.arange(at.size)), np.float64)
    keys = {row.tobytes(): place for place, row in enumerate(_coarse(right, right))}
    places = [keys.get(row.tobytes()) for row in _coarse(np.asarray(e.found, np.float64), right)]
    if len(keys) < len(right) or any(place is None for place in places):
        return None
    return at[np.array(places, np.int64)]


def _coarse(rows: NumberArray, right: NumberArray) -> NumberArray:
    """Rows in steps far above any rounding of them."""
    step = 0.05 * float(np.abs(right).max() or 1)
    return np.rint(rows / step).astype(np.int32)


def common_factors(e: Expected) -> Iterator[tuple[float, str]]:
    """The numbers that all values may be multiplied by, each with how it is written.

    Waves show it by their size, wherever their rows stand.
    """
    part = e.sample()
    found, right = np.asarray(part.found, np.float64), part.right()
    large = (np.abs(right) > 0.1 * float(np.abs(right).max() or 1)) & np.isfinite(found)
    several = [found[large] / right[large]]
    known = waves_of(part)
    if known is not None:
        assert e.content.waves is not None
        sizes = np.abs(known[0]) / float(e.content.waves.scale)
        several.append(sizes[np.isfinite(sizes)])
    for ratios in several:
        factor = float(np.median(ratios)) if ratios.size else 0.0
        if not math.isfinite(factor) or not factor or abs(abs(factor) - 1) < 1e-4:
            continue
        if np.abs(ratios - factor).max() <= 2e-2 * abs(factor):
            yield from _written(e, part, factor)


def _written(e: Expected, part: Expected, factor: float) -> Iterator[tuple[float, str]]:
    """A measured factor as people write it, each with a sentence that says so.

    Half precision leaves several near: those that give every value.
    """
    width = e.content.width if e.form == "rows" else e.params.get("dim") or 64
    names = {value: name for name, value in FACTORS.items()}
    for number in dict.fromkeys((width, 64, 80, 96, 128)):
        root = math.sqrt(number)
        for name, value in (("√{}", root), ("1/√{}", 1 / root), ("√(2/{})", math.sqrt(2) / root)):
            names.setdefault(value, f"{name.format(number)} ({value:.6g})")
    ways = {value: name for value, name in names.items() if abs(factor / value - 1) < _NEAR_FACTOR}
    for error in (1e-4, _NEAR_FACTOR):
        short = snap(factor, error * abs(factor))
        ways.setdefault(short, f"{short:.6g}")
    for value, name in ways.items():
        if _gives(part, value):
            yield value, f"all values are multiplied by {name}"


def _gives(part: Expected, factor: float) -> bool:
    """Whether values that were multiplied, and then rounded to half precision, are those found."""
    half = part.rounding or part.dtype
    if half not in COARSE or part.vectors is not None:
        return True
    values = round_to_half(replace(part, rounding="").right() * factor, half)
    return bool(((values == part.found) | part.absent).mean() >= _EQUAL)


def heads_of(e: Expected) -> tuple[str, Integers, NumberArray] | None:
    """The head whose values each head has, and a factor 0 for those that have none.

    None where each has its own, or none that is right.
    """
    part = e.sample()
    every = replace(part, head=None)
    right, found = every.right(), np.asarray(part.found, np.float64)
    noun = "slope" if e.form == "slopes" else "scores"
    axes = tuple(range(1, right.ndim))
    if right.shape[0] < 2:
        return None
    allowed = every.judged(right)
    own = e.of_heads(np.arange(right.shape[0]))
    absent = part.absent
    blank = ~np.any(found, axis=axes, where=~absent) & np.any(e.of_heads(right), axis=axes)
    order = own.copy()
    for head, values in enumerate(found):
        near = ((np.abs(right - values) <= allowed) | absent[head]).all(axis=axes)
        if blank[head] or near[own[head]]:
            continue
        if not near.any():
            return None
        order[head] = int(np.argmax(near))
    factors = np.where(blank, 0.0, 1.0).reshape(-1, *(1 for _ in axes))
    moved = np.flatnonzero(order != own)
    if blank.any() and not blank.all():
        heads = ", ".join(range_texts(own[blank].tolist())[:4])
        text = f"no {noun} in head {heads} ({int(blank.sum())} of {blank.size} are 0)"
        return text, order, factors
    if not moved.size:
        return None
    text = f"head {own[moved[0]]} has the {noun} of head {order[moved[0]]}"
    return f"{text} ({moved.size} of {own.size} heads differ)", order, factors


def nonfinite(e: Expected) -> int:
    """How many values that are compared are NaN or infinite."""
    return int(np.count_nonzero(~(np.isfinite(e.found) | e.absent)))
