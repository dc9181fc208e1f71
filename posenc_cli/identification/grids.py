"""Propose encodings on the axes of a grid.

A pair that follows the columns of a grid repeats after each of its rows; one that follows the rows
is constant along a row. If every pair does one or the other, the grid's width and the rotation per
place are known. A scheme then gives the axis of each pair; its base, scale and origin are solved
for. RoPE-Mixed, whose pairs follow both axes, is tried with the frequencies that posenc draws.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from posenc_cli.errors import PosencError
from posenc_cli.formulas.inverse import (
    DOUBLE,
    KNOWN_BASES,
    MANY,
    SPARE,
    STEEPEST,
    SURE,
    snap,
    written_numbers,
)
from posenc_cli.formulas.mixed import rope_mixed
from posenc_cli.formulas.parameters import as_text, uniform
from posenc_cli.identification.other_matrices import SEEDS
from posenc_cli.identification.readings import (
    View,
    bare_views,
    bases_of_pairs,
    reads_columns,
    unreduced_views,
    views,
)
from posenc_cli.inference.candidates import known_schemes
from posenc_cli.inference.fitting import fit, median, spread
from posenc_cli.inference.rates import are_waves, free_waves
from posenc_cli.inference.tolerance import UNREDUCED, UNREDUCED_FULL
from posenc_cli.inference.trial import Hypothesis
from posenc_cli.records import Record, fresh, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from posenc_cli.formulas.declare import Content, Rotation, Scheme
    from posenc_cli.inference.evidence import Evidence
    from posenc_cli.numerics.arrays import ComplexRows, Flags, Integers, NumberArray, Reals


_KINDS = {"rotary": "rotary", "sinusoidal": "absolute"}
"""Kind of scheme that each kind of view reads."""
_MOST_CHOICES = 64
"""Most combinations of choices to try per scheme: binding one takes about a millisecond."""
_MOST_AXES = 4
"""Most axes of a grid, including those of length 1."""
_TIGHT = 1e-4
"""Error on the unit circle that float32 code makes on a grid; few other parameters come so close.
"""
_MISFIT = 0.02
"""Largest error on the unit circle. Chosen by judgement: other bases and conventions exceed it by
far."""
MOST_PLACES = 1 << 16
"""Largest grid: all its places are compared."""
_MOST_CELLS = 1 << 24
"""Most entries of all places: as complex numbers they take 256 MiB."""
_FEW = 64
"""Rows that are read as waves before all rows are."""
_MOVING = 2
"""Fewest pairs that are not constant: one pair fits any base and axis."""
_NOT_PAIRED = ("cos", "sin", "cos-full", "sin-full", UNREDUCED, UNREDUCED_FULL)
"""Tables that no other reading covers; grids of one axis are tried for them too."""
_VOTES = 256
"""Rows that determine the axis of each pair."""
_SCATTER = 2_654_435_761
"""Multiplier of row numbers that makes pseudorandom numbers."""
_MOST = 0.8
"""Share of rows that must show a grid: low precision hides it in some."""
_SLICES = 5
"""Lines along an axis; their median counts, so one damaged line does not."""
_FASTEST = 2.0
"""Radians from place to place: a pair that rotates faster may rotate in the other direction."""
_SHARE = 2e-6
"""Relative error of the frequencies of float32 code."""
_OPTION, _BASE, _SECTIONS, _SCALE, _ORIGIN, _FIT = 0.1, 0.2, 0.3, 0.4, 0.4, 1.0
"""Extra costs of an unusual choice, base, sections, scale, origin, and of a fitted number.

Grids are rarer than one axis, and each of these is rarer still.
"""
_AXES_OF_VIDEO = 3
"""Frames, rows and columns."""
_PIXEL_BASES = {"lucidrains-pixel": (256.0, 64.0, 100.0, 128.0, 224.0, 512.0, 20.0, 32.0)}
"""Largest frequencies of pixels to try, because most pairs rotate by more than half a turn from
place to place; rotary-embedding-torch's README has 256."""
_NEWTON, _MOVED = 8, 1e-9
"""Further steps of Newton's method to the logarithm of a base, and a step that ends it."""
_WHOLE_SCALES = 17
"""Scales to try as divisors of base sides end below this."""
_FEW_DIGITS = 6
"""Most digits of a scale that somebody wrote."""
_FARTHEST, _TOLD = 1 << 10, 8
"""Largest coordinate of the first place, and the pairs from which it is found."""
_LADDER = 10.0
"""Largest deviation of rates from a scheme's, in units of their errors; more is another rule."""


