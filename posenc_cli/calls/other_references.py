"""Calls with the base, layout, tables or grid of another reference.

A function that takes a base, a layout, tables or the sizes of a grid, and ignores them, is right by
chance where they are its own. So it is called once more with those of another reference, and must
give what that gives.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.calls.patterns import Pattern, PatternFault, PatternReport, compared
from posenc_cli.calls.roles import TABLES
from posenc_cli.calls.serving import other_vectors
from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.parameters import as_text
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.reference import Reference
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from posenc_cli.calls.further_calls import Tried
    from posenc_cli.inference.turning import ColumnPairing
    from posenc_cli.numerics.arrays import NumberArray

_ROWS = 64
"""Positions that are compared: the highest-frequency pairs make ten rotations."""


class _Varied(Record):
    """A parameter of the reference that is given another value.

    ``roles`` are those of the function's parameters that follow from it.
    """

    parameter: str
    roles: tuple[str, ...]
    other: Callable[[Any], Any]
    cause: Cause


def _other_sizes(sizes: tuple[int, ...]) -> str:
    """The sizes of another grid: of as many rows where there is one, of other ones than a block."""
    *frames, rows, columns = sizes
    if rows != columns:
        rows, columns = columns, rows
    else:
        rows, columns = 2 * rows, columns // 2 if columns % 2 == 0 else columns
    return "x".join(map(str, (*frames, rows, columns)))


_VARIED = (
    _Varied("grid", ("grid",), _other_sizes, Cause.UNKNOWN),
    _Varied("base", ("base", "inv_freq", *TABLES), lambda base: 3 * base, Cause.BASE),
    _Varied(
        "sections",
        ("sections",),
        lambda sections: ",".join(map(str, (*sections[1:], sections[0]))),
        Cause.AXIS,
    ),
    _Varied(
        "layout",
        ("style",),
        lambda layout: "half" if layout == "interleaved" else "interleaved",
        Cause.LAYOUT,
    ),
)


def try_other_references(tried: Tried) -> PatternReport:
    """Call a function with what follows from other references."""
    return compared(_PATTERNS, tried, tried.function, tried.differs)


def _text(varied: _Varied, tried: Tried) -> str:
    """The call, for a reader."""
    try:
        return f"a {varied.parameter} of {_other(tried.reference, varied)[1]}"
    except InvalidInput:
        return f"another {varied.parameter}"


def _names(varied: _Varied, tried: Tried) -> list[str]:
    """The parameters of a function that follow from one of the reference."""
    return [name for role, name in tried.function.told if role in varied.roles]


def _applies(varied: _Varied, tried: Tried) -> bool:
    """Whether a function is told of it; not where its last position is part of every call."""
    by_length = tried.function.follows_length and not tried.form.has("grid")
    frequencies = tried.function.outcome == "frequencies"
    return bool(_names(varied, tried)) and not (frequencies or by_length)


def _faults(varied: _Varied, tried: Tried) -> Iterator[PatternFault]:
    """What is wrong with another reference, of a function that follows its own."""
    own = tried.reference
    other, value = _other(own, varied)
    if not _gives(tried, own, own):
        raise InvalidInput("it differs from its own reference")
    others = [replace(tried, pairing=way) for way in _pairings(other, own, tried.pairing)]
    if any(_gives(way, other, other) for way in others):
        return
    text, names = f"called with a {varied.parameter} of {value}", _names(varied, tried)
    if _gives(tried, other, own):
        known = f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} ignored"
        yield PatternFault(f"{text} it gives what it gave before", known, varied.cause)
        return
    known = f"a {varied.parameter} of {value} is not rotated as its reference is"
    yield PatternFault(f"{text} it differs from its reference", known, Cause.UNKNOWN)


_PATTERNS = tuple(
    Pattern(partial(_text, varied), partial(_faults, varied), partial(_applies, varied))
    for varied in _VARIED
)


def _other(reference: Reference, varied: _Varied) -> tuple[Reference, str]:
    """Another reference, and its value of the parameter.

    Raises: InvalidInput where there is none.
    """
    name, bound = varied.parameter, reference.encoding.bound
    given = {key: value for key, value in bound.params.items() if value is not None}
    if name not in given:
        raise InvalidInput(f"{bound.scheme.name} has one {name}")
    if name == "grid" and given.get("axes"):
        raise InvalidInput("the coordinates come from a file")
    value = varied.other(given[name])
    bound = bound.scheme.bind({**given, name: value})
    own = reference.coordinates
    if reference.axes and bound.rotation.waves.coordinates is None:  # those of a model's video
        placed = bound.scheme.bind({**given, name: value, "axes": "of a video"})
        axes = placed.rotation.waves.coordinates
        assert own is not None
        assert axes is not None
        waves = replace(bound.rotation.waves, coordinates=replace(axes, at=own.at, file=None))
        bound = replace(bound, content=replace(bound.rotation, waves=waves))
    other = Reference(replace(reference.encoding, bound=bound), reference.engine)
    return other, as_text(value).replace("x", "×")


def _pairings(
    other: Reference, reference: Reference, pairing: ColumnPairing | None
) -> list[ColumnPairing | None]:
    """How columns may be paired for another reference, and come out: in its order or as before."""
    if pairing is None or other.pairing == reference.pairing:
        return [pairing]
    as_before = replace(other.pairing, out_first=pairing.out_first, out_second=pairing.out_second)
    return [other.pairing, as_before]


def _gives(tried: Tried, told: Reference, wanted: Reference) -> bool:
    """Whether a function that is told of one reference gives the rotations of another.

    Raises: InvalidInput where the call fails.
    """
    function, grid = tried.function, tried.form.has("grid")
    where = np.arange(prod(told.grid or (_ROWS,)) if grid else _ROWS)
    generator = np.random.default_rng(31)
    x = generator.standard_normal((where.size, function.form.columns)).astype(np.float32)
    with function.on(told):
        values = tried.planes(function.all_values(x, where))
    if wanted.grid is not None and grid:
        where = where % prod(wanted.grid)
    factors = wanted.cells(where, FLOAT64)
    if function.outcome != "tables":
        assert tried.pairing is not None
        first, second = tried.pairing.first, tried.pairing.second
        before = replace(tried, pairing=replace(tried.pairing, out_first=first, out_second=second))
        given: list[NumberArray] = [x, other_vectors(x)][: function.results]
        factors = np.tile(factors, (1, len(given))) * before.planes(given)
    factors = np.tile(factors, (1, values.shape[1] // factors.shape[1]))
    planes = [np.ascontiguousarray(each).view(np.float64) for each in (values, factors)]
    return not tried.differs(planes[0], planes[1])
