"""Hypotheses of waves on the axes of a grid.

A pair that follows the columns of a grid repeats after each row of it; one that follows the rows
stays as it is along a row. Where every pair does one or the other, the width of the grid is known,
and how far each pair rotates from place to place. A scheme then says which pairs follow which axis;
its base, how coordinates are scaled and where they begin are solved for. Pairs that follow both
axes at once are RoPE-Mixed's, as posenc draws its frequencies.
Imports NumPy: import it only where something is computed.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.errors import PosencError
from posenc_cli.formulas.draws import uniform
from posenc_cli.formulas.inverse import (
    DOUBLE,
    KNOWN_BASES,
    MANY,
    SPARE,
    SURE,
    digit_count,
    snap,
    written_numbers,
)
from posenc_cli.formulas.mixed import rope_mixed
from posenc_cli.formulas.parameters import as_text
from posenc_cli.identification.readings import (
    bare_views,
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
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from posenc_cli.formulas.declare import Content, Scheme
    from posenc_cli.identification.readings import View
    from posenc_cli.inference.evidence import Evidence
    from posenc_cli.numerics.arrays import ComplexRows, Flags, Integers, NumberArray, Reals


_KINDS = {"rotary": "rotary", "sinusoidal": "absolute"}
"""The kind of scheme that a way to read an array is of."""
_MOST_CHOICES = 64
"""Of a scheme: each is bound, which takes about a millisecond."""
_MOST_AXES = 4
"""Of a grid, those of one place too."""
_TIGHT = 1e-4
"""On the unit circle: what float32 code leaves on a grid, and few other numbers do."""
_MISFIT = 0.02
"""On the unit circle: judgement, other bases and conventions miss by far more."""
MOST_PLACES = 1 << 16
"""Of a grid: all are looked at."""
_MOST_CELLS = 1 << 24
"""Of all places: held as complex numbers they take 256 MiB."""
_FEW = 64
"""Rows that are looked at before all: no waves among them, none in the whole."""
_MOVING = 2
"""Pairs at least that are not the same everywhere: of one any base and axis could be."""
_NOT_PAIRED = ("cos", "sin", "cos-full", "sin-full", UNREDUCED, UNREDUCED_FULL)
"""Tables that no other way reads: along one line they are looked at here as well."""
_VOTES = 256
"""Rows that say which axis a pair follows."""
_SCATTER = 2_654_435_761
"""Times a row: numbers that follow no pattern."""
_MOST = 0.8
"""Of the rows, in which a grid must be seen: low precision hides it in some."""
_SLICES = 5
"""Lines along an axis, of which the median counts, so that a damaged one does not."""
_FASTEST = 2.0
"""Radians from place to place: a pair that rotates faster may have rotated the other way."""
_STEPS, _BESIDE, _SETTLED = 8, 1e-6, 1e-13
"""Of Newton's method, of a parameter: how far the next value is tried, and the last step."""
_SHARE = 2e-6
"""Of a rate: what the frequencies of float32 code are off by."""
_OWN, _BASE, _SECTIONS, _SCALE, _ORIGIN, _FIT = 0.1, 0.2, 0.3, 0.4, 0.4, 1.0
"""What it costs that a word, a base, shares, a scale, an origin is not the usual, that a number is
fitted: a grid is rarer than one axis, and each of these rarer still."""
_AXES_OF_VIDEO = 3
"""Frames, rows and columns."""
_USUAL_SIDE = 16
"""Places along each side that diffusers spreads others over, unless it is told."""
_WHOLE_SCALES = 17
"""Scales that base sides may be divided by: others give the same places."""
_FEW_DIGITS = 6
"""Of a scale that somebody wrote."""
_FARTHEST, _TOLD = 1 << 10, 8
"""Places from 0 that counting may begin at, and pairs that say where it does."""
_LADDER = 10.0
"""Times their errors: rates that miss a scheme's by more follow another rule."""