def grid_hypotheses(evidence: Evidence) -> Iterator[Hypothesis]:
    """Yield hypotheses for one or two matrices as waves on a grid; all rows are read."""
    cells = sum(array.size for array in evidence.arrays)
    if not 4 <= evidence.count <= MOST_PLACES or cells > _MOST_CELLS or evidence.only is not None:
        return
    few_rows = spread(evidence.count, _FEW)
    few = replace(evidence, only=few_rows)
    whole = replace(evidence, only=np.arange(evidence.count))
    rounding = 2 * evidence.rounding
    functions = all(np.abs(sample).max() <= 1 + _MISFIT for sample in few.sample)
    bare = bare_views(whole) if functions else unreduced_views(whole)
    paired = views(whole) if any(True for _ in views(few)) else ()
    for view in (*bare, *paired):
        if view.growth is None:
            seen = list(_grids(view, 3e-5 + 4 * rounding))
            for places in seen:
                found = _hypotheses_on_grid(view, evidence, places, rounding)
                yield from sorted(found, key=lambda hypothesis: hypothesis.cost)
            if view.kind == "rotary" and all(len(places.grid) == 1 for places in seen):
                yield from _mixed_hypotheses(view, evidence, rounding)


class _GridPlaces(Record):
    """A grid, and the axis that each pair follows: -1 for a constant pair."""

    grid: tuple[int, ...]
    followed: Integers

    def with_axes(self, count: int) -> Iterator[_GridPlaces]:
        """Yield the grid with axes of length 1 inserted, up to ``count`` axes."""
        for kept in itertools.combinations(range(count), len(self.grid)):
            sides = dict(zip(kept, self.grid, strict=True))
            numbers = np.array([*kept, -1])[self.followed]
            yield _GridPlaces(tuple(sides.get(axis, 1) for axis in range(count)), numbers)


def _grids(view: View, limit: float) -> Iterator[_GridPlaces]:
    """Yield the grids whose axes the pairs follow, or the line of all rows if none has two axes."""
    pairs, found = view.pairs, list(_grids_of_pairs(view.pairs, limit))
    yield from found
    if not found:
        still = _equal_pairs(pairs[1:], pairs[:-1], limit)
        moving = still.size - int(still.sum())
        bare = view.tables[0] in _NOT_PAIRED and _is_line_of_waves(view)
        if moving >= _MOVING and (moving < still.size or bare):
            yield _GridPlaces((pairs.shape[0],), np.where(still, -1, 0))


