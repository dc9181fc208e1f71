"""Propose known bugs of coordinates: pairs on a wrong axis, tokens in another order.

Each bug gives the coordinates that angles are multiples of. Such bugs are public: rows and columns
exchanged (huggingface/pytorch-image-models#2541, Meituan-AutoML/VisionLLaMA#4), axes in blocks
instead of alternating (alibaba/MNN#4133, vllm-project/vllm-omni#1784), patches in the 2×2 blocks of
a merger read row by row (vllm-project/vllm#52932, lablup/mlxcel#1610), and coordinates that are
centred, normalized or resized (huggingface/pytorch-image-models#2692).
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from posenc_cli.diagnosis.bug_search import (
    Defect,
    RotaryBug,
    RowCoordinates,
    Suspect,
    as_ranges,
    axes_text,
    coordinate_offset,
    pairs_text,
)
from posenc_cli.diagnosis.rows_and_pairs import place_of, place_text
from posenc_cli.errors import PosencError
from posenc_cli.inference.candidates import other_values
from posenc_cli.inference.codes import Cause
from posenc_cli.inference.frequency_rules import Alternative, value_text
from posenc_cli.inference.position_maps import PositionMap, read_coordinates
from posenc_cli.numerics import exact
from posenc_cli.records import replace
from posenc_cli.rotary.verdict import Explanation, Where, axis_notes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from posenc_cli.formulas.declare import Coordinates
    from posenc_cli.inference.reference import Reference, Sample
    from posenc_cli.numerics.arrays import Integers, RealRows, Reals

_BLOCK = 2
"""Patches on each side of a block: ``spatial_merge_size`` of Qwen2-VL and others."""

_FEWEST = 4
"""The fewest wrong rows of a sample to which a line is fitted on each axis."""

_TIMES, _OFF = 1e-6, 1e-4
"""Errors allowed for the slope and the offset of a line fitted to the rows of a float32 table."""

_LARGEST = 512
"""Largest denominator of a slope or an offset: images have no more patches per side."""


def axis_bugs(suspect: Suspect) -> Iterator[RotaryBug]:
    """Yield bugs whose pairs follow another axis than their own, or the token number."""
    sample = suspect.sample
    reference, coordinates = sample.reference, sample.reference.coordinates
    if coordinates is None or coordinates.oblique:
        return
    own, right = np.array(coordinates.axes), reference.frequencies  # (pairs,) both
    for description, axes, rates in _other_axes(sample, own):
        others = np.flatnonzero((axes != own) | (rates != right))
        if not others.size:
            continue
        defect = Defect(moved=coordinates_on_axes(coordinates, axes))
        if not np.array_equal(rates, right):
            defect = replace(defect, frequencies=Alternative(Cause.AXIS, "", rates))
        pairs = pairs_text(others.tolist(), own.size)
        where = Where(None, as_ranges(others), tuple(sorted({*own[others].tolist()})))
        exchanged = _exchanges_text(own, axes, token=reference.axes)
        message = description or f"{pairs} follow{'s' * (others.size == 1)} {exchanged}"
        fixed = "every pair matches once this is fixed"
        evidence = f"{pairs} follow other axes" if description else fixed
        alike = axis_notes(reference, suspect.examination.subject.own.places)
        evidence = "; ".join((evidence, *alike))
        explanation = Explanation(Cause.AXIS, message, evidence, where=where)
        yield RotaryBug(defect, explanation)


def _other_axes(sample: Sample, own: Integers) -> Iterator[tuple[str, Integers, Reals]]:
    """Yield other axes of pairs: a description, the axes, and the frequencies.

    First come other values of one parameter, then the axes that pairs follow in the sample, without
    a description. The last are the axes in another order, each with its own pairs and frequencies.
    """
    right = sample.reference.frequencies
    yield from _other_parameters(sample.reference)
    followed = _followed_axes(sample, own)
    if followed is not None:
        yield "", followed, right
    blocks = {int(axis): np.flatnonzero(own == axis) for axis in own}
    for order in itertools.permutations(blocks):
        pairs = np.concatenate([blocks[axis] for axis in order])
        text = f"pairs follow axes in the order {order}, not {tuple(blocks)}"
        yield text, own[pairs], right[pairs]


def _other_parameters(reference: Reference) -> Iterator[tuple[str, Integers, Reals]]:
    """Yield a description, the axes and the frequencies of pairs for another value of a parameter.

    Flags, choices, and the sections of axes in every order are tried. A ``convention`` is not:
    following another model is not one wrong parameter.
    """
    scheme, coordinates = reference.encoding.bound.scheme, reference.coordinates
    assert coordinates is not None
    params = {name: value for name, value in reference.params.items() if value is not None}
    if "grid" not in params:  # otherwise a scheme may bind without coordinates
        params.setdefault("axes", "some")
    own_values = {"sections": tuple(np.bincount(coordinates.axes).tolist()), **params}
    for name, parameter in scheme.parameters.items():
        own = own_values.get(name)
        if own is None or name == "convention":
            continue
        for value in other_values(parameter, own):
            try:
                waves = scheme.bind({**params, name: value}).rotation.waves
            except PosencError:
                continue
            axes = () if waves.coordinates is None else waves.coordinates.axes
            if len(axes) != len(coordinates.axes):
                continue
            rates = reference.frequencies
            if name == "sections":  # an axis may have its own frequencies, as many as its section
                exactly = [float(rate) for rate in waves.frequencies(exact)]
                rates = np.array(exactly) / coordinates.denominator
            yield f"{value_text(name, value, own)} ({parameter.rules.help})", np.array(axes), rates


def coordinates_on_axes(coordinates: Coordinates | None, axes: Integers) -> RowCoordinates:
    """Return the coordinates of pairs that follow the given axes.

    The number after the last axis means the token number.
    """
    assert coordinates is not None
    assert coordinates.at is not None
    at = coordinates.at
    return RowCoordinates(
        lambda piece: np.stack([*at(piece.positions), piece.positions], 1)[:, axes]
    )


def _followed_axes(sample: Sample, own: Integers) -> Integers | None:
    """Return the axis that each pair follows in the sample, its own if that fits. Shape: (pairs,).

    None if a pair follows no axis.
    """
    candidates = [own, *(np.full_like(own, axis) for axis in range(sample.reference.axes + 1))]
    choices = np.stack(
        [
            Defect(moved=coordinates_on_axes(sample.reference.coordinates, axes))
            .explained(sample)
            .all(axis=0)
            for axes in candidates
        ]
    )  # (axes + 2, pairs)
    if not choices.any(axis=0).all():
        return None
    # Axes that explain many pairs are likelier for each of them.
    order = np.argsort(-choices[1:].sum(axis=1), kind="stable")
    best = order[np.argmax(choices[1:][order], axis=0)]
    return np.where(choices[0], own, best)


def _exchanges_text(own: Integers, followed: Integers, *, token: int) -> str:
    """Describe the axes that pairs follow instead of their own; ``token`` means the token number.

    >>> _exchanges_text(np.array([0, 1, 2, 2]), np.array([3, 2, 1, 3]), token=3)
    'token numbers instead of axes 0, 2, axis 2 instead of axis 1, axis 1 instead of axis 2'
    """
    own_axes: dict[int, list[int]] = {}
    for axis, other in sorted({*zip(own.tolist(), followed.tolist(), strict=True)}):
        if axis != other:
            own_axes.setdefault(other, []).append(axis)
    names = {axis: "token numbers" if axis == token else f"axis {axis}" for axis in own_axes}
    return ", ".join(f"{names[axis]} instead of {axes_text(own_axes[axis])}" for axis in own_axes)


def grid_bugs(suspect: Suspect) -> Iterator[RotaryBug]:
    """Yield bugs that number the tokens of a grid in another order: by columns, in blocks.

    The reference must number them in row-major order. Other bugs exchange the sides of the grid.
    """
    sample = suspect.sample
    coordinates, sizes = sample.reference.coordinates, sample.reference.params.get("grid")
    if coordinates is None or coordinates.at is None or coordinates.oblique or not sizes:
        return
    sizes, tokens = tuple(map(int, sizes)), np.arange(math.prod(sizes))
    if not 2 <= len(sizes) <= 3 or min(sizes) < 2 or sample.positions.min(initial=0) < 0:
        return
    if coordinates.capacity is None or coordinates.capacity.positions != tokens.size:
        return  # the coordinates come from a file
    at = coordinates.at(tokens)
    if len(at) != len(sizes) or not np.array_equal(np.lexsort(at[::-1]), tokens):
        return
    tried = {tokens.tobytes()}
    for message, numbers_of in token_orders(sizes):
        numbers = numbers_of(tokens).tobytes()
        if numbers not in tried:
            yield RotaryBug(Defect(moved=PositionMap(message, numbers_of)))
        tried.add(numbers)
    for sides in sorted({*itertools.permutations(sizes)} - {sizes}):
        yield _other_grid_bug(sample.reference, sides)


def _other_grid_bug(reference: Reference, sides: tuple[int, ...]) -> RotaryBug:
    """Return the bug that a grid has the sides of the right one in another order."""
    given = {name: value for name, value in reference.params.items() if value is not None}
    other = reference.encoding.bound.scheme.bind({**given, "grid": sides}).rotation.waves
    wrong, right = ("x".join(map(str, each)) for each in (sides, given["grid"]))
    assert other.coordinates is not None
    axes = np.array(other.coordinates.axes)
    explanation = Explanation(Cause.POSITION_OFFSET, f"grid is {wrong}, not {right}", "")
    return RotaryBug(Defect(moved=coordinates_on_axes(other.coordinates, axes)), explanation)


def token_orders(
    sizes: tuple[int, ...],
) -> Iterator[tuple[str, Callable[[Integers], Integers]]]:
    """Yield orders of the tokens of a grid, simplest first, as functions of the token numbers.

    They give the row-major number of each token.
    """
    plain, count, text = tuple(range(len(sizes))), math.prod(sizes), "×".join(map(str, sizes))
    for order in list(itertools.permutations(plain))[1:]:

        def reordered(p: Integers, order: tuple[int, ...] = order) -> Integers:
            along = np.unravel_index(p % count, [sizes[axis] for axis in order])
            places = [along[order.index(axis)] for axis in plain]
            return np.asarray(np.ravel_multi_index(places, sizes), np.int64)

        how = "column by column, not row by row"
        if len(sizes) > 2:
            how = f"along axis {order[-1]} first, then {', then '.join(map(str, order[-2::-1]))}"
        yield f"tokens of the {text} grid are numbered {how}", reordered
    if len(sizes) == 2 and sizes[0] % _BLOCK == sizes[1] % _BLOCK == 0:
        rows, columns = sizes

        def in_blocks(p: Integers) -> Integers:
            blocks = (rows // _BLOCK, columns // _BLOCK, _BLOCK, _BLOCK)
            down, across, y, x = np.unravel_index(p % count, blocks)
            return np.asarray((down * _BLOCK + y) * columns + across * _BLOCK + x, np.int64)

        yield f"tokens are ordered in {_BLOCK}×{_BLOCK} blocks, as merged patches are", in_blocks


def scaled_coordinate_bugs(suspect: Suspect) -> Iterator[RotaryBug]:
    """Yield bugs that scale or shift the coordinates of wrong rows: normalized, centred, late."""
    sample = suspect.sample
    coordinates = sample.reference.coordinates
    if coordinates is None or coordinates.at is None or coordinates.oblique:
        return
    wrong = ~Defect().explained(sample).all(axis=1)  # (n,)
    if np.count_nonzero(wrong) < _FEWEST:
        return
    lines = _fitted_lines(sample.rows(np.flatnonzero(wrong)), np.array(coordinates.axes))
    if not lines:
        return
    # Other axes may complete a turn within the shift, so that they show only a part of it.
    slowest = coordinates.axes[int(np.argmin(sample.reference.frequencies))]
    for each in (lines, dict.fromkeys(lines, lines[slowest])):
        if any(line != (1.0, 0.0) for line in each.values()):
            yield _line_bug(suspect, coordinates, each)


def _line_bug(
    suspect: Suspect, coordinates: Coordinates, lines: dict[int, tuple[float, float]]
) -> RotaryBug:
    """Return the bug that scales and shifts each axis' coordinates of the wrong rows."""
    texts: dict[str, list[int]] = {}
    for axis, line in lines.items():
        if line != (1.0, 0.0):
            texts.setdefault(_line_text(line, coordinates, axis), []).append(axis)
    times, off = np.array([lines[axis] for axis in coordinates.axes]).T  # (pairs,) both

    def moved(piece: Sample) -> RealRows:
        """Return the coordinates of pairs; right rows keep theirs."""
        own = piece.reference.angle_positions(piece.positions).astype(np.float64)  # (n, pairs)
        right = Defect().explained(piece).all(axis=1, keepdims=True)
        return np.where(right, own, own * times + off)

    changes = ", and ".join(f"{text} on {axes_text(of_axes)}" for text, of_axes in texts.items())
    differing = suspect.residual(Defect())
    place = place_text(differing) or "at every position"
    message, where = f"coordinates are {changes}", place_of(differing)
    explanation = Explanation(Cause.POSITION_OFFSET, message, place, where=where)
    return RotaryBug(Defect(moved=RowCoordinates(moved)), explanation)