def grid_hypotheses(evidence: Evidence) -> Iterator[Hypothesis]:
    """What a matrix, or two, may be as waves on a grid: the sample shows too few of its rows."""
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
        if view.pairs.shape[0] == evidence.count and view.growth is None:
            seen = list(_grids(view, 3e-5 + 4 * rounding))
            for places in seen:
                found = _on_grid(view, evidence, places, rounding)
                yield from sorted(found, key=lambda hypothesis: hypothesis.cost)
            if view.kind == "rotary" and all(len(places.grid) == 1 for places in seen):
                yield from _mixed_hypotheses(view, evidence, rounding)


class _GridPlaces(Record):
    """A grid, and the axis that each pair follows: -1 of one that is the same everywhere."""

    grid: tuple[int, ...]
    followed: Integers

    def with_axes(self, count: int) -> Iterator[_GridPlaces]:
        """The grid with axes of one place between its own, ``count`` in all."""
        for kept in itertools.combinations(range(count), len(self.grid)):
            sides = [1] * count
            for axis, side in zip(kept, self.grid, strict=True):
                sides[axis] = side
            numbers = np.array([*kept, -1])
            yield _GridPlaces(tuple(sides), numbers[self.followed])


def _grids(view: View, limit: float) -> Iterator[_GridPlaces]:
    """The grids whose axes the pairs follow; where none has two, the line of all rows."""
    pairs, found = view.pairs, False
    count = pairs.shape[0]
    few = pairs[:, spread(view.count, _TOLD)]
    for width in (w for w in range(2, count // 2 + 1) if count % w == 0):
        along, across = _axes(few, width, limit)
        if not (along | across).all():
            continue
        along, across = _axes(pairs, width, limit)
        if not ((along | across).all() and (along & ~across).any() and (across & ~along).any()):
            continue
        found = True
        high = count // width
        followed = np.where(along, np.where(across, -1, 1), 0)
        yield _GridPlaces((high, width), followed)
        slower = np.flatnonzero(followed == 0)
        outer = pairs[::width][:, slower]
        for height in (h for h in range(2, high // 2 + 1) if high % h == 0):
            inner, beyond = _axes(outer, height, limit)
            if (inner | beyond).all() and (beyond & ~inner).any() and (inner & ~beyond).any():
                of_three = np.where(followed == 1, 2, -1)
                of_three[slower] = np.where(inner, np.where(beyond, -1, 1), 0)
                yield _GridPlaces((high // height, height, width), of_three)
    if not found:
        still = _alike(pairs[1:], pairs[:-1], limit)
        moving = still.size - int(still.sum())
        bare = view.tables[0] in _NOT_PAIRED and _is_line_of_waves(view)
        if moving >= _MOVING and (moving < still.size or bare):
            yield _GridPlaces((count,), np.where(still, -1, 0))


def _is_line_of_waves(view: View) -> bool:
    """Whether pairs rotate by the same angle between most rows; bare ones do not show it."""
    rows = spread(view.pairs.shape[0] - 2, _VOTES)
    before, here, after = (view.pairs[rows + step] for step in range(3))
    turned = here * here - before * after
    return bool(view.function) or bool(_alike(turned, np.zeros_like(turned), 4 * _MISFIT).all())


def _axes(pairs: ComplexRows, width: int, limit: float) -> tuple[Flags, Flags]:
    """Which pairs repeat after ``width`` rows, and which stay the same for as many.

    Most of some rows say so, each beside another that is any distance away.
    """
    count = pairs.shape[0]
    rows = spread(count, _VOTES)
    by_chance = rows * _SCATTER >> 7
    after = (rows + width * (1 + by_chance % (count // width - 1))) % count
    beside = rows - rows % width + (rows + 1 + by_chance % (width - 1)) % width
    repeats, stays = (_alike(pairs[rows], pairs[others], limit) for others in (after, beside))
    return repeats, stays


def _alike(first: ComplexRows, second: ComplexRows, limit: float) -> Flags:
    """Which pairs are the same in most rows."""
    return np.asarray((np.abs(first - second) <= limit).mean(axis=0) > _MOST)


class _GridRates(Record):
    """How far each pair rotates from place to place along its axis, and what that may be off by.

    Units: radians; of cosines or sines alone, which do not show the direction, their size.
    ``first`` is each pair at the first place, and ``seen`` gives what a view shows of points on the
    circle.
    """

    rates: Reals
    errors: Reals
    first: ComplexRows
    seen: Callable[[ComplexRows], NumberArray]


def _turns_of(view: View, places: _GridPlaces, rounding: float) -> _GridRates:
    strides = [math.prod(places.grid[axis + 1 :]) for axis in range(len(places.grid))]
    rates, errors = np.zeros(view.count), np.full(view.count, np.inf)
    first = _middle(view.pairs[:: -(-view.pairs.shape[0] // _VOTES)], axis=0)  # of those that stay
    for axis, (side, stride) in enumerate(zip(places.grid, strides, strict=True)):
        own = np.flatnonzero(places.followed == axis)
        if not own.size:
            continue
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
            left = values.real - a * np.cos(rates[own] * where[:, None])
            left -= b * np.sin(rates[own] * where[:, None])
        else:
            turning = fit(where, values)
            rates[own] = turning.frequencies
            left = np.angle(values * turning.at(where).conj())
        noise = np.maximum(np.sqrt(np.mean(left**2, axis=0)), rounding)
        errors[own] = 4 * noise / ((side - 1) * math.sqrt(max(side, 6) / 6))
        if view.function:  # near a standstill a cosine hides its rate
            errors[own] = np.minimum(errors[own] / np.abs(np.sin(rates[own])), np.inf)
    return _GridRates(rates, errors + _SHARE * np.abs(rates), first, view.seen)


def _middle(values: NumberArray, axis: int) -> NumberArray:
    """The medians of real and imaginary parts."""
    return np.asarray(median(values.real, axis=axis) + 1j * median(values.imag, axis=axis))


class _GridScheme(Record):
    """A scheme with parameters, and what its waves are on the grid. Shapes: (pairs,) each.

    ``followed`` is the axis that each follows, and ``steps`` are what its coordinates grow by from
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
        """The coordinates of places. Shape: (rows, pairs)."""
        axes = [np.asarray(axis, np.float64) for axis in self.coordinates(rows)]
        return np.stack(axes, axis=1)[:, self.followed]

    def changed(self, cost: float, /, **given: Any) -> _GridScheme | None:
        """The same with other parameters, which cost so much more; None where it cannot be so."""
        other = _bound(self.scheme, {**self.given, **given}, self.frequencies.size)
        return other and replace(other, cost=self.cost + cost, uncertainty=self.uncertainty)


def _bound(scheme: Scheme, given: Mapping[str, Any], count: int) -> _GridScheme | None:
    """A scheme of waves on a grid, its first ``count`` pairs; None where it is none.

    It is kept: each view, and each way to follow the axes, asks for the same again.
    """
    found = _kept(scheme, tuple(given.items()), count)
    return found and replace(found, given=given)


@lru_cache(maxsize=1 << 10)
def _kept(scheme: Scheme, given: tuple[tuple[str, Any], ...], count: int) -> _GridScheme | None:
    try:
        with scheme.answerable(), np.errstate(all="ignore"):
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


def _on_grid(
    view: View, evidence: Evidence, places: _GridPlaces, rounding: float
) -> Iterator[Hypothesis]:
    turns, limit = _turns_of(view, places, rounding), _MISFIT + 2 * rounding
    if len(places.grid) == 1 and not np.isfinite(turns.errors).any():
        return  # no column is a wave
    width = evidence.shape[1]
    for plain, of_axes in _schemes(view, width, places):
        for own in _settled(plain, of_axes, turns, view, limit):
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
    """Schemes whose pairs follow the axes that a view's do, with the words and flags they have."""
    for scheme in known_schemes():
        named = {"grid", "dim"} <= {*scheme.parameters}
        if scheme.kind != _KINDS[view.kind] or not named or "seed" in scheme.parameters:
            continue
        dim = 2 * view.count if view.kind == "rotary" else width
        for choices in _choices(scheme):
            cost = _OWN * sum(scheme.parameters[name].default is None for name in choices)
            for count in range(len(places.grid), _MOST_AXES + 1):
                for with_ones in places.with_axes(count):
                    given = {**choices, "dim": dim, "grid": as_text(with_ones.grid, separator="x")}
                    plain = _bound(scheme, given, view.count)
                    if plain is None:
                        break  # it has another number of axes
                    found = _following(plain, with_ones, view)
                    if found is not None:
                        yield replace(found, cost=found.cost + cost), with_ones


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


def _following(plain: _GridScheme, places: _GridPlaces, view: View) -> _GridScheme | None:
    """A scheme whose pairs follow the axes that are seen, in shares of its own or in these."""
    found = plain
    if not _follow(plain, places):
        shares = _sections(places) if "sections" in plain.scheme.parameters else None
        shared = plain.changed(_SECTIONS, sections=shares) if shares else None
        if shared is None or not _follow(shared, places):
            return None
        found = shared
    blocks = getattr(found.content, "blocks", 1)
    if view.kind == "rotary" and view.layout is not None:
        if view.parts != blocks and view.layout != "interleaved":
            return None
        if found.content.layout != view.layout:  # type: ignore[union-attr]
            return found.changed(_OWN, layout=view.layout)
    return found


def _follow(bound: _GridScheme, places: _GridPlaces) -> bool:
    """Whether pairs follow the axes of a scheme, those apart that are the same everywhere."""
    moving = places.followed >= 0
    return bool((bound.followed == places.followed)[moving].all())


def _sections(places: _GridPlaces) -> tuple[int, ...] | None:
    """How many pairs each axis has, as far as axes that move say where theirs begin."""
    starts, after = [], 0
    for axis in range(len(places.grid)):
        own = np.flatnonzero(places.followed == axis)
        starts.append(int(own[0]) if own.size and axis else after)
        after = starts[-1] + 1
    shares = np.diff([*starts, places.followed.size])
    return tuple(shares.tolist()) if starts[0] == 0 and (shares > 0).all() else None


def _settled(
    plain: _GridScheme, places: _GridPlaces, turns: _GridRates, view: View, limit: float
) -> Iterator[_GridScheme]:
    """A scheme with base, scale and origin that give the pairs of a view, up to the first tight."""
    bases = _bases(plain, turns) if "base" in plain.scheme.parameters else iter(())
    for based in itertools.chain((plain,), bases):
        for spaced in (based, *_spread(based, places, turns)):
            for begun in (spaced, *_begun(spaced, places, turns)):
                if _fits(view, begun, limit):
                    yield begun
                    if _fits(view, begun, limit - _MISFIT + _TIGHT):
                        return


def _known(bound: _GridScheme, turns: _GridRates) -> tuple[Flags, Reals]:
    """Which rates are known, none of them past a half turn; and what they are of a scheme's, as ln.

    From the lowest-frequency pair of each axis on, as far as rates rise with a scheme's.
    """
    with np.errstate(all="ignore"):
        known = (np.abs(turns.rates) > 4 * turns.errors) & (bound.rates > 0)
        ratios = np.log(np.abs(turns.rates) / bound.rates)
    for axis in set(bound.followed.tolist()):
        own = np.flatnonzero(known & (bound.followed == axis))
        own = own[np.argsort(bound.rates[own], kind="stable")]
        rates = np.abs(turns.rates[own])
        wrong = (rates > _FASTEST) | (np.diff(rates, prepend=0) < 0)
        known[own[int(np.argmax(wrong)) :] if wrong.any() else own[:0]] = False
    return known, ratios


def _bases(plain: _GridScheme, turns: _GridRates) -> Iterator[_GridScheme]:
    """A scheme with other bases: those that the rates show, or where they show none all usual."""
    base = plain.given.get("base", plain.scheme.bind(plain.given).params["base"])
    # A convention without a base of its own may be solved from any.
    solved = _solved_base(plain, float(base or KNOWN_BASES[0]), turns)
    if solved is None:
        return
    if math.isinf(solved[1]):
        numbers = [(known, _BASE, 0.0) for known in KNOWN_BASES]
    else:
        number, error = solved
        near = [b for b in KNOWN_BASES if abs(b - number) <= 2 * error + 1e-4 * number]
        written = written_numbers(number, error, tries=0.1)
        numbers = [(b, _BASE, 0.0) for b in near]
        numbers += [(b, _BASE + 0.01 * digits, 0.0) for b, digits in written if b not in near]
        numbers.append((snap(number, error / SPARE), _FIT, error))
    for number, cost, error in numbers:
        if number > 1 and (found := plain.changed(cost, base=number)) is not None:
            yield replace(found, uncertainty={"base": error} if error else {})


def _solved_base(plain: _GridScheme, base: float, turns: _GridRates) -> tuple[float, float] | None:
    """The base with which the rates along each axis are all the same multiple of a scheme's.

    And what it may be off by: infinity where they show none. None where they follow another rule.
    Newton's method in ln base.
    """
    error = math.inf
    for _ in range(_STEPS):
        own, beside = (plain.changed(0, base=b) for b in (base, base * (1 + _BESIDE)))
        if own is None or beside is None:
            return None
        known, missed = _known(own, turns)
        with np.errstate(all="ignore"):
            slopes = np.log(beside.frequencies / own.frequencies) / math.log1p(_BESIDE)
            weights = np.where(known, turns.rates / turns.errors, 0) ** 2
        missed, slopes = np.where(known, missed, 0), np.where(known, slopes, 0)
        for axis in set(own.followed.tolist()):
            of_axis = own.followed == axis
            total = float(weights[of_axis].sum())
            for values in (missed, slopes) if total else ():
                values[of_axis] -= weights[of_axis] @ values[of_axis] / total
        power = float(weights @ slopes**2)
        if power <= 0:
            return base, math.inf
        step = float(weights @ (slopes * missed)) / power
        base *= math.exp(min(max(step, -3.0), 3.0))
        error = 1 / math.sqrt(power)
        if not 1 < base < 1e30:
            return None
        if abs(step) <= _SETTLED:
            break
    left = np.abs(missed - step * slopes) * np.sqrt(weights)
    if abs(step) > error or left.max() > _LADDER:
        return None
    count = np.count_nonzero(weights)
    if count >= MANY:  # these show themselves how far they scatter
        error *= SURE * math.sqrt(float(left @ left) / (count - 1))
    return base, base * (error + DOUBLE)


def _spread(bound: _GridScheme, places: _GridPlaces, turns: _GridRates) -> Iterator[_GridScheme]:
    """A scheme whose coordinates are scaled along each axis, so that rates are those measured."""
    names = {"base_size", "interpolation_scale"} & {*bound.scheme.parameters}
    if not names:
        return
    grown = _growth(bound, places, turns)
    if grown is None:
        return
    shares, errors = grown
    crops = _crops(bound, places, shares, turns) if len(shares) == _AXES_OF_VIDEO else ()
    cropped = ({"base_size": _sides_text(sides)} for sides in crops)
    for given in itertools.chain(_scales(places, shares, errors, names), cropped):
        if (found := bound.changed(_SCALE, **given)) is not None:
            yield found


def _growth(
    bound: _GridScheme, places: _GridPlaces, turns: _GridRates
) -> tuple[Reals, Reals] | None:
    """By how many times a scheme's steps coordinates grow along each axis, and the errors of that.

    None where rates follow another rule, or are a scheme's own.
    """
    known, ratios = _known(bound, turns)
    shares, errors = np.ones(len(places.grid)), np.zeros(len(places.grid))
    for axis, side in enumerate(places.grid):
        own = known & (bound.followed == axis)
        if own.any():
            weights = (turns.rates[own] / turns.errors[own]) ** 2
            mean = float(weights @ ratios[own]) / float(weights.sum())
            if (np.abs(ratios[own] - mean) * np.sqrt(weights) > _LADDER).any():
                return None
            shares[axis], errors[axis] = math.exp(mean), SURE / math.sqrt(float(weights.sum()))
        elif side > 1:
            return None
    return None if (np.abs(shares - 1) <= errors).all() else (shares, errors)


def _scales(
    places: _GridPlaces, shares: Reals, errors: Reals, names: set[str]
) -> Iterator[dict[str, Any]]:
    """Parameters by which coordinates grow by shares of 1 from place to place."""
    sides = shares * np.array(places.grid)
    if "base_size" in names and (np.abs(sides - np.round(sides)) <= errors * sides).all():
        yield {"base_size": _sides_text(np.round(sides))}
    if "interpolation_scale" in names:
        for whole in range(2, _WHOLE_SCALES) if "base_size" in names else ():
            spread = whole * sides
            if (np.abs(spread - np.round(spread)) <= errors * spread).all():
                yield {"base_size": _sides_text(np.round(spread)), "interpolation_scale": (whole,)}
                break
        usual = np.full(sides.size, _USUAL_SIDE)
        bases: tuple[tuple[dict[str, Any], Reals], ...]
        bases = ({}, 1 / shares), ({"base_size": _sides_text(usual)}, usual / sides)
        for base, exact in bases:
            scales = [
                snap(scale, scale * e) for scale, e in zip(exact.tolist(), errors, strict=True)
            ]
            one = scales[:1] if len(set(scales)) == 1 else scales
            if max(map(digit_count, scales)) <= _FEW_DIGITS:
                yield {**base, "interpolation_scale": tuple(one)}


def _sides_text(sides: Iterable[float]) -> str:
    """Sides as a grid's parameters are written."""
    return as_text(tuple(int(side) for side in sides), separator="x")


def _crops(
    bound: _GridScheme, places: _GridPlaces, shares: Reals, turns: _GridRates
) -> Iterator[tuple[int, ...]]:
    """Sides of the grids over whose crop rows and columns are spread so: one of them is whole."""
    ways = []
    first = _first_places(bound, places, turns)
    for start, share, side in zip(first[1:], shares[1:], places.grid[1:], strict=True):
        end = (start + share * (side - 1)) * side / max(side - 1, 1)
        whole = round(end - start) + 2 * round(start)  # as much is cut off behind, or one more
        ways.append([whole + more for more in (0, 1, -1) if whole + more > 0])
    yield from itertools.product(*ways)


def _first_places(bound: _GridScheme, places: _GridPlaces, turns: _GridRates) -> Reals:
    """The coordinate of the first place along each axis, by its phases: whole, of either sign."""
    first = np.zeros(len(places.grid))
    tried = np.arange(-_FARTHEST, _FARTHEST + 1)
    tried = tried[np.argsort(np.abs(tried), kind="stable")]
    for axis in set(bound.followed.tolist()):
        own = np.flatnonzero(bound.followed == axis)
        own = own[:: max(1, own.size // _TOLD)]
        points = turns.seen(np.exp(1j * np.multiply.outer(tried, bound.frequencies[own])))
        apart = np.abs(points - turns.first[own])  # (tried, pairs)
        first[axis] = tried[int(np.argmin(apart.mean(axis=1).round(3)))]
    return first


def _begun(bound: _GridScheme, places: _GridPlaces, turns: _GridRates) -> Iterator[_GridScheme]:
    """A scheme that counts from where the phases of the first place say."""
    spread = bound.scheme.kind == "rotary" and "base_size" in bound.given
    if spread or "origin" not in bound.scheme.parameters:
        return
    apart = np.abs(turns.seen(np.exp(1j * bound.rates)) - turns.seen(np.exp(1j * turns.rates)))
    apart = np.where((places.followed >= 0) & np.isfinite(turns.errors), apart, 0)
    first = turns.seen(np.exp(1j * bound.at(np.zeros(1, np.int64))[0] * bound.frequencies))
    elsewhere = np.abs(first - turns.first) > _MISFIT
    if elsewhere.any() and (apart <= _LADDER * turns.errors + _MISFIT).all():
        first = _first_places(bound, places, turns).astype(int).tolist()
        # A cosine at one place does not show on which side of 0 that is.
        for origin in dict.fromkeys(itertools.product(*((side, -side) for side in first))):
            if (found := bound.changed(_ORIGIN, origin=origin)) is not None:
                yield found


def _fits(view: View, bound: _GridScheme, limit: float) -> bool:
    """Whether all pairs are where a hypothesis has them, on the unit circle: in the median row.

    A few pairs, which refute most hypotheses, are looked at before all.
    """
    rows = spread(view.pairs.shape[0], 40)
    coordinates = bound.at(rows)
    for pairs in (np.arange(0, view.count, -(-view.count // 16)), np.arange(view.count)):
        points = np.exp(1j * coordinates[:, pairs] * bound.frequencies[pairs])  # (rows, pairs)
        apart = np.abs(view.seen(points) - view.pairs[np.ix_(rows, pairs)])
        if not median(apart, axis=0).max() <= limit:
            return False
    return True


_LIMIT = 1e-5
"""On the unit circle: what entries of float32 code leave on a grid, and few other numbers do."""
_SEEDS = 16
"""Of posenc's own draws, from 0 on: judgement, few take others."""
_DRAWN = 2.6
"""What a drawn direction costs: a list of frequencies tells more, and costs as LongRoPE's."""


def _mixed_hypotheses(view: View, evidence: Evidence, rounding: float) -> Iterator[Hypothesis]:
    """RoPE-Mixed as posenc draws it, on each grid of as many places.

    The first pair of either half has the magnitude 1, and shows the seed in the places beside the
    first and below it. The others show the base.
    """
    count, half = view.pairs.shape[0], view.count // 2
    if half < 2 or view.count % 2:
        return
    limit = _LIMIT + 4 * rounding
    leading = np.array([0, half])
    shown = {} if view.layout is None else {"layout": view.layout}
    for seed in range(_SEEDS):
        angle = 2 * math.pi * float(uniform(seed, 0))
        cos, sin = math.cos(angle), math.sin(angle)
        right, below = (
            view.seen(np.exp(1j * np.array(rates))) for rates in ((cos, -sin), (sin, cos))
        )
        if np.abs(view.pairs[1, leading] - right).max() > limit:
            continue
        apart = np.abs(view.pairs[:, leading] - below).max(axis=1)  # (places,)
        widths = [w for w in range(2, count // 2 + 1) if count % w == 0 and apart[w] <= limit]
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
    """The bases that the pairs of the first half may have, by their angles at the second place."""
    half = view.count // 2
    index, cells = np.arange(1, half), view.pairs[1, 1:half]
    angles, steep = np.angle(cells), np.ones(half - 1)
    if view.function == "cos":
        angles = np.arccos(np.clip(cells.real, -1, 1))
        steep = np.abs(np.sin(angles))
    elif view.function == "sin":
        angles = np.arcsin(np.clip(cells.real, -1, 1))
        steep = np.cos(angles)
    with np.errstate(all="ignore"):
        sizes, errors = np.abs(angles / cos), limit / np.abs(steep * cos)  # (pairs,)
        bases, shares = sizes ** (-half / index), half / index * errors / sizes
    best = int(np.argmin(np.nan_to_num(shares, nan=np.inf)))
    base, error = float(bases[best]), float(bases[best] * shares[best])
    near = [known for known in KNOWN_BASES if abs(known - base) <= error]
    return [each for each in dict.fromkeys((*near, snap(base, error))) if each > 1]
