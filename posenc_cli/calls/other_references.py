"""Calls with the base, layout, tables or grid of another reference.

A function that takes a base, a layout, tables or the sizes of a grid, and ignores them, is right by
chance where they are its own. So it is called once more with those of another reference, and must
give what that gives.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from posenc_cli.calls.further_calls import planes_of
from posenc_cli.calls.patterns import PatternFault, PatternReport, PlannedCalls
from posenc_cli.calls.roles import TABLES
from posenc_cli.calls.serving import other_vectors
from posenc_cli.errors import InvalidInput
from posenc_cli.formulas.parameters import as_text
from posenc_cli.inference.causes import Cause
from posenc_cli.inference.reference import Reference
from posenc_cli.numerics.dtypes import FLOAT64
from posenc_cli.records import Record, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from posenc_cli.calls.answers import Differs
    from posenc_cli.calls.serving import ServedFunction
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


def try_other_references(
    function: ServedFunction,
    reference: Reference,
    differs: Differs,
    pairing: ColumnPairing | None,
) -> PatternReport:
    """Call a function with what follows from other references; ``pairing`` is how it pairs columns.

    One that differs from its own reference is not compared with others.
    """
    calls, faults = PlannedCalls(function), list[PatternFault]()
    if function.outcome == "frequencies":
        return calls.report()
    by_length = function.follows_length and not function.form.has("grid")
    for varied in _VARIED:
        names = [name for role, name in function.told if role in varied.roles]
        if not names or by_length:
            continue
        try:
            other, value = _other(reference, varied)
        except InvalidInput as error:
            calls.skip(f"another {varied.parameter}", error.message)
            continue
        text = f"a {varied.parameter} of {value}"
        with calls.planned(text):
            own = _gives(function, reference, reference, differs, pairing)
            if own and not any(
                _gives(function, other, other, differs, way)
                for way in _pairings(other, reference, pairing)
            ):
                ignored = _gives(function, other, reference, differs, pairing)
                faults.append(_fault(varied, value, names, ignored=ignored))
        if calls.tried[-1:] == [text] and not own:
            calls.skip(calls.tried.pop(), "it differs from its own reference")
    return calls.report(*faults)


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


def _fault(varied: _Varied, value: str, names: Sequence[str], *, ignored: bool) -> PatternFault:
    """What is wrong where a function does not follow another reference, and follows its own."""
    text = f"called with a {varied.parameter} of {value}"
    if ignored:
        known = f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} ignored"
        return PatternFault(f"{text} it gives what it gave before", known, varied.cause)
    known = f"a {varied.parameter} of {value} is not rotated as its reference is"
    return PatternFault(f"{text} it differs from its reference", known, Cause.UNKNOWN)


def _gives(
    function: ServedFunction,
    told: Reference,
    wanted: Reference,
    differs: Differs,
    pairing: ColumnPairing | None,
) -> bool:
    """Whether a function that is told of one reference gives the rotations of another.

    Raises: InvalidInput where the call fails.
    """
    where = np.arange(prod(told.grid or (_ROWS,)) if function.form.has("grid") else _ROWS)
    generator = np.random.default_rng(31)
    x = generator.standard_normal((where.size, function.form.columns)).astype(np.float32)
    tables = function.outcome == "tables"
    with function.on(told):
        parts = function.all_values(x, where)
    values = planes_of(parts, pairing, tables=tables)
    if wanted.grid is not None and function.form.has("grid"):
        where = where % prod(wanted.grid)
    factors = wanted.cells(where, FLOAT64)
    if not tables:
        given: list[NumberArray] = [x, other_vectors(x)][: function.results]
        assert pairing is not None
        before = replace(pairing, out_first=pairing.first, out_second=pairing.second)
        factors = np.tile(factors, (1, len(given))) * planes_of(given, before, tables=False)
    factors = np.tile(factors, (1, values.shape[1] // factors.shape[1]))
    planes = [np.ascontiguousarray(each).view(np.float64) for each in (values, factors)]
    return not differs(planes[0], planes[1])