def _line_text(line: tuple[float, float], along: Coordinates, axis: int) -> str:
    """Describe the scale and offset of an axis' coordinates, for "coordinates are …".

    >>> from posenc_cli.formulas.declare import Coordinates
    >>> along = Coordinates((0, 1), steps=(1, 2))
    >>> _line_text((2.0, 1.0), along, 0), _line_text((1.0, -4.0), along, 1)
    ('multiplied by 2 and shifted by +1', 'shifted by -2 patches')
    """
    times, off = line
    texts = [f"multiplied by {times:.7g}"] * (times != 1)
    return " and ".join(texts + [f"shifted by {coordinate_offset(along, off, axis)}"] * (off != 0))


def _fitted_lines(wrong: Sample, axes: Integers) -> dict[int, tuple[float, float]]:
    """Return the scale and the offset of each axis' coordinates, fitted to wrong rows.

    Empty if an axis is not seen, or if it is only scaled, by a number that is not a quotient of
    sizes: wrong frequencies, as of another base, give the same.
    """
    own = wrong.reference.angle_positions(wrong.positions)  # (n, pairs)
    lines = {}
    for axis in np.unique(axes).tolist():
        of_axis = axes == axis
        if not (wrong.seen & of_axis).any():
            return {}
        read = read_coordinates(replace(wrong, seen=wrong.seen & of_axis))  # (n,)
        right = own[:, int(np.argmax(of_axis))].astype(np.float64)
        if np.abs(read).max() > 2.0**24:
            return {}
        times, off = 1.0, float(np.median(read - right))
        if np.unique(right).size > 1 and np.ptp(read - right) > _OFF * np.ptp(right):
            times, off = (float(number) for number in np.polyfit(right, read, 1))
        lines[axis] = scale, shift = _nearest_quotient(times, _TIMES), _nearest_quotient(off, _OFF)
        if shift == 0 and scale == times != 1:
            return {}
    return lines


def _nearest_quotient(value: float, error: float) -> float:
    """Return the quotient of small integers within ``error`` of a value, else the value.

    >>> _nearest_quotient(0.58333333, 1e-6) == 7 / 12, _nearest_quotient(-1e-7, 1e-4)
    (True, 0.0)
    """
    near = float(Fraction(value).limit_denominator(_LARGEST))
    return near if abs(near - value) <= error else value