def _grids_of_pairs(pairs: ComplexRows, limit: float) -> Iterator[_GridPlaces]:
    """Yield the grids of two or more axes; the pairs of the first one may follow a grid too."""
    count = pairs.shape[0]
    for width in (w for w in range(2, count // 2 + 1) if count % w == 0):
        along, across = _pairs_by_axis(pairs, width, limit)
        if not ((along | across).all() and (along & ~across).any() and (across & ~along).any()):
            continue
        followed = np.where(along, np.where(across, -1, 1), 0)
        yield _GridPlaces((count // width, width), followed)
        slower = np.flatnonzero(followed == 0)
        for outer in _grids_of_pairs(pairs[::width][:, slower], limit):
            of_more = np.where(followed == 1, len(outer.grid), -1)
            of_more[slower] = outer.followed
            yield _GridPlaces((*outer.grid, width), of_more)


def _is_line_of_waves(view: View) -> bool:
    """Return whether pairs rotate by the same angle between most rows.

    Only cosines, or only sines, do not show it; they count as a line.
    """
    rows = spread(view.pairs.shape[0] - 2, _VOTES)
    before, here, after = (view.pairs[rows + step] for step in range(3))
    changes = here * here - before * after
    return bool(view.function) or bool(
        _equal_pairs(changes, np.zeros_like(changes), 4 * _MISFIT).all()
    )


def _pairs_by_axis(pairs: ComplexRows, width: int, limit: float) -> tuple[Flags, Flags]:
    """Return which pairs repeat after ``width`` rows, and which are constant for as many.

    Each of some rows is compared with another at a pseudorandom distance; most must agree.
    """
    count = pairs.shape[0]
    rows = spread(count, _VOTES)
    by_chance = rows * _SCATTER >> 7
    after = (rows + width * (1 + by_chance % (count // width - 1))) % count
    beside = rows - rows % width + (rows + 1 + by_chance % (width - 1)) % width
    repeats, stays = (_equal_pairs(pairs[rows], pairs[others], limit) for others in (after, beside))
    return repeats, stays


def _equal_pairs(first: ComplexRows, second: ComplexRows, limit: float) -> Flags:
    """Return which pairs are equal in most rows."""
    return np.asarray((np.abs(first - second) <= limit).mean(axis=0) > _MOST)


class _GridRates(Record):
    """Rotation of each pair from place to place along its axis, in radians, and its error.

    Cosines or sines alone do not show the direction, so their rates are positive. ``first`` is each
    pair at the first place, and ``seen`` returns the part of points on the circle that a view
    shows.
    """

    rates: Reals
    errors: Reals
    first: ComplexRows
    seen: Callable[[ComplexRows], NumberArray]


def _measured_rates(view: View, places: _GridPlaces, rounding: float) -> _GridRates:
    """Measure the rotation of each pair from place to place along its axis."""
    strides = [math.prod(places.grid[axis + 1 :]) for axis in range(len(places.grid))]
    rates, errors = np.zeros(view.count), np.full(view.count, np.inf)
    first = _middle(view.pairs[:: -(-view.pairs.shape[0] // _VOTES)], axis=0)  # for constant pairs
    for axis, (side, stride) in enumerate(zip(places.grid, strides, strict=True)):
        own = np.flatnonzero(places.followed == axis)
        number = spread(view.pairs.shape[0] // side, _SLICES)
        starts = number // stride * stride * side + number % stride
        lines = np.arange(side)[:, None] * stride + starts
        of_lines = view.pairs[lines][:, :, own]  # (side, lines, pairs)
        values, where = _middle(of_lines, axis=1), np.arange(side)
        first[own] = values[0]
        if view.function:
            if side < 4 or not are_waves(values.real):
                continue
            rates[own], a, b, _ = free_waves(values.real)
            angles = rates[own] * where[:, None]
            residuals = values.real - a * np.cos(angles) - b * np.sin(angles)
        else:
            turning = fit(where, values)
            rates[own] = turning.frequencies
            residuals = np.angle(values * turning.at(where).conj())
        noise = np.maximum(np.sqrt(np.mean(residuals**2, axis=0)), rounding)
        errors[own] = 4 * noise / ((side - 1) * math.sqrt(max(side, 6) / 6))
        if view.function:  # near the angle 0 a cosine hides its rate
            errors[own] = np.minimum(errors[own] / np.abs(np.sin(rates[own])), np.inf)
    return _GridRates(rates, errors + _SHARE * np.abs(rates), first, view.seen)


def _middle(values: NumberArray, axis: int) -> NumberArray:
    """Return the medians of real and imaginary parts."""
    return np.asarray(median(values.real, axis=axis) + 1j * median(values.imag, axis=axis))


class _GridScheme(Record):
    """A scheme with parameters, and its waves on the grid. Shapes: (pairs,) each.

    ``followed`` is the axis of each wave, and ``steps`` are the increments of its coordinate from
    place to place.
    """

    scheme: Scheme
    given: Mapping[str, Any]
    content: Content
    followed: Integers
    coordinates: Callable[[Integers], Sequence[NumberArray]]
    frequencies: Reals
    steps: Reals
    cost: float = 2.0
    uncertainty: Mapping[str, float] = fresh(dict)

    @property
    def rates(self) -> Reals:
        """Radians from place to place."""
        return self.frequencies * self.steps

    def at(self, rows: Integers) -> Reals:
        """Return the coordinates of places. Shape: (rows, pairs)."""
        axes = [np.asarray(axis, np.float64) for axis in self.coordinates(rows)]
        return np.stack(axes, axis=1)[:, self.followed]

    def changed(self, cost: float, /, **given: Any) -> _GridScheme | None:
        """Return the scheme with other parameters and a higher cost, or None if not allowed."""
        whole = {**self.given, **given}
        other = _bound(self.scheme, tuple(whole.items()), self.frequencies.size)
        return other and replace(other, cost=self.cost + cost, uncertainty=self.uncertainty)


@lru_cache(maxsize=1 << 10)
def _bound(scheme: Scheme, given: tuple[tuple[str, Any], ...], count: int) -> _GridScheme | None:
    """Return the first ``count`` pairs of a scheme of waves on a grid, or None if it is not one.

    Results are cached: each view and each assignment of axes asks for the same again.
    """
    try:
        with scheme.answerable():
            content = scheme.bind(dict(given)).content
            waves = content.waves
            along = None if waves is None else waves.coordinates
            if waves is None or along is None or (at := along.at) is None:
                return None
            if waves.count < count or along.oblique:
                return None
            frequencies = np.asarray(waves.frequencies(np), np.float64)[:count]
    except (PosencError, ArithmeticError):
        return None
    steps = np.asarray(along.step_of_each(), np.float64)[:count]
    return _GridScheme(
        scheme, dict(given), content, np.asarray(along.axes)[:count], at, frequencies, steps
    )


def _hypotheses_on_grid(
    view: View, evidence: Evidence, places: _GridPlaces, rounding: float
) -> Iterator[Hypothesis]:
    """Yield schemes that fit a view on a grid, as hypotheses."""
    measured, limit = _measured_rates(view, places, rounding), _MISFIT + 2 * rounding
    if len(places.grid) == 1 and not np.isfinite(measured.errors).any():
        return  # no column is a wave
    width = evidence.shape[1]
    for plain, of_axes in _schemes(view, width, places):
        for own in _fitted_schemes(plain, of_axes, measured, view, limit):
            if view.kind != "rotary" and not reads_columns(view, own.content, width):
                break
            yield Hypothesis(
                own.scheme.name,
                own.given,
                view.tables,
                evidence.rows,
                cost=own.cost,
                hidden=("layout",)
                if view.layout is None and "layout" in own.scheme.parameters
                else (),
                uncertainty=own.uncertainty,
            )


def _schemes(
    view: View, width: int, places: _GridPlaces
) -> Iterator[tuple[_GridScheme, _GridPlaces]]:
    """Yield schemes whose pairs follow the same axes as a view's, with every choice of options."""
    for scheme in known_schemes():
        named = {"grid", "dim"} <= {*scheme.parameters}
        if scheme.kind != _KINDS[view.kind] or not named or "seed" in scheme.parameters:
            continue
        dim = 2 * view.count if view.kind == "rotary" else width
        for choices in _option_choices(scheme):
            cost = _OPTION * sum(scheme.parameters[name].default is None for name in choices)
            for count in range(len(places.grid), _MOST_AXES + 1):
                for with_ones in places.with_axes(count):
                    given = {**choices, "dim": dim, "grid": as_text(with_ones.grid, separator="x")}
                    plain = _bound(scheme, tuple(given.items()), view.count)
                    if plain is None:
                        break  # it has a different number of axes
                    found = _with_followed_axes(plain, with_ones, view)
                    if found is not None:
                        yield replace(found, cost=found.cost + cost), with_ones


def _option_choices(scheme: Scheme) -> Iterator[dict[str, Any]]:
    """Yield every choice of words and flags of a scheme, without those at their defaults."""
    values = {
        name: dict.fromkeys((parameter.default, *(parameter.choices or (False, True))))
        for name, parameter in scheme.parameters.items()
        if (parameter.choices or parameter.type is bool) and name != "layout"
    }
    for combination in itertools.islice(itertools.product(*values.values()), _MOST_CHOICES):
        chosen = zip(values, combination, strict=True)
        yield {name: v for name, v in chosen if v != scheme.parameters[name].default}


def _with_followed_axes(plain: _GridScheme, places: _GridPlaces, view: View) -> _GridScheme | None:
    """Return a scheme whose pairs follow the axes seen, with its own or these sections, or None."""
    ways: list[_GridScheme | None] = [plain]
    if "sections" in plain.scheme.parameters and (shares := _sections(places)):
        ways.append(plain.changed(_SECTIONS, sections=shares))
    moving = places.followed >= 0
    following = (w for w in ways if w and (w.followed == places.followed)[moving].all())
    found = next(following, None)
    if found is None or view.layout is None:
        return found
    own = cast("Rotation", found.content).layout
    return found if own == view.layout else found.changed(_OPTION, layout=view.layout)


def _sections(places: _GridPlaces) -> tuple[int, ...] | None:
    """Return how many pairs each axis has, found from the first pair that follows it."""
    starts, after = [], 0
    for axis in range(len(places.grid)):
        own = np.flatnonzero(places.followed == axis)
        starts.append(int(own[0]) if own.size and axis else after)
        after = starts[-1] + 1
    shares = np.diff([*starts, places.followed.size])
    return tuple(shares.tolist()) if starts[0] == 0 and (shares > 0).all() else None


def _fitted_schemes(
    plain: _GridScheme, places: _GridPlaces, measured: _GridRates, view: View, limit: float
) -> Iterator[_GridScheme]:
    """Yield a scheme with base, scale and origin that fit a view, until a base fits tightly."""
    bases = (_with_base_per_axis, _with_bases) if "base" in plain.scheme.parameters else ()
    tight = False
    for based in itertools.chain((plain,), *(based(plain, measured) for based in bases)):
        for spaced in (based, *_with_scales(based, places, measured)):
            for shifted in (spaced, *_with_origins(spaced, places, measured)):
                if _fits(view, shifted, limit):
                    yield shifted
                    tight = tight or _fits(view, shifted, limit - _MISFIT + _TIGHT)
        if tight:
            return


def _known_rates(bound: _GridScheme, measured: _GridRates) -> tuple[Flags, Reals]:
    """Return which rates are known and below half a rotation, and ln(rate / the scheme's rate).

    Along each axis these are the lowest-frequency pairs, as long as rates rise with the scheme's.
    """
    known = (np.abs(measured.rates) > 4 * measured.errors) & (bound.rates > 0)
    ratios = np.log(np.abs(measured.rates) / bound.rates)
    for axis in set(bound.followed.tolist()):
        own = np.flatnonzero(known & (bound.followed == axis))
        own = own[np.argsort(bound.rates[own], kind="stable")]
        rates = measured.rates[own]  # below 0 past half a turn
        wrong = (rates > _FASTEST) | (np.diff(rates, prepend=0) < 0)
        known[own[int(np.argmax(wrong)) :] if wrong.any() else own[:0]] = False
    return known, ratios


def _with_bases(plain: _GridScheme, measured: _GridRates) -> Iterator[_GridScheme]:
    """Yield a scheme with the bases that the rates show, or all common ones if they show none."""
    # A convention without a default base can be solved from any.
    base = plain.scheme.bind(plain.given).params["base"] or KNOWN_BASES[0]
    number, error = _solved_base(plain, base, measured) or (0.0, 0.0)
    numbers = [(b, _BASE, 0.0) for b in _PIXEL_BASES.get(str(plain.given.get("convention")), ())]
    if math.isinf(error):
        numbers += [(known, _BASE, 0.0) for known in KNOWN_BASES]
    elif number:
        near = [b for b in KNOWN_BASES if abs(b - number) <= 2 * error + 1e-4 * number]
        written = written_numbers(number, SURE * error, tries=0.1)
        numbers += [(b, _BASE, 0.0) for b in near]
        numbers += [(b, _BASE + 0.01 * digits, 0.0) for b, digits in written if b not in near]
        numbers.append((snap(number, error / SPARE), _FIT, error))
    for number, cost, error in numbers:
        if number > 1 and (found := plain.changed(cost, base=number)) is not None:
            yield replace(found, uncertainty={"base": error} if error else {})


def _with_base_per_axis(plain: _GridScheme, measured: _GridRates) -> Iterator[_GridScheme]:
    """Yield a scheme whose axes have different bases, as in Cosmos, in the fewest digits."""
    unscaled = plain.changed(_SCALE, rope_scale=(1.0,))
    if unscaled is None:
        return
    solved = []
    for axis in range(int(plain.followed.max()) + 1):
        own = plain.followed == axis
        of_axis = replace(measured, errors=np.where(own, measured.errors, np.inf))
        number, error = _solved_base(unscaled, KNOWN_BASES[0], of_axis) or (math.nan, 0.0)
        solved.append((number, SURE * error / number, 1 - 1 / np.count_nonzero(own)))
    found = []
    for base in KNOWN_BASES:
        scales = [
            (1.0, 1) if math.isinf(error) else _written_number((number / base) ** power, error)
            for number, error, power in solved
        ]
        given = {"base": base, "rope_scale": tuple(scale for scale, _ in scales)}
        found.append((sum(digits for _, digits in scales), given))
    digits, given = min(found, key=lambda choice: choice[0])
    if digits < math.inf and (changed := unscaled.changed(0, **given)) is not None:
        yield changed


def _written_number(value: float, error: float) -> tuple[float, int | float]:
    """Return the number that people write within a relative error of a value, and its digits.

    There are infinitely many if nobody writes one.
    """
    return next(written_numbers(value, value * error), (value, math.inf))


def _solved_base(
    plain: _GridScheme, base: float, measured: _GridRates, tries: int = _NEWTON
) -> tuple[float, float] | None:
    """Return the base whose rates along each axis are one multiple of a scheme's, and its error.

    The error is infinite if the rates show no base. None if they follow another rule. Logarithms of
    rates are linear in ln base, so the scheme at two bases gives the solution; those of
    lucidrains-pixel are not, and take more steps.
    """
    own, beside = (plain.changed(0, base=b) for b in (base, base * math.e))
    if own is None or beside is None:
        return None
    known, gaps = _known_rates(own, measured)
    slopes = np.log(beside.frequencies / own.frequencies)
    weights = np.where(known, measured.rates / measured.errors, 0) ** 2
    gaps, slopes = np.where(known, gaps, 0), np.where(known, slopes, 0)
    for axis in set(own.followed.tolist()):
        of_axis = own.followed == axis
        total = float(weights[of_axis].sum())
        for values in (gaps, slopes) if total else ():
            values[of_axis] -= weights[of_axis] @ values[of_axis] / total
    power = float(weights @ slopes**2)
    if power <= DOUBLE * float(weights.sum()):  # no axis shows two rates
        return base, math.inf
    step = float(weights @ (slopes * gaps)) / power
    residuals = np.abs(gaps - step * slopes) * np.sqrt(weights)
    if not 0 < math.log(base) + step < STEEPEST:
        return None
    solved = base * math.exp(step)
    if tries and abs(step) > _MOVED:
        return _solved_base(plain, solved, measured, tries - 1)
    if residuals.max() > _LADDER:
        return None
    error, count = 1 / math.sqrt(power), np.count_nonzero(weights)
    if count >= MANY:  # enough rates to measure their scatter
        error *= SURE * math.sqrt(float(residuals @ residuals) / (count - 1))
    return solved, solved * (error + DOUBLE)


def _with_scales(
    bound: _GridScheme, places: _GridPlaces, measured: _GridRates
) -> Iterator[_GridScheme]:
    """Yield a scheme with coordinates scaled along each axis to give the measured rates."""
    grown = _measured_growth(bound, places, measured)
    if grown is None:
        return
    shares, errors = grown
    crops = _cropped_sides(bound, places, shares, measured)
    for given in itertools.chain(_scale_parameters(places, shares, errors), crops):
        if (found := bound.changed(_SCALE, **given)) is not None:
            yield found
    longer = errors > 0
    error, share = min(zip(errors[longer].tolist(), shares[longer].tolist(), strict=True))
    if (np.abs(shares / share - 1) <= errors + error)[longer].all():
        for scale in (snap(1 / share, error / share), 1 / share):
            found = bound.changed(_SCALE + _FIT, interpolation_scale=scale)
            if found is not None:
                uncertainty = {**found.uncertainty, "interpolation_scale": error / share}
                yield replace(found, uncertainty=uncertainty)


def _measured_growth(
    bound: _GridScheme, places: _GridPlaces, measured: _GridRates
) -> tuple[Reals, Reals] | None:
    """Return the growth of coordinates along each axis in units of the scheme's, and its error.

    None if rates follow another rule, or equal the scheme's.
    """
    known, ratios = _known_rates(bound, measured)
    if np.bincount(bound.followed[known]).max(initial=0) < _MOVING:
        return None  # some scale gives any single rate
    shares, errors = np.ones(len(places.grid)), np.zeros(len(places.grid))
    for axis, side in enumerate(places.grid):
        own = known & (bound.followed == axis)
        if own.any():
            weights = (measured.rates[own] / measured.errors[own]) ** 2
            mean = float(weights @ ratios[own]) / float(weights.sum())
            if (np.abs(ratios[own] - mean) * np.sqrt(weights) > _LADDER).any():
                return None
            shares[axis], errors[axis] = math.exp(mean), SURE / math.sqrt(float(weights.sum()))
        elif side > 1:
            return None
    return None if (np.abs(shares - 1) <= errors).all() else (shares, errors)


def _scale_parameters(
    places: _GridPlaces, shares: Reals, errors: Reals
) -> Iterator[dict[str, Any]]:
    """Yield parameters with which coordinates grow by ``shares`` of 1 from place to place."""
    sides = shares * np.array(places.grid)
    # DINOv3 divides by the sides of its base, and others multiply by them.
    ways = [(sides, 1), (np.array(places.grid) / shares, 1)]
    ways += [(whole * sides, whole) for whole in range(2, _WHOLE_SCALES)]
    for exact, whole in ways:
        base = np.round(exact)
        if (np.abs(exact - base) <= errors * exact).all():
            given = {"base_size": tuple(base.astype(int).tolist())}
            yield given if whole == 1 else {**given, "interpolation_scale": (whole,)}
            if whole > 1:
                break  # larger ones give the same coordinates
    numbers = map(_written_number, (1 / shares).tolist(), errors.tolist())
    scales, digits = zip(*numbers, strict=True)
    if max(digits) <= _FEW_DIGITS:
        yield {"interpolation_scale": scales[:1] if len({*scales}) == 1 else scales}


def _cropped_sides(
    bound: _GridScheme, places: _GridPlaces, shares: Reals, measured: _GridRates
) -> Iterator[dict[str, Any]]:
    """Yield base sizes whose crop spreads rows and columns like this; it spans one whole side."""
    if len(places.grid) != _AXES_OF_VIDEO:
        return
    ways = []
    first = _first_places(bound, places, measured)
    for start, share, side in zip(first[1:], shares[1:], places.grid[1:], strict=True):
        end = (start + share * (side - 1)) * side / max(side - 1, 1)
        whole = round(end - start) + 2 * round(start)  # as much is cut off at the end, or one more
        ways.append([whole + more for more in (0, 1, -1) if whole + more > 0])
    yield from ({"base_size": sides} for sides in itertools.product(*ways))


def _first_places(bound: _GridScheme, places: _GridPlaces, measured: _GridRates) -> Reals:
    """Return the coordinate of the first place along each axis: the integer its phases give."""
    first = np.zeros(len(places.grid))
    # Of equal sizes, the positive one is first.
    tried = np.array(sorted(range(_FARTHEST, -_FARTHEST - 1, -1), key=abs))
    for axis in set(bound.followed.tolist()):
        own = np.flatnonzero(bound.followed == axis)
        own = own[:: max(1, own.size // _TOLD)]
        points = measured.seen(np.exp(1j * np.multiply.outer(tried, bound.frequencies[own])))
        distance = np.abs(points - measured.first[own])  # (tried, pairs)
        first[axis] = tried[int(np.argmin(distance.mean(axis=1).round(3)))]
    return first


def _with_origins(
    bound: _GridScheme, places: _GridPlaces, measured: _GridRates
) -> Iterator[_GridScheme]:
    """Yield a scheme with the origin that the phases of the first place give."""
    distance = np.abs(
        measured.seen(np.exp(1j * bound.rates)) - measured.seen(np.exp(1j * measured.rates))
    )
    distance = np.where((places.followed >= 0) & np.isfinite(measured.errors), distance, 0)
    first = measured.seen(np.exp(1j * bound.at(np.zeros(1, np.int64))[0] * bound.frequencies))
    elsewhere = np.abs(first - measured.first) > _MISFIT
    if elsewhere.any() and (distance <= _LADDER * measured.errors + _MISFIT).all():
        first = _first_places(bound, places, measured).astype(int).tolist()
        # A cosine at one place does not show the sign of the coordinate.
        for origin in dict.fromkeys(itertools.product(*((side, -side) for side in first))):
            if (found := bound.changed(_ORIGIN, origin=origin)) is not None:
                yield found


def _fits(view: View, bound: _GridScheme, limit: float) -> bool:
    """Return whether all pairs are within a limit of the hypothesis in the median row."""
    rows = spread(view.pairs.shape[0], 40)
    points = np.exp(1j * bound.at(rows) * bound.frequencies)  # (rows, pairs)
    distance = np.abs(view.seen(points) - view.pairs[rows])
    return bool(median(distance, axis=0).max() <= limit)


_LIMIT = 1e-5
"""Error on the unit circle that entries of float32 code have on a grid; few other numbers do."""
_DRAWN = 2.6
"""Cost of a drawn direction. A list of frequencies explains more, and costs as much as LongRoPE's.
"""


def _mixed_hypotheses(view: View, evidence: Evidence, rounding: float) -> Iterator[Hypothesis]:
    """Yield RoPE-Mixed with the frequencies that posenc draws, on each grid with as many places.

    The first pair of either half has magnitude 1, and shows the seed at the places right of and
    below the first. The other pairs show the base.
    """
    count, half = view.pairs.shape[0], view.count // 2
    if half < 2 or view.count % 2:
        return
    limit = _LIMIT + 4 * rounding
    leading = np.array([0, half])
    shown = {} if view.layout is None else {"layout": view.layout}
    for seed in range(SEEDS):
        angle = 2 * math.pi * float(uniform(seed, 0))
        cos, sin = math.cos(angle), math.sin(angle)
        right, below = (
            view.seen(np.exp(1j * np.array(rates))) for rates in ((cos, -sin), (sin, cos))
        )
        if np.abs(view.pairs[1, leading] - right).max() > limit:
            continue
        distance = np.abs(view.pairs[:, leading] - below).max(axis=1)  # (places,)
        widths = [w for w in range(2, count // 2 + 1) if count % w == 0 and distance[w] <= limit]
        for width, base in itertools.product(widths, _drawn_bases(view, cos, limit)):
            grid = {"dim": 2 * view.count, "base": base, "grid": (count // width, width)}
            yield Hypothesis(
                rope_mixed.name,
                {**grid, **shown, "seed": seed},
                view.tables,
                evidence.rows,
                cost=_DRAWN,
                hidden=() if shown else ("layout",),
            )


def _drawn_bases(view: View, cos: float, limit: float) -> list[float]:
    """Return the bases that fit the angles of the first half's pairs at the second place."""
    cells = view.pairs[1, 1 : view.count // 2]
    own = np.clip(cells.real, -1, 1)
    other = np.sqrt(1 - own**2)  # the function that a view of only cosines or sines lacks
    points = {"cos": own + 1j * other, "sin": other + 1j * own}.get(view.function, cells)
    steep = other if view.function else np.ones(cells.size)
    return bases_of_pairs(np.abs(np.angle(points) / cos), limit / np.abs(steep * cos))


def parts_of_rows(evidence: Evidence) -> Iterator[Evidence]:
    """Yield the rows without those of tokens that are not on a grid: zeros, or unrotated.

    Flux has the rows of its text before an image, and Llama 4 that of a class token after it.
    """
    if evidence.blank_rows == (0,):
        arrays = tuple(array[1:] for array in evidence.arrays)
        yield replace(evidence, arrays=arrays, skipped=evidence.skipped + 1)
    ways = ((1, 1, "after"), (-1, 0, "before")) if evidence.count <= MOST_PLACES else ()
    for step, own, side in ways:  # the first place of a grid is unrotated, too
        ends = [array[::step] for array in evidence.arrays]
        still = [(end == end[0]).all(axis=1) & np.isin(end[0], (0, 1)).all() for end in ends]
        if len(ends) == 2 and ends[0][0, 0] == ends[1][0, 0]:
            continue  # cosines are 1, sines 0
        count = int(np.argmin(np.all(still, axis=0))) - own
        if count > 0:
            yield replace(
                evidence,
                arrays=tuple(end[count:][::step] for end in ends),
                skipped=evidence.skipped + count * own,
                forms=(*evidence.forms, f"{side} {count} unrotated row{'s' * (count > 1)}"),
            )
